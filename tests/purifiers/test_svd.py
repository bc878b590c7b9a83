import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence

import purigraph as pg
from helpers import communities
from purifiers.frozen_attack import Array, as_data, dense
from purigraph.errors import InputError, PurigraphError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.purifiers import low_rank


def low_rank_of(adjacency: Array, rank: int) -> Array:
    """The clipped best approximation by NumPy's SVD, without its diagonal."""
    u, s, vt = np.linalg.svd(adjacency)
    approximation = np.clip((u[:, :rank] * s[:rank]) @ vt[:rank], 0, 1)
    np.fill_diagonal(approximation, 0)
    return approximation


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [1, 3, 4, 50])
def test_it_equals_a_dense_computation(rank: int, weighted: bool) -> None:
    data, adjacency = as_data(weighted)
    s = np.linalg.svd(adjacency, compute_uv=False)
    assert rank >= len(s) or s[rank - 1] > s[rank] + 1e-3  # else there would be two answers
    expected = low_rank_of(adjacency, rank)
    on_edges = pg.SVD(rank=rank)(data)
    assert torch.equal(on_edges.edge_index, data.edge_index)
    np.testing.assert_allclose(dense(on_edges), expected * (adjacency > 0), atol=1e-6)
    purifier = pg.SVD(rank=rank, reconstruction="dense")
    assert purifier.adds_edges
    np.testing.assert_allclose(dense(purifier(data)), expected, atol=1e-6)
    assert (purifier(data).edge_index.shape[1] > data.edge_index.shape[1]) == (rank < 12)
    cut = pg.SVD(rank=rank, reconstruction="dense", cutoff=0.3)(data)
    np.testing.assert_allclose(dense(cut), np.where(expected > 0.3, expected, 0), atol=1e-6)


def test_iterations_find_what_the_full_decomposition_finds() -> None:
    data = communities(num_nodes=400)
    graph = as_pair_graph(data)
    assert graph.num_nodes > low_rank._FULL_UP_TO
    adjacency = np.zeros((400, 400))
    adjacency[data.edge_index[0], data.edge_index[1]] = 1
    values = [pg.SVD(rank=5, seed=seed)(data).edge_weight for seed in (0, 0, 1)]
    assert torch.equal(values[0], values[1])
    torch.testing.assert_close(values[0], values[2])
    np.testing.assert_allclose(values[0], low_rank_of(adjacency, 5)[data.edge_index[0], data.edge_index[1]], atol=1e-5)


def test_scores_are_the_values_of_any_pairs() -> None:
    data, adjacency = as_data()
    pairs = torch.tensor([[0, 8, 9], [7, 2, 9]])
    scores = pg.SVD(rank=3).score_edges(data.x, data, pairs)
    np.testing.assert_allclose(scores[:2], low_rank_of(adjacency, 3)[[0, 8], [7, 2]], atol=1e-6)
    assert scores[2] == 1


def slopes(purifier: pg.SVD, graph: PairGraph, entries: range, direction: torch.Tensor) -> tuple[Array, Array]:
    """Gradients in some of the weights, and finite differences."""
    x = torch.ones(graph.num_nodes, 1)

    def total(weight: torch.Tensor) -> torch.Tensor:
        purified = purifier.purify(x, graph.with_weight(weight))
        return (purified.weight * direction[purified.pairs[0], purified.pairs[1]]).sum()

    weight = graph.weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(weight), weight)
    differences = []
    for entry in entries:
        step = torch.zeros_like(graph.weight)
        step[entry] = 1e-5
        differences.append(float(total(graph.weight + step) - total(graph.weight - step)) / 2e-5)
    return gradient[list(entries)].numpy(), np.array(differences)


@pytest.mark.parametrize("reconstruction", ["edges", "dense"])
@pytest.mark.parametrize("num_nodes", [40, 300])
def test_gradients_equal_finite_differences(num_nodes: int, reconstruction: str) -> None:
    generator = torch.Generator().manual_seed(2)
    graph = as_pair_graph(communities(num_nodes=num_nodes))
    graph = graph.with_weight(0.3 + 0.7 * torch.rand(graph.num_pairs, generator=generator, dtype=torch.float64))
    direction = torch.randn(num_nodes, num_nodes, generator=generator, dtype=torch.float64)
    purifier = pg.SVD(rank=8, reconstruction=reconstruction)
    found, expected = slopes(purifier, graph, range(0, graph.num_pairs, graph.num_pairs // 5), direction)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_straight_through_holds_the_singular_vectors_and_passes_the_clipping_by() -> None:
    data, adjacency = as_data(weighted=True)
    graph = as_pair_graph(data)
    purifier = pg.SVD(rank=3, straight_through=True)
    weight = graph.weight.clone().requires_grad_()
    value = purifier.purify(data.x, graph.with_weight(weight)).weight
    torch.testing.assert_close(value, pg.SVD(rank=3).purify(data.x, graph).weight)
    outgoing = torch.linspace(-1, 2, graph.num_pairs, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(value, weight, outgoing)
    eigenvalues, u = np.linalg.eigh(adjacency)
    u = u[:, np.argsort(-np.abs(eigenvalues))[:3]]
    projection = u @ u.T
    i, j = graph.pairs.numpy()
    g = np.zeros((12, 12))
    g[i, j] = g[j, i] = outgoing.numpy() / 2
    held = projection @ g + g @ projection - projection @ g @ projection
    np.testing.assert_allclose(gradient, 2 * held[i, j], atol=1e-10)
    assert pg.SVD().variants()["straight-through"].settings == pg.SVD(straight_through=True).settings


def test_the_whole_matrix_is_its_own_approximation() -> None:
    data, _ = as_data(weighted=True)
    graph = as_pair_graph(data)
    weight = graph.weight.clone().requires_grad_()
    value = pg.SVD(rank=50).purify(data.x, graph.with_weight(weight)).weight
    torch.testing.assert_close(value.detach(), graph.weight)
    torch.testing.assert_close(torch.autograd.grad(value.sum(), weight)[0], torch.ones_like(weight))


@pytest.mark.parametrize(
    "pairs",
    [
        torch.empty(2, 0, dtype=torch.int64),
        torch.stack([torch.zeros(299, dtype=torch.int64), torch.arange(1, 300)]),  # a star has rank 2
        torch.arange(300).view(-1, 2).t(),  # edges apart from each other: all singular values are 1
    ],
    ids=["no edges", "star", "matching"],
)
@pytest.mark.parametrize("straight_through", [False, True])
def test_graphs_of_low_rank_and_with_equal_singular_values(pairs: torch.Tensor, straight_through: bool) -> None:
    graph = PairGraph(300, pairs)
    weight = graph.weight.clone().requires_grad_()
    purifier = pg.SVD(rank=10, straight_through=straight_through)
    value = purifier.purify(torch.ones(300, 1), graph.with_weight(weight)).weight
    assert ((value >= 0) & (value <= 1)).all()
    if pairs.shape[1] == 299:
        torch.testing.assert_close(value, graph.weight)
    assert torch.isfinite(torch.autograd.grad(value.sum(), weight)[0]).all()


def test_what_would_not_fit_is_refused() -> None:
    graph = PairGraph(20_000, torch.tensor([[0], [1]]))
    with pytest.raises(
        InputError, match=r"20,000 nodes has 199,990,000 pairs.*16\.0 GB.*reconstruction=\"factored\".*\"edges\""
    ):
        pg.SVD(reconstruction="dense").purify(torch.ones(20_000, 1), graph)


def test_iterations_that_fail_are_replaced_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((0, 0)))

    data = communities(num_nodes=300)
    expected = pg.SVD(rank=5)(data).edge_weight
    monkeypatch.setattr(low_rank, "eigsh", fail)
    torch.testing.assert_close(pg.SVD(rank=5)(data).edge_weight, expected, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(low_rank, "_FULL_IF_NEEDED_UP_TO", 10)
    with pytest.raises(PurigraphError, match="another rank or seed"):
        pg.SVD(rank=5)(data)

    def out_of_memory(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr(low_rank, "eigsh", out_of_memory)
    with pytest.raises(PurigraphError, match="5 leading singular vectors .* 300 nodes .* a lower rank"):
        pg.SVD(rank=5)(data)
