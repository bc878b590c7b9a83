"""SVD by its factors: the whole reconstruction, negative values and diagonal included, without a list of edges."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.nn.models import GCN as PygGCN

import purigraph as pg
from helpers import communities
from purifiers.frozen_attack import Array, as_data
from purigraph import classifiers
from purigraph.classifiers import Classifier
from purigraph.errors import GraphError, InputError, ModelFileError, UnsupportedModelError
from purigraph.graph import (
    InductiveSplit,
    LowRankAdjacency,
    PairGraph,
    as_pair_graph,
    attach_split,
    inductive_split,
)
from purigraph.training import train

TAKING = ("gcn", "appnp", "gprgnn")


def svd(rank: int = 3, straight_through: bool = False) -> pg.SVD:
    return pg.SVD(rank=rank, reconstruction="factored", straight_through=straight_through)


def approximation(adjacency: Array, rank: int) -> Array:
    u, s, vt = np.linalg.svd(adjacency)
    return (u[:, :rank] * s[:rank]) @ vt[:rank]


def normalised(adjacency: Array) -> Array:
    scale = 1 / np.sqrt(1 + adjacency.sum(1).clip(min=0))
    return scale[:, None] * (adjacency + np.eye(len(adjacency))) * scale


def classifier(name: str, features: int, hidden: int = 5) -> Classifier:
    torch.manual_seed(0)
    return classifiers.create(name, features, 3, hidden_channels=hidden).double().eval()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [1, 3, 4, 50])
def test_it_equals_a_dense_computation(rank: int, weighted: bool) -> None:
    data, adjacency = as_data(weighted)
    expected = approximation(adjacency, rank)
    assert rank in (1, 50) or expected.min() < -0.01  # nothing is clipped
    purifier = svd(rank)
    factors = purifier.factors(data.x, as_pair_graph(data))
    assert purifier.adds_edges
    assert factors.left.shape == (12, min(rank, 12)) == (factors.num_nodes, factors.rank)
    np.testing.assert_allclose(factors.dense(), expected, atol=1e-6)
    np.testing.assert_allclose(factors.degree(), expected.sum(1), atol=1e-6)
    gcn = classifier("gcn", 9)
    p, h = normalised(expected), data.x.numpy()
    weights = [layer.weight.detach().numpy().T for layer in (gcn.first, *gcn.others)]
    np.testing.assert_allclose(
        pg.protect(gcn, purifier)(data.x, data.edge_index, data.edge_weight if weighted else None).detach(),
        p @ (p @ (h @ weights[0])).clip(min=0) @ weights[1],
        atol=1e-6,
    )


def test_it_is_the_dense_form_where_nothing_is_clipped() -> None:
    """At full rank, the reconstruction is the graph."""
    data, _ = as_data(weighted=True)
    for name in TAKING:
        model = classifier(name, 9)
        torch.testing.assert_close(
            pg.protect(model, svd(50))(data.x, data.edge_index, data.edge_weight),
            model(data.x, data.edge_index, data.edge_weight),
        )


@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("num_nodes", [40, 300])
def test_gradients_equal_finite_differences(name: str, num_nodes: int) -> None:
    generator = torch.Generator().manual_seed(2)
    data = communities(num_nodes=num_nodes)
    graph = as_pair_graph(data)
    edge_index, _ = graph.edge_index()
    presence = 0.3 + 0.7 * torch.rand(graph.num_pairs, generator=generator, dtype=torch.float64)
    model = pg.protect(classifier(name, 24), svd(8))
    direction = torch.randn(num_nodes, 3, generator=generator, dtype=torch.float64)
    ones = torch.ones(edge_index.shape[1], dtype=torch.float64)

    def total(presence: torch.Tensor) -> torch.Tensor:
        found = model.relaxed(data.x.double(), edge_index, ones, presence[graph.csr.pair])
        return torch.as_tensor((found * direction).sum())

    there = presence.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(there), there)
    for entry in range(0, graph.num_pairs, graph.num_pairs // 4):
        step = torch.zeros_like(presence)
        step[entry] = 1e-5
        with torch.no_grad():
            slope = float(total(presence + step) - total(presence - step)) / 2e-5
        np.testing.assert_allclose(float(gradient[entry]), slope, rtol=1e-4, atol=1e-7)


def test_straight_through_holds_the_singular_vectors() -> None:
    """Its gradient is that of $P A + A P - P A P$ with a constant projection P, for any function of the matrix."""
    data, adjacency = as_data(weighted=True)
    graph = as_pair_graph(data)
    eigenvalues, u = np.linalg.eigh(adjacency)
    u = u[:, np.argsort(-np.abs(eigenvalues))[:3]]
    projection = torch.from_numpy(u @ u.T)
    weight = graph.weight.clone().requires_grad_()
    matrix = torch.zeros(12, 12, dtype=torch.float64)
    matrix[graph.pairs[0], graph.pairs[1]] = matrix[graph.pairs[1], graph.pairs[0]] = weight
    held = projection @ matrix + matrix @ projection - projection @ matrix @ projection
    h = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (expected,) = torch.autograd.grad((held @ (held @ h).tanh()).square().sum(), weight)
    factors = svd(straight_through=True).factors(data.x, graph.with_weight(weight))
    (found,) = torch.autograd.grad(factors.times(factors.times(h).tanh()).square().sum(), weight)
    torch.testing.assert_close(found, expected)
    assert svd().variants()["straight-through"].settings == svd(straight_through=True).settings


def test_absent_edges_are_absent() -> None:
    data = communities()
    edge_index, _ = as_pair_graph(data).edge_index()
    model = pg.protect(classifier("gcn", 24), svd(6))
    presence = torch.ones(edge_index.shape[1], dtype=torch.float64)
    gone = (edge_index == 7).any(0)
    presence[gone] = 0
    torch.testing.assert_close(
        model.relaxed(data.x.double(), edge_index, torch.ones_like(presence), presence),
        model(data.x.double(), edge_index[:, ~gone]),
    )


@pytest.mark.parametrize("rank", [1, 10, 400])
@pytest.mark.parametrize(
    "pairs",
    [
        torch.empty(2, 0, dtype=torch.int64),
        torch.stack([torch.zeros(299, dtype=torch.int64), torch.arange(1, 300)]),
        torch.arange(300).view(-1, 2).t(),
    ],
    ids=["no edges", "star", "matching"],
)
def test_graphs_of_low_rank_and_with_equal_singular_values(pairs: torch.Tensor, rank: int) -> None:
    graph = PairGraph(300, pairs)
    weight = graph.edge_index()[1].requires_grad_()
    model = pg.protect(classifier("appnp", 4).float(), svd(rank))
    out = model(torch.rand(300, 4), graph.edge_index()[0], weight)
    assert out.isfinite().all()
    if pairs.shape[1]:
        assert torch.autograd.grad(out.square().sum(), weight)[0].isfinite().all()


def test_a_chain_may_end_in_factors(tmp_path: Path) -> None:
    data = communities()
    jaccard = pg.Jaccard(similarity="cosine", cosine_threshold=0.0)
    chain = pg.Chain([jaccard, svd(5)])
    assert chain.factored
    assert chain.adds_edges
    expected = svd(5).factors(data.x, as_pair_graph(jaccard(data)))
    torch.testing.assert_close(chain.factors(data.x, as_pair_graph(data)).dense(), expected.dense())
    graph = as_pair_graph(data)
    half = torch.full((graph.num_pairs,), 0.5)
    torch.testing.assert_close(chain.factors(data.x, graph, half).dense(), 0.5 * expected.dense())
    with pytest.raises(InputError, match="no edges to list"):
        chain(data)
    assert chain.fit(data).training_statistics is not None
    pairs = torch.tensor([[0, 3], [1, 50]])
    torch.testing.assert_close(
        chain.score_edges(data, pairs), expected.dense()[pairs[0], pairs[1]].clamp(0, 1), atol=1e-6, rtol=1e-5
    )
    chain.save_pretrained(tmp_path)
    loaded = pg.purifiers.load(tmp_path)
    torch.testing.assert_close(loaded.factors(data.x, graph).dense(), expected.dense())
    assert loaded.check(data) == chain.check(data)
    with pytest.raises(InputError, match="Only the last part"):
        pg.Chain([svd(5), jaccard])


def test_what_has_no_edges_says_so() -> None:
    data = communities()
    purifier = svd()
    calls: list[Callable[[], object]] = [
        lambda: purifier(data),
        lambda: purifier(data.x, data.edge_index),
        lambda: purifier.explain(data),
        lambda: purifier.relaxed(data.x, data.edge_index, torch.ones(1), torch.ones(1)),
        lambda: purifier.purify_subgraph(data, [0], 2),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"This SVD .* no edges to list.*purigraph\.protect.*\"edges\""):
            call()
    with pytest.raises(InputError, match="returns edges, not factors"):
        pg.Jaccard().factor_edges(data.x, data.edge_index)
    # What is asked about single pairs has an answer.
    torch.testing.assert_close(
        purifier.score_edges(data, data.edge_index), pg.SVD(rank=3).score_edges(data, data.edge_index)
    )


@pytest.mark.parametrize("name", ["gat", "evennet", "soft-median", "rung", "mlp"])
def test_classifiers_that_need_edges_are_refused(name: str) -> None:
    model = classifiers.create(name, 24, 3, **({} if name == "rung" else {"hidden_channels": 4}))
    with pytest.raises(UnsupportedModelError, match=f"{type(model).__name__} can't be given: use a GCN"):
        pg.protect(model, svd())
    if name != "mlp":
        factors = LowRankAdjacency(torch.rand(120, 2), torch.rand(120, 2))
        with pytest.raises(UnsupportedModelError, match="needs a list of edges"):
            model(communities().x, factors)


def test_other_models_and_thresholds_are_refused() -> None:
    of_pyg = PygGCN(24, 8, 2, 3)
    with pytest.raises(UnsupportedModelError, match=r"torch_geometric.*GCN can't be given"):
        pg.protect(of_pyg, svd())
    with pytest.raises(UnsupportedModelError, match=r"torch_geometric.*GCN can't be given"):
        pg.protect(of_pyg, pg.SVD()).with_purifier(svd())
    with pytest.raises(UnsupportedModelError, match="takes no 'weight'"):
        pg.protect(classifier("gcn", 24), svd(), weight_arg="weight")
    with pytest.raises(InputError, match="none to remove"):
        pg.protect(classifier("gcn", 24), svd(), straight_through=True)
    with pytest.raises(InputError, match="threshold is about edges"):
        pg.protect(classifier("gcn", 24), svd(), threshold=0.5)


def test_factors_that_do_not_belong_to_the_graph_are_refused() -> None:
    data, factors = communities(), LowRankAdjacency(torch.rand(7, 2), torch.rand(7, 2))
    gcn = classifier("gcn", 24).float()
    with pytest.raises(GraphError, match="7 nodes, but x has 120 rows"):
        gcn(data.x, factors)
    with pytest.raises(GraphError, match="leave out edge_weight"):
        gcn(data.x[:7], factors, torch.ones(3))
    with pytest.raises(GraphError, match=r"same shape \(N, r\)"):
        LowRankAdjacency(torch.rand(7, 2), torch.rand(7, 3))


def test_the_matrix_itself_has_the_same_gradient() -> None:
    data, _ = as_data(weighted=True)
    graph = as_pair_graph(data)
    weight = graph.weight.clone().requires_grad_()
    factors = svd().factors(data.x, graph.with_weight(weight))
    h = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (by_products,) = torch.autograd.grad(factors.times(h)[3].sum(), weight, retain_graph=True)
    (by_matrix,) = torch.autograd.grad((factors.dense() @ h)[3].sum(), weight)
    torch.testing.assert_close(by_matrix, by_products)


def small_split() -> InductiveSplit:
    return inductive_split(attach_split(communities(160), seed=0, train_per_class=5, val_per_class=8))


@pytest.mark.parametrize("regime", ["vanilla", "self"])
def test_training_on_factors_is_training_on_the_reconstruction(regime: str) -> None:
    """At full rank that is training on the graph itself."""
    split, settings = small_split(), {"epochs": 15}
    found = train("gcn", regime, split, settings=settings, purifier=svd(1000))
    expected = train("gcn", regime, split, settings=settings)
    assert isinstance(found.model, classifiers.GCN)
    np.testing.assert_allclose(found.train_losses, expected.train_losses, rtol=1e-3)
    assert found.purifier == {"purifier": "svd", "settings": svd(1000).settings.to_json()}
    assert found.model.provenance == found.record()
    low = train("gcn", regime, split, settings=settings, purifier=svd(2))
    assert abs(low.train_losses[-1] - expected.train_losses[-1]) > 1e-3


def test_a_checkpoint_belongs_to_its_purifier(tmp_path: Path) -> None:
    split, settings = small_split(), {"epochs": 4}
    first = train("gcn", "vanilla", split, settings=settings, purifier=svd(4), checkpoint=tmp_path)
    again = train("gcn", "vanilla", split, settings=settings, purifier=svd(4), checkpoint=tmp_path)
    assert again.train_losses == first.train_losses
    with pytest.raises(ModelFileError, match="another run"):
        train("gcn", "vanilla", split, settings=settings, purifier=svd(5), checkpoint=tmp_path)


def test_it_is_attacked_and_saved_like_any_other(tmp_path: Path) -> None:
    split = small_split()
    purifier = svd(6).fit(split.train)
    gcn = train("gcn", "vanilla", split, settings={"epochs": 40}, purifier=purifier).model
    model = pg.protect(gcn, purifier)
    assert set(model.views()) == {"straight-through", "small-weights"}
    found = pg.evaluate(model, split.test, epsilons=0.3, epochs=10, fine_tune_epochs=2, block_size=500)
    assert found.records[0].accuracy < found.clean - 0.1
    purifier.save_pretrained(tmp_path)
    loaded = pg.purifiers.load(tmp_path)
    torch.testing.assert_close(
        pg.protect(gcn, loaded)(split.test.x, split.test.edge_index), model(split.test.x, split.test.edge_index)
    )


def test_progress_names_the_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    train("gcn", "vanilla", small_split(), settings={"epochs": 3}, purifier=svd(), progress=True)
    assert "GCN vanilla" in capsys.readouterr().err
