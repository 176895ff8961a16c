"""One colour per layer along one scale: yellow (first), green, blue, purple, dark blue (last).

Lightness (CIE L*) falls evenly from 82 to 14, so the order of layers survives grey print and
colour blindness of every kind, and the yellow still stands out from white. Nothing here draws.
"""

from __future__ import annotations

#: Every eighth of the scale, as bytes of sRGB: hue 96 to 282 degrees in CIE LCh, lightness linear.
_ANCHORS = (
    (0xE4, 0xCD, 0x19),
    (0x93, 0xC4, 0x44),
    (0x4C, 0xB1, 0x68),
    (0x04, 0x97, 0x9C),
    (0x04, 0x79, 0xAC),
    (0x1D, 0x5C, 0xAD),
    (0x5A, 0x36, 0x8A),
    (0x25, 0x2F, 0x73),
    (0x00, 0x23, 0x4B),
)


def colours(count: int) -> list[str]:
    """So many colours, evenly along the scale, as `#rrggbb`; one alone is the blue of its middle.

    Evenly by position, not by layer number: layers 0, 1 and 60 shall be told apart too.

    Examples
    --------
    >>> colours(5)
    ['#e4cd19', '#4cb168', '#0479ac', '#5a368a', '#00234b']
    """
    if count == 1:
        return [_colour(0.5)]
    return [_colour(i / (count - 1)) for i in range(count)]


def _colour(position: float) -> str:
    """The colour at a position from 0 to 1, between the two anchors around it."""
    last = len(_ANCHORS) - 1
    i = min(int(position * last), last - 1)
    weight = position * last - i
    mixed = (round(a + weight * (b - a)) for a, b in zip(_ANCHORS[i], _ANCHORS[i + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
