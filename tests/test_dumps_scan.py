"""A scan finds every tensor in a fixed order and says in one line each what it could not read."""

from __future__ import annotations

import gzip
import os
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from numscope import dumps
from numscope.dumps import files, folders, sources, walking
from numscope.dumps.contents import Contents
from numscope.dumps.folders import LocalFolder
from numscope.dumps.places import Identity
from numscope.dumps.settling import Numbering, settle
from numscope.dumps.sidecars import Sidecars
from numscope.errors import DumpError, NothingToDo, UsageError
from tests.torch_files import Tensor, TorchFile, dictionary

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


def test_all_tensors_of_a_step_have_its_tokens(tmp_path: Path) -> None:
    _save(tmp_path, "a.safetensors", "layers.0.fc.input", step="3")
    _save(tmp_path, "b.safetensors", "layers.1.fc.input", step="3", tokens="5")
    _save(tmp_path, "c.safetensors", "layers.2.fc.input", step="4")
    _save(tmp_path, "d.safetensors", "layers.3.fc.input")
    scan = dumps.scan(tmp_path)
    assert [(ref.step, ref.tokens) for ref in scan] == [(3, 5), (3, 5), (4, None), (None, None)]
    assert not scan.problems


def test_of_two_token_counts_of_a_step_the_first_is_taken_with_a_remark(tmp_path: Path) -> None:
    for layer, (name, step, tokens) in enumerate(
        [("a", 3, 5), ("b", 3, 6), ("c", 3, 6), ("d", 4, 7), ("e", 4, 8)]
    ):
        key = f"layers.{layer}.fc.input"
        _save(tmp_path, f"{name}.safetensors", key, step=str(step), tokens=str(tokens))
    scan = dumps.scan(tmp_path)
    assert [ref.tokens for ref in scan] == [5, 5, 5, 7, 7]
    (problem,) = scan.problems
    assert (problem.where, problem.failure) == ("b.safetensors", False)
    assert problem.message == (
        "says that step 3 is at 6 tokens, and a.safetensors that it is at 5, which is taken, "
        "and so at 1 more step"
    )


def test_tensors_that_tables_call_the_same_are_named(tmp_path: Path) -> None:
    layers = {"layers.0.fc/input": Tensor(X).opcodes(), 0: Tensor(X).opcodes()}
    layers |= {"layers.0.fc": dictionary({"input": Tensor(X).opcodes()}), "0": Tensor(X).opcodes()}
    content = TorchFile(dictionary(layers), {"0": X.tobytes()}).zip_bytes()
    (tmp_path / "x.pt").write_bytes(content)
    scan = dumps.scan(tmp_path)
    assert [ref.key for ref in (*scan, *scan.left_out)] == [
        ("layers.0.fc/input",),
        (0,),
        ("layers.0.fc", "input"),
        ("0",),
    ]
    remarks = [problem for problem in scan.problems if not problem.failure]
    assert [(problem.where, problem.message) for problem in remarks] == [
        (
            "x.pt:layers.0.fc/input",
            "tables call 2 tensors of this file the same (and 1 more name like it)",
        )
    ]


def test_two_tensors_of_one_name_and_one_identity_are_still_two() -> None:
    keys = [("a", "x"), ("a/x",)]
    refs = [dumps.TensorRef("", "x.pt", key, (2,), "float32", "activation") for key in keys]
    settled = settle([(ref, Identity()) for ref in refs], Numbering())
    assert [ref.key for ref in settled.refs] == [("a", "x")]
    assert [ref.key for ref in settled.left_out] == [("a/x",)]
    assert [problem.failure for problem in settled.problems] == [True]


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
    (tmp_path / "latest").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "x.safetensors.index.json")
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
        "x.safetensors.index.json",
    }
    remarks = {item.where: item.message for item in scan.problems if not item.failure}
    assert remarks == {
        "latest": "cannot be opened: No such file or directory",
        "pipe": "is a pipe or a device, not a file",
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


@pytest.mark.parametrize(
    ("step", "key", "facts"),
    [
        (3, "layers.0.fc.input", "step 3, layer 0, layers.0.fc activation"),
        (None, "layers.0.fc.input", "no step is named, layer 0, layers.0.fc activation"),
        (None, "lm_head.input", "no step is named, lm_head activation"),
    ],
)
def test_of_a_tensor_that_is_there_twice_only_what_is_known_is_said(
    step: int | None, key: str, facts: str, tmp_path: Path
) -> None:
    known = {} if step is None else {"step": str(step)}
    for name in ("a", "b"):
        _save(tmp_path, f"{name}.safetensors", key, **known)
    (problem,) = dumps.scan(tmp_path).problems
    assert problem.message.startswith(f"is the same tensor as a.safetensors:{key} ({facts}); left")


def test_remarks_that_count_are_put_together(tmp_path: Path) -> None:
    for step in range(3):
        np.save(tmp_path / f"step_{step}.ids.npy", np.arange(4))
    (problem,) = dumps.scan(tmp_path).problems
    assert not problem.failure
    assert problem.message == "tensors of no float type passed over: 3, in this and 2 more files"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingToDo, match="nowhere does not exist; a dump folder"):
        dumps.scan(tmp_path / "nowhere")


def test_an_empty_path_is_not_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NothingToDo, match=r"^'' does not exist; a dump folder"):
        walking.walk("")


def test_layers_that_an_offset_puts_below_0_are_named(tmp_path: Path) -> None:
    _save(tmp_path, "step_1.safetensors", *(f"layers.{layer}.fc.input" for layer in (0, 4, 7)))
    scan = dumps.scan(tmp_path, layer_offset=-5)
    assert [ref.layer for ref in scan] == [None, None, 2]
    (problem,) = scan.problems
    assert not problem.failure
    assert problem.message == (
        "--layer-offset puts below 0 what the dump calls layer 0, 4; it is in no chart"
    )
    assert not dumps.scan(tmp_path, layer_offset=-0).problems
    assert not dumps.scan(tmp_path, layer_offset=5).problems


def test_layers_per_stage_without_stages_is_remarked_upon(tmp_path: Path) -> None:
    _save(tmp_path, "step_1.safetensors", "layers.0.fc.input")
    (problem,) = dumps.scan(tmp_path, layers_per_stage=4).problems
    assert not problem.failure
    assert problem.message == (
        "--layers-per-stage changes nothing: no file or tensor names a pipeline stage"
    )


def test_an_offset_for_a_layout_that_is_not_in_the_dump_is_remarked_upon(tmp_path: Path) -> None:
    _save(tmp_path, "step_1.safetensors", "layers.0.fc.input")
    scan = dumps.scan(tmp_path, layer_offset={"megatron": -1, "generic": 3})
    assert [ref.layer for ref in scan] == [3]
    (problem,) = scan.problems
    assert not problem.failure
    assert problem.message == (
        "--layer-offset megatron=… changes nothing: no tensor is of that layout, but of generic"
    )


def test_an_offset_for_a_layout_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no layout 'nosuch'; known are numscope, msprobe, .*gene"
    ):
        dumps.scan(tmp_path, layer_offset={"nosuch": 3})
    with pytest.raises(UsageError, match="no layout 'generic'; known are pattern, numscope"):
        dumps.scan(tmp_path, layer_offset={"generic": 3}, pattern="{step}/{layer}_{kind}.npy")


def test_steps_that_the_table_of_tokens_leaves_out_are_named(tmp_path: Path) -> None:
    for step in range(3):
        _save(tmp_path, f"step_{step}.safetensors", "layers.0.fc.input")
    (problem,) = dumps.scan(tmp_path, tokens_map={1: 512}).problems
    assert not problem.failure
    assert problem.message == "the table of tokens has no line for 2 of the steps found: 0, 2"


def test_steps_that_have_tokens_of_the_dump_beside_a_table_are_named(tmp_path: Path) -> None:
    for step in range(3):
        _save(tmp_path, f"step_{step}.safetensors", "layers.0.fc.input", tokens=f"{step}")
    scan = dumps.scan(tmp_path, tokens_map={1: 512})
    (problem,) = scan.problems
    assert [ref.tokens for ref in scan.refs] == [0, 512, 2]
    assert (problem.where, problem.failure) == ("step_0.safetensors", False)
    assert problem.message == (
        "the table of tokens has no line for 2 of the steps found: 0, 2; taken is what the dump"
        " itself says of them"
    )
    assert dumps.scan(tmp_path, tokens_map={1: 512}, tokens_per_step=8).problems == ()


def test_names_with_line_breaks_are_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb.npy").write_bytes(b"")
    for folder in ("c\nd", "e\nf"):
        _save(tmp_path, f"{folder}/step_1.safetensors", "layers.0.fc.input")
    scan = dumps.scan(tmp_path)
    assert len(scan.problems) == 2
    assert not any("\n" in problem.where + problem.message for problem in scan.problems)


def test_one_bad_file_never_ends_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Contents:
        raise kind("what no reader thought of")

    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, X)
    for kind in (ValueError, OverflowError, RecursionError, MemoryError):
        broken = replace(files.FILE_FORMATS[1], read_contents=fail)
        monkeypatch.setattr(files, "FILE_FORMATS", (broken,))
        message = f"is damaged in an unknown way ({kind.__name__})"
        assert _failures(dumps.scan(tmp_path)) == [("a.npy", message), ("b.npy", message)]
        monkeypatch.undo()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", t=np.zeros((100, 100), np.float32))
    packed = gzip.compress((tmp_path / "a.npz").read_bytes())
    (tmp_path / "b.npz.gz").write_bytes(packed)
    (tmp_path / "c.npz.gz").write_bytes(packed[:-9])
    (tmp_path / "d.npz").write_bytes(b"PK")
    (tmp_path / "x.safetensors.index.json").write_text("{}")

    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    def look() -> None:
        refs = dumps.scan(tmp_path).refs
        assert len(refs) == 2
        for ref in refs:
            dumps.load(ref)

    look()
    before = descriptors()
    for _ in range(3):
        look()
    assert descriptors() == before


def test_sidecars_are_kept_by_pattern(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text('{"a": 1}')
    sidecars = Sidecars(LocalFolder(tmp_path))
    for _ in range(2):
        assert sidecars.read((), 0, "dump.json", re.compile(b"never")) == {}
        assert sidecars.read((), 0, "dump.json", re.compile(b'"a"')) == {"a": 1}
        assert sidecars.read((), 0, "dump.json", None) == {"a": 1}


def test_sidecars_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dump.json").write_text('{"a": 1}')
    sidecars, opened = Sidecars(LocalFolder(tmp_path)), list[Path]()
    original = sources.open_source

    def open_source(path: Path) -> sources.FileSource:
        opened.append(path)
        return original(path)

    monkeypatch.setattr(folders, "open_source", open_source)
    for _ in range(3):
        assert sidecars.read((), 0, "dump.json", None) == {"a": 1}
    assert len(opened) == 1


def test_a_link_to_a_file_of_the_dump_is_not_another_file(tmp_path: Path) -> None:
    _save(tmp_path, "step_20.safetensors", "layers.0.fc.input")
    (tmp_path / "latest.safetensors").symlink_to(tmp_path / "step_20.safetensors")
    scan = dumps.scan(tmp_path)
    assert [ref.path for ref in scan] == ["step_20.safetensors"]
    assert scan.problems == ()


def test_a_link_to_a_file_outside_is_read(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    _save(tmp_path, "step_20.safetensors", "layers.0.fc.input")
    (tmp_path / "dump" / "step_1.safetensors").symlink_to(tmp_path / "step_20.safetensors")
    assert [(ref.path, ref.step) for ref in dumps.scan(tmp_path / "dump")] == [
        ("step_1.safetensors", 1)
    ]


def test_a_link_whose_target_may_not_be_looked_at_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        name = "locked.npy"

        def is_dir(self) -> bool:
            raise PermissionError(13, "Permission denied")

        def is_symlink(self) -> bool:
            return True

    monkeypatch.setattr(walking, "_entries", lambda _folder, _seen: [Entry()])
    _, paths, problems = walking.walk(tmp_path)
    assert (paths, problems) == (["locked.npy"], [])


def test_progress_reaches_the_number_of_files(tmp_path: Path) -> None:
    for step in range(3):
        _save(tmp_path, f"step_{step}.safetensors", "layers.0.fc.input")
    seen: list[tuple[int, int]] = []
    dumps.scan(tmp_path, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)
