"""Graphs in parts: what is written is what is read, and what is wrong with a folder is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from torch_geometric.data import Data

from helpers import communities, random_pair_graph
from purigraph.distributed import GraphParts, PartsWriter, describe_parts, read_purified, write_parts
from purigraph.errors import GraphError, InputError


def features(parts: GraphParts, start: int, stop: int) -> torch.Tensor:
    return torch.cat([x for x, _ in parts.feature_batches(start, stop)])


def test_features_of_any_range_are_read(tmp_path: Path) -> None:
    data = communities(101, num_features=7)
    parts = write_parts(data, tmp_path, parts=3)
    assert GraphParts.open(tmp_path) == parts
    assert (parts.num_nodes, parts.num_features, len(parts.features)) == (101, 7, 3)
    for start, stop in [(0, 101), (0, 1), (30, 90), (33, 34), (100, 101)]:
        assert torch.equal(features(parts, start, stop), data.x[start:stop])
    assert not list(parts.feature_batches(5, 5))


def test_sparse_features_are_written_as_numbers(data: Data, tmp_path: Path) -> None:
    data.x = data.x * (data.x > 1)
    expected = data.x.clone()
    data.x = data.x.to_sparse_csr()
    assert torch.equal(features(write_parts(data, tmp_path, parts=2), 0, data.num_nodes), expected)


def test_shares_of_the_edges_are_even_and_whole(tmp_path: Path) -> None:
    graph = random_pair_graph(300, 900)
    parts = write_parts(graph, tmp_path, x=torch.zeros(300, 1), parts=9)
    shares = [[batch.source for batch in parts.edge_batches(share, 3)] for share in range(3)]
    sizes = [sum(len(one) for one in share) for share in shares]
    assert sum(sizes) == 900
    assert max(sizes) <= 400
    assert torch.equal(torch.cat([one for share in shares for one in share]), graph.pairs[0])


def test_files_of_others_are_described(tmp_path: Path) -> None:
    (tmp_path / "edges").mkdir()
    (tmp_path / "features").mkdir()
    edges = {"source": np.array([0, 1], np.uint32), "target": np.array([1, 2], np.int16), "weight": np.array([0.5, 1])}
    pyarrow.parquet.write_table(pyarrow.table(edges), tmp_path / "edges" / "a.parquet")
    rows = pyarrow.table({"x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "day": ["mon", "tue", "wed"]})
    pyarrow.parquet.write_table(rows, tmp_path / "features" / "a.parquet")
    parts = describe_parts(tmp_path)
    assert (parts.num_nodes, parts.num_features, parts.weighted, parts.named) == (3, 2, True, False)
    assert torch.equal(features(parts, 1, 3), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    (batch,) = parts.edge_batches()
    assert batch.target.tolist() == [1, 2]
    assert batch.weight is not None
    assert batch.weight.tolist() == [0.5, 1.0]


def test_a_folder_that_is_no_graph_is_refused(data: Data, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="has no manifest.json: write a graph"):
        GraphParts.open(tmp_path / "nothing")
    with pytest.raises(GraphError, match="has no Parquet files"):
        describe_parts(tmp_path)
    with pytest.raises(InputError, match="parts must be at least 1"):
        write_parts(data, tmp_path, parts=0)
    parts = write_parts(data, tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(GraphError, match="does not describe a graph in parts"):
        GraphParts.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "purigraph.graph-parts/1"}')
    with pytest.raises(GraphError, match="is damaged"):
        GraphParts.open(tmp_path)
    parts.save()
    (tmp_path / parts.edges[0].file).write_bytes(b"PAR1")
    with pytest.raises(GraphError, match="not the file that manifest.json describes"):
        GraphParts.open(tmp_path)
    with pytest.raises(GraphError, match="can't be read as a Parquet file"):
        describe_parts(tmp_path)
    with pytest.raises(GraphError, match="purified"):
        read_purified(tmp_path)


def test_bad_features_are_named(tmp_path: Path) -> None:
    x = torch.zeros(6, 2)
    x[4, 1] = float("inf")
    with PartsWriter(tmp_path, 2) as writer:
        writer.add_features(x)
    with pytest.raises(GraphError, match="the features of node 4 are not finite"):
        features(GraphParts.open(tmp_path), 2, 6)


def test_columns_are_checked(tmp_path: Path) -> None:
    with PartsWriter(tmp_path, 1) as writer:
        writer.add_features(torch.zeros(3, 1))
        writer.add_edges(torch.tensor([0.5]), torch.tensor([1]))
    with pytest.raises(GraphError, match="the column 'source' must hold integers"):
        list(GraphParts.open(tmp_path).edge_batches())
    pyarrow.parquet.write_table(pyarrow.table({"from": [1]}), tmp_path / "edges" / "part-00000.parquet")
    with pytest.raises(GraphError, match="has no column 'source', but from"):
        describe_parts(tmp_path)


def test_an_interrupted_writer_leaves_no_graph(tmp_path: Path) -> None:
    write_parts(communities(20), tmp_path)
    with pytest.raises(KeyboardInterrupt), PartsWriter(tmp_path, 2) as writer:
        writer.add_features(torch.zeros(3, 2))
        raise KeyboardInterrupt
    with pytest.raises(GraphError, match="has no manifest"):
        GraphParts.open(tmp_path)
    with pytest.raises(InputError, match="pass a name for every row"):
        PartsWriter(tmp_path, 2, named=True).add_features(torch.zeros(3, 2))
