"""What a module's name says: its layer, its expert, and whether it multiplies matrices.

Only what goes into or comes out of a matrix multiplication is quantized by the kernels that
numscope simulates. Dumps of every module also hold what enters norms, whole blocks and the like;
that is listed, but its kind is left open.
"""

from __future__ import annotations

import re

LAYER = re.compile(
    r"(?:^|(?<=[._/\-]))(?:(?i:layers?|blocks?|resblocks?|blk)[._\-]?|(?i:h|encoder|decoder)[._]|L)"
    r"(\d{1,9})(?![\da-zA-Z])",
)
_EXPERT = re.compile(r"(?:^|[._])experts?[._](\d{1,9})(?=[._]|$)", re.IGNORECASE)
_OTHER_STACK = re.compile(r"(?:^|\.)mtp\.", re.IGNORECASE)

_LINEAR = re.compile(
    r"linear.*|.*_linear|lin_?\w?|.*_lin|.*proj|proj_.*|.*proj_\d|fc\d*|fc_.*|.*_fc\d*|c_(?:fc|attn|proj|q|k|v)|"
    r"w?qkv(?:_.*)?|w[qkvo123]|q|k|v|o|to_[qkv]|to_out|query|key|value|query_key_value|"
    r"dense(?:_.*)?|dense|wi(?:_\d)?|wo|up|down|gate_up|kv_[ab]|q_[ab]|kv_[ab]_proj.*|out|"
    r"lm_head|output_layer|head",
    re.IGNORECASE,
)
_NO_MULTIPLICATION = re.compile(
    r".*norm.*|ln_?\w{0,2}|.*embed.*|wte|wpe|.*rotary.*|.*dropout.*|.*softmax.*|.*act(?:ivation)?_?fn|"
    r"act|gelu|silu|relu|swiglu|core_attention|.*router.*|.*gate|"
    r"\d+|.*mlp|.*attn|.*attention|self|feed_forward|ffn|.*moe.*|experts|block|layer|model|transformer|"
    r"encoder|decoder",
    re.IGNORECASE,
)


def layer_of(name: str) -> int | None:
    """Find the layer in a module's name; layers of a separate stack, such as mtp, have none."""
    match = LAYER.search(name)
    return int(match[1]) if match and not _OTHER_STACK.search(name) else None


def expert_of(name: str) -> int | None:
    """Find the expert in a module's name."""
    match = _EXPERT.search(name)
    return int(match[1]) if match else None


def is_linear(module: str) -> bool:
    """Whether the last part of a name is one that matrix multiplications go by."""
    return _LINEAR.fullmatch(module.rpartition(".")[2]) is not None


def may_be_linear(module: str) -> bool:
    """Whether nothing in the last part of a name says that it multiplies no matrices."""
    return is_linear(module) or _NO_MULTIPLICATION.fullmatch(module.rpartition(".")[2]) is None
