"""Files that lie among dumps and are something else, each named for what it is.

Some are recognised by their names, some by how they begin. Nothing here opens a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from numscope.errors import CutShort, DumpError


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Files by their whole names; `is_by_folder` if a folder of them is reported as one."""

    names: re.Pattern[str]
    message: str
    is_by_folder: bool = False


_CHECKPOINT = "not a dump of activations or gradients"

_FOREIGN = (
    _Foreign(
        re.compile(r".*\.distcp"),
        f"is a distributed checkpoint (DCP), {_CHECKPOINT}",
        is_by_folder=True,
    ),
    _Foreign(
        re.compile(r"model_optim_rng\.pt|distrib_optim\.pt"),
        f"is a training checkpoint of Megatron-LM, {_CHECKPOINT}",
    ),
    _Foreign(
        re.compile(r".*mp_rank_\d+_model_states\.pt|.*_optim_states\.pt"),
        f"is a training checkpoint of DeepSpeed, {_CHECKPOINT}",
    ),
    _Foreign(
        re.compile(r"optimizer\.pt|scheduler\.pt|rng_state(_\d+)?\.pth|training_args\.bin"),
        f"is part of a training checkpoint of Hugging Face transformers, {_CHECKPOINT}",
    ),
)


@dataclass(frozen=True, slots=True)
class _Disguise:
    """Something that is often found under the name of a tensor file, by how it begins."""

    prefixes: tuple[bytes, ...]
    message: str


_DISGUISES = (
    _Disguise(
        (b"version https://git-lfs", b"version https://hawser"),
        "is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
    ),
    _Disguise((b"<!doctype html", b"<html", b"<?xml"), "is a web page; download the file again"),
)


def foreign_by_name(path: str) -> tuple[str, str] | None:
    """Say where and what a file is that is no dump by its name, `None` for any other file."""
    folder, _, name = path.rpartition("/")
    for entry in _FOREIGN:
        if entry.names.fullmatch(name):
            return (folder or "." if entry.is_by_folder else path), entry.message
    return None


def refuse_disguise(head: bytes) -> None:
    """Say what a file is that has the name of a format but not its first bytes.

    Raises
    ------
    CutShort
        If it is empty.
    DumpError
        If it is one of the things that are often found instead.
    """
    if not head:
        raise CutShort("is empty")
    start = head.lstrip().lower()
    for disguise in _DISGUISES:
        if start.startswith(disguise.prefixes):
            raise DumpError(disguise.message)
    if all(32 <= byte < 127 or byte in b"\t\n\r" for byte in head[:64]):
        raise DumpError("is a text file, not a file of tensors")
