"""What every registered purifier must keep to, whatever it does inside."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch_geometric.transforms as T
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph.graph import PairGraph
from purigraph.purifiers import Purifier, purifiers

# How to get a ready purifier of every kind in a moment; one that needs no training is just built.
READY: dict[str, Callable[[], Purifier]] = {
    "gpr-gae": lambda: pg.GPRGAE(hops=3, node_channels=8, edge_channels=16).fit(communities(), epochs=15),
}
_made: dict[str, Purifier] = {}


def ready(name: str) -> Purifier:
    if name not in _made:
        _made[name] = READY[name]() if name in READY else purifiers[name]()
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


@every_purifier
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_renaming_nodes_and_reordering_edges_changes_nothing(name: str, seed: int) -> None:
    data = communities(seed=3)
    purifier = ready(name)
    other, _, order = shuffled(data, seed)
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
    assert purifier(x, nothing).shape == (0,)
    one_edge = torch.tensor([[1], [3]])
    weight = purifier(x, one_edge)
    assert weight.shape == (1,)
    assert torch.isfinite(weight).all()
    zero = purifier(x, one_edge, torch.zeros(1))
    assert torch.isfinite(zero).all()


@every_purifier
def test_caller_s_dtype_comes_back(name: str) -> None:
    data = communities()
    weight = torch.ones(data.edge_index.shape[1], dtype=torch.float64)
    assert ready(name)(data.x.double(), data.edge_index, weight).dtype == torch.float64
    sparse = ready(name)(data.x.to_sparse_csr(), data.edge_index)
    assert torch.allclose(sparse, ready(name)(data.x, data.edge_index), atol=1e-5)


@every_purifier
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda d: (d, d.edge_index), "a Data alone"),
        (lambda d: (d.x,), "a Data alone"),
        (lambda d: (d.x[:-1], d.edge_index), "column|rows"),
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
