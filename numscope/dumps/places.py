"""Where a tensor is, taken apart for the layouts, and what they make of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numscope.dumps.refs import Key, Kind

_STEP = (
    r"(?<!micro_)(?<!accum_)(?<!ga_)"
    r"(?:global_?step|train_?step|step|iteration|iter|it|checkpoint|ckpt)"
)
_TOKENS = r"tokens"
_RANK = r"(?<![tpec]p_)(?<!mp_)(?:global_?rank|rank|proc_?rank|worker|gpu)"
_MICROBATCH = r"(?:micro_?batch|micro_?step|micro|mb|accum_?step|ga_?step)"


def _numbered(words: str) -> re.Pattern[str]:
    """Match `step_000120`, `step-120`, `step=120` and `step120`, alone or between separators."""
    return re.compile(rf"(?:^|(?<=[._\-])){words}[-_=]?(\d{{1,18}})(?=$|[._\-])", re.IGNORECASE)


NUMBERS = {
    "step": _numbered(_STEP),
    "tokens": _numbered(_TOKENS),
    "rank": _numbered(_RANK),
    "microbatch": _numbered(_MICROBATCH),
}
"""How step, tokens, rank and micro-batch stand in the names of files and folders."""

_METADATA_NAMES = {
    "step": ("step", "global_step", "iteration", "iter"),
    "tokens": ("tokens",),
    "rank": ("rank",),
    "microbatch": ("microbatch", "micro_batch"),
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What a tensor is; the fields are those of `TensorRef`.

    Those that are not of a `TensorRef`:

    Attributes
    ----------
    occurrence
        Where a name may occur again within a step: by what its occurrences are ordered.
    is_accumulated
        Whether it is a sum over the micro-batches so far, so that only the last one is of interest.
    """

    kind: Kind | None = None
    layer: int | None = None
    module: str = ""
    step: int | None = None
    tokens: int | None = None
    rank: int | None = None
    microbatch: int | None = None
    expert: int | None = None
    slot: str = ""
    shard: str = ""
    stage: tuple[int, int] | None = None
    occurrence: int | None = None
    is_accumulated: bool = False


ReadJson = Callable[[int, str, "re.Pattern[bytes] | None"], Mapping[str, Any]]


def _no_json(_levels: int, _name: str, _pattern: re.Pattern[bytes] | None) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is.

    Attributes
    ----------
    context
        The last folders of the dump folder's own path, outermost first: part of the identity if
        only a part of a dump is looked at.
    folders
        The folders below the dump folder, outermost first.
    stem
        The file's name without the suffix of its format.
    file_name
        The file's name with it.
    key
        As in `TensorRef`.
    metadata
        What the file says about itself.
    read_json
        Gives the object in a JSON file so many folders above the file, if a pattern is found in its
        bytes; an empty one if there is none.
    """

    context: tuple[str, ...]
    folders: tuple[str, ...]
    stem: str
    file_name: str
    key: Key
    metadata: Mapping[str, str]
    read_json: ReadJson = _no_json

    @property
    def name(self) -> str:
        """The path below the dump folder, and the key, as `TensorRef.name` has them."""
        path = "/".join((*self.folders, self.file_name))
        return f"{path}:{'/'.join(self.key_names)}" if self.key else path

    @property
    def key_names(self) -> tuple[str, ...]:
        """The parts of the key as text."""
        return tuple(str(part) for part in self.key)

    @property
    def path(self) -> tuple[str, ...]:
        """All folders, outermost first."""
        return (*self.context, *self.folders)


def stated_numbers(place: Place) -> dict[str, Any]:
    """Step, tokens, rank and micro-batch: from the metadata, else from the nearest name.

    Folders above the dump count only if they are called nothing else: `rank3`, not `exp_step_2`.
    """
    names = (*reversed(place.key_names), place.stem, *reversed(place.folders))
    found: dict[str, Any] = {}
    for field, aliases in _METADATA_NAMES.items():
        texts = (place.metadata.get(alias, "") for alias in aliases)
        found[field] = next((int(text) for text in texts if _is_number(text)), None)
        if found[field] is None and field in NUMBERS:
            numbers = (
                *(_number_in(field, name) for name in names),
                *(_number_in(field, name, is_whole=True) for name in reversed(place.context)),
            )
            found[field] = next((number for number in numbers if number is not None), None)
    return found


@lru_cache(maxsize=4096)  # folders and files are asked about for each of their tensors
def _number_in(field: str, name: str, *, is_whole: bool = False) -> int | None:
    match = NUMBERS[field].fullmatch(name) if is_whole else NUMBERS[field].search(name)
    return int(match[1]) if match else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
