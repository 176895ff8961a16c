"""What the folders of recipes are called: by their names, and each its own.

Nothing here makes a folder or knows what is kept in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count


def folder_names(recipes: Iterable[str]) -> dict[str, str]:
    """A folder's name for each recipe; those that would share one are numbered from the second on.

    Names that differ in case alone are one where folders do not tell them apart. The order of the
    recipes does not matter.

    >>> folder_names(["ling_1x64", "ling:1x64", "ling"])
    {'ling': 'ling', 'ling:1x64': 'ling_1x64', 'ling_1x64': 'ling_1x64_2'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in sorted(set(recipes)):
        name = folder_name(label)
        numbered = (name if n == 1 else f"{name}_{n}" for n in count(1))
        names[label] = next(each for each in numbered if each.casefold() not in taken)
        taken.add(names[label].casefold())
    return names


def folder_name(label: str) -> str:
    """A name in the tables as that of a folder: `ling:1x*` is `ling_1xall`."""
    return re.sub(r"[^\w.^+=-]", "_", label.replace("*", "all"))
