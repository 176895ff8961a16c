"""The report: one page that needs nothing else, in a real browser where there is one."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numscope.errors import MissingExtra
from numscope.findings import find
from numscope.report import page
from tests.stories import bump, noise_only, tables

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp;"
RUN = {"dump": HOSTILE, "recipes": {"ling": {"tile": "1x128"}}, "skipped": [{"where": HOSTILE}]}


def story() -> str:
    """The page of the published story, of a dump with a hostile name."""
    charts = noise_only(1, size=2e-5)
    charts[0][:, 0] += 0.0065 * bump(41, 0.12, 0.01)
    for i in (1, 3, 5):
        charts[i][:, -1] -= 0.01 * (i + 1) * bump(41, 0.62, 0.01)
    charts[2][3, 1] = float("nan")
    run_tables = tables(charts)
    return page(run_tables, find(run_tables), RUN)


@pytest.fixture(scope="module")
def text() -> str:
    pytest.importorskip("plotly", reason="the extra report is not installed")
    return story()


def test_without_plotly_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(MissingExtra, match=r"pip install 'numscope\[report\]'"):
        story()


def test_nothing_is_loaded_from_elsewhere(text: str) -> None:
    assert not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", text)
    assert "default-src 'none'" in text


def test_names_cannot_end_the_script_they_stand_in(text: str) -> None:
    assert HOSTILE not in text
    assert text.count("<script") - text.count(r"<\/script") >= 0
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(content)["run"]["dump"] == HOSTILE
    assert json.loads(content)["charts"][2]["values"][1][3] is None


def test_pictures_are_in_the_page_itself() -> None:
    pytest.importorskip("plotly", reason="the extra report is not installed")
    text = page(tables(noise_only(1)), [], RUN, {"gradients": b"\x89PNG..."})
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    (picture,) = json.loads(content)["pictures"]
    assert picture["of"] == "gradients"
    assert base64.b64decode(picture["src"].removeprefix("data:image/png;base64,")) == b"\x89PNG..."


def test_the_median_of_an_even_number_of_points_is_between_the_middle_two() -> None:
    pytest.importorskip("plotly", reason="the extra report is not installed")
    values = np.array([[0.4], [0.1], [0.3], [0.2], [math.nan]])
    few = tables([values] * 6, x=(0, 1, 2, 3, 4), layers=(7,))
    (content,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page(few, [], RUN)
    )
    medians = {(each["points"], each["median"]) for each in json.loads(content)["layers"]}
    assert medians == {(4, 0.25)}


# In a browser.


@pytest.fixture(scope="module")
def browser(text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window, with the page open from a file."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("there is no chromium with its chromedriver")
    folder = tmp_path_factory.mktemp("page")
    (folder / "report.html").write_text(text, encoding="utf-8")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--window-size=1500,1100", "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        chrome.set_script_timeout(60)
        chrome.get((folder / "report.html").as_uri())
        wait(chrome, "document.querySelectorAll('.chart .main-svg').length >= 6")
        yield chrome
    finally:
        chrome.quit()


def wait(browser: Any, condition: str) -> None:
    """Until the condition, in JavaScript, holds."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 60).until(lambda each: each.execute_script(f"return {condition}"))


def run(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def lines_shown(browser: Any) -> list[int]:
    """How many lines each chart draws."""
    found = run(
        browser,
        "[...document.querySelectorAll('.chart')].map(c => c.querySelectorAll('.scatter').length)",
    )
    assert isinstance(found, list)
    return found


def test_the_page_renders_without_an_error(browser: Any) -> None:
    assert run(browser, "document.body.dataset.ready") == "yes"
    assert lines_shown(browser) == [5] * 6
    assert run(browser, "document.querySelectorAll('.heatmap .hm').length") == 6
    assert browser.get_log("browser") == []


def test_text_from_the_dump_is_shown_as_text(browser: Any) -> None:
    assert browser.title == f"numscope: {HOSTILE}"
    assert run(browser, "document.querySelector('h1').textContent") == f"numscope: {HOSTILE}"
    assert run(browser, "document.querySelectorAll('img').length") == 0


def test_a_click_on_a_layer_takes_it_from_every_chart(browser: Any) -> None:
    run(browser, "document.querySelector('.layer[data-layer=\"8\"]').click()")
    wait(browser, "document.querySelectorAll('.chart .scatter').length === 24")
    assert lines_shown(browser) == [4] * 6
    run(browser, "document.querySelector('.layer[data-layer=\"8\"]').click()")
    wait(browser, "document.querySelectorAll('.chart .scatter').length === 30")


def test_log_axes_show_the_loss(browser: Any) -> None:
    run(browser, "document.getElementById('log').click()")
    wait(browser, "document.querySelector('.chart .plot').layout.yaxis.type === 'log'")
    labels = run(
        browser,
        "[...document.querySelectorAll('.chart .plot')].map(p => p.layout.yaxis.title.text)",
    )
    assert labels == ["underflow"] * 3 + ["1 − distortion"] * 3
    run(browser, "document.getElementById('log').click()")
    wait(browser, "document.querySelector('.chart .plot').layout.yaxis.type === 'linear'")


def test_hovering_shows_the_same_tokens_in_all_charts(browser: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    browser.execute_script("window.scrollTo(0, 0)")
    point = run(browser, "document.querySelectorAll('.chart .points')[0].children[5]")
    ActionChains(browser).move_to_element(point).perform()
    hovered = "document.querySelectorAll('.chart')[{}].querySelector('.hoverlayer')"
    for i in range(6):
        wait(browser, f"{hovered.format(i)}.textContent")
        shown = run(browser, f"{hovered.format(i)}.textContent")
        assert shown.startswith("layer 0tokens 2,500,000,000,0000.")
        assert run(browser, f"{hovered.format(i)}.querySelectorAll('.spikeline').length") > 0
    ActionChains(browser).move_to_element(browser.find_element("tag name", "h1")).perform()
    wait(browser, f"!{hovered.format(4)}.textContent")


def test_zooming_is_linked(browser: Any) -> None:
    first = "document.querySelectorAll('.chart .plot')[0]"
    last = "document.querySelectorAll('.chart .plot')[5]"
    zoom = "{'xaxis.range[0]': 5000, 'xaxis.range[1]': 9000}"
    run(browser, f"void Plotly.relayout({first}, {zoom})")
    wait(browser, f"{last}.layout.xaxis.range[0] === 5000")
    run(browser, f"void Plotly.relayout({first}, {{'xaxis.autorange': true}})")
    wait(browser, f"{last}.layout.xaxis.range[0] < 5000")


def test_a_finding_leads_to_its_chart(browser: Any) -> None:
    run(browser, "document.querySelectorAll('#findings .finding')[4].click()")
    shown = run(browser, "document.querySelector('.chart.shown h3').textContent")
    assert shown == "activations underflow (1,128)"
    assert run(browser, "document.querySelector('.chart.shown .plot').layout.shapes[0].x0") == 2500


def test_the_table_of_layers_is_sortable(browser: Any) -> None:
    column = (
        "[...document.querySelectorAll('#layers tbody tr')].map(r => +r.children[5].textContent)"
    )
    before = run(browser, column)
    run(browser, "document.querySelectorAll('#layers th button')[5].click()")
    assert run(browser, column) == sorted(before)
    run(browser, "document.querySelectorAll('#layers th button')[5].click()")
    assert run(browser, column) == sorted(before, reverse=True)


def test_no_error_was_logged_on_the_way(browser: Any) -> None:
    assert browser.get_log("browser") == []


def test_the_page_says_where_it_comes_from(browser: Any, tmp_path: Path) -> None:
    browser.save_screenshot(str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").stat().st_size > 10_000
    words = run(browser, "document.body.innerText")
    for each in ("What stands out", "Heatmaps, ling", "gradient transpose", '"skipped"'):
        assert each in words
