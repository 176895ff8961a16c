"""The dump layouts numscope knows: from a place (path, key, metadata) to an identity.

One layout is one entry of `LAYOUTS`, tried in order; the first that gives an identity has the word.
Nothing here opens a file, and nothing outside of `numscope.dumps` looks at names again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place
from numscope.dumps.writers import (
    atorch,
    capture,
    generic,
    hugging_face,
    megatron,
    msprobe,
    patterns,
    sglang,
    transformer_engine,
    transformer_lens,
)

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
        name="numscope",
        description="numscope.capture: step_<N>.safetensors, said in the file's metadata",
        identify=capture.identify,
    ),
    Layout(
        name="msprobe",
        description="Ascend msprobe: step<N>/rank<R>/dump_tensor_data/*.pt",
        identify=msprobe.identify,
    ),
    Layout(
        name="transformer_engine",
        description="Transformer Engine DumpTensors: tensor_dumps/rank_<R>/iter_<N>/*.pt",
        identify=transformer_engine.identify,
    ),
    Layout(
        name="megatron",
        description="Megatron-LM: activations|dgrads|wgrads|params/iter_<N>/mp_rank_*.pth",
        identify=megatron.identify,
    ),
    Layout(
        name="sglang",
        description="sglang and Miles dumper: step=0___rank=0___dump_index=1___name=*.pt",
        identify=sglang.identify,
    ),
    Layout(
        name="sglang_pass",
        description="sglang debug tensor dump: TP<t>_PP<p>_Rank<r>_pid<n>/Pass<N>.pt",
        identify=sglang.identify_pass,
    ),
    Layout(
        name="atorch",
        description="atorch TensorInspector: <module>.fwd_x.step<N>.rank<R>.pt",
        identify=atorch.identify,
    ),
    Layout(
        name="hugging_face",
        description="Hugging Face debugger: <Class>.<module>_inputs_args_0.safetensors",
        identify=hugging_face.identify,
    ),
    Layout(
        name="transformer_lens",
        description="TransformerLens cache: blocks.<L>.hook_resid_pre and the like as keys",
        identify=transformer_lens.identify,
    ),
    Layout(
        name="generic",
        description="hand-written hooks: layers.4.mlp.fc1.activation as a key or a file",
        identify=generic.identify,
    ),
)
"""In the order in which they are tried: the most particular names first."""


def layouts_with(pattern: str | None) -> tuple[Layout, ...]:
    """Give all layouts, with a pattern of the user's instead of the generic rule.

    Raises
    ------
    UsageError
        If the pattern cannot be meant.
    """
    if pattern is None:
        return LAYOUTS
    own = Layout("pattern", f"as given: {pattern}", patterns.identifier(pattern))
    return (own, *(layout for layout in LAYOUTS if layout.name != "generic"))


def identify(place: Place, layouts: tuple[Layout, ...] = LAYOUTS) -> tuple[str, Identity]:
    """Find the name of the layout that a place belongs to, and what the tensor there is."""
    for layout in layouts:
        identity = layout.identify(place)
        if identity is not None:
            return layout.name, identity
    return "none", Identity()
