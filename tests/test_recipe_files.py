"""Recipes of one's own in TOML files: what they mean, and how every mistake is answered."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import numscope
from numscope import Recipe, tables
from numscope.catalogue import NAMED
from numscope.errors import RecipeError
from numscope.recipe_files import read, read_all
from numscope.tables import LayerRow, Row
from numscope.written import fields_text, parse
from tests.examples import Call, gradient, save_dump
from tests.strategies import detailed_recipes

FILE = """
wide = "ling:1x256"

[careful]
base = "ling"
rounding = "stochastic"
seed = 7

[floored]
base = "careful:1x64"
amax_floor = 1e-4
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a dump and a file of recipes."""
    monkeypatch.chdir(tmp_path)
    for step in range(2):
        tensors = {
            f"layers.{layer}.mlp.fc1.{kind}": gradient(8, 256, seed=step + layer)
            for layer in range(2)
            for kind in ("activation", "gradient")
        }
        save_dump(tmp_path / "dump" / f"step_{step}.safetensors", tensors)
    (tmp_path / "my.toml").write_text(FILE)
    return tmp_path


def _written(folder: Path, content: str, name: str = "bad.toml") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


# What a file means.


def test_a_recipe_is_a_written_form_or_a_table_of_fields(folder: Path) -> None:
    assert read(folder / "my.toml") == {
        "wide": parse("ling:1x256"),
        "careful": Recipe(rounding="stochastic", seed=7),
        "floored": Recipe(tile=(1, 64), rounding="stochastic", seed=7, amax_floor=1e-4),
    }
    assert numscope.read_recipes(str(folder / "my.toml")) == read(folder / "my.toml")


@given(recipe=detailed_recipes())
def test_every_field_can_be_set(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = {**asdict(recipe), "tile": recipe.tile_text}
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items()]
    assert set(table) == {field.name for field in fields(Recipe)}
    path = _written(tmp_path_factory.mktemp("recipes"), "\n".join(["[mine]", *lines]))
    assert read(path) == {"mine": recipe}


@pytest.mark.parametrize("name", NAMED)
def test_every_named_recipe_can_be_a_base(name: str, tmp_path: Path) -> None:
    content = f'same = "{fields_text(NAMED[name].recipe)}"\n[mine]\nbase = "{name}"\n'
    assert {*read(_written(tmp_path, content)).values()} == {NAMED[name].recipe}


def test_a_scale_brings_its_own_expression_as_in_the_written_form(tmp_path: Path) -> None:
    content = '[mine]\nbase = "deepgemm"\nscale = "e8m0"\n'
    assert read(_written(tmp_path, content)) == {"mine": parse("deepgemm:e8m0")}


def test_files_add_up_in_their_order(folder: Path) -> None:
    other = _written(folder, 'tiny = "ling:1x8"', "other.toml")
    assert list(read_all([folder / "my.toml", other])) == ["wide", "careful", "floored", "tiny"]


# Mistakes.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", 'holds no recipe, such as wide = "ling:1x256"'),
        ("x = ", "is no TOML file: Invalid value"),
        ('x = "ling:1x8"\nx = "ling"', "is no TOML file: Cannot overwrite a value"),
        ("x = 5", "recipe 'x': is a written form such as \"ling:1x64\", or a table, not 5"),
        ("[x]", "recipe 'x': has no field; the least is a base"),
        ('x = "lign"', "recipe 'x': unknown recipe 'lign'; known are ling, te-block, "),
        (
            'x = "ling:0x8"',
            "recipe 'x': tile 0x8 is not possible: rows and columns are integers of 1",
        ),
        ('[x]\nbase = "lin"', "recipe 'x': unknown recipe 'lin'; known are "),
        ("[x]\nbase = 3", "recipe 'x': base is a written form such as \"ling:1x64\", not 3"),
        ('[x]\nbase = "y"\n[y]\nseed = 0', "recipe 'x': unknown recipe 'y'"),
        ('[x]\nroundng = "up"', "recipe 'x': unknown field 'roundng'; known are base, element, "),
        ("[x.y]\nseed = 1", "recipe 'x': unknown field 'y'; known are base, element, "),
        ('[x]\nelement = "e5m3"', "recipe 'x': unknown element 'e5m3'; known are float8_e4m3fn, "),
        ('[x]\nelement = "e8m0"', "element float8_e8m0fnu holds scales, not elements; known are "),
        ("[x]\ntile = [1, 128]", "recipe 'x': tile is text such as \"1x128\", not [1, 128]"),
        ('[x]\ntile = "128"', "recipe 'x': tile '128' is not written as rows x columns"),
        ('[x]\nrounding = "up"', "recipe 'x': unknown rounding 'up'; known are nearest_even, "),
        ("[x]\nrounding = 1", "recipe 'x': rounding is a name, not 1"),
        ("[x]\nseed = true", "recipe 'x': seed True is not possible: it is an integer from 0"),
        ("[x]\nseed = 1.5", "recipe 'x': seed 1.5 is not possible: it is an integer from 0"),
        ("[x]\nseed = 1", "recipe 'x': seed=1 needs rounding=stochastic"),
        ('[x]\namax_floor = "1"', "recipe 'x': amax_floor is a number, not '1'"),
        ("[x]\nscale_floor = inf", "recipe 'x': scale_floor inf is not possible: it is 0 or more"),
        ('[x]\nouter = "row"', "recipe 'x': outer=row needs scale=float8_e4m3fn and scale_from="),
        ('ling = "ling:1x8"', "recipe 'ling': is known by that name without a file"),
        ('MXFP8 = "ling:1x8"', "recipe 'MXFP8': is known by that name without a file"),
        *(
            (f'{name} = "ling:1x8"', f"recipe '{name}': means a kind or layers in the brackets")
            for name in ("activation", "gradients", "Weight", "input_gradient", "layers4-8")
        ),
        ('e5m2 = "ling:1x8"', "recipe 'e5m2': is known by that name without a file"),
        ('x = "ling:1x8"\nX = "ling"', "bad.toml: recipe 'X': 'x' in "),
        ('"a b" = "ling"', "recipe 'a b': a name is up to 64 letters, digits, dots and signs of"),
        ('"1x8" = "ling"', "recipe '1x8': a name is up to 64 letters, "),
        ("x = " + "[" * 100_000, "bad.toml is nested too deeply"),
        (f"x = [{{{'a.' * 2_000}a = 1}}]", "bad.toml is nested too deeply"),
        (f'{"a" * 65} = "ling"', "a name is up to 64 letters, "),
    ],
)
def test_a_mistake_is_answered_with_file_recipe_and_field(
    content: str, message: str, tmp_path: Path
) -> None:
    path = _written(tmp_path, content)
    with pytest.raises(RecipeError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "right"), [("roundng", "rounding"), ("scal_from", "scale_from"), ("bas", "base")]
)
def test_an_unknown_field_has_the_nearest_one_named(wrong: str, right: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=f"did you mean {right}\\?"):
        read(_written(tmp_path, f'[x]\n{wrong} = "a"'))


def test_a_file_that_is_no_text_or_not_there_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    with pytest.raises(RecipeError, match=r"bad\.toml cannot be read: No such file or directory$"):
        read(path)
    path.write_bytes(b'x = "\xff"')
    with pytest.raises(RecipeError, match=r"bad\.toml is no TOML file: "):
        read(path)


def test_a_name_in_two_files_is_refused(folder: Path) -> None:
    other = _written(folder, 'Wide = "ling:1x512"', "other.toml")
    with pytest.raises(RecipeError) as caught:
        read_all([folder / "my.toml", other])
    assert str(caught.value) == (
        f"{other}: recipe 'Wide': 'wide' in {folder / 'my.toml'} has that name already,"
        " whatever the case"
    )


# On the command line.


def _labels(out: Path) -> list[str]:
    return list(json.loads((out / "run.json").read_text())["recipes"])


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ([], ["wide", "careful", "floored"]),
        (["--recipe", "careful"], ["careful"]),
        (["--recipe", "ling", "--recipe", "wide"], ["ling", "wide"]),
        (["--recipe", "careful : 1x32"], ["careful:1x32"]),
        (["--recipes", "int8"], ["wide", "careful", "floored", "int8"]),
        (["--recipe", "wide", "--tile", "1x256", "--tile", "1x16"], ["wide", "wide:1x16"]),
    ],
)
def test_the_recipes_of_a_file_are_measured_under_their_names(
    options: list[str], labels: list[str], call: Call, folder: Path
) -> None:
    done = call("analyze", "dump", "-o", "out", "--no-charts", "--recipe-file", "my.toml", *options)
    assert (done.code, done.err.count("error")) == (0, 0)
    assert _labels(folder / "out") == labels
    rows = tables.read_csv(folder / "out" / "layers.csv", LayerRow)
    assert {row.recipe for row in rows} == {*labels}


def test_the_place_of_the_option_does_not_matter(call: Call, folder: Path) -> None:
    options = ("--recipe", "careful", "--recipe-file", "my.toml")
    assert call("analyze", "dump", "-o", "out", "--no-charts", *options).code == 0
    assert _labels(folder / "out") == ["careful"]


def test_the_environment_may_name_several_files(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(folder, 'tiny = "ling:1x8"', "other.toml")
    monkeypatch.setenv("NUMSCOPE_ANALYZE_RECIPE_FILE", "my.toml:other.toml")
    assert call("analyze", "dump", "-o", "out", "--no-charts").code == 0
    assert _labels(folder / "out") == ["wide", "careful", "floored", "tiny"]


def test_run_json_has_every_field(call: Call, folder: Path) -> None:
    call("analyze", "dump", "-o", "out", "--no-charts", "--recipe-file", "my.toml")
    found = json.loads((folder / "out" / "run.json").read_text())["recipes"]["floored"]
    recipe = Recipe(tile=(1, 64), rounding="stochastic", seed=7, amax_floor=1e-4)
    assert found == asdict(recipe) | {"tile": "1x64"}


def test_what_is_measured_is_what_the_file_says(call: Call, folder: Path) -> None:
    call("analyze", "dump", "-o", "out", "--no-charts", "--recipe-file", "my.toml")
    call("analyze", "dump", "-o", "other", "--no-charts", "--recipe", "ling:1x256")
    rows = tables.read_csv(folder / "out" / "tensors.csv", Row)
    mine = [replace(each, recipe="ling:1x256") for each in rows if each.recipe == "wide"]
    assert mine == tables.read_csv(folder / "other" / "tensors.csv", Row)
    assert mine == numscope.analyze(str(folder / "dump"), {"ling:1x256": parse("ling:1x256")})


def test_charts_and_findings_are_made_under_the_names(call: Call, folder: Path) -> None:
    call("analyze", "dump", "-o", "out", "--recipe-file", "my.toml", "--recipe", "floored")
    assert {path.name for path in (folder / "out" / "charts").glob("gradient*.png")} == {
        f"{subject}_{metric}_{tile}.png"
        for subject, tile in (("gradients", "1x64"), ("gradient_transpose", "64x1"))
        for metric in ("underflow", "distortion")
    }
    assert call("plot", "out", "--recipe", "floored").code == 0
    assert call("check", "out", "underflow[floored]<=1").code == 0


@pytest.mark.parametrize("before", [FILE, FILE.replace("1x256", "1x255")])
def test_a_recipe_that_was_changed_under_its_name_is_measured_anew(
    before: str, call: Call, folder: Path
) -> None:
    options = ("--no-charts", "--recipe-file", "my.toml", "--recipe", "wide")
    (folder / "my.toml").write_text(before)
    call("analyze", "dump", "-o", "out", *options)
    (folder / "my.toml").write_text(FILE)
    err = call("analyze", "dump", "-o", "out", *options).err
    assert ("2 of 2 dump files were finished before" in err) == (before == FILE)
    call("analyze", "dump", "-o", "other", *options)
    for name in ("tensors.csv", "layers.csv"):
        assert (folder / "out" / name).read_bytes() == (folder / "other" / name).read_bytes()


def test_a_mark_of_the_byte_order_is_no_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_bytes(b"\xef\xbb\xbfwide = 'ling:1x256'\n")
    assert read(tmp_path / "my.toml")["wide"].tile == (1, 256)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("'recipes_activations.png' = 'ling'", "ends like a chart's file"),
        ("a = {base = 'ling', scale_from = ''}", "scale_from has no value"),
    ],
)
def test_what_would_be_passed_over_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(content)
    with pytest.raises(RecipeError, match=message):
        read(tmp_path / "my.toml")


def test_shards_with_other_fields_under_one_name_are_refused(call: Call, folder: Path) -> None:
    options = ("--no-charts", "--recipe-file", "my.toml", "--recipe", "wide")
    call("analyze", "dump", "-o", "out", *options, "--shard", "1/2")
    (folder / "my.toml").write_text(FILE.replace("1x256", "1x255"))
    call("analyze", "dump", "-o", "out", *options, "--shard", "2/2")
    code, out, err = call("merge", "out")
    assert (code, out) == (1, "")
    assert err == (
        "numscope: shard 1/2 was run with --recipe wide (float8_e4m3fn:1x256:float32), shard 2/2"
        " with --recipe wide (float8_e4m3fn:1x255:float32): run the shards again with the same"
        " options\n"
    )


@pytest.mark.usefixtures("folder")
def test_recipes_lists_those_of_a_file_and_explains_them(call: Call) -> None:
    code, out, err = call("recipes", "--recipe-file", "my.toml")
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines()[1:] if not line.startswith(" ")]
    assert names == [*NAMED, "wide", "careful", "floored"]
    code, out, err = call("recipes", "careful", "--recipe-file", "my.toml")
    assert (code, err) == (0, "")
    said = dict(line.split(maxsplit=1) for line in out.splitlines() if len(line.split()) > 1)
    assert said["recipe"].strip() == "careful"
    assert (said["rounding"].strip(), said["seed"].strip()) == ("stochastic", "7")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipe", "carefull"], "'--recipe': unknown recipe 'carefull'; known are wide, "),
        (["--recipe-file", "none.toml"], "'--recipe-file': none.toml cannot be read: No such"),
        (["--recipe-file", "my.toml"], "'--recipe-file': my.toml: recipe 'wide': 'wide' in my"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_mistake_is_wrong_usage(options: list[str], message: str, call: Call) -> None:
    code, out, err = call("analyze", "dump", "--recipe-file", "my.toml", *options)
    assert (code, out) == (2, "")
    assert message in err


def test_a_mapping_names_recipes_in_python(folder: Path) -> None:
    own: dict[str, Any] = numscope.read_recipes(folder / "my.toml")
    rows = numscope.analyze(str(folder / "dump"), own, kinds=["activation"], layers=[0], steps=[0])
    assert [(row.recipe, row.tile) for row in rows] == [
        ("careful", "1x128"),
        ("floored", "1x64"),
        ("wide", "1x256"),
    ]
