"""The reader of pickles builds plain values and does nothing else."""

from __future__ import annotations

import ast
import collections
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from numscope.dumps import pickles
from numscope.dumps.bounds import SIZE_LIMIT, Work
from numscope.dumps.pickled_values import Broken, Global, Unknown
from numscope.dumps.pickles import read_pickle
from numscope.dumps.torch_values import BUILDERS
from numscope.errors import DumpError
from tests.torch_files import colliding_pairs

PLAIN = [
    {"a": 1, "b": [1.5, "text", b"bytes", None, True, False]},
    [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    -(2**80),
    {"\N{SNOWMAN}" * 300: list(range(1000))},
    [0, 255, 65535, -1, 2**31, 1e-300],
    bytearray(b"abc"),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_plain_values_are_what_python_makes_of_them(value: Any, protocol: int) -> None:
    if protocol < 3 and isinstance(value, dict) and "b" in value:
        value = {**value, "b": [item for item in value["b"] if not isinstance(item, bytes)]}
    if protocol < 5 and isinstance(value, bytearray):
        pytest.skip("a call of bytearray before protocol 5")
    assert read_pickle(pickle.dumps(value, protocol), BUILDERS) == value


@pytest.mark.parametrize("protocol", range(2, 6))
def test_the_containers_of_state_dicts(protocol: int) -> None:
    ordered = collections.OrderedDict(a=1, b=2)
    default: dict[str, int] = collections.defaultdict(list, c=3)  # type: ignore[arg-type]
    value = read_pickle(pickle.dumps([ordered, default, {4}], protocol), BUILDERS)
    assert value == [{"a": 1, "b": 2}, {"c": 3}, [4]]


def test_a_value_may_contain_itself() -> None:
    value: list[Any] = [1]
    value.append(value)
    read = read_pickle(pickle.dumps(value), BUILDERS)
    assert read[0] == 1
    assert read[1] is read


class _Trap:
    """What calls `os.system` when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_call_of_anything_is_only_noted(tmp_path: Path, protocol: int) -> None:
    witness = tmp_path / "was_here"
    data = pickle.dumps({"trap": _Trap(f"touch {witness}"), "x": 1}, protocol)
    read = read_pickle(data, BUILDERS)
    assert read["x"] == 1
    assert isinstance(read["trap"], Unknown)
    assert read["trap"].what == Global(os.system.__module__, "system")
    assert not witness.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"(S'touch x'\nios\nsystem\n.",
        b"(cos\nsystem\nS'touch x'\no.",
        b"cos\nsystem\n(S'touch x'\ntR.",
        b"cos\nsystem\n(S'touch x'\nt\x81.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x07touch x\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x07touch x\x85}\x92.",
    ],
)
def test_every_way_to_call_is_only_noted(data: bytes) -> None:
    assert isinstance(read_pickle(data, BUILDERS), Unknown)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged pickle"),
        (b".", "damaged pickle"),
        (b"(.", "damaged pickle"),
        (b"R.", "damaged pickle"),
        (b"t.", "damaged pickle"),
        (b"h\1.", "damaged pickle"),
        (b"\x82\1.", "damaged pickle"),  # an extension code
        (b"\x97.", "damaged pickle"),  # a buffer from outside
        (b"}(I1\nu.", "damaged pickle"),
        (b"B\xff\xff\xff\xffabc.", "damaged pickle"),
        (b"\x8e" + b"\xff" * 8 + b"abc.", "damaged pickle"),
        (b"I" + b"9" * 10_000 + b"\n.", "damaged pickle"),
    ],
)
def test_damage_is_an_error_of_one_line(data: bytes, message: str) -> None:
    with pytest.raises(DumpError, match=message):
        read_pickle(data, BUILDERS)


def test_a_place_in_the_memo_costs_nothing() -> None:
    assert read_pickle(b"Nr\xff\xff\xff\x7fj\xff\xff\xff\x7f\x86.", BUILDERS) == (None, None)


def test_keys_that_take_forever_to_hash_are_not_hashed() -> None:
    doubled = b"N" + b"2\x86" * 60
    (key,) = read_pickle(b"}" + doubled + b"Ns.", BUILDERS)
    assert isinstance(key, Unknown)


def test_too_many_steps_are_refused() -> None:
    with pytest.raises(DumpError, match="more than 100 steps"):
        read_pickle(b"]" + b"N0" * 100 + b".", BUILDERS, work=Work(100))


def _integer(value: int) -> bytes:
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize(
    "key",
    [
        _integer(SIZE_LIMIT),
        _integer(-SIZE_LIMIT),
        _integer(10**5000),
        b"K\1" + _integer(SIZE_LIMIT) + b"\x86",
        pickle.dumps("x" * 4097, 2)[:-1],
        pickle.dumps(b"x" * 4097, 3)[:-1],
        pickle.dumps(("x" * 4000, ("y" * 97,)), 2)[:-1],
        pickle.dumps((None,) * 16, 2)[:-1],
    ],
    ids=range(8),
)
def test_keys_that_cost_much_become_placeholders(key: bytes) -> None:
    (read,) = read_pickle(b"}" + key + b"Ns.", BUILDERS)
    assert isinstance(read, Unknown)


@pytest.mark.parametrize(
    "key", ["x" * 4096, 2**63 - 1, ("fc", 3, (None, 1.5)), (None,) * 15], ids=range(4)
)
def test_ordinary_keys_are_kept(key: Any) -> None:
    assert list(read_pickle(pickle.dumps({key: 1}, 3), BUILDERS)) == [key]


def test_tuples_with_the_same_hash_are_told_apart_in_no_time() -> None:
    pairs = colliding_pairs(4000)
    assert len({hash(pair) for pair in pairs}) == 1
    read = read_pickle(pickle.dumps(dict.fromkeys(pairs), 2), BUILDERS)
    assert len({hash(key) for key in read}) > 3900
    assert [tuple(key) for key in read] == pairs


def test_arguments_are_not_copied_again_and_again() -> None:
    data = b"(ctorch\nSize\n(" + b"N" * 17 + b"tRI7\nt."
    broken, seven = read_pickle(data, BUILDERS)
    assert broken == Broken("is made by a call of Size with too many arguments")
    assert seven == 7


@pytest.mark.parametrize("place", [-1, 1 << 32, (1 << 61) - 1])
def test_places_in_the_memo_that_no_pickle_needs_are_refused(place: int) -> None:
    with pytest.raises(DumpError, match="damaged pickle"):
        read_pickle(f"Np{place}\n.".encode(), BUILDERS)


def test_wrong_arguments_break_one_value_only() -> None:
    data = b"(ctorch._utils\n_rebuild_tensor_v2\n(NtRI7\nt."
    broken, seven = read_pickle(data, BUILDERS)
    assert isinstance(broken, Broken)
    assert seven == 7


def test_nothing_that_reads_dumps_could_run_anything() -> None:
    folder = Path(pickles.__file__).parent
    imported, called = set(), set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(node.func.id)
    assert not imported & {"pickle", "marshal", "shelve", "importlib", "subprocess", "torch"}
    assert not called & {"eval", "exec", "compile", "__import__", "getattr", "globals"}
