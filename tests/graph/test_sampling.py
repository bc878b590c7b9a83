import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import pair_graphs
from purigraph.errors import InputError
from purigraph.graph import PairGraph
from purigraph.graph.distinct_integers import distinct_integers
from purigraph.graph.sampling import num_non_edges, sample_non_edges


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(0, 200), st.data())
def test_distinct_integers_are_distinct_and_as_many_as_asked(bound: int, choose: st.DataObject) -> None:
    count = choose.draw(st.integers(0, bound))
    drawn = distinct_integers(bound, count, seeded(0))
    assert len(drawn) == count
    assert (drawn.diff() > 0).all()
    assert not count or (drawn.min() >= 0 and drawn.max() < bound)


@given(pair_graphs(), st.data())
def test_non_edges_are_new_undirected_and_exact_in_number(graph: PairGraph, choose: st.DataObject) -> None:
    nodes = choose.draw(st.none() | st.sets(st.integers(0, graph.num_nodes - 1)))
    touching = None if nodes is None else torch.tensor(sorted(nodes), dtype=torch.int64)
    free = num_non_edges(graph, touching)
    count = choose.draw(st.integers(0, free))
    codes = sample_non_edges(graph, count, seeded(1), touching)
    i, j = codes // graph.num_nodes, codes % graph.num_nodes
    assert len(codes) == count
    assert (codes.diff() > 0).all()
    assert (i < j).all()
    assert not torch.isin(codes, graph.codes).any()
    if nodes is not None:
        assert all(int(a) in nodes or int(b) in nodes for a, b in zip(i, j, strict=True))
    if count == free and nodes is None:
        assert count + graph.num_pairs == graph.num_nodes * (graph.num_nodes - 1) // 2


def test_non_edges_are_uniform() -> None:
    graph = PairGraph(6, torch.tensor([[0, 1, 2], [1, 4, 3]]))
    generator = seeded(0)
    draws = torch.cat([sample_non_edges(graph, 3, generator) for _ in range(4000)])
    codes, counts = draws.unique(return_counts=True)
    assert len(codes) == 12
    assert (counts - 1000).abs().max() < 130  # 4.4 standard deviations


def test_non_edges_touching_a_set_are_uniform() -> None:
    graph = PairGraph(6, torch.tensor([[0, 1, 2], [1, 4, 3]]))
    generator = seeded(0)
    touching = torch.tensor([1, 5])
    draws = torch.cat([sample_non_edges(graph, 2, generator, touching) for _ in range(3500)])
    codes, counts = draws.unique(return_counts=True)
    assert len(codes) == num_non_edges(graph, touching) == 7
    assert (counts - 1000).abs().max() < 130


def test_more_than_there_are_is_refused() -> None:
    graph = PairGraph(3, torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match="only 2 free pairs"):
        sample_non_edges(graph, 3, seeded(0))
    with pytest.raises(InputError, match="can't be drawn from 2"):
        distinct_integers(2, 3, seeded(0))
