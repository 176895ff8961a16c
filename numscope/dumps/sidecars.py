"""JSON files that tools write beside their tensors: read when a layout asks, and each only once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from numscope.dumps.folders import read_whole
from numscope.errors import DumpError

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from numscope.dumps.folders import Folder

SIZE_LIMIT = 1 << 28
"""The most bytes of a file that are read."""


class Sidecars:
    """The JSON files of a dump folder; the last ones of each name and pattern are kept.

    What cannot be read is taken as empty: tensors must be found without it, as after a crash.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: dict[tuple[str, re.Pattern[bytes] | None], tuple[str, Mapping[str, Any]]] = {}

    def read(
        self, folders: tuple[str, ...], levels: int, name: str, pattern: re.Pattern[bytes] | None
    ) -> Mapping[str, Any]:
        """Give the object in `name`, so many folders above, if a pattern is found in its bytes."""
        path = "/".join((*folders, *([".."] * levels), name))
        kept = self._kept.get((name, pattern))
        if kept is None or kept[0] != path:
            kept = (path, self._read(path, pattern))
            self._kept[name, pattern] = kept
        return kept[1]

    def _read(self, path: str, pattern: re.Pattern[bytes] | None) -> Mapping[str, Any]:
        try:
            text = read_whole(self._folder, path, SIZE_LIMIT)
            content = json.loads(text) if pattern is None or pattern.search(text) else {}
        except (DumpError, ValueError, RecursionError, MemoryError):
            return {}
        return content if isinstance(content, dict) else {}
