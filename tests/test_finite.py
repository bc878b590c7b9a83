"""Finite input gives finite results or an error, whatever its dtype and magnitude; never NaN in silence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import purigraph as pg
from purigraph import classifiers
from purigraph.errors import GraphError, InputError
from purigraph.graph import PairGraph, read_edge_index

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WIDTH = 3


@st.composite
def magnitudes(draw: st.DrawFn, size: int, dtype: torch.dtype, *, signed: bool) -> Tensor:
    """Numbers whose magnitudes are spread over the whole range of a dtype, zeros and the largest included."""
    info = torch.finfo(dtype)
    one = st.one_of(
        st.just(0.0),
        st.just(info.max),
        st.just(info.tiny),
        st.just(6e4),
        st.just(1e15),
        st.floats(-45, 39).map(lambda exponent: 10.0**exponent),
        st.floats(0, 2),
    )
    values = draw(st.lists(one, min_size=size, max_size=size))
    signs = draw(st.lists(st.sampled_from([1.0, -1.0] if signed else [1.0]), min_size=size, max_size=size))
    numbers = torch.tensor(values, dtype=torch.float64) * torch.tensor(signs, dtype=torch.float64)
    return numbers.clamp(-info.max, info.max).to(dtype)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Features (N, 3), edges in both directions and a weight for each."""
    num_nodes = draw(st.integers(2, 6))
    everything = [(i, j) for i in range(num_nodes) for j in range(i + 1, num_nodes)]
    edges = sorted(draw(st.sets(st.sampled_from(everything), min_size=1)))
    weight = draw(magnitudes(len(edges), draw(st.sampled_from(FLOATS)), signed=False))
    x = draw(magnitudes(num_nodes * WIDTH, torch.float32, signed=True)).view(num_nodes, WIDTH)
    if draw(st.booleans()):
        x = x.clamp(-10, 10)
    one = torch.tensor(edges).t()
    return x, torch.cat([one, one.flip(0)], dim=1), weight.repeat(2)


def too_large(x: Tensor, weight: Tensor) -> bool:
    return max(float(x.abs().max()), float(weight.max())) > 1e15


@pytest.fixture(scope="module")
def purifiers() -> list[pg.GPRGAE]:
    size = {"in_channels": WIDTH, "hops": 3, "node_channels": 4, "edge_channels": 4}
    kinds = [{}, {"alpha": 0.5}, {"self_loops": True}, {"encoder": "gcn"}]
    return [pg.GPRGAE(**size, **kind) for kind in kinds]


@pytest.fixture(scope="module")
def models() -> dict[str, classifiers.Classifier]:
    built = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name in classifiers.names():
            kind = classifiers.registry[name]
            built[name] = classifiers.create(name, WIDTH, 2, **kind.trial_settings).eval()
    return built


@settings(max_examples=300)
@given(case=inputs())
def test_purified_weights_are_finite(case: tuple[Tensor, Tensor, Tensor], purifiers: list[pg.GPRGAE]) -> None:
    x, edge_index, weight = case
    for purifier in purifiers:
        if too_large(x, weight):
            with pytest.raises(InputError, match=r"1e\+15"):
                purifier(x, edge_index, weight)
            continue
        found = purifier(x, edge_index, weight)
        assert found.dtype == weight.dtype
        assert found.isfinite().all()


@settings(max_examples=300)
@given(case=inputs())
def test_logits_are_finite(case: tuple[Tensor, Tensor, Tensor], models: dict[str, classifiers.Classifier]) -> None:
    x, edge_index, weight = case
    for name, model in models.items():
        try:
            with torch.no_grad():
                logits = model(x, edge_index, weight)
        except InputError:
            refused = True
        else:
            refused = False
        if refused:
            assert too_large(x, weight), name
            continue
        assert logits.isfinite().all(), name


@settings(max_examples=300)
@given(case=inputs())
def test_normalised_weights_are_finite(case: tuple[Tensor, Tensor, Tensor]) -> None:
    x, edge_index, weight = case
    try:
        graph, entries = read_edge_index(edge_index, weight, len(x))
    except GraphError:
        assert float(weight.max()) > 1e15
        return
    assert torch.equal(entries.spread(graph.weight), weight)
    if weight.dtype.itemsize < 4:
        graph = graph.with_weight(graph.weight.float())  # as purifiers and classifiers do
    for value in (graph.normalised_weight(), *graph.normalised_weight_with_loops()):
        assert value.isfinite().all()
        assert (value <= 1 + 1e-5).all()


@pytest.mark.parametrize(("dtype", "value"), [(torch.float16, 6e4), (torch.bfloat16, 1e15), (torch.float32, 9e14)])
def test_the_largest_weights_are_weights_like_others(dtype: torch.dtype, value: float) -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph, _ = read_edge_index(edge_index, torch.full((4,), value, dtype=dtype))
    expected = PairGraph(3, graph.pairs).normalised_weight()
    torch.testing.assert_close(graph.with_weight(graph.weight.float()).normalised_weight(), expected)


def test_weights_beyond_the_bound_are_refused() -> None:
    with pytest.raises(GraphError, match=r"edge_weight\[0\] is 3e\+38: weights must be at most 1e\+15"):
        read_edge_index(torch.tensor([[0, 1], [1, 0]]), torch.full((2,), 3e38))
