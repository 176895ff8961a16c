"""What the pickles of `torch.save` call, and the plain values that stand for tensors and storages.

Nothing here reads a file: a tensor is described, and whether its storage is really there is checked
by the container. Sizes are Python integers throughout, so that nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numscope.dumps import bounds
from numscope.dumps.pickled_arrays import ARRAY_BUILDERS
from numscope.dumps.pickled_values import Broken, Builder, Global, Unknown


@dataclass(frozen=True, slots=True)
class TorchType:
    """A dtype: bytes of an element, the floating-point type it is (or `None`), bits if packed."""

    itemsize: int
    name: str | None = None
    packed_bits: int = 0


_SMALL_INTEGERS = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)),
    *("bits8", "bits1x8", "bits2x4", "bits4x2", "quint4x2", "quint2x4"),
)

_TYPES: dict[str, tuple[str, TorchType]] = {
    "float64": ("Double", TorchType(8, "float64")),
    "float32": ("Float", TorchType(4, "float32")),
    "float16": ("Half", TorchType(2, "float16")),
    "bfloat16": ("BFloat16", TorchType(2, "bfloat16")),
    "float8_e4m3fn": ("", TorchType(1, "float8_e4m3fn")),
    "float8_e5m2": ("", TorchType(1, "float8_e5m2")),
    "float8_e4m3fnuz": ("", TorchType(1, "float8_e4m3fnuz")),
    "float8_e5m2fnuz": ("", TorchType(1, "float8_e5m2fnuz")),
    "float8_e8m0fnu": ("", TorchType(1, "float8_e8m0fnu")),
    "float4_e2m1fn_x2": ("", TorchType(1, "float4_e2m1fn", packed_bits=4)),
    "complex32": ("ComplexHalf", TorchType(4)),
    "complex64": ("ComplexFloat", TorchType(8)),
    "complex128": ("ComplexDouble", TorchType(16)),
    "int64": ("Long", TorchType(8)),
    "int32": ("Int", TorchType(4)),
    "int16": ("Short", TorchType(2)),
    "int8": ("Char", TorchType(1)),
    "uint8": ("Byte", TorchType(1)),
    "uint16": ("", TorchType(2)),
    "uint32": ("", TorchType(4)),
    "uint64": ("", TorchType(8)),
    "bool": ("Bool", TorchType(1)),
    "qint8": ("QInt8", TorchType(1)),
    "quint8": ("QUInt8", TorchType(1)),
    "qint32": ("QInt32", TorchType(4)),
    **{name: ("", TorchType(1)) for name in _SMALL_INTEGERS},
}
"""By the dtype's name in torch: what its storage class begins with, if any, and what it is."""

_DTYPES = {Global("torch", name): kind for name, (_, kind) in _TYPES.items()}
_STORAGES = {
    Global("torch", f"{prefix}Storage"): kind for prefix, kind in _TYPES.values() if prefix
} | dict.fromkeys(
    (Global("torch.storage", "UntypedStorage"), Global("torch", "UntypedStorage")), TorchType(1)
)


@dataclass(frozen=True, slots=True)
class Storage:
    """The bytes behind one or several tensors: `count` elements of `kind`, found by `key`."""

    key: str
    kind: TorchType
    count: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A view of a storage; offset and stride in elements of `kind`."""

    storage: Storage
    kind: TorchType
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def load_storage(identifier: Any) -> Storage | Broken | Unknown:
    """Say what a persistent id stands for.

    Parameters
    ----------
    identifier
        `("storage", class, key, location, count)` and in the old format a view. The location, such
        as `cuda:3`, does not matter here.
    """
    if not isinstance(identifier, tuple) or not 5 <= len(identifier) <= 6:
        return Unknown()
    word, kind, key, _, count, *view = identifier
    if word != "storage" or not isinstance(kind, Global):
        return Unknown()
    if kind not in _STORAGES:
        return Broken(f"is in a storage of the unknown class {bounds.shown(kind.name)}")
    is_known = is_storage_key(key) and bounds.is_size(count)
    if not is_known or any(part is not None for part in view):
        return Broken("is in a storage that is not described as it should be")
    return Storage(str(key), _STORAGES[kind], count)


def is_storage_key(key: Any) -> bool:
    """Whether a storage may be called so: by a short text or a number."""
    return isinstance(key, (str, int)) and bounds.is_key_part(key)


def _tensor(view: tuple[Any, ...], kind: TorchType, metadata: Any) -> Tensor | Broken | Unknown:
    """Describe a view (storage, offset, size, stride); its bounds are checked with its file."""
    storage, offset, size, stride = view
    if not isinstance(storage, Storage):
        return storage if isinstance(storage, Broken) else Unknown()
    if not isinstance(size, tuple) or not isinstance(stride, tuple):
        return Broken("has sizes or strides that are no tuple")
    if max(len(size), len(stride)) > bounds.DIMENSION_LIMIT:
        return Broken(f"has more than {bounds.DIMENSION_LIMIT} dimensions")
    if not (bounds.is_size(offset) and bounds.are_sizes(size) and bounds.are_sizes(stride)):
        return Broken("has sizes, strides or an offset that are no whole numbers from 0 on")
    if isinstance(metadata, dict) and metadata.get("neg"):
        return Broken("is a lazily negated view, whose values are not those in the file")
    return Tensor(storage, kind, offset, size, stride)


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """Describe a tensor of its storage's type; behind the view: requires_grad, hooks, metadata."""
    kind = storage.kind if isinstance(storage, Storage) else TorchType(1)
    return _tensor((storage, offset, size, stride), kind, (*rest, None, None, None)[2])


def _rebuild_tensor_v3(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """Describe a tensor of its own type; behind the view: requires_grad, hooks, dtype, metadata."""
    _, _, dtype, *metadata = rest
    if not isinstance(dtype, Global) or dtype not in _DTYPES:
        return Broken("has an unknown dtype")
    return _tensor((storage, offset, size, stride), _DTYPES[dtype], (*metadata, None)[0])


def _rebuild_npu_tensor(*arguments: Any) -> Any:
    """Do the same for Ascend, which adds the memory format that a tensor had on the device."""
    return _rebuild_tensor(*arguments[:6])


def _rebuild_parameter(data: Any, *_: Any) -> Any:
    return data


def _rebuild_from_type(function: Any, _type: Any, arguments: Any, _state: Any = None) -> Any:
    """Take tensor subclasses and tensors with attributes for what their own call stands for."""
    builder = _REBUILDERS.get(function) if isinstance(function, Global) else None
    if builder is None or not isinstance(arguments, tuple):
        return Unknown(_type if isinstance(_type, Global) else None)
    return builder(*arguments[:_MOST_ARGUMENTS])


def _empty_dict(*_: Any) -> dict[Any, Any]:
    """Make an OrderedDict or defaultdict, whose items follow one by one."""
    return {}


def _same_list(values: Any = None) -> list[Any]:
    """Leave a set the list that it is made from."""
    return values if isinstance(values, list) else []


def _same_tuple(values: Any = ()) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else ()


_MOST_ARGUMENTS = 16  # above what any of these takes: what is behind them is not copied

_REBUILDERS: dict[Global, Builder] = {
    Global("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    Global("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    Global("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
    Global("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    Global("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    Global("torch_npu.utils.storage", "_rebuild_npu_tensor"): _rebuild_npu_tensor,
}

BUILDERS: dict[Global, Builder] = {
    **_REBUILDERS,
    **ARRAY_BUILDERS,
    Global("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    Global("torch._tensor", "_rebuild_from_type"): _rebuild_from_type,
    Global("torch.tensor", "_rebuild_from_type"): _rebuild_from_type,
    Global("torch", "Size"): _same_tuple,
    Global("collections", "OrderedDict"): _empty_dict,
    Global("collections", "defaultdict"): _empty_dict,
    Global("builtins", "dict"): _empty_dict,
    Global("__builtin__", "dict"): _empty_dict,
    Global("builtins", "set"): _same_list,
    Global("__builtin__", "set"): _same_list,
    Global("builtins", "frozenset"): _same_list,
    Global("__builtin__", "frozenset"): _same_list,
}
"""Everything that a pickle can call. Each is a pure function of plain values."""
