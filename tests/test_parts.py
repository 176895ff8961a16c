"""A part is believed only if it is whole and was made from this very file in this very way."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numscope import parts
from numscope.dumps import Problem
from numscope.dumps.sources import Stamp
from numscope.errors import ResultsError
from numscope.parts import Origin, Part, part_name
from numscope.plans import FileWork, Planned
from numscope.written import parse
from tests.examples import ref, row

ORIGIN = Origin("rank0/step_1.npy", 4096, 1_700_000_000_123_456_789, "f00d", 4000)
PART = Part((row(), row(step=120, module="a,b\r\n\x85'\"")))


def _work(**changes: Any) -> FileWork:
    recipes = (Planned("ling", parse("ling")), Planned("ling", parse("ling:128x1")))
    work = FileWork("dumps", ORIGIN.path, ((ref(), recipes),), stamp=Stamp(4096, 7))
    return replace(work, **changes)


def test_a_part_reads_back_as_it_was_written(tmp_path: Path) -> None:
    parts.write_part(tmp_path, ORIGIN, PART)
    assert parts.read_part(tmp_path, ORIGIN) == PART
    assert parts.is_finished(tmp_path, ORIGIN)


def test_a_part_with_problems_is_kept_but_not_finished(tmp_path: Path) -> None:
    part = replace(PART, problems=(Problem("a.npy:x", "is cut short"),))
    parts.write_part(tmp_path, ORIGIN, part)
    assert parts.read_part(tmp_path, ORIGIN) == part
    assert not parts.is_finished(tmp_path, ORIGIN)


def test_a_part_says_of_which_dump_file_it_is(tmp_path: Path) -> None:
    parts.write_part(tmp_path, ORIGIN, PART)
    (part,) = parts.kept(tmp_path)
    assert parts.dump_file(part) == ORIGIN.path
    for content in (b"", b"# 0 {", b"# 0 []\n", b"\xff\n", b"# 0 {}\n"):
        part.write_bytes(content)
        assert parts.dump_file(part) is None
    part.unlink()
    assert parts.dump_file(part) is None


def test_no_part_is_none(tmp_path: Path) -> None:
    assert parts.read_part(tmp_path, ORIGIN) is None
    assert not parts.is_finished(tmp_path / "missing", ORIGIN)


def test_a_part_that_must_not_be_read_is_not_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.write_part(tmp_path, ORIGIN, PART)

    def refuse(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ResultsError) as caught:
        parts.read_part(tmp_path, ORIGIN)
    path = tmp_path / part_name(ORIGIN.path)
    assert str(caught.value) == f"{path} cannot be read: Permission denied"
    assert not parts.is_finished(tmp_path, ORIGIN)


@pytest.mark.parametrize(
    "change",
    [
        {"path": "rank1/step_1.npy"},
        {"size": 4097},
        {"mtime_ns": ORIGIN.mtime_ns + 1},
        {"work": "beef"},
        {"numscope": "0.0.9"},
    ],
    ids=str,
)
def test_a_part_of_something_else_is_none(change: dict[str, Any], tmp_path: Path) -> None:
    parts.write_part(tmp_path, ORIGIN, PART)
    other = replace(ORIGIN, **change)
    (tmp_path / part_name(ORIGIN.path)).replace(tmp_path / part_name(other.path))
    assert parts.read_part(tmp_path, other) is None
    assert not parts.is_finished(tmp_path, other)


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    parts.write_part(tmp_path, ORIGIN, Part((row(),)))
    path = tmp_path / part_name(ORIGIN.path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert parts.read_part(tmp_path, ORIGIN) is None, at


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_part_that_was_cut_is_none(share: float, tmp_path: Path) -> None:
    parts.write_part(tmp_path, ORIGIN, PART)
    path = tmp_path / part_name(ORIGIN.path)
    os.truncate(path, int(share * path.stat().st_size))
    assert parts.read_part(tmp_path, ORIGIN) is None


def test_where_the_dump_is_mounted_makes_no_other_part() -> None:
    recipes = _work().tensors[0][1]
    elsewhere = _work(root="/mnt", tensors=((ref(root="/mnt"), recipes),))
    assert parts.origins([elsewhere]) == parts.origins([_work()])


@pytest.mark.parametrize(
    "change",
    [
        {"tensors": ((ref(), (Planned("ling", parse("ling")),)),)},
        {"tensors": ((ref(), (Planned("other", parse("ling")),) * 2),)},
        {"tensors": ((ref(layer=5), _work().tensors[0][1]),)},
        {"tensors": ((ref(tokens=1), _work().tensors[0][1]),)},
        {"tensors": ((ref(key=("a", "b")), _work().tensors[0][1]),)},
        {"tensors": ((ref(), (Planned("ling", parse("e5m2:1x128")), _work().tensors[0][1][1])),)},
        {"npy_dtype": "bfloat16"},
        {"stamp": Stamp(4096, 8)},
    ],
)
def test_all_that_changes_a_row_makes_another_part(change: dict[str, Any]) -> None:
    assert parts.origins([_work(**change)]) != parts.origins([_work()])


def test_parts_have_names_of_their_own_of_bounded_length() -> None:
    paths = ["a.npy", "a/b.npy", "a_b.npy", "A.npy", "x" * 4000, os.fsdecode(b"\xff.npy")]
    names = {part_name(path) for path in paths}
    assert len(names) == len(paths)
    assert {len(name) for name in names} == {28}


def test_a_file_whose_name_is_no_text_has_a_part(tmp_path: Path) -> None:
    origin = replace(ORIGIN, path=os.fsdecode(b"\xff.npy"))
    parts.write_part(tmp_path, origin, Part((row(),)))
    assert parts.is_finished(tmp_path, origin)
