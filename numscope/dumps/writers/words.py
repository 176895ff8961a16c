"""The words that people call tensors by, and which kind each of them means.

A word beside another one is read in its light: an input among gradients is an input gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_INPUTS = (
    "input inputs inp in x hidden_states hidden_state act_in acts_in input_act input_activation "
    "input_activations fwd_in fwd_input forward_input fwd_x"
)
_OUTPUTS = (
    "output outputs out y act_out output_act output_activation output_activations fwd_out "
    "fwd_output forward_output fwd_y"
)
_WORDS: dict[Kind, str] = {
    "activation": f"activation activations act acts {_INPUTS}",
    "output": _OUTPUTS,
    "gradient": "gradient gradients grad grads grad_output grad_outputs grad_out gradoutput grad_y "
    "output_gradient output_gradients output_grad output_grads out_grad d_output d_out dout dy "
    "bwd_dy",
    "input_gradient": "input_gradient input_gradients input_grad input_grads in_grad grad_input "
    "grad_inputs grad_in gradinput grad_x dgrad dgrads d_input d_in dx bwd_dx",
    "weight": "weight weights param params w fwd_w",
    "weight_gradient": "weight_gradient weight_gradients weight_grad weight_grads wgrad wgrads "
    "grad_weight grad_weights grad_w main_grad param_grad dw bwd_dw",
}

KIND_OF_WORD: dict[str, Kind] = {
    word: kind for kind, words in _WORDS.items() for word in words.split()
}
BIAS = "bias"

FOLDER_WORDS: dict[str, Kind] = {
    word: kind
    for word, kind in KIND_OF_WORD.items()
    if len(word) > 2 and word not in ("out", "output", "outputs")
}
"""Folders called `x` or `outputs` say nothing about what is in them."""

LEADING_WORDS = tuple(
    word for word in KIND_OF_WORD if "grad" in word or word in ("activation", "activations")
)
"""Words that also stand before a module's name: `grad_output_layers.4`; not those of modules."""

_MODULE_LIKE = {"input", "inputs", "in", "output", "outputs", "out", "act", "acts", "x", "y", "w"}

_BESIDE: dict[tuple[str, Kind], Kind] = {
    **{(word, "gradient"): "gradient" for word in _WORDS["activation"].split()},
    **{(word, "gradient"): "input_gradient" for word in _INPUTS.split()},
    **{(word, "gradient"): "gradient" for word in _OUTPUTS.split()},
    **{(word, "gradient"): "weight_gradient" for word in (*_WORDS["weight"].split(), BIAS)},
    **{(word, "weight_gradient"): "weight_gradient" for word in (*_WORDS["weight"].split(), BIAS)},
    **{(word, "activation"): "output" for word in _OUTPUTS.split()},
    (BIAS, "weight"): "weight",
}


def kind_beside(word: str, said: Kind | None) -> Kind | None:
    """Say what a tensor is that is called `word` where its surroundings say a kind.

    Parameters
    ----------
    word
        In lower case, of `KIND_OF_WORD` or `BIAS`.
    said
        What folders, keys and other words say, `None` if nothing.
    """
    if said is None:
        return "weight" if word == BIAS else KIND_OF_WORD[word]
    return _BESIDE.get((word, said), said if word in _MODULE_LIKE else KIND_OF_WORD.get(word, said))


def may_be_module(word: str) -> bool:
    """Whether modules are called so, too: `layers.4.output` among gradients may be one of them."""
    return word in _MODULE_LIKE
