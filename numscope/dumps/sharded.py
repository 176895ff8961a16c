"""Index files that say in which of several safetensors files each tensor is.

The shards are read as files of their own; an index only tells what is missing.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from numscope import amounts
from numscope.dumps.files import open_file
from numscope.dumps.folders import Folder, read_whole
from numscope.dumps.refs import Problem
from numscope.errors import DumpError

INDEX_SUFFIX = ".safetensors.index.json"
INDEX_LIMIT = 100_000_000
"""The most bytes of an index that are read."""


def check_index(root: Folder, path: str) -> list[Problem]:
    """Compare an index with the shards beside it.

    Parameters
    ----------
    root, path
        The dump folder and the index file in it.

    Returns
    -------
    list of Problem
        One for each shard that is missing or named outside the folder, and for each tensor that is
        not in its shard. A shard that cannot be read is not mentioned: it is reported as a file.

    Raises
    ------
    DumpError
        If the index cannot be read.
    """
    shards = _tensors_by_shard(read_whole(root, path, INDEX_LIMIT))
    problems = []
    folder = PurePosixPath(path).parent
    for shard, names in sorted(shards.items()):
        if PurePosixPath(shard).is_absolute() or ".." in PurePosixPath(shard).parts:
            problems.append(
                Problem(path, f"names the shard {shard!r}, which is outside its folder")
            )
        elif root.stamp(str(folder / shard)) is None:
            tensors = amounts.counted(len(names), "tensor")
            problems.append(
                Problem(path, f"names the shard {shard!r}, which is missing, with {tensors}")
            )
        else:
            problems.extend(_absent_tensors(root, path, str(folder / shard), names))
    return problems


def _absent_tensors(root: Folder, path: str, shard: str, names: list[str]) -> list[Problem]:
    """Find the tensors that an index announces and a readable shard does not have."""
    try:
        with open_file(root, shard) as dump:
            known = dump.names
    except DumpError:
        return []
    return [
        Problem(path, f"says that {name!r} is in {shard!r}, where it is not")
        for name in names
        if (name,) not in known
    ]


def _tensors_by_shard(text: bytes) -> dict[str, list[str]]:
    """List the names of the tensors of each shard.

    Raises
    ------
    DumpError
        If it is no index.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise DumpError("is no JSON") from error
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict):
        raise DumpError("has no weight_map")
    shards: dict[str, list[str]] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            raise DumpError(f"names no shard for {name!r}")
        shards.setdefault(shard, []).append(name)
    return shards
