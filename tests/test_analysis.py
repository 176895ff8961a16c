"""From dump files to rows: the right numbers, in a fixed order, whatever goes wrong on the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

import numscope
from numscope import analysis, dumps, tables
from numscope.analysis import analyze, measure_files
from numscope.engines import Threads
from numscope.errors import NothingToDo
from numscope.outcomes import FileResult
from numscope.plans import FileWork, Selection, plan, schemes
from numscope.tables import LayerRow, Row
from tests.examples import SMALL_RUN, gradient, save_dump

Array = np.ndarray[Any, Any]

# A small run: every number that is known of it.

ENTRIES: list[dict[str, Any]] = json.loads((SMALL_RUN / "expectations.json").read_text())["entries"]


@pytest.fixture(scope="module")
def small_run_rows() -> list[Row]:
    return analyze(str(SMALL_RUN))


@pytest.fixture(scope="module")
def rows_by_tensor(small_run_rows: list[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """By path and key, the row of each tile."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in small_run_rows:
        found.setdefault((row.path, row.key), {})[row.tile] = row
    return found


def test_every_tensor_of_the_small_run_is_expected(
    rows_by_tensor: dict[tuple[str, str], dict[str, Row]],
) -> None:
    assert len(ENTRIES) == 130
    assert set(rows_by_tensor) == {(entry["path"], entry["key"][0]) for entry in ENTRIES}


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=[f"{entry['step']}-{entry['key'][0]}" for entry in ENTRIES]
)
def test_the_small_run_has_the_values_that_are_known(
    entry: dict[str, Any], rows_by_tensor: dict[tuple[str, str], dict[str, Row]]
) -> None:
    rows = rows_by_tensor[entry["path"], entry["key"][0]]
    assert {tile: row.underflow_count for tile, row in rows.items()} == entry["underflow"]
    *lead, cols = entry["shape"]
    for row in rows.values():
        for name in ("step", "tokens", "microbatch", "layer", "kind", "module", "dtype"):
            assert getattr(row, name) == entry[name], name
        assert (row.rows, row.cols) == (np.prod(lead), cols)
        assert (row.count, row.row_count) == (row.rows * row.cols, row.rows)
        assert (row.amax, row.zeros) == (entry["amax"], entry["zeros"])
        assert row.sum_xx == pytest.approx(entry["sum_squares"], rel=1e-12)
        assert row.zero_rows == entry.get("zero_rows", 0)
        assert row.underflow == entry["underflow"][row.tile] / row.count


def test_the_published_effect_is_seen(small_run_rows: list[Row]) -> None:
    last = {(row.layer, row.tile): row for row in small_run_rows if row.step == 720}
    assert {layer: round(last[layer, "128x1"].underflow, 4) for layer in (0, 4, 8, 12, 16)} == {
        0: 0.2635,
        4: 0.2326,
        8: 0.2234,
        12: 0.2287,
        16: 0.2412,
    }
    assert last[0, "1x128"].underflow == 0.000152587890625
    assert round(last[16, "128x1"].distortion, 4) == 0.6365


# The same numbers by other means: NumPy in float64 and ml_dtypes' casts.


class Loss(NamedTuple):
    """What is lost, as a notebook would compute it."""

    underflow_count: int
    distortion: float
    cosine: float
    sum_ee: float


def _loss(x: Array, *, is_column: bool) -> Loss:
    """Quantize to E4M3 with one float32 scale per 128 values of a row, or of a column."""
    input_max = float(ml_dtypes.finfo(x.dtype).max)  # type: ignore[no-untyped-call]
    turned = x.astype(np.float32).T if is_column else x.astype(np.float32)
    quantized = [_quantized(part, input_max) for part in _parts_of_128(turned)]
    y = np.concatenate(quantized, axis=1, dtype=np.float64)
    y = y.T if is_column else y
    wide = x.astype(np.float64)
    dots, xx, yy = (wide * y).sum(1), (wide * wide).sum(1), (y * y).sum(1)
    has_values = xx > 0
    cosines = np.zeros(len(x))
    np.divide(dots, np.sqrt(xx) * np.sqrt(yy), out=cosines, where=yy > 0)
    return Loss(
        underflow_count=int(((wide != 0) & (y == 0)).sum()),
        distortion=float(cosines[has_values].mean()),
        cosine=float(dots.sum() / np.sqrt(xx.sum() * yy.sum())),
        sum_ee=float(((wide - y) ** 2).sum()),
    )


def _parts_of_128(x: Array) -> Iterator[Array]:
    for start in range(0, x.shape[1], 128):
        yield x[:, start : start + 128]


def _quantized(part: Array, input_max: float) -> Array:
    """Each row of `part` with a scale of its own, and back again."""
    amax = np.abs(part).max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", over="ignore"):
        m = np.float32(448) / amax
    m[np.isinf(m)] = input_max
    m[amax == 0] = 1
    codes = np.clip(part * m, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    values: Array = codes.astype(np.float32) * (np.float32(1) / m)
    return values


def _assert_is(loss: Loss, row: Row) -> None:
    assert row.underflow_count == loss.underflow_count
    assert row.distortion == pytest.approx(loss.distortion, rel=1e-12)
    assert row.cosine == pytest.approx(loss.cosine, rel=1e-12)
    assert row.sum_ee == pytest.approx(loss.sum_ee, rel=1e-12)


def test_the_small_run_is_recomputed(small_run_rows: list[Row]) -> None:
    files = {path.name: load_file(path) for path in SMALL_RUN.glob("*.safetensors")}
    assert len(small_run_rows) == 195
    for row in small_run_rows:
        x = files[row.path][row.key].reshape(row.rows, row.cols)
        _assert_is(_loss(x, is_column=row.tile == "128x1"), row)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 300), (300, 1), (128, 128), (129, 257), (2, 3, 77, 130), (1500, 40)]
)
def test_random_dumps_are_recomputed(shape: tuple[int, ...], dtype: Any, tmp_path: Path) -> None:
    *lead, cols = shape
    x = gradient(int(np.prod(lead)), cols, seed=cols)
    x[::7] = 0
    x[-1:, -1:] = 3.5
    x = x.astype(dtype)
    save_dump(tmp_path / "step_3" / "a.safetensors", {"layers.0.fc.grad": x.reshape(shape)})
    rows = analyze(str(tmp_path))
    assert [row.tile for row in rows] == ["128x1", "1x128"]
    for row in rows:
        _assert_is(_loss(x, is_column=row.tile == "128x1"), row)


@pytest.mark.parametrize("magnitude", [1e-30, 1e-38, 1e-42, 1e30])
def test_magnitudes_of_any_size_are_recomputed(magnitude: float, tmp_path: Path) -> None:
    x = (gradient(64, 200) * np.float64(magnitude)).astype(np.float32)
    save_dump(tmp_path / "step_3" / "a.safetensors", {"layers.0.fc.grad": x})
    for row in analyze(str(tmp_path)):
        assert row.sum_xx > 0
        _assert_is(_loss(x, is_column=row.tile == "128x1"), row)


# The rows do not depend on who measured them.


def _work(dump: Path, recipes: Iterable[str] = ("ling",)) -> list[FileWork]:
    work, _ = plan(dumps.scan(dump), Selection(), schemes(list(recipes)))
    return work


def _csv(results: Iterable[FileResult]) -> tuple[str, str]:
    rows = tables.sort_rows(row for result in results for row in result.rows)
    return tables.to_csv(rows, Row), tables.to_csv(tables.merge_layers(rows), LayerRow)


@pytest.fixture(scope="module")
def large_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tensors of several strips of panels each, beside small ones."""
    folder = tmp_path_factory.mktemp("large")
    for step in (1, 2):
        tensors = {
            "layers.0.fc.activation": gradient(3000, 65, step),
            "layers.0.fc.gradient": gradient(2049, 130, step),
            "layers.1.fc.gradient": gradient(3, 5, step),
        }
        save_dump(folder / f"step_{step}.safetensors", tensors)
    return folder


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("recipes", [["ling"], ["ling", "e5m2:128x128", "int8:*x*", "e2m1:1x32"]])
def test_tables_are_identical_whatever_they_were_mapped_with(
    recipes: list[str], jobs: int, large_dump: Path
) -> None:
    work = _work(large_dump, recipes)
    with Threads(jobs) as engine:
        assert _csv(measure_files(work, engine.map)) == _csv(measure_files(work, map))


def test_tables_are_identical_if_files_are_measured_apart(large_dump: Path) -> None:
    work = _work(large_dump)
    apart = [result for file in reversed(work) for result in measure_files([file], map)]
    assert _csv(apart) == _csv(measure_files(work, map))


def test_results_come_in_the_order_of_the_work(large_dump: Path) -> None:
    work = _work(large_dump)
    with Threads(3) as engine:
        results = list(measure_files(work, engine.map))
    assert [result.work for result in results] == work
    assert [[row.key for row in result.rows] for result in results] == [
        [
            "layers.0.fc.activation",
            "layers.0.fc.gradient",
            "layers.0.fc.gradient",
            "layers.1.fc.gradient",
            "layers.1.fc.gradient",
        ]
    ] * 2


def test_every_byte_is_reported_once(large_dump: Path) -> None:
    work = _work(large_dump, ["ling", "e5m2:128x128"])
    counts: list[int] = []
    assert len(list(measure_files(work, map, counts.append))) == 2
    assert sum(counts) == sum(file.bytes for file in work)
    assert min(counts) >= 0


# What happens between the scan and the reading.


def _dump_of_three(folder: Path) -> None:
    for step in (1, 2, 3):
        save_dump(
            folder / f"step_{step}.safetensors",
            {
                "layers.0.fc.activation": gradient(40, 50, step),
                "layers.0.fc.gradient": gradient(40, 60, step),
            },
        )


def _cut_the_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _cut_all(path: Path) -> None:
    path.write_bytes(b"")


def _delete(path: Path) -> None:
    path.unlink()


def _replace_by_garbage(path: Path) -> None:
    path.write_bytes(bytes(range(100)))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_cut_the_tail, "is cut short"),
        (_cut_all, "is empty"),
        (_delete, "cannot be opened: No such file or directory"),
        (_replace_by_garbage, "says that its header has"),
    ],
)
def test_a_file_that_is_lost_is_a_problem_and_the_others_go_on(
    harm: Callable[[Path], None], message: str, jobs: int, tmp_path: Path
) -> None:
    _dump_of_three(tmp_path)
    work = _work(tmp_path)
    harm(tmp_path / "step_2.safetensors")
    with Threads(jobs) as engine:
        results = list(measure_files(work, engine.map))
    assert [len(result.rows) for result in results] == [3, 0, 3]
    (problem,) = results[1].problems
    assert (problem.where, problem.failure) == ("step_2.safetensors", True)
    assert problem.message.startswith(message)
    assert [result.problems for result in (results[0], results[2])] == [(), ()]


@pytest.mark.parametrize(
    "other",
    [gradient(41, 50), gradient(50, 40), gradient(40, 50).astype(np.float16), None],
    ids=["rows", "transposed", "dtype", "gone"],
)
def test_a_tensor_that_was_replaced_is_a_problem_of_its_own(
    other: Array | None, tmp_path: Path
) -> None:
    _dump_of_three(tmp_path)
    work = _work(tmp_path)
    tensors = {"layers.0.fc.gradient": gradient(40, 60)}
    if other is not None:
        tensors["layers.0.fc.activation"] = other
    save_dump(tmp_path / "step_2.safetensors", tensors)
    results = list(measure_files(work, map))
    assert [len(result.rows) for result in results] == [3, 2, 3]
    (problem,) = results[1].problems
    assert problem.where == "step_2.safetensors:layers.0.fc.activation"
    assert problem.message == "the file has changed since it was scanned"


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_cut_while_it_is_read_loses_the_tensors_that_are_gone(
    jobs: int, large_dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "SMALL_BYTES", 0)
    path = tmp_path / "step_1.safetensors"
    path.write_bytes((large_dump / "step_1.safetensors").read_bytes())
    (work,) = _work(tmp_path)

    with Threads(jobs) as engine:

        def over(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            def cut_first() -> Iterator[Any]:
                for item in items:  # the file is open when the first one is there
                    os.truncate(path, 3000 * 65 * 4 + 1000)  # in the second tensor
                    yield item

            return engine.map(function, cut_first())

        (result,) = measure_files([work], over)
    assert [row.key for row in result.rows] == ["layers.0.fc.activation"]
    assert [problem.where for problem in result.problems] == [
        "step_1.safetensors:layers.0.fc.gradient",
        "step_1.safetensors:layers.1.fc.gradient",
    ]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (a Path would open one more)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
@pytest.mark.parametrize("harm", [None, _cut_the_tail, _delete])
def test_files_are_closed_at_the_end(harm: Callable[[Path], None] | None, tmp_path: Path) -> None:
    _dump_of_three(tmp_path)
    before = _open_files()
    work = _work(tmp_path)
    if harm:
        harm(tmp_path / "step_2.safetensors")
    with Threads(2) as engine:
        assert len(list(measure_files(work, engine.map))) == 3
    assert _open_files() == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_files_are_closed_if_nobody_wants_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "SMALL_BYTES", 0)
    _dump_of_three(tmp_path)
    before = _open_files()
    with Threads(2) as engine:
        results = measure_files(_work(tmp_path), engine.map)
        assert len(next(results).rows) == 3
        assert _open_files() > before
        results.close()  # type: ignore[attr-defined]
        assert _open_files() == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_no_more_files_are_open_than_are_being_read(tmp_path: Path) -> None:
    for step in range(40):
        save_dump(tmp_path / f"step_{step}.safetensors", {"layers.0.fc.input": gradient(2, 3)})
    before = _open_files()
    with Threads(1) as engine:
        opened = [_open_files() - before for _ in measure_files(_work(tmp_path), engine.map)]
    assert len(opened) == 40
    assert max(opened) <= 4


def test_small_files_are_measured_a_few_at_a_time_and_kept_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "BUNDLE_FILES", 4)
    monkeypatch.setattr(analysis, "BUNDLE_BYTES", 12 * 4)
    sizes = (2, 2, 2, 2, 2, 6, 6, 1, 20, 1)
    for step, cols in enumerate(sizes):
        save_dump(tmp_path / f"step_{step}.safetensors", {"layers.0.fc.input": gradient(1, cols)})
    bundles: list[int] = []
    kept: list[str] = []

    def over(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            done = function(item)
            bundles.append(len(kept) - sum(bundles))
            yield done

    def keep(result: FileResult) -> FileResult:
        kept.append(result.work.path)
        return result

    work = _work(tmp_path)
    results = list(measure_files(work, over, keep=keep))
    assert bundles == [4, 2, 2, 1, 1]
    assert kept == [result.work.path for result in results] == [file.path for file in work]


# analyze, for a notebook.


def test_analyze_gives_the_rows_of_the_table(large_dump: Path) -> None:
    rows = numscope.analyze(str(large_dump), recipes=["ling"])
    expected, _ = _csv(measure_files(_work(large_dump), map))
    assert tables.to_csv(rows, Row) == expected


def test_analyze_takes_recipes_as_values_and_tiles(large_dump: Path) -> None:
    rows = analyze(str(large_dump), [numscope.recipe("e5m2")], tiles=[(1, 32)], steps=[1])
    assert {(row.recipe, row.kind, row.tile, row.step) for row in rows} == {
        ("float8_e5m2:1x32:float32", "activation", "1x32", 1),
        ("float8_e5m2:1x32:float32", "gradient", "1x32", 1),
        ("float8_e5m2:1x32:float32", "gradient", "32x1", 1),
    }


def test_analyze_selects(large_dump: Path) -> None:
    rows = analyze(str(large_dump), kinds=["gradient"], layers=[1], module="fc", jobs=1)
    assert [(row.step, row.layer, row.tile) for row in rows] == [
        (1, 1, "128x1"),
        (1, 1, "1x128"),
        (2, 1, "128x1"),
        (2, 1, "1x128"),
    ]


def test_analyze_passes_the_options_of_the_scan_on(large_dump: Path) -> None:
    rows = analyze(str(large_dump), tokens_per_step=512, step_offset=-1)
    assert {(row.step, row.tokens) for row in rows} == {(1, 0), (2, 512)}


def test_analyze_takes_a_single_file(large_dump: Path) -> None:
    rows = analyze(str(large_dump / "step_1.safetensors"))
    assert {row.path for row in rows} == {"step_1.safetensors"}
    assert len(rows) == 5


def test_analyze_warns_of_what_could_not_be_read(tmp_path: Path) -> None:
    _dump_of_three(tmp_path)
    _cut_all(tmp_path / "step_2.safetensors")
    with pytest.warns(UserWarning, match=r"^step_2\.safetensors: is empty$") as caught:
        rows = analyze(str(tmp_path))
    assert len(caught) == 1
    assert len(rows) == 6


def test_analyze_of_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingToDo, match="holds no dump file that numscope reads"):
        analyze(str(tmp_path))
