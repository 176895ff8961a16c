"""torch files without PyTorch: every type, view and container; contradictions are refused."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from numscope import dumps
from numscope.dumps import scratch, torch_values, trees
from numscope.dumps.sources import MemorySource, read_bytes
from numscope.errors import DumpError
from tests.torch_files import (
    Tensor,
    TorchFile,
    call,
    colliding_pairs,
    dictionary,
    file_of,
    group,
    name,
    plain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def _open(folder: Path, content: bytes, file: str = "x.pt") -> dumps.DumpFile:
    (folder / file).write_bytes(content)
    return dumps.open_file(folder, file)


def _read(folder: Path, content: bytes, file: str = "x.pt") -> dict[Any, Any]:
    with _open(folder, content, file) as dump:
        return {key: array.read(0, array.rows).reshape(array.shape) for key, array in dump.items()}


@pytest.mark.parametrize(
    ("storage", "dtype"),
    [
        ("DoubleStorage", np.float64),
        ("FloatStorage", np.float32),
        ("HalfStorage", np.float16),
        ("BFloat16Storage", ml_dtypes.bfloat16),
    ],
)
@pytest.mark.parametrize("container", ["zip", "legacy"])
def test_types_that_have_a_storage_of_their_own(
    tmp_path: Path, storage: str, dtype: type[Any], container: str
) -> None:
    values = X.astype(dtype)
    file = file_of(t=Tensor(values, storage))
    content = file.zip_bytes() if container == "zip" else file.legacy_bytes(values.itemsize)
    read = _read(tmp_path, content)["t",]
    assert read.dtype == values.dtype
    assert read.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "dtype",
    ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"],
)
def test_types_that_are_named_beside_their_storage(tmp_path: Path, dtype: str) -> None:
    values = np.array([[1, 2, 4], [0.5, 8, 16]]).astype(np.dtype(getattr(ml_dtypes, dtype)))
    tensor = Tensor(values, "UntypedStorage", dtype=dtype)
    read = _read(tmp_path, file_of(t=tensor).zip_bytes())["t",]
    assert str(read.dtype) == dtype
    assert read.tobytes() == values.tobytes()


def test_two_four_bit_values_in_a_byte_become_two_values(tmp_path: Path) -> None:
    packed = np.array([[0x21, 0x43], [0x65, 0xF7]], np.uint8)
    tensor = Tensor(packed, "UntypedStorage", dtype="float4_e2m1fn_x2")
    read = _read(tmp_path, file_of(t=tensor).zip_bytes())["t",]
    expected = np.array([[0.5, 1, 1.5, 2], [3, 4, 6, -6]], np.float32)
    np.testing.assert_array_equal(read.astype(np.float32), expected)


@pytest.mark.parametrize(
    ("size", "stride", "offset", "expected"),
    [
        ((6, 4), (1, 6), 0, X.T),
        ((4, 3), (6, 2), 1, X[:, 1::2]),
        ((2, 6), (12, 1), 6, X[1::2]),
        ((3, 6), (0, 1), 12, np.broadcast_to(X[2], (3, 6))),
        ((), (), 7, np.float32(7)),
        ((2, 2, 6), (12, 6, 1), 0, X.reshape(2, 2, 6)),
        ((0, 6), (6, 1), 0, X[:0]),
    ],
)
@pytest.mark.parametrize("container", ["zip", "legacy"])
def test_views(
    tmp_path: Path,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    expected: np.ndarray[Any, Any],
    container: str,
) -> None:
    file = file_of(t=Tensor(X, size=size, stride=stride, offset=offset))
    content = file.zip_bytes() if container == "zip" else file.legacy_bytes(4)
    np.testing.assert_array_equal(_read(tmp_path, content)["t",], expected)


@pytest.mark.parametrize("location", ["cpu", "cuda:3", "npu:0", "meta"])
def test_where_a_tensor_was_does_not_matter(tmp_path: Path, location: str) -> None:
    content = file_of(t=Tensor(X, location=location)).zip_bytes()
    np.testing.assert_array_equal(_read(tmp_path, content)["t",], X)


def test_big_endian_files(tmp_path: Path) -> None:
    swapped = X.astype(">f4")
    file = replace(file_of(t=Tensor(X)), storages={"0": swapped.tobytes()}, byteorder="big")
    np.testing.assert_array_equal(_read(tmp_path, file.zip_bytes())["t",], X)
    np.testing.assert_array_equal(_read(tmp_path, file.legacy_bytes(4))["t",], X)


def test_compressed_and_gzipped_files(tmp_path: Path) -> None:
    values = np.arange(100_000, dtype=np.float32).reshape(100, 1000)
    file = replace(file_of(t=Tensor(values)), compression=zipfile.ZIP_DEFLATED)
    np.testing.assert_array_equal(_read(tmp_path, file.zip_bytes())["t",], values)
    packed = gzip.compress(file_of(t=Tensor(values)).zip_bytes())
    np.testing.assert_array_equal(_read(tmp_path, packed, "x.pt.gz")["t",], values)
    np.testing.assert_array_equal(_read(tmp_path, packed, "x.ckpt")["t",], values)


def test_gzip_files_put_one_behind_the_other_are_one(tmp_path: Path) -> None:
    content = file_of(t=Tensor(X)).zip_bytes()
    parts = [gzip.compress(content[:100]), gzip.compress(b""), gzip.compress(content[100:])]
    for packed in (b"".join(parts), b"".join(parts) + bytes(512), bytes(9).join(parts)):
        np.testing.assert_array_equal(_read(tmp_path, packed, "x.pt.gz")["t",], X)
    with pytest.raises(DumpError, match="cannot be unpacked"):
        _read(tmp_path, b"".join(parts) + b"more", "x.pt.gz")
    with pytest.raises(DumpError, match="cut short"):
        _read(tmp_path, b"".join(parts)[:-1], "x.pt.gz")


def test_many_empty_gzip_files_are_passed_in_no_time() -> None:
    packed = MemorySource(gzip.compress(b"", mtime=0) * 10_000 + gzip.compress(b"end"))
    assert b"".join(scratch.inflate(packed, scratch.GZIP, "x")) == b"end"


def test_what_is_packed_twice_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(gzip.compress(file_of(t=Tensor(X)).zip_bytes()))
    with pytest.raises(DumpError, match="packed twice"):
        _read(tmp_path, packed, "x.pt.gz")


def test_all_that_is_unpacked_is_limited_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    tensors = {key: Tensor(values, key=key) for key in "abc"}
    file = replace(file_of(**tensors), compression=zipfile.ZIP_DEFLATED)
    monkeypatch.setattr(scratch, "TOTAL_LIMIT", 2 * values.nbytes + 1)
    with _open(tmp_path, file.zip_bytes()) as dump:
        for key in "ab":
            np.testing.assert_array_equal(dump[key,].read(0, 50), values)
        with pytest.raises(DumpError, match="refused"):
            dump["c",].read(0, 50)
        np.testing.assert_array_equal(dump["a",].read(0, 50), values)


def test_the_room_of_a_stream_that_turns_out_damaged_is_used_again() -> None:
    def damaged() -> Iterator[bytes]:
        yield b"abc"
        raise DumpError("is damaged")

    room = scratch.Scratch(100)
    with pytest.raises(DumpError, match="is damaged"):
        room.append(damaged(), "x")
    source, start = room.append(iter([b"de"]), "y")
    assert (start, source.size, read_bytes(source, 0, 2)) == (0, 2, b"de")
    room.close()


def _pointing(content: bytes, member: bytes, to: bytes) -> bytes:
    """Make the directory's entry of a member lead to where another one is."""
    data = bytearray(content)
    first = data.index(b"PK\1\2")
    place, other = (data.index(name, first) - 46 for name in (member, to))
    data[place + 42 : place + 46] = data[other + 42 : other + 46]
    return bytes(data)


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    content = file_of(a=Tensor(X), b=Tensor(X, key="1")).zip_bytes()
    with pytest.raises(DumpError, match="overlaps the next one"):
        _read(tmp_path, _pointing(content, b"archive/data/1", b"archive/data/0"))


def test_a_member_whose_own_header_moves_it_onto_the_next_is_refused(tmp_path: Path) -> None:
    data = bytearray(file_of(a=Tensor(X), b=Tensor(X, key="1")).zip_bytes())
    place = data.index(b"archive/data/0") - 30
    data[place + 28 : place + 30] = (10).to_bytes(2, "little")
    with _open(tmp_path, bytes(data)) as dump:
        assert list(dump) == [("b",)]
        assert "runs into what is behind it" in dump.remarks[0].message


def test_what_unpacks_to_far_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_SMALL", 1 << 12)
    zeros = np.zeros((1000, 1000), np.float32)
    file = replace(file_of(t=Tensor(zeros)), compression=zipfile.ZIP_DEFLATED)
    with _open(tmp_path, file.zip_bytes()) as dump:
        assert [remark.key for remark in dump.remarks if remark.failure] == [("t",)]
        assert "unpacks from" in dump.remarks[0].message
    with pytest.raises(DumpError, match="unpacks from"):
        _read(tmp_path, gzip.compress(file_of(t=Tensor(zeros)).zip_bytes()), "x.pt.gz")


def test_a_key_is_the_way_through_dictionaries_lists_and_tuples(tmp_path: Path) -> None:
    tensor = Tensor(X).opcodes()
    inner = dictionary({"b": b"]" + b"(" + plain(1) + tensor + b"e", 7: group(tensor)})
    file = TorchFile(dictionary({"a": inner, ("x", 3): tensor}), {"0": X.tobytes()})
    assert list(_read(tmp_path, file.zip_bytes())) == [
        ("a", "b", 1),
        ("a", 7, 0),
        (("x", 3),),
    ]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_arrays_instead_of_tensors(
    tmp_path: Path, protocol: int, dtype: str, order: Any
) -> None:
    kind = getattr(ml_dtypes, dtype) if "float" in dtype else dtype
    values = X.astype(kind).copy(order)
    items = pickle.dumps({"a": values, "ids": np.arange(3)}, protocol)[:-1]
    with _open(tmp_path, TorchFile(items).zip_bytes()) as dump:
        assert list(dump) == [("a",)]
        read = dump["a",].read(0, 4)
        assert [remark.message for remark in dump.remarks] == [
            "tensors of no float type passed over"
        ]
    np.testing.assert_array_equal(read.astype(np.float32), values.astype(np.float32))


@pytest.mark.parametrize("values", [np.array([{}, None], dtype=object), np.zeros(2, "f4,f8")])
def test_numpy_arrays_of_objects_are_refused(tmp_path: Path, values: Any) -> None:
    items = b"}(" + plain("a") + pickle.dumps(values, 2)[:-1] + b"u"
    with _open(tmp_path, TorchFile(items).zip_bytes()) as dump:
        assert not dump
        assert [(remark.key, remark.failure) for remark in dump.remarks] == [(("a",), True)]


def test_numbers_at_the_top_are_metadata(tmp_path: Path) -> None:
    items = {"step": plain(480), "note": plain("a"), "loss": plain(0.5), "t": Tensor(X).opcodes()}
    with _open(tmp_path, TorchFile(dictionary(items), {"0": X.tobytes()}).zip_bytes()) as dump:
        assert dump.metadata == {"step": "480", "note": "a"}


def test_integers_and_unknown_objects_are_counted(tmp_path: Path) -> None:
    items = {
        "t": Tensor(X).opcodes(),
        "ids": Tensor(X, "IntStorage").opcodes(),
        "config": call(name("megatron.core", "Config"), plain(1)),
        "none": plain(None),
    }
    with _open(tmp_path, TorchFile(dictionary(items), {"0": X.tobytes()}).zip_bytes()) as dump:
        assert list(dump) == [("t",)]
        assert {remark.message: remark.count for remark in dump.remarks} == {
            "tensors of no float type passed over": 1,
            "objects of unknown classes left alone": 1,
            "values that are no tensors passed over": 1,
        }
        assert not any(remark.failure for remark in dump.remarks)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 10**9}, "should have 4000000000 bytes and has 96"),
        ({"count": -1}, "not described as it should be"),
        ({"count": 24.0}, "not described as it should be"),
        ({"storage": "DoubleStorage", "count": 24}, "should have 192 bytes and has 96"),
        ({"storage": "EvilStorage"}, "unknown class 'EvilStorage'"),
        ({"size": (5, 6)}, "leave the saved data"),
        ({"offset": 20}, "leave the saved data"),
        ({"offset": -1}, "no whole numbers from 0 on"),
        ({"stride": (-6, 1)}, "no whole numbers from 0 on"),
        ({"size": (-4, 6)}, "no whole numbers from 0 on"),
        ({"size": ("4", 6)}, "no whole numbers from 0 on"),
        ({"size": (4.0, 6)}, "no whole numbers from 0 on"),
        ({"size": [4, 6]}, "no tuple"),
        ({"stride": (1,)}, "2 dimensions but 1 stride"),
        ({"size": (1 << 40, 1 << 40), "stride": (0, 0)}, "refused"),
        ({"dtype": "float9"}, "unknown dtype"),
        ({"count": 10**5000}, "not described as it should be"),
        ({"key": "k" * 5000}, "not described as it should be"),
        ({"storage": "E" * 5000}, "unknown class 'EEE"),
        ({"size": (10**5000, 0), "stride": (1, 1)}, "no whole numbers from 0 on"),
        ({"size": (4, 6), "stride": (2**63, 1)}, "no whole numbers from 0 on"),
        ({"offset": 2**63}, "no whole numbers from 0 on"),
        ({"size": (2**62,) * 64, "stride": (1,) * 64}, "refused"),
        ({"size": (2**62, 2**62, 0), "stride": (1, 1, 1)}, "refused"),
        ({"size": (1,) * 65, "stride": (1,) * 65}, "more than 64 dimensions"),
    ],
)
def test_a_tensor_that_contradicts_itself_is_refused_and_the_others_are_read(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    file = file_of(good=Tensor(X), bad=replace(Tensor(X), **wrong))
    with _open(tmp_path, file.zip_bytes()) as dump:
        assert list(dump) == [("good",)]
        (remark,) = dump.remarks
    assert remark.failure
    assert remark.key == ("bad",)
    assert message in remark.message
    assert len(remark.message) < 500


def test_numbers_and_names_without_end_lose_one_value_only(tmp_path: Path) -> None:
    tensor = Tensor(X).opcodes()
    items = {10**5000: tensor, "k" * 5000: tensor, "n": plain(10**5000), "t": tensor, None: tensor}
    content = TorchFile(dictionary(items), {"0": X.tobytes()}).zip_bytes()
    assert list(_read(tmp_path, content)) == [("<key 0>",), ("<key 1>",), ("t",), ("None",)]


def test_of_two_tensors_with_one_key_the_second_is_reported(tmp_path: Path) -> None:
    items = {None: Tensor(X).opcodes(), "None": Tensor(X).opcodes()}
    with _open(tmp_path, TorchFile(dictionary(items), {"0": X.tobytes()}).zip_bytes()) as dump:
        assert list(dump) == [("None",)]
        assert [(remark.key, remark.failure) for remark in dump.remarks] == [(("None",), True)]


def test_a_file_that_names_too_many_tensors_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "TENSOR_LIMIT", 100)
    repeated = b"](" + Tensor(X).opcodes() + b"q\x63" + b"h\x63" * 99
    content = TorchFile(repeated + b"e", {"0": X.tobytes()}).zip_bytes()
    assert len(_read(tmp_path, content)) == 100
    content = TorchFile(repeated + b"h\x63e", {"0": X.tobytes()}).zip_bytes()
    with pytest.raises(DumpError, match="more than 100 tensors"):
        _read(tmp_path, content)


def test_long_keys_of_many_tensors_cost_steps(tmp_path: Path) -> None:
    tensors = b"](" + Tensor(X).opcodes() + b"q\x63" + b"h\x63" * 20_000 + b"e"
    content = TorchFile(dictionary({"k" * 4096: tensors}), {"0": X.tobytes()}).zip_bytes()
    with pytest.raises(DumpError, match="steps to read; refused"):
        _read(tmp_path, content)


def test_a_long_name_of_a_class_is_not_written_for_every_tensor(tmp_path: Path) -> None:
    storage = name("torch", "FloatStorage")
    tensor = Tensor(X).opcodes().replace(storage, b"h\x63")
    unknown = plain("torch") + plain("E" * 5_000_000) + b"\x93q\x63"
    content = TorchFile(b"](" + unknown + tensor * 1000 + b"e", {"0": X.tobytes()}).zip_bytes()
    with _open(tmp_path, content) as dump:
        failures = [remark.message for remark in dump.remarks if remark.failure]
    assert len(failures) == 1000
    assert max(map(len, failures)) < 300


def test_keys_that_were_chosen_to_have_one_hash_are_refused() -> None:
    count, prime = 65, (1 << 61) - 1
    tensor = torch_values.Tensor(*[None] * 5)  # type: ignore[arg-type]
    crafted = {str(i): {i: {j: tensor}} for i, j in colliding_pairs(count)}
    same = [key[1:] for key, _ in trees.leaves(crafted).tensors]
    assert len({hash(key) for key in same}) == 1
    tree = {i: {j: tensor} for i, j in colliding_pairs(count)}
    with pytest.raises(DumpError, match="told apart by their hash"):
        trees.leaves(tree)
    assert len(trees.leaves({prime * n: tensor for n in range(4)}).tensors) == 4


@pytest.mark.parametrize("keys", [[10**5000], ["k" * 5000], [[]]])
def test_legacy_lists_of_storages_hold_names_only(tmp_path: Path, keys: list[Any]) -> None:
    content = file_of(t=Tensor(X)).legacy_bytes(4)
    content = content.replace(pickle.dumps(["0"], 2), pickle.dumps(keys, 2))
    with pytest.raises(DumpError, match="list of storages"):
        _read(tmp_path, content)


def test_a_dtype_that_takes_forever_to_hash_is_not_hashed(tmp_path: Path) -> None:
    doubled = b"N" + b"2\x86" * 60
    tensor = Tensor(X, dtype="float32").opcodes().replace(name("torch", "float32"), doubled)
    content = TorchFile(dictionary({"t": tensor}), {"0": X.tobytes()}).zip_bytes()
    with _open(tmp_path, content) as dump:
        assert [remark.message for remark in dump.remarks] == ["has an unknown dtype"]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["ab", "c"]),
        np.array([b"ab", b"c"]),
        np.array(["2024-01-01"], "M8[ns]"),
        np.array([1], "m8[s]"),
        np.array([True]),
    ],
)
def test_texts_and_times_are_passed_over(tmp_path: Path, values: Any) -> None:
    items = pickle.dumps({"a": values}, 2)[:-1]
    with _open(tmp_path, TorchFile(items).zip_bytes()) as dump:
        assert [(remark.message, remark.failure) for remark in dump.remarks] == [
            ("tensors of no float type passed over", False)
        ]


@pytest.mark.parametrize("code", ["i" + "9" * 5000, "i99999", "f" + "9" * 5000])
def test_codes_of_numpy_without_end_are_refused(tmp_path: Path, code: str) -> None:
    array = pickle.dumps(X, 2)[:-1].replace(
        b"X\2\0\0\0f4", b"X" + len(code).to_bytes(4, "little") + code.encode()
    )
    content = TorchFile(dictionary({"a": array})).zip_bytes()
    with _open(tmp_path, content) as dump:
        assert not dump
        assert [remark.failure for remark in dump.remarks] == [True]


def test_a_missing_storage_is_named(tmp_path: Path) -> None:
    file = replace(file_of(t=Tensor(X, key="../../0")), storages={"0": X.tobytes()})
    with _open(tmp_path, file.zip_bytes()) as dump:
        assert [remark.message for remark in dump.remarks] == [
            "is in a storage that is missing from the file"
        ]


@pytest.mark.parametrize("cut", [1, 30, 200, 500])
def test_a_file_that_was_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    with pytest.raises(DumpError, match="cut short or damaged"):
        _read(tmp_path, file_of(t=Tensor(X)).zip_bytes()[:-cut])


@pytest.mark.parametrize("cut", [1, 30, 95, 100])
def test_a_legacy_file_that_was_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    with _open(tmp_path, file_of(t=Tensor(X)).legacy_bytes(4)[:-cut]) as dump:
        assert not dump
        assert [remark.failure for remark in dump.remarks] == [True]


def _zip(folder: Path, *names: str) -> Path:
    path = folder / "x.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for member in names:
            archive.writestr(member, b"\x80\x02}.")
    return path


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("notes.txt",), "without data.pkl"),
        (("m/data.pkl", "m/constants.pkl", "m/code/model.py"), "TorchScript"),
        (("m/data.pkl", "../../up"), "'../../up'; refused"),
        (("m/data.pkl", "/etc/passwd"), "'/etc/passwd'; refused"),
    ],
)
def test_archives_that_are_something_else(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    _zip(tmp_path, *names)
    with pytest.raises(DumpError, match=message):
        dumps.open_file(tmp_path, "x.pt")


def test_archives_with_64_bit_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 40)  # so that Python writes what 4 GB would need
    content = file_of(a=Tensor(X), b=Tensor(X + 1, key="1")).zip_bytes()
    assert b"PK\6\6" in content
    read = _read(tmp_path, content)
    np.testing.assert_array_equal(read["a",], X)
    np.testing.assert_array_equal(read["b",], X + 1)


def test_members_of_the_same_name_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        _zip(tmp_path, "m/data.pkl", "m/data/0", "m/data/0")
    with pytest.raises(DumpError, match="two members called 'm/data/0'"):
        dumps.open_file(tmp_path, "x.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x04\x95", "plain pickle"),
        (b"\0\1\2\3", "is no file of torch.save"),
        (b"", "is empty"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DumpError, match=message):
        _read(tmp_path, content)


def test_checkpoints_are_named(tmp_path: Path) -> None:
    items = {"model": dictionary({"w": Tensor(X).opcodes()}), "optimizer": dictionary({})}
    content = TorchFile(dictionary(items), {"0": X.tobytes()}).zip_bytes()
    with pytest.raises(DumpError, match="full training checkpoint"):
        _read(tmp_path, content)
    for file in ("model_optim_rng.pt", "__0_0.distcp", "__1_0.distcp", "rng_state_0.pth"):
        (tmp_path / file).write_bytes(b"anything")
    (tmp_path / "x.pt").unlink()
    problems = {problem.where: problem.message for problem in dumps.scan(tmp_path).problems}
    assert set(problems) == {"model_optim_rng.pt", ".", "rng_state_0.pth"}
    assert "distributed checkpoint (DCP)" in problems["."]
