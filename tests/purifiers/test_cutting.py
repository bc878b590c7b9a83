"""What is cut, within limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import pair_graphs, random_pair_graph
from purigraph.errors import InputError
from purigraph.graph import PairGraph
from purigraph.purifiers.cutting import CutRules, decide


def star() -> PairGraph:
    """Node 0 with five neighbours, the first two of which know each other."""
    return PairGraph(6, torch.tensor([[0, 0, 0, 0, 0, 1], [1, 2, 3, 4, 5, 2]]))


WEIGHT = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.9, 0.15])


def test_all_below_the_threshold_are_cut() -> None:
    found = decide(star(), WEIGHT, CutRules(threshold=0.3))
    assert found.keep.tolist() == [False, False, True, True, True, False]
    assert (found.cut, found.below) == (3, 3)
    assert found.sentence() == "3 of 6 edges with a weight below 0.3 are cut."


def test_no_node_is_orphaned() -> None:
    found = decide(star(), WEIGHT, CutRules(threshold=0.5, min_degree=1))
    # In the order of the weights: {0, 1}; {1, 2} would orphan 1; {0, 2}; {0, 3} and {0, 4} would orphan 3 and 4.
    assert found.keep.tolist() == [False, False, True, True, True, True]
    assert (found.cut, found.by_degree, found.below) == (2, 3, 5)
    assert "3 stay as a node would have fewer than 1 left" in found.sentence()


def test_at_most_a_share_is_cut_the_worst_first() -> None:
    found = decide(star(), WEIGHT, CutRules(threshold=0.5, max_cut=1 / 3))
    assert found.keep.tolist() == [False, True, True, True, True, False]
    assert (found.cut, found.by_share) == (2, 3)
    assert "3 stay as 33.3 % of all edges are cut already" in found.sentence()
    assert decide(star(), WEIGHT, CutRules(threshold=0.5, max_cut=0)).cut == 0


def test_some_are_never_cut() -> None:
    spared = torch.tensor([True, False, False, False, True, False])
    found = decide(star(), WEIGHT, CutRules(threshold=0.5), spared)
    assert found.keep.tolist() == [True, False, False, False, True, False]
    assert found.never_cut == 1
    with pytest.raises(InputError, match="bool mask"):
        decide(star(), WEIGHT, CutRules(threshold=0.5), torch.zeros(3, dtype=torch.bool))


@given(pair_graphs(), st.floats(0, 1), st.integers(0, 3), st.floats(0, 1), st.integers(0, 99))
def test_the_limits_hold_whatever_the_graph(
    graph: PairGraph, threshold: float, least: int, share: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(graph.num_pairs, generator=generator)
    spared = torch.rand(graph.num_pairs, generator=generator) < 0.2
    rules = CutRules(threshold=threshold, min_degree=least, max_cut=share)
    found = decide(graph, weight, rules, spared)
    assert found.cut <= share * graph.num_pairs + 1e-6
    assert found.keep[spared].all()
    assert found.keep[weight >= threshold].all()
    left = graph.with_weight(found.keep.float()).weighted_degree()
    before = graph.degree()
    assert (left >= torch.minimum(before, torch.tensor(least))).all()
    assert found.cut + found.never_cut + found.by_degree + found.by_share == found.below


def test_a_hundred_thousand_edges_take_a_moment() -> None:
    graph = random_pair_graph(5000, 100_000)
    weight = torch.rand(graph.num_pairs)
    found = decide(graph, weight, CutRules(threshold=0.5, min_degree=1))
    assert found.cut > 0.4 * graph.num_pairs
