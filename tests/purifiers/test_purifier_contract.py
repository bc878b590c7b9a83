"""What every registered purifier must keep to, whatever it does inside."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch_geometric.transforms as T
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import purifiers
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.sampling import sample_non_edges
from purigraph.purifiers import Purifier

_made: dict[str, Purifier] = {}


def ready(name: str) -> Purifier:
    """A small one, fitted in a moment; it says itself how."""
    if name not in _made:
        kind = purifiers.registry[name]
        _made[name] = kind(**kind.trial_settings).fit(communities(), **kind.trial_fit)
    return _made[name]


every_purifier = pytest.mark.parametrize("name", purifiers.names())


def shuffled(data: Data, seed: int) -> tuple[Data, torch.Tensor, torch.Tensor]:
    """The same graph with nodes renamed and edges in another order."""
    generator = torch.Generator().manual_seed(seed)
    rename = torch.randperm(data.num_nodes, generator=generator)
    order = torch.randperm(data.edge_index.shape[1], generator=generator)
    x = torch.empty_like(data.x)
    x[rename] = data.x
    return Data(x=x, edge_index=rename[data.edge_index][:, order]), rename, order


def adjacency(purifier: Purifier, data: Data) -> torch.Tensor:
    """The purified graph as a dense matrix."""
    result = purifier(data)
    dense = torch.zeros(data.num_nodes, data.num_nodes, dtype=result.edge_weight.dtype)
    dense[result.edge_index[0], result.edge_index[1]] = result.edge_weight
    return dense


@every_purifier
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_renaming_nodes_and_reordering_edges_changes_nothing(name: str, seed: int) -> None:
    data = communities(seed=3)
    purifier = ready(name)
    other, rename, order = shuffled(data, seed)
    before, after = adjacency(purifier, data), adjacency(purifier, other)
    assert torch.allclose(after[rename][:, rename], before, atol=2e-5)
    if not purifier.adds_edges:
        expected = purifier(data.x, data.edge_index)[order]
        assert torch.allclose(purifier(other.x, other.edge_index), expected, atol=2e-5)


@every_purifier
@given(seed=st.integers(0, 10_000), weighted=st.booleans())
@settings(max_examples=15)
def test_weights_are_symmetric_between_0_and_1_and_on_the_given_edges(name: str, seed: int, weighted: bool) -> None:
    data = communities(num_nodes=40, seed=seed % 7)
    if weighted:
        graph = pg.graph.as_pair_graph(data)
        generator = torch.Generator().manual_seed(seed)
        weighted_graph = graph.with_weight(torch.rand(graph.num_pairs, generator=generator))
        data.edge_index, data.edge_weight = weighted_graph.edge_index()
    result = ready(name)(data)
    weight = result.edge_weight
    assert ((weight >= 0) & (weight <= 1)).all()
    if not ready(name).adds_edges:
        assert torch.equal(result.edge_index, data.edge_index)
        assert weight.shape == (data.edge_index.shape[1],)
    dense = torch.zeros(40, 40)
    dense[result.edge_index[0], result.edge_index[1]] = weight
    assert torch.equal(dense, dense.t())


@every_purifier
def test_the_input_is_never_changed_and_calls_repeat(name: str) -> None:
    data = communities()
    data.edge_weight = torch.full((data.edge_index.shape[1],), 0.5)
    before = copy.deepcopy(data)
    purifier = ready(name)
    first = purifier(data)
    purifier.train()
    second = purifier(data)
    purifier.eval()
    for key in before.keys():
        assert torch.equal(before[key], data[key])
    assert torch.equal(first.edge_weight, second.edge_weight)
    assert first is not data


@every_purifier
def test_it_is_a_transform(name: str) -> None:
    data = communities()
    pipeline = T.Compose([T.NormalizeFeatures(), ready(name)])
    assert pipeline(data).edge_weight is not None
    assert data.edge_weight is None


@every_purifier
def test_no_edges_and_isolated_nodes(name: str) -> None:
    purifier = ready(name)
    x = communities().x[:5]
    nothing = torch.empty(2, 0, dtype=torch.int64)
    edges, weight = purifier.purify_edges(x, nothing)
    assert edges.shape[1] == weight.shape[0]
    one_edge = torch.tensor([[1], [3]])
    for given_weight in (None, torch.zeros(1)):
        edges, weight = purifier.purify_edges(x, one_edge, given_weight)
        assert torch.isfinite(weight).all()
        if not purifier.adds_edges:
            assert torch.equal(edges, one_edge)


@every_purifier
def test_self_loops_pass_through(name: str) -> None:
    data, purifier = communities(), ready(name)
    loops = torch.tensor([[4, 9], [4, 9]])
    edges, weight = purifier.purify_edges(data.x, torch.cat([data.edge_index, loops], dim=1))
    is_loop = edges[0] == edges[1]
    assert edges[:, is_loop].tolist() == loops.tolist()
    assert weight[is_loop].tolist() == [1.0, 1.0]


@every_purifier
def test_dtypes_and_sparse_features(name: str) -> None:
    data, purifier = communities(), ready(name)
    weight = torch.ones(data.edge_index.shape[1], dtype=torch.float64)
    assert purifier.purify_edges(data.x.double(), data.edge_index, weight)[1].dtype == torch.float64
    dense = purifier.purify_edges(data.x, data.edge_index)[1]
    for layout in (data.x.to_sparse_csr(), data.x.to_sparse_coo()):
        assert torch.allclose(purifier.purify_edges(layout, data.edge_index)[1], dense, atol=1e-5)


@every_purifier
def test_it_is_saved_and_loaded_by_name(name: str, tmp_path: Path) -> None:
    data, purifier = communities(), ready(name)
    purifier.save_pretrained(tmp_path)
    loaded = purifiers.load(tmp_path)
    assert type(loaded) is type(purifier)
    assert loaded.settings == purifier.settings
    assert loaded.is_fitted
    assert torch.equal(loaded(data).edge_weight, purifier(data).edge_weight)


def candidates(data: Data, num_new: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    """The graph's edges and further pairs as an edge list, and which of the entries an attacker would have there."""
    graph = as_pair_graph(data)
    more = sample_non_edges(graph, num_new, torch.Generator().manual_seed(0))
    codes = torch.cat([graph.codes, more]).sort().values
    edge_index, _ = PairGraph.from_codes(graph.num_nodes, codes).edge_index()
    return edge_index, edge_index.sum(0) % 3 != 0


@every_purifier
def test_whole_presences_are_the_purifier_itself(name: str) -> None:
    data, purifier = communities(num_nodes=60), ready(name)
    edge_index, there = candidates(data)
    ones = torch.ones(edge_index.shape[1])
    found = purifier.purify_edges(data.x, edge_index, ones, there.float())
    expected = purifier.purify_edges(data.x, edge_index[:, there])
    dense = [torch.zeros(60, 60), torch.zeros(60, 60)]
    for matrix, (edges, weight) in zip(dense, (found, expected), strict=True):
        matrix[edges[0], edges[1]] = weight
    torch.testing.assert_close(*dense)
    if not purifier.adds_edges:
        assert (found[1][~there] == 0).all()


@every_purifier
def test_gradients_of_presences_equal_finite_differences(name: str) -> None:
    data, purifier = communities(num_nodes=40), copy.deepcopy(ready(name)).double()
    x, (edge_index, _) = data.x.double(), candidates(data)
    graph = as_pair_graph(edge_index)
    generator = torch.Generator().manual_seed(1)
    part = (0.2 + 0.6 * torch.rand(graph.num_pairs, dtype=torch.float64, generator=generator)).requires_grad_()
    direction = torch.randn(40, 40, dtype=torch.float64, generator=generator)

    def total(part: torch.Tensor) -> torch.Tensor:
        whole = graph.with_weight(torch.ones_like(part))
        purified = purifier.purify_parts(x, whole, part)
        return (purified.weight * direction[purified.pairs[0], purified.pairs[1]]).sum()

    value = total(part)
    if not value.requires_grad:
        pytest.skip(f"{name} has no gradient: it must be attacked in another way")
    (gradient,) = torch.autograd.grad(value, part)
    for entry in range(0, graph.num_pairs, max(graph.num_pairs // 6, 1)):
        step = torch.zeros_like(part)
        step[entry] = 1e-5
        with torch.no_grad():
            slope = (total(part + step) - total(part - step)) / 2e-5
        assert float(gradient[entry]) == pytest.approx(float(slope), rel=1e-4, abs=1e-8)


@every_purifier
def test_its_variants_purify_too(name: str) -> None:
    data = communities()
    for variant in ready(name).variants().values():
        assert variant.is_fitted
        assert torch.isfinite(variant(data).edge_weight).all()


@every_purifier
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda d: (d, d.edge_index), "a single Data"),
        (lambda d: (d.x,), "a single Data"),
        (lambda d: (d.x[:-1], d.edge_index), "column|rows|can add edges"),
        (lambda d: (Data(edge_index=d.edge_index, num_nodes=d.num_nodes),), "x is missing"),
    ],
)
def test_wrong_calls_say_so(name: str, arguments: Callable[[Data], tuple[object, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ready(name)(*arguments(communities()))


@every_purifier
def test_purify_returns_a_graph(name: str) -> None:
    data = communities()
    graph = pg.graph.as_pair_graph(data)
    assert isinstance(ready(name).purify(data.x, graph), PairGraph)


@every_purifier
def test_the_evidence_is_that_of_the_purification(name: str) -> None:
    data, purifier = communities(seed=4), ready(name)
    graph = as_pair_graph(data)
    with torch.no_grad():
        evidence, purified = purifier.evidence(data.x, graph), purifier.purify(data.x, graph)
    assert evidence.purified == purified
    assert len(evidence.weights) >= 2
    assert all(weights.shape == (graph.num_pairs,) for weights in evidence.weights)
    assert torch.equal(evidence.weights[0], graph.weight)
    found = purifier.explain(data)
    assert torch.equal(found["weight"], evidence.score)
    assert {"rank", "similarity", "common_neighbours", "degree_source", "degree_target"} <= found.columns.keys()
