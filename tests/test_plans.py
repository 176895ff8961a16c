"""What is measured and how: the default plan, selections, and what is said if nothing is left."""

from __future__ import annotations

from typing import Any

import pytest

from numscope import ranges
from numscope.dumps.refs import Scan, TensorRef
from numscope.errors import NothingToDo, RecipeError, UsageError
from numscope.plans import FileWork, Selection, matches_module, plan, planned, schemes
from numscope.recipes import Recipe, Tile
from tests.examples import ref

LING = schemes(["ling"])


def _scan(*refs: TensorRef) -> Scan:
    return Scan("dumps", refs, files=len({each.path for each in refs}))


def _tiles(
    kind: str, recipes: tuple[str, ...] = ("ling",), tiles: tuple[Tile, ...] = ()
) -> list[tuple[str, str]]:
    """For a tensor of that kind, the names in the tables and the tiles."""
    selection = Selection(kinds=(kind,))  # type: ignore[arg-type]
    ((file,), _) = plan(_scan(ref(kind=kind)), selection, schemes(recipes, tiles))
    ((_, planned),) = file.tensors
    return [(each.label, each.recipe.tile_text) for each in planned]


# The plan.


@pytest.mark.parametrize(
    ("kind", "tiles"),
    [
        ("activation", ["1x128"]),
        ("gradient", ["1x128", "128x1"]),
        ("weight", ["128x128"]),
        ("output", ["1x128"]),
        ("input_gradient", ["1x128", "128x1"]),
        ("weight_gradient", ["1x128", "128x1"]),
    ],
)
def test_each_kind_has_its_tiles(kind: str, tiles: list[str]) -> None:
    assert _tiles(kind) == [("ling", tile) for tile in tiles]


@pytest.mark.parametrize(
    ("kind", "tiles"),
    [("activation", ["1x64"]), ("gradient", ["1x64", "64x1"]), ("weight", ["1x64"])],
)
def test_a_tile_that_is_asked_for_replaces_the_recipes_own(kind: str, tiles: list[str]) -> None:
    assert _tiles(kind, tiles=((1, 64),)) == [("ling:1x64", tile) for tile in tiles]


def test_every_tile_goes_with_every_recipe() -> None:
    assert _tiles("activation", ("ling", "e5m2"), ((1, 32), (1, None))) == [
        ("ling:1x32", "1x32"),
        ("ling:1x*", "1x*"),
        ("float8_e5m2:1x32:float32", "1x32"),
        ("float8_e5m2:1x*:float32", "1x*"),
    ]


def test_a_square_tile_has_no_transpose() -> None:
    assert _tiles("gradient", tiles=((128, 128),)) == [("ling:128x128", "128x128")]


def test_a_recipe_without_a_name_quantizes_weights_with_its_own_tile() -> None:
    assert _tiles("weight", ("e5m2:1x32",)) == [("float8_e5m2:1x32:float32", "1x32")]


def test_a_recipe_asked_for_twice_is_measured_once() -> None:
    assert _tiles("activation", ("ling", "e4m3:1x128", "LING")) == [("ling", "1x128")]


def test_the_recipe_is_changed_in_its_tile_alone() -> None:
    ((_, recipe, weight),) = schemes(["e5m2:1x32:e8m0"])
    assert recipe == weight == Recipe("float8_e5m2", (1, 32), "float8_e8m0fnu")


def test_an_unknown_recipe_is_refused_before_anything_is_read() -> None:
    with pytest.raises(RecipeError, match=r"unknown recipe 'lign'.*did you mean ling"):
        schemes(["lign"])


# The selection.

REFS = (
    ref(path="a", kind="activation", layer=0, step=0, module="layers.0.mlp.fc1"),
    ref(path="a", kind="gradient", layer=0, step=0, module="layers.0.mlp.fc1"),
    ref(path="a", kind="weight", layer=0, step=0, module="layers.0.mlp.fc1"),
    ref(path="b", kind="activation", layer=4, step=60, module="layers.4.attn.qkv"),
    ref(path="b", kind="gradient", layer=None, step=None, module="head"),
    ref(path="c", kind=None, layer=8, step=60, module="layers.8.rope"),
)
FOUND = _scan(*REFS)


def _chosen(work: list[FileWork]) -> list[TensorRef]:
    return [tensor for file in work for tensor, _ in file.tensors]


def test_activations_and_gradients_are_measured_unless_told_otherwise() -> None:
    work, _ = plan(FOUND, Selection(), LING)
    assert _chosen(work) == [REFS[0], REFS[1], REFS[3], REFS[4]]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Selection(kinds=("weight",)), [2]),
        (Selection(kinds=("weight", "activation")), [0, 2, 3]),
        (Selection(layers=frozenset({0, 7})), [0, 1]),
        (Selection(layers=frozenset({4})), [3]),
        (Selection(steps=frozenset({60})), [3]),
        (Selection(module="mlp"), [0, 1]),
        (Selection(module="layers.*.qkv"), [3]),
        (Selection(module="head"), [4]),
        (Selection(kinds=("gradient",), layers=frozenset({0}), steps=frozenset({0})), [1]),
    ],
)
def test_only_what_is_asked_for_is_measured(selection: Selection, chosen: list[int]) -> None:
    work, _ = plan(FOUND, selection, LING)
    assert _chosen(work) == [REFS[i] for i in chosen]


@pytest.mark.parametrize(
    ("module", "wanted", "matches"),
    [
        ("layers.4.mlp.fc1", None, True),
        ("layers.4.mlp.fc1", "mlp", True),
        ("layers.4.mlp.fc1", "attn", False),
        ("layers.4.mlp.fc1", "*.fc1", True),
        ("layers.4.mlp.fc1", "*.fc", False),
        ("layers.4.mlp.fc1", "*.fc?", True),
        ("layers.4.mlp.fc1", "*.fc[12]", True),
        ("layers.4.mlp.fc1", "FC1", False),
        ("layers.4.mlp.fc1", "", True),
    ],
)
def test_modules_match_by_a_part_or_a_pattern(
    module: str, wanted: str | None, matches: bool
) -> None:
    assert matches_module(module, wanted) is matches


def test_one_item_of_work_per_file_in_the_order_of_the_scan() -> None:
    work, _ = plan(FOUND, Selection(), LING, npy_dtype="bfloat16")
    assert [(file.root, file.path, file.npy_dtype) for file in work] == [
        ("dumps", "a", "bfloat16"),
        ("dumps", "b", "bfloat16"),
    ]


def test_the_bytes_of_the_work_are_those_of_the_tensors_in_memory() -> None:
    found = _scan(ref(shape=(3, 5), dtype="bfloat16"), ref(shape=(2, 2), dtype="float64"))
    ((file,), _) = plan(found, Selection(), LING)
    assert file.bytes == 3 * 5 * 2 + 2 * 2 * 8


# What is said.


def _remarks(found: Scan, selection: Selection = Selection()) -> list[tuple[str, str]]:  # noqa: B008
    _, remarks = plan(found, selection, LING)
    assert not any(remark.failure for remark in remarks)
    return [(remark.where, remark.message) for remark in remarks]


GOOD = ref(path="good")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"shape": (0, 8)}, "left out: it is empty, there is nothing to measure"),
        ({"shape": (8, 0)}, "left out: it is empty, there is nothing to measure"),
        (
            {"kind": None},
            "left out: no kind (activation, gradient, …) is recognised in its name",
        ),
        (
            {"step": None, "tokens": None},
            "no step is named, as it is for others: it is in the tables but in no chart",
        ),
    ],
)
def test_each_oddity_is_remarked_once(other: dict[str, Any], message: str) -> None:
    odd = [ref(path=path, key=(), **other) for path in ("x", "y", "z")]
    assert _remarks(_scan(GOOD, odd[0])) == [("x", message)]
    assert _remarks(_scan(GOOD, *odd[:2])) == [("x", f"{message} (and 1 more tensor like it)")]
    assert _remarks(_scan(GOOD, *odd)) == [("x", f"{message} (and 2 more tensors like it)")]


def test_without_any_step_all_are_charted_at_step_0() -> None:
    undated = ref(path="x", key=(), step=None, tokens=None)
    assert _remarks(_scan(undated)) == [("x", "no step is named: it is charted at step 0")]


def test_one_recipe_need_not_be_a_list() -> None:
    assert schemes("ling") == schemes(["ling"]) == schemes(Recipe())


def test_empty_tensors_are_no_work() -> None:
    work, _ = plan(_scan(GOOD, ref(path="x", shape=(0, 8))), Selection(), LING)
    assert _chosen(work) == [GOOD]


def test_tokens_without_a_step_are_enough_to_chart() -> None:
    assert _remarks(_scan(ref(step=None, tokens=512))) == []


@pytest.mark.parametrize(
    ("layers", "said"),
    [("0,1,4", "1"), ("0,1,2", "1,2"), ("0-2", ""), ("0-16,20-30", ""), ("0-16,20", "20")],
)
def test_layers_that_are_asked_for_one_by_one_are_missed_and_those_of_ranges_are_not(
    layers: str, said: str
) -> None:
    remarks = _remarks(FOUND, Selection(layers=ranges.parse(layers)))
    missed = [message for _, message in remarks if "has no layer" in message]
    assert missed == ([f"has no layer {said}"] if said else [])


def test_a_step_without_tokens_beside_others_puts_all_charts_over_steps_and_that_is_said() -> None:
    known = [ref(path=f"s{step}", step=step, tokens=512 * step) for step in (2, 3)]
    lost = [ref(path=f"s{step}", step=step, tokens=None) for step in (0, 1)]
    words = (
        "as they are of others: all charts are drawn over steps; give them with --tokens-map, or"
        " leave such steps out with --steps"
    )
    assert _remarks(_scan(lost[1], *known)) == [
        (lost[1].name, f"no tokens are known of step 1, {words}")
    ]
    assert _remarks(_scan(*lost, *known)) == [
        (lost[0].name, f"no tokens are known of steps 0,1, {words}")
    ]
    assert _remarks(_scan(*lost, *known), Selection(steps={2, 3})) == []
    assert _remarks(_scan(*lost)) == _remarks(_scan(*known)) == []


def test_layers_and_steps_that_are_not_there_are_named() -> None:
    asked = Selection(layers=frozenset({0, 9, 11}), steps=frozenset({0, 61}))
    assert _remarks(FOUND, asked)[-2:] == [
        ("dumps", "has no layer 9,11"),
        ("dumps", "has no step 61"),
    ]


def test_a_range_only_narrows() -> None:
    asked = Selection(layers=frozenset(range(40)), steps=frozenset(range(1000)))
    assert not [where for where, message in _remarks(FOUND, asked) if "has no" in message]


@pytest.mark.parametrize(
    ("selection", "asked"),
    [
        (Selection(layers=frozenset({99})), "kinds activation,gradient; layers 99"),
        (Selection(steps=frozenset({1, 2, 3})), "kinds activation,gradient; steps 1-3"),
        (Selection(module="moe"), "kinds activation,gradient; module moe"),
        (Selection(kinds=("output",)), "kinds output"),
    ],
)
def test_nothing_left_says_what_was_asked_for_and_what_there_is(
    selection: Selection, asked: str
) -> None:
    with pytest.raises(NothingToDo) as caught:
        plan(FOUND, selection, LING)
    assert str(caught.value) == (
        f"nothing to analyse for {asked};"
        " dumps has kinds activation, gradient, weight; layers 0,4,8; steps 0,60"
    )


def test_nothing_recognised_says_so() -> None:
    found = _scan(ref(kind=None, layer=None, step=None, tokens=None))
    with pytest.raises(NothingToDo, match=r"dumps has kinds none recognised$"):
        plan(found, Selection(), LING)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (0, "it holds no dump file that numscope reads"),
        (2, "no tensor was found in 2 dump files"),
    ],
)
def test_no_tensor_at_all_says_why(files: int, why: str) -> None:
    with pytest.raises(NothingToDo) as caught:
        plan(Scan("dumps", (), files=files), Selection(), LING)
    assert str(caught.value) == f"nothing to analyse in dumps: {why}"


@pytest.mark.parametrize(
    ("count", "others"),
    [(1, ""), (2, " (and 1 more tensor like it)"), (3, " (and 2 more tensors like it)")],
)
def test_only_empty_tensors_are_nothing_to_do(count: int, others: str) -> None:
    found = _scan(*(ref(path=f"file{i}", key=(), shape=(0, 8)) for i in range(count)))
    with pytest.raises(NothingToDo) as caught:
        plan(found, Selection(), LING)
    assert str(caught.value) == f"nothing to analyse in dumps: file0 is empty{others}"


def test_a_gradient_and_its_transpose_that_the_tables_cannot_tell_apart_are_refused() -> None:
    wanted = schemes("te-nvfp4-row:1x1")
    assert len(planned("activation", wanted)) == 1
    with pytest.raises(UsageError, match="tile 1x1 is the same for a gradient and its transpose"):
        planned("gradient", wanted)
