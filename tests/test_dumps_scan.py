"""A scan finds every tensor in a fixed order and says in one line each what it could not read."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from numscope import dumps
from numscope.errors import DumpError, NothingToDo

if TYPE_CHECKING:
    from pathlib import Path

X = np.ones((2, 4), np.float32)


def _save(folder: Path, path: str, *keys: str, **metadata: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    save_file(dict.fromkeys(keys, X), str(folder / path), metadata=metadata or None)


def _failures(scan: dumps.Scan) -> list[tuple[str, str]]:
    return [(problem.where, problem.message) for problem in scan.problems if problem.failure]


def test_tensors_come_sorted_by_path(tmp_path: Path) -> None:
    for path in ("step_2/b.safetensors", "step_10/a.safetensors", "step_1.safetensors"):
        _save(tmp_path, path, "layers.0.fc.input")
    scan = dumps.scan(tmp_path)
    assert [(ref.path, ref.step) for ref in scan] == [
        ("step_1.safetensors", 1),
        ("step_10/a.safetensors", 10),
        ("step_2/b.safetensors", 2),
    ]
    assert scan.files == len(scan) == 3
    assert scan.bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))


def test_references_can_be_pickled_and_loaded(tmp_path: Path) -> None:
    _save(tmp_path, "step_3.safetensors", "layers.1.mlp.fc1.gradient")
    (ref,) = pickle.loads(pickle.dumps(dumps.scan(tmp_path).refs))  # noqa: S301 -- our own bytes
    assert ref.name == "step_3.safetensors:layers.1.mlp.fc1.gradient"
    assert (ref.shape, ref.dtype, ref.kind, ref.layer) == ((2, 4), "float32", "gradient", 1)
    np.testing.assert_array_equal(dumps.load(ref), X)


def test_a_file_that_changed_since_the_scan_is_not_read_as_something_else(tmp_path: Path) -> None:
    _save(tmp_path, "a.safetensors", "layers.0.fc.input")
    (ref,) = dumps.scan(tmp_path)
    save_file({"layers.0.fc.input": X[:1]}, str(tmp_path / "a.safetensors"))
    with pytest.raises(DumpError, match=r"a.safetensors:layers.0.fc.input has changed"):
        dumps.load(ref)
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(DumpError, match="cannot be opened: No such file"):
        dumps.load(ref)


def test_a_single_file_is_a_dump(tmp_path: Path) -> None:
    _save(tmp_path, "rank3/step_7.safetensors", "layers.0.fc.input")
    (ref,) = dumps.scan(tmp_path / "rank3" / "step_7.safetensors")
    assert (ref.root, ref.path) == (str(tmp_path / "rank3"), "step_7.safetensors")
    assert (ref.step, ref.rank) == (7, 3)
    np.testing.assert_array_equal(dumps.load(ref), X)


def test_a_part_of_a_dump_keeps_its_step(tmp_path: Path) -> None:
    _save(tmp_path, "my_rank_3/step_7/all.safetensors", "layers.0.fc.input")
    (ref,) = dumps.scan(tmp_path / "my_rank_3" / "step_7")
    assert (ref.step, ref.rank) == (7, None)


def test_options_for_tokens_win_over_metadata(tmp_path: Path) -> None:
    _save(tmp_path, "a.safetensors", "layers.0.fc.input", step="3", tokens="5")
    tokens = [
        dumps.scan(tmp_path).refs[0].tokens,
        dumps.scan(tmp_path, tokens_per_step=512).refs[0].tokens,
        dumps.scan(tmp_path, tokens_per_step=512, step_offset=-1).refs[0].tokens,
        dumps.scan(tmp_path, tokens_map={3: 77}).refs[0].tokens,
        dumps.scan(tmp_path, tokens_map={4: 78}, step_offset=1).refs[0].tokens,
        dumps.scan(tmp_path, tokens_map={9: 99}).refs[0].tokens,
    ]
    assert tokens == [5, 1536, 1024, 77, 78, 5]


def test_the_second_of_two_equal_identities_is_left_out(tmp_path: Path) -> None:
    for path in ("b/step_1.safetensors", "a/step_1.safetensors"):
        _save(tmp_path, path, "layers.0.fc.input")
    scan = dumps.scan(tmp_path)
    assert [ref.path for ref in scan] == ["a/step_1.safetensors"]
    assert [ref.path for ref in scan.left_out] == ["b/step_1.safetensors"]
    ((where, message),) = _failures(scan)
    assert where == "b/step_1.safetensors:layers.0.fc.input"
    assert "a/step_1.safetensors:layers.0.fc.input" in message


def test_equal_identities_without_a_step_are_told_how_to_say_it(tmp_path: Path) -> None:
    for path in ("000120.safetensors", "000240.safetensors"):
        _save(tmp_path, path, "layers.0.fc.input")
    ((_, message),) = _failures(dumps.scan(tmp_path))
    assert "say with --pattern where the step stands" in message
    refs = dumps.scan(tmp_path, pattern="{step}.safetensors:{module}.{kind}").refs
    assert [(ref.step, ref.layer, ref.kind) for ref in refs] == [
        (120, 0, "activation"),
        (240, 0, "activation"),
    ]


def test_everything_else_goes_on(tmp_path: Path) -> None:
    _save(tmp_path, "good.safetensors", "layers.0.fc.input")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "good.safetensors").read_bytes()[:-1])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    (tmp_path / "README.md").write_text("not a dump")
    (tmp_path / "notes").write_text("nor this")
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe.npy")
    scan = dumps.scan(tmp_path)
    assert [ref.path for ref in scan] == ["good.safetensors"]
    failures = dict(_failures(scan))
    assert set(failures) == {
        "cut.safetensors",
        "empty.npy",
        "folder.safetensors",
        "gone.safetensors",
        "pipe.npy",
    }
    assert "cut short" in failures["cut.safetensors"]
    assert failures["folder.safetensors"] == "is a folder, not a file"
    assert failures["gone.safetensors"] == "cannot be opened: No such file or directory"
    assert failures["pipe.npy"] == "is a pipe or a device, not a file"
    assert all("\n" not in message for message in failures.values())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_permissions(tmp_path: Path) -> None:
    _save(tmp_path, "a.safetensors", "layers.0.fc.input")
    (tmp_path / "a.safetensors").chmod(0)
    assert _failures(dumps.scan(tmp_path)) == [
        ("a.safetensors", "cannot be opened: Permission denied")
    ]


def test_links_in_a_circle_end_and_nothing_is_found_twice(tmp_path: Path) -> None:
    _save(tmp_path, "runs/step_1/a.safetensors", "layers.0.fc.input")
    (tmp_path / "runs" / "step_1" / "back").symlink_to(tmp_path)
    (tmp_path / "latest").symlink_to(tmp_path / "runs" / "step_1")
    (tmp_path / "itself.npy").symlink_to(tmp_path / "itself.npy")
    assert _failures(dumps.scan(tmp_path)) == [
        ("itself.npy", "cannot be opened: Too many levels of symbolic links")
    ]
    assert [ref.path for ref in dumps.scan(tmp_path)] == ["runs/step_1/a.safetensors"]


def test_remarks_that_count_are_put_together(tmp_path: Path) -> None:
    for step in range(3):
        np.save(tmp_path / f"step_{step}.ids.npy", np.arange(4))
    (problem,) = dumps.scan(tmp_path).problems
    assert not problem.failure
    assert problem.message == "tensors of no float type passed over: 3, in this and 2 more files"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingToDo, match="nowhere does not exist; a dump folder"):
        dumps.scan(tmp_path / "nowhere")


def test_steps_that_the_table_of_tokens_leaves_out_are_named(tmp_path: Path) -> None:
    for step in range(3):
        _save(tmp_path, f"step_{step}.safetensors", "layers.0.fc.input")
    (problem,) = dumps.scan(tmp_path, tokens_map={1: 512}).problems
    assert not problem.failure
    assert problem.message == "the table of tokens has no line for 2 of the steps found: 0, 2"


def test_names_with_line_breaks_are_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb.npy").write_bytes(b"")
    for folder in ("c\nd", "e\nf"):
        _save(tmp_path, f"{folder}/step_1.safetensors", "layers.0.fc.input")
    scan = dumps.scan(tmp_path)
    assert len(scan.problems) == 2
    assert not any("\n" in problem.where + problem.message for problem in scan.problems)


def test_progress_reaches_the_number_of_files(tmp_path: Path) -> None:
    for step in range(3):
        _save(tmp_path, f"step_{step}.safetensors", "layers.0.fc.input")
    seen: list[tuple[int, int]] = []
    dumps.scan(tmp_path, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)
