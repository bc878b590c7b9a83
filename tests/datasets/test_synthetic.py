"""The generated citation network: exact where it promises so, and hard in the way that Cora is."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data

from purigraph import datasets
from purigraph.datasets import citation_network, synthetic_edges
from purigraph.errors import InputError
from purigraph.graph.border import read_data
from purigraph.metrics import ranking_scores


def homophily(data: Data) -> float:
    return float((data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).double().mean())


@settings(max_examples=40)
@given(
    num_nodes=st.integers(2, 300),
    density=st.floats(0, 1),
    num_classes=st.integers(1, 9),
    num_features=st.integers(1, 40),
    homophily=st.floats(0, 1),
    features=st.sampled_from(["words", "dense"]),
    seed=st.integers(0, 2**32),
)
def test_any_size_is_met_exactly(
    num_nodes: int, density: float, num_classes: int, num_features: int, homophily: float, features: str, seed: int
) -> None:
    num_classes = min(num_classes, num_nodes)
    num_edges = int(density * min(num_nodes * (num_nodes - 1) // 8, 20 * num_nodes))

    data = citation_network(
        num_nodes, num_edges, num_features, num_classes, seed=seed, homophily=homophily, features=features
    )

    graph, _ = read_data(data)
    assert (graph.num_nodes, graph.num_pairs) == (num_nodes, num_edges)
    assert torch.equal(graph.edge_index()[0], data.edge_index)
    assert tuple(data.x.shape) == (num_nodes, num_features)
    assert data.x.isfinite().all()
    assert 0 <= int(data.y.min()) <= int(data.y.max()) < num_classes
    if features == "words":
        assert set(data.x.unique().tolist()) <= {0.0, 1.0}
        assert (data.x.sum(1) >= 1).all()


def test_uniform_pairs_fill_what_the_model_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_edges, "PATIENCE", 0)
    data = citation_network(60, 440, 5, 3, homophily=0.5)
    assert data.num_edges == 880
    assert homophily(data) == 0.5


def test_same_seed_same_bits() -> None:
    first, second, other = (citation_network(500, 1500, 50, 4, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.edge_index, second.edge_index)
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.y, second.y)
    assert not torch.equal(first.edge_index, other.edge_index)
    dense = citation_network(500, 1500, 50, 4, seed=1, features="dense")
    assert torch.equal(dense.edge_index, first.edge_index)
    sparse_words = citation_network(500, 1500, 50, 4, seed=1, sparse=True)
    assert torch.equal(sparse_words.x.to_dense(), first.x)


@pytest.mark.parametrize("seed", range(3))
def test_default_looks_like_cora(seed: int) -> None:
    """Bounds around what was measured on Cora, which the module's docstring lists."""
    data = citation_network(seed=seed)
    rows, columns = data.edge_index.numpy()
    adjacency = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(2708, 2708))
    degree = adjacency.sum(1)
    triangles = (adjacency @ adjacency).multiply(adjacency).sum(1) / 2
    clustering = np.where(degree > 1, triangles / np.maximum(degree * (degree - 1) / 2, 1), 0).mean()

    assert homophily(data) == pytest.approx(0.81, abs=1e-3)
    assert degree.min() >= 1
    assert np.quantile(degree, [0.25, 0.5, 0.75, 0.9]) == pytest.approx([2, 3, 5, 7], abs=1)
    assert 40 < degree.max() < 250
    assert clustering == pytest.approx(0.24, abs=0.04)
    assert float(data.x.sum(1).mean()) == pytest.approx(18.2, abs=1)
    assert data.y.bincount().min() >= 100
    assert data.y.bincount().max() >= 2 * data.y.bincount().min()


def test_numbers_of_nodes_tell_nothing() -> None:
    data = citation_network()
    assert abs(float(np.corrcoef(np.arange(2708), data.y.numpy())[0, 1])) < 0.06


def test_neighbourhoods_tell_what_a_paper_alone_does_not() -> None:
    """True edges against random pairs: paths in the rest of the graph beat the words of the two ends."""
    data = citation_network()
    generator = torch.Generator().manual_seed(0)
    pairs = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    order = torch.randperm(pairs.shape[1], generator=generator)
    held_out, kept = pairs[:, order[:800]].numpy(), pairs[:, order[800:]].numpy()
    random_pairs = torch.randint(2708, (2, 4000), generator=generator).numpy()

    adjacency = sparse.csr_array((np.ones(kept.shape[1]), (kept[0], kept[1])), shape=(2708, 2708))
    adjacency = adjacency + adjacency.T
    two = adjacency @ adjacency
    paths = sparse.csr_array(two + 0.1 * (two @ adjacency))
    words = torch.nn.functional.normalize(data.x, dim=1).numpy()

    def auc(score: object) -> float:
        true, false = (torch.from_numpy(np.asarray(score(*p)).ravel()) for p in (held_out, random_pairs))
        return ranking_scores(true, false)[0]

    by_words = auc(lambda i, j: (words[i] * words[j]).sum(1))
    by_paths = auc(lambda i, j: paths[i, j])
    assert 0.58 < by_words < 0.75
    assert by_paths > by_words + 0.06


def test_dataset_is_the_default_with_a_split() -> None:
    first, second = (datasets.load("synthetic_citation", seed=seed) for seed in (0, 1))
    assert torch.equal(first.edge_index, citation_network().edge_index)
    assert torch.equal(first.edge_index, second.edge_index)
    assert int(first.train_mask.sum()) == int(first.val_mask.sum()) == 140
    assert not torch.equal(first.train_mask, second.train_mask)
    info = datasets.info("synthetic-citation")
    assert info.available
    assert (info.nodes, info.edges) == (first.num_nodes, first.num_edges // 2)


def test_a_large_graph_is_made_in_seconds() -> None:
    start = time.process_time()
    data = citation_network(100_000, 600_000, 64, 40, homophily=0.65, features="dense")
    assert time.process_time() - start < 20  # about 1.5 s on a quiet core
    assert data.num_edges == 1_200_000
    assert homophily(data) == pytest.approx(0.65, abs=1e-4)
    assert len(data.edge_index.unique()) == 100_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 1}, "at least 2 nodes"),
        ({"num_classes": 3000}, "not more classes than nodes"),
        ({"num_edges": 10**6}, "more than a quarter of all pairs"),
        ({"homophily": 1.5}, "homophily must be in"),
        ({"features": "pictures"}, 'must be "words" or "dense"'),
    ],
)
def test_impossible_networks_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        citation_network(**arguments)
