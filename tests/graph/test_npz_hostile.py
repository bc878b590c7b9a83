"""Graph files that somebody damaged or forged: one sentence with the true reason, never a hang or a full memory."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from purigraph.errors import GraphError
from purigraph.graph import npz_archive
from purigraph.graph.npz import GraphFile, load_npz, save_npz

EDGES, X = np.array([[0, 1], [1, 2]]), np.eye(3, dtype=np.float32)
CSR = {"x_data": np.ones(2), "x_indices": np.array([0, 1]), "x_indptr": np.array([0, 1, 2, 2]), "x_shape": [3, 2]}


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    return stream.getvalue()


def forged(shape: str, descr: str = "<f4", size: int = 36, version: int = 1, padding: int = 0) -> bytes:
    """An array whose header says what it likes."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}{' ' * padding}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + bytes(size)


def archive(path: Path, method: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in {"edges": npy(EDGES), "x": npy(X), **members}.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (b"not an array", "`x` is not an array"),
        (b"", "`x` is not an array"),
        (b"\x93NUMPY", "`x` is"),
        (forged("(1000000000000000,)"), r"claims the shape \(1000000000000000,\).*holds 36 bytes"),
        (forged(f"({10**12}, {10**11})"), "400000000000000000000000 bytes, but holds 36"),
        (forged("(3, 4)"), "48 bytes, but holds 36"),
        (forged("(3, 2)"), "24 bytes, but holds 36"),
        (forged("(-3, -3)"), "claims the shape"),
        (forged("'many'"), "`x` is damaged"),
        (forged("(3, 3)", version=1, padding=20_000), "the header of `x` has .* at most 10000"),
        (forged("(3, 3)", version=9), "`x` is damaged"),
        (forged("(" * 3000 + ")" * 3000, version=2), "`x` is damaged"),
        (forged("(3, 3)", descr="|O"), "pickled objects, which are never opened"),
        (npy(np.array([["a"]])), r"`x` must be \(N, F\) of numbers"),
    ],
)
def test_forged_arrays_are_refused_before_anything_is_allocated(tmp_path: Path, x: bytes, message: str) -> None:
    path = archive(tmp_path / "g.npz", x=x)
    tracemalloc.start()
    try:
        with pytest.raises(GraphError, match=message):
            load_npz(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_a_long_header_is_not_called_pickled(tmp_path: Path) -> None:
    with pytest.raises(GraphError) as error:
        load_npz(archive(tmp_path / "g.npz", x=forged("(3, 3)", padding=20_000)))
    assert "pickle" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_shape": [3, 10**13]}, r"3 x 10000000000000 features take 240\.0 TB.*sparse=True"),
        ({"x_shape": [10**15, 2]}, r"`x_indptr` must be \(1000000000000001,\) integer"),
        ({"x_shape": [-3, 2]}, "not the shape of a matrix"),
        ({"x_shape": np.array([3, 2**64 - 1], dtype=np.uint64)}, "not the shape of a matrix"),
        ({"x_indices": ["a", "b"]}, r"`x_indices` must be \(2,\) integer; it is .*U1"),
        ({"x_indices": [0.0, 1.0]}, r"`x_indices` must be \(2,\) integer; it is \(2,\) float64"),
        ({"x_indices": [0]}, r"`x_indices` must be \(2,\) integer"),
        ({"x_indices": [0, -1]}, "columns from 0 to 1; they are from -1 to 0"),
        ({"x_indices": np.array([0, 2**64 - 1], dtype=np.uint64)}, "to 18446744073709551615"),
        ({"x_indptr": [0, 2, 1, 2]}, "must ascend from 0 to 2"),
        ({"x_indptr": [-1, 1, 2, 2]}, "must ascend from 0 to 2"),
        ({"x_indptr": [0, 1, 2, 2**60]}, "must ascend from 0 to 2"),
        ({"x_indptr": [0.0, 1, 2, 2]}, r"`x_indptr` must be \(4,\) integer"),
        ({"x_data": [1.0, np.inf]}, r"`x_data` is not finite at \[1\]"),
        ({"x_data": np.array([1.0, 1e300], dtype=">f8")}, "too large for products in single precision"),
    ],
)
def test_forged_csr_parts_are_explained(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, edges=EDGES, **{**CSR, **changes})
    with pytest.raises(GraphError, match=message) as error:
        load_npz(path)
    assert str(path) in str(error.value)


def test_wide_sparse_features_are_read_as_sparse_ones(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edges=EDGES, **{**CSR, "x_shape": [3, 10**10]})
    assert load_npz(tmp_path / "g.npz", sparse=True).x.shape == (3, 10**10)


def test_large_numbers_are_not_called_infinite(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edges=EDGES, x=np.full((3, 1), 1e300))
    with pytest.raises(GraphError, match=r"`x` is 1e\+300 at \[0, 0\], too large for products in single precision"):
        load_npz(tmp_path / "g.npz")
    np.savez(tmp_path / "g.npz", edges=EDGES, x=X, edge_weight=np.array([1, 1e300], dtype=">f8"))
    with pytest.raises(GraphError, match=r"edge_weight\[1\] is 1e\+300: weights must be at most"):
        load_npz(tmp_path / "g.npz")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_compression_is_called_damaged(tmp_path: Path, method: int) -> None:
    noise = np.random.default_rng(0).normal(size=(3, 500))
    path = archive(tmp_path / "g.npz", method, x=npy(noise))
    assert torch.equal(load_npz(path).x, torch.from_numpy(noise))
    with zipfile.ZipFile(path) as file:
        start = file.getinfo("x.npy").header_offset
    whole = path.read_bytes()
    for offset in range(start + 40, len(whole) - 200, 211):
        path.write_bytes(whole[:offset] + bytes(8) + whole[offset + 8 :])
        with pytest.raises(GraphError, match="damaged"):
            load_npz(path)


def patched(path: Path, name: str, offset_local: int, offset_central: int, value: int) -> None:
    """Overwrite two bytes in the local and in the central header of a member."""
    with zipfile.ZipFile(path) as file:
        local = file.getinfo(name).header_offset
    content = bytearray(path.read_bytes())
    central = content.rindex(name.encode()) - 46
    for place in (local + offset_local, central + offset_central):
        content[place : place + 2] = struct.pack("<H", value)
    path.write_bytes(bytes(content))


def test_encryption_and_unknown_compression_are_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "g.npz")
    patched(path, "x.npy", 6, 8, 1)
    with pytest.raises(GraphError, match="`x` is encrypted"):
        load_npz(path)
    path = archive(tmp_path / "g.npz")
    patched(path, "x.npy", 8, 10, 97)
    with pytest.raises(GraphError, match="`x` is compressed by method 97, which can't be read"):
        load_npz(path)


def test_members_that_are_only_copied_are_explained_too(tmp_path: Path) -> None:
    path = archive(tmp_path / "g.npz", other=npy(X))
    patched(path, "other.npy", 8, 10, 97)
    with pytest.raises(GraphError, match="can't be copied"):
        GraphFile(path).save_weighted(tmp_path / "copy.npz", torch.ones(2))
    assert [file.name for file in tmp_path.iterdir()] == ["g.npz"]


def test_an_array_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "g.npz")
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("x.npy", npy(X))
    with pytest.raises(GraphError, match="two arrays `x`"):
        load_npz(tmp_path / "g.npz")


def test_more_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "g.npz", zipfile.ZIP_DEFLATED, x=npy(np.zeros((3, 100_000), dtype=np.int8)))
    assert load_npz(path).x.shape == (3, 100_000)
    monkeypatch.setattr(npz_archive, "available_memory", lambda: 1_000_000)
    with pytest.raises(GraphError, match=r"`x` takes 1\.2 MB, but 1\.0 MB of memory are available"):
        load_npz(path)
    monkeypatch.setattr(npz_archive, "available_memory", lambda: 100_000)
    with pytest.raises(GraphError, match="its arrays take 300.* bytes, but 100000 bytes of memory"):
        load_npz(path)


def test_what_is_no_regular_file_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / "a.npz").symlink_to(tmp_path / "b.npz")
    (tmp_path / "b.npz").symlink_to(tmp_path / "a.npz")
    with pytest.raises(GraphError, match="symbolic links lead in a circle"):
        load_npz(tmp_path / "a.npz")
    os.mkfifo(tmp_path / "fifo.npz")
    with pytest.raises(GraphError, match="is a FIFO, not a graph file"):
        load_npz(tmp_path / "fifo.npz")
    with pytest.raises(GraphError, match="is a folder"):
        load_npz(tmp_path)
    with pytest.raises(GraphError, match="is a device"):
        load_npz("/dev/zero")
    with pytest.raises(GraphError, match="can't be read"):
        load_npz(tmp_path / ("n" * 300))
    with pytest.raises(GraphError, match="not the name of a file"):
        load_npz("nul\0byte.npz")


def test_an_unreadable_file_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    path = archive(tmp_path / "g.npz")
    monkeypatch.setattr(npz_archive.os, "open", refuse)
    with pytest.raises(GraphError, match=r"g\.npz can't be read: Permission denied"):
        load_npz(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"x": torch.rand(3, 2).half()},
        {"x": torch.rand(3, 2).bfloat16()},
        {"x": torch.rand(3, 2).bfloat16().to_sparse_csr()},
        {"x": torch.rand(3, 2).half().to_sparse_coo()},
        {"x": torch.tensor([[1, 2], [0, 3], [7, 7]])},
        {"x": torch.ones(3, 2, dtype=torch.bool)},
        {"x": torch.rand(3, 2, requires_grad=True)},
        {"x": torch.zeros(3, 0)},
        {"x": torch.zeros(3, 0).to_sparse_csr()},
        {"edge_weight": torch.tensor([0.5, 0.25]).bfloat16()},
        {"edge_weight": torch.tensor([6e4, 6e4], dtype=torch.float16)},
        {"edge_weight": torch.tensor([0.5, 0.25], dtype=torch.float64)},
        {"y": torch.tensor([True, False, True])},
        {"y": torch.tensor([0, 2, 1], dtype=torch.uint8)},
        {"train_mask": torch.ones(3, 4, dtype=torch.bool), "val_mask": torch.zeros(3, dtype=torch.bool)},
        {"edge_index": torch.zeros(2, 0, dtype=torch.int64)},
        {"edge_index": torch.zeros(2, 0, dtype=torch.int64), "x": torch.zeros(0, 2), "y": torch.zeros(0).long()},
    ],
    ids=str,
)
def test_what_is_written_is_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    both = torch.cat([torch.from_numpy(EDGES), torch.from_numpy(EDGES).flip(0)], dim=1)
    data = Data(**{"x": torch.eye(3), "edge_index": both, **changes})
    if "edge_weight" in changes:
        data.edge_weight = changes["edge_weight"].repeat(2)
    save_npz(data, tmp_path / "g.npz")
    loaded = load_npz(tmp_path / "g.npz")
    for key in changes:
        found, expected = loaded[key], data[key].detach()
        expected = expected.to_dense() if expected.layout != torch.strided else expected
        if key == "edge_weight":
            found, expected = found.sort().values, expected.sort().values
        assert torch.equal(found, expected.to(found.dtype)), key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": torch.tensor([0.5, 1.0, 2.0])}, r"data\.y must be \(3,\) integers.*data\.y\.long\(\)"),
        ({"y": torch.eye(3)}, r"one-hot, use data\.y\.argmax\(1\)"),
        ({"train_mask": torch.tensor([0, 1, 1])}, r"data\.train_mask must be boolean.*mask\.bool\(\)"),
        ({"x": torch.tensor([[1.0], [float("nan")], [0.0]])}, r"data\.x is nan in row 1, column 0"),
        ({"x": torch.ones(3)}, r"data\.x must be a matrix"),
        ({"edge_weight": torch.tensor([1, 2])}, r"use edge_weight\.float\(\)"),
        ({"num_nodes": 5}, r"data\.x has 3 rows, but the graph has 5 nodes"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    data = Data(**{"x": torch.eye(3), "edge_index": torch.from_numpy(EDGES), **changes})
    with pytest.raises(GraphError, match=message):
        save_npz(data, tmp_path / "g.npz")
    assert list(tmp_path.iterdir()) == []
