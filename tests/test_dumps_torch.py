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
from numscope.dumps import scratch
from numscope.errors import DumpError
from tests.torch_files import (
    Tensor,
    TorchFile,
    call,
    dictionary,
    file_of,
    group,
    name,
    plain,
)

if TYPE_CHECKING:
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
        ({"storage": "EvilStorage"}, "unknown class EvilStorage"),
        ({"size": (5, 6)}, "leave the saved data"),
        ({"offset": 20}, "leave the saved data"),
        ({"offset": -1}, "no whole numbers from 0 on"),
        ({"stride": (-6, 1)}, "no whole numbers from 0 on"),
        ({"size": (-4, 6)}, "no whole numbers from 0 on"),
        ({"size": ("4", 6)}, "no whole numbers from 0 on"),
        ({"size": (4.0, 6)}, "no whole numbers from 0 on"),
        ({"size": [4, 6]}, "no tuple"),
        ({"stride": (1,)}, "2 dimensions but 1 strides"),
        ({"size": (1 << 40, 1 << 40), "stride": (0, 0)}, "refused"),
        ({"dtype": "float9"}, "unknown dtype"),
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
