"""A rule is read once, and broken where a row breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from numscope.errors import UsageError
from numscope.measure import ErrorSums
from numscope.rules import MetricRule, check, parse, read
from numscope.tables import LayerRow
from tests.examples import layer_rows, row


def rows(*shares: int) -> list[LayerRow]:
    """One row per share, in hundredths, at tokens 0, 10, 20, …, of layer 4."""
    return layer_rows(
        *(
            row(tokens=10 * i, sums=ErrorSums(count=100, underflow_count=share))
            for i, share in enumerate(shares)
        )
    )


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("underflow<0.01", {"metric": "underflow", "sign": "<", "limit": 0.01}),
        (" sqnr_db >= 25 ", {"metric": "sqnr_db", "sign": ">=", "limit": 25.0}),
        (
            "distortion[gradient,128x1]>0.98",
            {
                "metric": "distortion",
                "sign": ">",
                "limit": 0.98,
                "kind": "gradient",
                "tile": "128x1",
            },
        ),
        (
            "amax[activations]<inf",
            {"metric": "amax", "sign": "<", "limit": float("inf"), "kind": "activation"},
        ),
        (
            "saturated[ling:1x*, layers 0-4]<=0",
            {
                "metric": "saturated",
                "sign": "<=",
                "limit": 0.0,
                "recipe": "ling:1x*",
                "layers": (0, 4),
            },
        ),
        ("mse[16]<1e-9", {"metric": "mse", "sign": "<", "limit": 1e-9, "layers": (16, 16)}),
    ],
)
def test_a_rule_is_read(text: str, fields: dict[str, Any]) -> None:
    assert parse(text, ["ling:1x*"]) == MetricRule(text=text.strip(), **fields)


@pytest.mark.parametrize("word", ["ling:1x*", "LING:1X*", "fp8 : 1x*", "e4m3:1x*:float32"])
def test_a_recipe_in_brackets_may_be_spelled_as_one_likes(word: str) -> None:
    assert parse(f"mse[{word}]<1", ["ling", "ling:1x*"]).recipe == "ling:1x*"


def test_a_recipe_that_was_not_measured_is_none() -> None:
    assert parse("mse[mxfp8]<1", ["ling"]).recipe is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("underflow", "is not written like underflow<0.01"),
        ("underflow=0.01", "is not written like"),
        ("underfloww<0.01", "no metric 'underfloww'; known are count, "),
        ("kind<1", "no metric 'kind'"),
        ("underflow<much", "'much' is no number"),
        ("underflow<nan", "'nan' is no number"),
        ("underflow[layers 4-0]<1", "'4-0' is not a range from small to large"),
        (f"underflow[layers 0-{'9' * 5000}]<1", "has numbers of more than 18 digits"),
        ("underflow[1x128,128x1]<1", "names two of tile: 1x128 and 128x1"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("[", r"\[")):
        parse(text)


def test_a_kept_rule_has_no_failure() -> None:
    outcome = check(parse("underflow<=0.05"), rows(1, 5, 3))
    assert (outcome.passed, outcome.rows, outcome.failures) == (True, 3, 0)
    assert (outcome.first, outcome.worst) == (None, None)


def test_a_broken_rule_names_the_first_and_the_worst_place() -> None:
    outcome = check(parse("underflow<0.02"), rows(1, 2, 9, 5))
    assert (outcome.passed, outcome.rows, outcome.failures) == (False, 4, 3)
    assert outcome.first
    assert outcome.worst
    assert (outcome.first.tokens, outcome.worst.tokens) == (10, 20)


def test_the_worst_of_a_lower_limit_is_the_lowest() -> None:
    outcome = check(parse("underflow>0.06"), rows(1, 2, 9, 5))
    assert outcome.worst
    assert outcome.worst.tokens == 0


@pytest.mark.parametrize("where", ["activation", "128x1", "layer 5", "0-3", "gradientt"])
def test_a_rule_about_nothing_must_not_pass(where: str) -> None:
    with pytest.raises(UsageError, match="matches nothing in the results"):
        check(parse(f"underflow[{where}]<1"), rows(1))


def test_a_value_that_is_not_known_is_none_of_a_rules() -> None:
    with pytest.raises(UsageError, match="matches nothing"):
        check(parse("distortion>0"), layer_rows(row(sums=ErrorSums(count=4))))


def test_a_file_has_a_list_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('rules = ["underflow<0.01", "mse<1"]\n')
    assert read(path) == ["underflow<0.01", "mse<1"]
    path.write_text("rules = 3\n")
    with pytest.raises(UsageError, match="has no list of rules"):
        read(path)
    path.write_text("rules = [\n")
    with pytest.raises(UsageError, match=r"rules\.toml is no TOML file: Invalid value"):
        read(path)


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value) == f"{path} cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "content",
    [f"rules = {'[' * 100_000}", f"rules = [{{{'a.' * 2_000}a = 1}}]"],
    ids=["brackets", "keys"],
)
def test_a_file_that_is_nested_too_deeply_is_said_to_be(content: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value) == f"{path} is nested too deeply"
