"""The graph file: what goes in comes out, nothing is unpickled, and bad files are explained."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

from helpers import pair_graphs
from purigraph.errors import GraphError
from purigraph.graph import PairGraph
from purigraph.graph.npz import GraphFile, load_npz, save_npz
from purigraph.graph.sparse_features import csr_from_scipy


def write(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


@given(graph=pair_graphs())
def test_round_trip_is_exact(graph: PairGraph, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("npz") / "graph"
    edge_index, edge_weight = graph.edge_index()
    generator = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.rand(graph.num_nodes, 4, generator=generator),
        y=torch.arange(graph.num_nodes),
        edge_index=edge_index,
        edge_weight=edge_weight,
        train_mask=torch.rand(graph.num_nodes, 3, generator=generator) < 0.5,
        val_mask=torch.zeros(graph.num_nodes, dtype=torch.bool),
    )

    save_npz(data, path)
    loaded = load_npz(path)

    assert sorted(loaded.keys()) == sorted(data.keys())
    for key in data.keys():
        assert torch.equal(loaded[key], data[key]), key
        assert loaded[key].dtype == data[key].dtype
    assert [file.name for file in path.parent.iterdir()] == ["graph"]


def test_one_direction_and_self_loops_come_back_in_both(tmp_path: Path) -> None:
    path = write(tmp_path / "g.npz", edges=[[2, 1, 0], [0, 1, 1]], x=np.eye(3, dtype=int), edge_weight=[0.5, 2.0, 1.0])
    data = load_npz(path)
    assert data.edge_index.tolist() == [[0, 0, 1, 1, 2], [1, 2, 0, 1, 0]]
    assert data.edge_weight.tolist() == [1.0, 0.5, 1.0, 2.0, 0.5]
    assert data.x.dtype == torch.float32
    save_npz(data, path)
    again = load_npz(path)
    assert torch.equal(again.edge_index, data.edge_index)
    assert torch.equal(again.edge_weight, data.edge_weight)


@pytest.mark.parametrize("stored", ["dense", "csr"])
def test_features_are_sparse_on_request_only(tmp_path: Path, stored: str) -> None:
    x = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, 3]], dtype=np.float32)
    data = Data(x=torch.from_numpy(x), edge_index=torch.tensor([[0, 1], [1, 0]]))
    if stored == "csr":
        data.x = csr_from_scipy(x)
    save_npz(data, tmp_path / "g.npz")
    assert torch.equal(load_npz(tmp_path / "g.npz").x, torch.from_numpy(x))
    sparse = load_npz(tmp_path / "g.npz", sparse=True).x
    assert sparse.layout == torch.sparse_csr
    assert torch.equal(sparse.to_dense(), torch.from_numpy(x))
    with np.load(tmp_path / "g.npz") as archive:
        assert ("x" in archive.files) == (stored == "dense")


def test_without_weights_there_are_none(tmp_path: Path) -> None:
    assert "edge_weight" not in load_npz(write(tmp_path / "g.npz", edges=np.zeros((2, 0), int), x=np.eye(2)))


EDGES, X = [[0, 1], [1, 2]], np.eye(3)
CSR = {"x_data": np.ones(2), "x_indices": [0, 1], "x_indptr": [0, 1, 2, 2], "x_shape": [3, 2]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "no array `edges`.*It has: x"),
        ({"edges": EDGES}, "no array `x`"),
        ({"edges": EDGES, "x": X, **CSR}, "has both `x` and `x_data`"),
        ({"edges": EDGES, "x_data": CSR["x_data"]}, "no array `x_indices` or `x_indptr` or `x_shape`"),
        ({"edges": EDGES, **{**CSR, "x_indices": [0, 7]}}, "are not a CSR matrix"),
        ({"edges": EDGES, **{**CSR, "x_shape": [3]}}, r"`x_shape` must be \(2,\) integer"),
        ({"edges": np.zeros((4, 2), int), "x": X}, r"`edges` must be \(2, E\) integer; it is \(4, 2\)"),
        ({"edges": np.array(EDGES) + 0.5, "x": X}, "`edges` must be .* integer; it is .* float64"),
        ({"edges": [[0, 1], [1, 3]], "x": X}, r"there are 3 nodes"),
        ({"edges": [[0, 1, 1], [1, 0, 2]], "x": X}, "this graph is directed"),
        ({"edges": EDGES, "x": np.ones(3)}, r"`x` must be \(N, F\)"),
        ({"edges": EDGES, "x": X * np.nan}, r"`x` is not finite at \[0, 0\]"),
        ({"edges": EDGES, "x": X, "y": [0.0, 1.0, 2.0]}, r"`y` must be \(3,\) integer"),
        ({"edges": EDGES, "x": X, "y": [0, 1]}, r"`y` must be \(3,\) integer"),
        ({"edges": EDGES, "x": X, "train_mask": [0, 1, 1]}, "`train_mask` must be .* bool"),
        ({"edges": EDGES, "x": X, "edge_weight": [1.0]}, r"`edge_weight` must be \(2,\)"),
        ({"edges": EDGES, "x": X, "edge_weight": [1.0, -1.0]}, "must be finite and not negative"),
        ({"edges": EDGES, "x": X, "edge_weights": [1.0, 1.0]}, "the name must be `edge_weight`"),
        ({"edges": EDGES, "x": np.array([{}, {}, {}])}, "pickled objects, which are never opened"),
    ],
)
def test_bad_content_is_explained(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "g.npz", **arrays)
    with pytest.raises(GraphError, match=message) as error:
        load_npz(path)
    assert str(path) in str(error.value)


def test_other_arrays_are_not_read(tmp_path: Path) -> None:
    others = {"node_names": ["a", "b", "c"], "authors": np.array([{}, {}, {}])}  # the second is pickled
    data = load_npz(write(tmp_path / "g.npz", edges=EDGES, x=X, **others))
    assert sorted(data.keys()) == ["edge_index", "x"]


def test_foreign_and_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="There is no file"):
        load_npz(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("edges")
    with pytest.raises(GraphError, match="is not a graph file"):
        load_npz(tmp_path / "text.npz")
    np.save(tmp_path / "array.npy", X)
    with pytest.raises(GraphError, match="is not a graph file"):
        load_npz(tmp_path / "array.npy")
    whole = write(tmp_path / "g.npz", edges=EDGES, x=np.ones((3, 1000))).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GraphError, match="damaged, cut short or foreign"):
        load_npz(tmp_path / "cut.npz")
    middle = len(whole) // 2
    (tmp_path / "flipped.npz").write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    with pytest.raises(GraphError, match="damaged"):
        load_npz(tmp_path / "flipped.npz")


def test_what_is_no_graph_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"data\.x is missing"):
        save_npz(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), tmp_path / "g.npz")
    with pytest.raises(GraphError, match="directed"):
        save_npz(Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]])), tmp_path / "g.npz")
    assert list(tmp_path.iterdir()) == []


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Edges in an order of their own with a self-loop, sparse features, and arrays that purigraph does not know."""
    return write(
        tmp_path / "mixed.npz",
        notes=np.array([{"free": "text"}, None]),  # pickled: never opened
        edges=np.array([[2, 1, 0], [0, 1, 1]], dtype=np.uint16),
        **CSR,
        edge_weight=np.array([0.5, 2, 1], dtype=">f2"),
        edge_labels=np.array(["a", "b", "c"]),
        edge_types=np.array(["one", "two"]),
        edge_total=np.array(3),
    )


def test_a_file_gives_its_edges_in_its_own_order(mixed: Path) -> None:
    data = GraphFile(mixed).data()
    assert data.edge_index.tolist() == [[2, 1, 0], [0, 1, 1]]
    assert data.edge_index.dtype == torch.int64
    assert data.edge_weight.tolist() == [0.5, 2.0, 1.0]
    assert data.edge_weight.dtype == torch.float32
    assert torch.equal(data.x, load_npz(mixed).x)
    assert GraphFile(mixed).data(sparse=True).x.layout == torch.sparse_csr


def test_a_copy_differs_in_its_weights_only(mixed: Path, tmp_path: Path) -> None:
    for name in ("copy.npz", "again.npz"):
        GraphFile(mixed).save_weighted(tmp_path / name, torch.tensor([0.25, 2.0, 0.75]))
    before, after = members(mixed), members(tmp_path / "copy.npz")
    assert list(after) == list(before)
    assert [name for name in before if before[name] != after[name]] == ["edge_weight.npy"]
    with np.load(tmp_path / "copy.npz") as archive:
        assert archive["edge_weight"].tolist() == [0.25, 2.0, 0.75]
        assert archive["edge_weight"].dtype == np.dtype(">f2")
    assert (tmp_path / "copy.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_a_copy_without_some_edges(mixed: Path, tmp_path: Path) -> None:
    GraphFile(mixed).save_kept(tmp_path / "copy.npz", torch.tensor([True, True, False]))
    before, after = members(mixed), members(tmp_path / "copy.npz")
    assert list(after) == list(before)
    changed = {"edges.npy", "edge_weight.npy", "edge_labels.npy"}
    assert {name for name in before if before[name] != after[name]} == changed
    with np.load(tmp_path / "copy.npz") as archive:
        assert archive["edges"].tolist() == [[2, 1], [0, 1]]
        assert archive["edges"].dtype == np.uint16
        assert archive["edge_weight"].tolist() == [0.5, 2.0]
        assert archive["edge_labels"].tolist() == ["a", "b"]


def test_a_copy_with_other_edges(mixed: Path, tmp_path: Path) -> None:
    data = Data(edge_index=torch.tensor([[1, 2, 0, 0], [2, 1, 0, 0]])[:, :3], edge_weight=torch.tensor([0.5, 0.5, 1.0]))
    data.num_nodes = 3
    GraphFile(mixed).save_rewired(tmp_path / "copy.npz", data)
    before, after = members(mixed), members(tmp_path / "copy.npz")
    assert before.keys() - after.keys() == {"edge_labels.npy"}
    with np.load(tmp_path / "copy.npz") as archive:
        assert archive["edges"].tolist() == [[1, 0], [2, 0]]
        assert archive["edges"].dtype == np.uint16
        assert archive["edge_weight"].tolist() == [0.5, 1.0]
    del data.edge_weight
    GraphFile(mixed).save_rewired(tmp_path / "copy.npz", data)
    assert before.keys() - members(tmp_path / "copy.npz").keys() == {"edge_labels.npy", "edge_weight.npy"}


def test_a_failed_copy_leaves_nothing(tmp_path: Path) -> None:
    names = np.array([{}, {}])
    file = GraphFile(write(tmp_path / "g.npz", edges=EDGES, x=X, edge_names=names))
    with pytest.raises(GraphError, match="pickled objects, which are never opened"):
        file.save_kept(tmp_path / "copy.npz", torch.tensor([True, False]))
    path = write(tmp_path / "g.npz", edges=EDGES, x=X, other=np.full(1000, 7))
    content = bytearray(path.read_bytes())
    content[content.rindex(bytes([7, 0, 0, 0, 0, 0, 0, 0]))] = 8  # in an array that is only copied
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"g\.npz can't be copied: the file is damaged"):
        GraphFile(path).save_weighted(tmp_path / "copy.npz", torch.ones(2))
    assert [file.name for file in tmp_path.iterdir()] == ["g.npz"]
