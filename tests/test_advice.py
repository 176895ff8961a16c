"""Which recipe would have been fine: what keeps a tolerance, what is cheapest, what is nearest."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from numscope.advice import Advice, Per, alike, by_kind, by_layer, to_csv, to_json, trials
from numscope.commands import answering
from numscope.errors import UsageError
from numscope.measure import ErrorSums
from numscope.results import Results
from numscope.rules import parse_all
from numscope.standings import standings
from numscope.tables import Row
from tests.examples import Call, layer_rows, row

TOLERANCE = "distortion>=0.999,underflow<=0.001"


def record(loss: float, underflow: int = 0, **fields: Any) -> ErrorSums:
    """Of 10,000 values in one row, which lose that many, with this 1 - distortion."""
    known = {"count": 10_000, "row_count": 1, "sum_row_cosine": 1 - loss}
    return ErrorSums(**{**known, "underflow_count": underflow, **fields})


def one(recipe: str, loss: float, underflow: int = 0, **identity: Any) -> Row:
    """A gradient under the recipe, as its name says or turned."""
    label = recipe.removesuffix(":128x1")
    sums = identity.pop("sums", record(loss, underflow))
    return row(recipe, label, sums, **identity)


def advised(*rows: Row, tolerance: str = TOLERANCE, per: Per = "step") -> list[Advice]:
    rules = parse_all(tolerance, [each.recipe for each in rows])
    return by_layer(trials(standings(layer_rows(*rows)), rules, per))


def single(*rows: Row, **options: Any) -> Advice:
    (advice,) = advised(*rows, **options)
    return advice


# What is best.


def test_the_cheapest_recipe_that_keeps_the_tolerance_is_best() -> None:
    advice = single(
        one("ling", 1e-5), one("mx-e2m3", 5e-4), one("mx-e3m2", 4e-4), one("mx-e2m1", 0.01)
    )
    assert (advice.best.recipe, advice.best.bits, advice.best.tile) == ("mx-e3m2", 6.25, "1x32")
    assert advice.keeping == ("mx-e3m2", "mx-e2m3", "ling")
    assert advice.best.values == {"distortion": 1 - 4e-4, "underflow": 0.0, "overflow": 0.0}


def test_all_rules_must_be_kept() -> None:
    advice = single(one("mx-e2m3", 1e-5, underflow=11), one("ling", 1e-4, underflow=10))
    assert advice.keeping == ("ling",)


def test_of_equally_cheap_recipes_the_first_rule_decides() -> None:
    rows = (one("mx-e4m3", 1e-5, underflow=9), one("ling", 1e-4, underflow=1))
    assert single(*rows).best.recipe == "mx-e4m3"
    turned = ",".join(reversed(TOLERANCE.split(",")))
    assert single(*rows, tolerance=turned).best.recipe == "ling"


def test_of_equally_cheap_recipes_the_one_with_the_first_rules_tile_comes_first() -> None:
    """An underflow of 0.5 below its limit is nothing to compare a distortion with."""
    rows = (one("mx-e4m3", 0.5, underflow=0), one("ling", 1e-4, underflow=9))
    tolerance = "distortion[1x128]>=0.9,underflow<=0.5"
    assert single(*rows, tolerance=tolerance).keeping == ("ling", "mx-e4m3")


def test_where_the_first_rule_is_about_neither_the_next_one_decides() -> None:
    rows = (one("ling", 1e-4), one("mx-e4m3", 1e-5), one("ling", 0.1, kind="activation"))
    tolerance = "mse[activation]<=1,distortion[gradient]>=0.999"
    _, advice = advised(*rows, tolerance=tolerance)
    assert advice.keeping == ("mx-e4m3", "ling")


def test_a_recipe_that_fails_at_one_step_of_a_hundred_is_not_fine() -> None:
    rows = [one("mx-e2m3", 0.05 if step == 7 else 1e-5, step=step) for step in range(100)]
    rows += [one("ling", 1e-4, step=step) for step in range(100)]
    assert single(*rows).keeping == ("ling",)
    assert single(*rows, per="run").keeping == ("mx-e2m3", "ling")


def test_the_run_is_judged_by_its_merged_record() -> None:
    """11 of 10,000 and 11 of 20,000 are 22 of 30,000: within 0.001 together."""
    rows = (one("ling", 0, 11, step=1), one("ling", 0, sums=record(0, 11, count=20_000), step=2))
    assert single(*rows, per="run").best.values["underflow"] == 22 / 30_000
    missed = single(*rows).best.missed
    assert missed
    assert (missed.value, missed.step) == (11 / 10_000, 1)


def test_both_orientations_and_every_layer_are_apart() -> None:
    found = advised(
        one("ling", 1e-5, layer=16),
        one("ling", 1e-5, layer=None),
        one("ling", 0.1, layer=0),
        one("ling:128x1", 0.1, layer=16),
        one("te-tensor", 1e-4, layer=16),
        one("ling", 1e-5, kind="activation"),
    )
    assert [(each.best.kind, *each.best.layers, each.keeping) for each in found] == [
        ("activation", 4, ("ling",)),
        ("gradient", 0, ()),
        ("gradient", 16, ("te-tensor", "ling")),
        ("gradient", None, ("ling",)),
        ("gradient transpose", 16, ("te-tensor",)),
    ]


def test_overflow_is_never_fine_unless_it_is_spoken_of() -> None:
    rows = (one("mx-e3m2", 0, sums=record(0, overflow_count=1)), one("ling", 1e-4))
    assert single(*rows).keeping == ("ling",)
    spoken = f"{TOLERANCE},overflow<=0.01"
    assert single(*rows, tolerance=spoken).keeping == ("mx-e3m2", "ling")
    far = (rows[0], one("ling", 0.5))
    assert single(*far).best.recipe == "ling"


# What is nearest.


def test_the_nearest_exceeds_the_allowed_loss_by_the_smallest_factor() -> None:
    """A loss of 0.004 is 4 times what is allowed, an underflow of 0.0035 only 3.5 times."""
    rows = (one("ling", 0.004), one("mx-e4m3", 0, underflow=35), one("mx-e2m3", 0.5))
    advice = single(*rows)
    assert (advice.best.recipe, advice.keeping, advice.best.is_kept) == ("mx-e4m3", (), False)
    missed = advice.best.missed
    assert missed
    assert missed.rule.text == "underflow<=0.001"
    assert missed.excess == pytest.approx(0.0025)
    assert missed.strain == pytest.approx(2.5)


def test_the_nearest_is_judged_by_the_rule_that_it_misses_by_most() -> None:
    missed = single(one("ling", 0.004, underflow=90)).best.missed
    assert missed
    assert missed.rule.metric == "underflow"


@pytest.mark.parametrize(
    ("tolerance", "strain"),
    [("underflow<=0", 50.0), ("distortion>=1", 5.0), ("sqnr_db>=25", 5.0)],
)
def test_where_no_loss_is_allowed_a_word_is_the_unit(tolerance: str, strain: float) -> None:
    sums = record(0.001, 100, sum_xx=100.0, sum_ee=1.0)
    missed = single(one("ling", 0, sums=sums), tolerance=tolerance).best.missed
    assert missed
    assert missed.strain == pytest.approx(strain)


def test_a_limit_that_must_not_be_reached_is_missed_by_nothing() -> None:
    advice = single(one("ling", 0, underflow=10), tolerance="underflow<0.001")
    assert advice.keeping == ()
    assert advice.best.missed
    assert advice.best.missed.excess == 0


# What a rule is about.


def test_kinds_in_brackets_are_those_of_the_answer() -> None:
    rows = (one("ling", 0.5), one("ling:128x1", 1e-5))
    (advice,) = advised(*rows, tolerance="distortion[gradient transpose]>=0.999")
    assert (advice.best.kind, advice.keeping) == ("gradient transpose", ("ling",))
    (advice,) = advised(*rows, tolerance="distortion[gradient]>=0.999")
    assert (advice.best.kind, advice.keeping) == ("gradient", ())


def test_a_rule_about_one_recipe_limits_only_that_one() -> None:
    rows = (one("ling", 1e-4), one("mx-e2m3", 1e-3))
    assert single(*rows, tolerance="distortion>=0.99").keeping == ("mx-e2m3", "ling")
    limited = "distortion>=0.99,distortion[mx-e2m3]>=0.9999"
    assert single(*rows, tolerance=limited).keeping == ("ling",)
    only = single(*rows, tolerance="distortion[mx-e2m3]>=0.9999")
    assert (only.best.recipe, only.keeping) == ("mx-e2m3", ())


def test_overflow_is_spoken_of_only_where_the_rule_is_about() -> None:
    lost = record(0, overflow_count=1)
    rows = (one("mx-e3m2", 0, sums=lost), one("ling", 0, sums=lost))
    tolerance = f"{TOLERANCE},overflow[ling]<=0.01"
    assert single(*rows, tolerance=tolerance).keeping == ("ling",)


@pytest.mark.parametrize("where", ["weight", "mx-e4m3", "layers 5-9", "4x4"])
def test_a_rule_about_nothing_must_not_be_kept(where: str) -> None:
    text = f"underflow[{where}]<=1"
    with pytest.raises(UsageError) as caught:
        advised(one("ling", 0), tolerance=f"{TOLERANCE},{text}")
    assert str(caught.value) == f"rule {text!r} matches nothing in the results"


def test_values_that_are_not_known_are_none_of_a_rules() -> None:
    zero = ErrorSums(count=4, zeros=4, row_count=1, zero_rows=1)
    advice = single(one("ling", 0, sums=zero, step=1), one("ling", 0.5, step=2))
    assert advice.best.values["distortion"] == 0.5
    zeros, _ = advised(one("ling", 0, sums=zero), one("ling", 0.5, layer=8))
    assert zeros.keeping == ("ling",)
    assert zeros.best.values == {"underflow": 0.0, "overflow": 0.0}


@pytest.mark.parametrize(
    "sums", [ErrorSums(), ErrorSums(count=4, zeros=4, row_count=1, zero_rows=1)]
)
def test_a_rule_about_no_known_value_must_not_be_kept(sums: ErrorSums) -> None:
    with pytest.raises(UsageError, match=r"0\.999' matches nothing in the results$"):
        advised(one("ling", 0, sums=sums), tolerance="distortion>=0.999")


def test_where_no_value_is_known_there_is_no_advice() -> None:
    zero = ErrorSums(count=4, zeros=4, row_count=1, zero_rows=1)
    rows = (one("ling", 0, sums=zero, layer=0), one("ling", 1e-5, layer=4))
    (advice,) = advised(*rows, tolerance="distortion>=0.999")
    assert (advice.best.layers, advice.keeping) == ((4,), ("ling",))


def test_a_recipe_that_turns_all_into_infinities_is_missed_by_though_nothing_is_known() -> None:
    lost = ErrorSums(count=4, row_count=1, zero_rows=1, overflow_count=4)
    rows = (one("ling", 0, sums=lost, layer=0), one("ling", 1e-5, layer=4))
    first, _ = advised(*rows, tolerance="distortion>=0.999")
    assert first.best.missed
    assert (first.best.missed.rule.metric, first.best.layers) == ("overflow", (0,))


# Layers together.


def test_what_keeps_the_tolerance_in_all_layers() -> None:
    rows = [one("mx-e2m3", 0.5 if layer else 1e-5, layer=layer) for layer in (0, 4, 8)]
    rows += [one("ling", 1e-4 * layer, layer=layer) for layer in (0, 4, 8)]
    tried = trials(standings(layer_rows(*rows)), parse_all(TOLERANCE), "step")
    (kind,) = by_kind(tried)
    assert (kind.best.recipe, kind.best.layers, kind.keeping) == ("ling", (0, 4, 8), ("ling",))
    assert kind.best.values["distortion"] == 1 - 8e-4
    first, second = alike(by_layer(tried))
    assert (first.recipe, first.layers) == ("mx-e2m3", (0,))
    assert (second.recipe, second.layers, second.points[0].layer) == ("ling", (4, 8), 8)


def test_a_recipe_that_was_not_measured_in_all_layers_is_not_for_all() -> None:
    rows = (one("ling", 0, layer=0), one("ling", 0, layer=4), one("mx-e2m3", 0, layer=0))
    tried = trials(standings(layer_rows(*rows)), parse_all(TOLERANCE), "step")
    assert by_kind(tried)[0].keeping == ("ling",)


# In writing.


def test_an_answer_for_scripts() -> None:
    kept, missed = advised(one("ling", 0.25, layer=8), one("ling", 1e-5), one("mx-e4m3", 0))
    assert to_json(kept) == {
        "kind": "gradient",
        "layer": 4,
        "recipe": "mx-e4m3",
        "nearest": None,
        "tile": "1x32",
        "bits": 8.25,
        "values": {"distortion": 1.0, "underflow": 0.0, "overflow": 0.0},
        **dict.fromkeys(("missed", "by", "tokens", "step")),
        "keeping": ["mx-e4m3", "ling"],
    }
    known = to_json(missed)
    assert (known["recipe"], known["nearest"], known["keeping"]) == (None, "ling", [])
    assert (known["missed"], known["tokens"], known["step"]) == ("distortion>=0.999", 30720, 60)
    assert known["by"] == 0.999 - 0.75


def test_a_number_that_json_does_not_have_is_null() -> None:
    sums = record(0, sum_xx=1.0)
    known = to_json(single(one("ling", 0, sums=sums), tolerance="sqnr_db>=20"))
    assert known["values"]["sqnr_db"] is None
    assert "Infinity" not in json.dumps(known)


def test_the_file_has_a_line_per_layer_and_kind_and_a_column_per_metric() -> None:
    found = advised(one("ling", 1e-5), one("mx-e4m3", 0), one("ling", 0.25, layer=8))
    kept, missed = csv.DictReader(io.StringIO(to_csv(found)))
    assert (kept["recipe"], kept["keeping"], kept["missed"]) == ("mx-e4m3", "mx-e4m3;ling", "")
    assert (missed["layer"], missed["recipe"], missed["nearest"]) == ("8", "", "ling")
    assert float(missed["distortion"]) == 0.75
    assert float(missed["by"]) == 0.999 - 0.75
    assert set(kept) == {*to_json(found[0])} - {"values"} | {"distortion", "underflow", "overflow"}


# The command.


def keep(folder: Path, *rows: Row) -> Path:
    folder.mkdir()
    Results(folder).keep_tensors(rows)
    Results(folder).keep_layers(layer_rows(*rows))
    return folder


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    steps = {"step": 60, "tokens": 30_720}, {"step": 120, "tokens": 61_440}
    return keep(
        tmp_path / "results",
        *(
            one(recipe, loss * (1 + (layer == 8) * i), 1, layer=layer, **step)
            for recipe, loss in (("ling", 3e-4), ("ling:128x1", 4e-3), ("mx-e2m3", 8e-4))
            for layer in (0, 4, 8)
            for i, step in enumerate(steps)
        ),
    )


@pytest.mark.usefixtures("results")
def test_advise_says_what_to_use_and_where_nothing_will_do(call: Call) -> None:
    code, out, err = call("advise", "results", "--tolerance", TOLERANCE)
    assert (code, err) == (0, "")
    assert [line.rstrip() for line in out.splitlines()] == [
        "at every step: distortion>=0.999, underflow<=0.001",
        "kind                layers  recipe   bits  distortion  underflow",
        "gradient            0,4     mx-e2m3  6.25     0.99920       1e-4",
        "                    8       ling     8.25     0.99940       1e-4",
        "gradient transpose  0,4,8   none",
        (
            "None keeps it in gradient transpose, layers 0,4,8: nearest is ling (8.25 bits),"
            " distortion 0.9920 in layer 8 at 61.44 K tokens, which misses >=0.999 by 0.007."
        ),
        "One recipe for all layers: gradient ling (8.25 bits), gradient transpose none.",
        "results/advise.csv",
    ]


def test_advise_shows_each_layer_apart_if_asked(call: Call, results: Path) -> None:
    out = call("advise", results, "--verbose", "--layers", "0,8").out
    assert [line.split()[:2] for line in out.splitlines()[2:6]] == [
        ["gradient", "0"],
        ["8", "ling"],
        ["gradient", "transpose"],
        ["8", "none"],
    ]
    assert out.count("None keeps it in gradient transpose, layer ") == 2


def test_advise_has_the_tolerance_of_its_help_by_default(call: Call, results: Path) -> None:
    whole = call("advise", results, "--tolerance", TOLERANCE).out
    assert call("advise", results).out == whole


def test_advise_writes_all_of_it(call: Call, results: Path) -> None:
    assert call("advise", results, "--quiet") == (0, "", "")
    lines = (results / "advise.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 3
    call("advise", results, "-o", results / "other.csv", "--per", "run", "--layers", "4")
    with (results / "other.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [(each["kind"], each["layer"]) for each in found] == [
        ("gradient", "4"),
        ("gradient transpose", "4"),
    ]


def test_advise_for_scripts(call: Call, results: Path) -> None:
    code, out, err = call("advise", results, "--json", "--kinds", "gradient")
    assert (code, err) == (0, "")
    answers = json.loads(out)
    assert [(each["kind"], each["layer"], each["recipe"]) for each in answers[:3]] == [
        ("gradient", 0, "mx-e2m3"),
        ("gradient", 4, "mx-e2m3"),
        ("gradient", 8, "ling"),
    ]
    assert answers[-1]["step"] == 120


def test_advise_knows_the_recipes_of_the_results(call: Call, results: Path) -> None:
    own = ("--tolerance", "distortion[gradient,mx-e2m3]>=0.9995,distortion[gradient,ling]>=0.999")
    out = call("advise", results, "--json", *own).out
    assert [(each["layer"], each["recipe"]) for each in json.loads(out)] == [
        (0, "ling"),
        (4, "ling"),
        (8, "ling"),
    ]


def test_advise_of_one_recipe_answers_and_says_how_to_have_more(call: Call, tmp_path: Path) -> None:
    folder = keep(tmp_path / "my results", one("ling", 1e-5))
    Results(folder).keep_run({"dump": "/data/dumps"})
    code, out, err = call("advise", folder)
    assert code == 0
    assert "ling    8.25" in out
    assert err == (
        "only ling was measured; for a choice:"
        f" numscope analyze /data/dumps --out '{folder}' --recipes all\n"
    )
    assert call("advise", folder, "-q").err == ""


@pytest.mark.parametrize("shard", [[], ["--shard", "2/8"], ["--shard=2/8"]])
def test_the_way_to_more_keeps_what_made_the_results(
    shard: list[str], call: Call, tmp_path: Path
) -> None:
    folder = keep(tmp_path / "out", one("ling", 1e-5))
    made_by = ["analyze", "my dumps", *shard, "--layers", "0-4", "--tokens-per-step", "512"]
    Results(folder).keep_run({"dump": "/data/my dumps", "command": made_by})
    assert call("advise", folder).err == (
        "only ling was measured; for a choice: numscope analyze 'my dumps' --layers 0-4"
        " --tokens-per-step 512 --recipes all\n"
    )


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--tolerance", "distorsion>=0.9"], 2, "no metric 'distorsion'; known are count, "),
        (["--tolerance", "distortion"], 2, "is not written like underflow<0.01"),
        (["--tolerance", "distortion>=high"], 2, "'high' is no number"),
        (["--tolerance", " , "], 2, "there is no rule in ' , '"),
        (["--tolerance", "mse[weight]<1"], 2, "rule 'mse[weight]<1' matches nothing"),
        (["--layers", "7"], 1, "none of these layers in results; it has 0, 4, 8"),
        (["--kinds", "weight"], 1, "none of these kinds in results; it has gradient"),
        (["--module", "attn"], 1, "no module contains or matches 'attn'"),
    ],
)
@pytest.mark.usefixtures("results")
def test_advise_names_what_is_wrong(
    options: list[str], code: int, words: str, call: Call, tmp_path: Path
) -> None:
    done = call("advise", "results", *options)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("numscope: ")
    assert words in done.err
    assert not (tmp_path / "results" / "advise.csv").exists()


def test_advise_needs_tables(call: Call, tmp_path: Path) -> None:
    done = call("advise", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert f"{tmp_path} holds no layers.csv; make it with" in done.err


def test_a_rule_may_have_commas_in_its_brackets() -> None:
    texts = [rule.text for rule in parse_all("mse[gradient,1x128,0-3] < 1 ,\n underflow<=1,")]
    assert texts == ["mse[gradient,1x128,0-3] < 1", "underflow<=1"]


def test_a_layer_is_never_lost(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """61 layers of which every second needs another recipe: the numbers fold, none is cut."""
    folder = keep(
        tmp_path / "many",
        *(
            one(recipe, loss if layer % 2 else 1e-5, layer=layer)
            for recipe, loss in (("float8_e5m2:1x128:power_of_two", 0.5), ("mx-e2m3", 0.5))
            for layer in range(61)
        ),
        *(one("ling", 1e-5, layer=layer) for layer in range(61)),
    )
    monkeypatch.setattr(answering, "_UNBOUNDED", 80)
    lines = call("advise", folder).out.splitlines()
    assert max(map(len, lines[:-2])) <= 80
    start, end = (lines[1].index(head) for head in ("layers", "recipe"))
    table = " ".join(line[start:end] for line in lines[2:-2])
    numbers = [int(number) for number in re.findall(r"\d+", table)]
    assert sorted(numbers) == list(range(61))
    assert numbers != sorted(numbers)
