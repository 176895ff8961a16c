"""The dump layouts numscope knows: from a place (path, key, metadata) to an identity.

One layout is one entry of `LAYOUTS`, tried in order; the first that gives an identity has the word.
Nothing here opens a file, and nothing outside of `numscope.dumps` looks at names again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope.dumps import generic
from numscope.dumps.places import Identity, Place

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to name tensors.

    Attributes
    ----------
    name
        One word, as `TensorRef.layout` carries it.
    description
        One line: who writes it and how it looks.
    identify
        From a place to what the tensor is; `None` if the place is not of this layout.
    """

    name: str
    description: str
    identify: Callable[[Place], Identity | None]


LAYOUTS: tuple[Layout, ...] = (
    Layout(
        name="generic",
        description="hand-written hooks: layers.4.mlp.fc1.activation as a key or a file",
        identify=generic.identify,
    ),
)


def identify(place: Place, layouts: tuple[Layout, ...] = LAYOUTS) -> tuple[Layout, Identity]:
    """Find the layout that a place belongs to, and what the tensor there is."""
    for layout in layouts:
        identity = layout.identify(place)
        if identity is not None:
            return layout, identity
    return layouts[-1], Identity()
