from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import pair_graphs
from purigraph.errors import BudgetError
from purigraph.graph import PairGraph
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.perturbation import Perturbation


@settings(max_examples=500, deadline=None)
@given(
    pair_graphs(), st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 1.0]), st.sampled_from([None, 0.0, 0.5, 0.7]), st.data()
)
def test_equals_the_definition(graph: PairGraph, epsilon: float, local: float | None, data: st.DataObject) -> None:
    targets = sorted(data.draw(st.sets(st.integers(0, graph.num_nodes - 1), min_size=1)))
    edges = graph.pairs.t().tolist()
    incident = sum(i in targets or j in targets for i, j in edges)
    degree = [sum(node in edge for edge in edges) for node in range(graph.num_nodes)]

    total = Budget(epsilon).resolve(graph, torch.tensor(targets))
    half = Budget(epsilon, "half-degree").resolve(graph, torch.tensor(targets))
    limits = Budget(epsilon, local=local).limits(graph, torch.tensor(targets))

    assert abs(total - epsilon * incident) <= 0.5
    assert abs(half - epsilon * sum(degree[t] for t in targets) / 2) <= 0.5
    assert half <= total
    assert limits.total == total
    if local is None:
        assert limits.local is None
    else:
        share = Fraction(str(local))
        assert limits.local.tolist() == [share * d // 1 for d in degree]


def test_kinds() -> None:
    star = PairGraph(5, torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]]))
    centre, leaves = torch.tensor([0]), torch.tensor([1, 2])
    assert Budget(0.5).resolve(star, centre) == 2
    assert Budget(0.5, "half-degree").resolve(star, centre) == 1
    assert Budget(1.0).resolve(star, leaves) == 2
    assert Budget(1.0, "half-degree").resolve(star, torch.tensor([1, 2, 2])) == 1
    assert Budget(3, "absolute").resolve(star, leaves) == 3
    assert Budget.of(3) == Budget(3, "absolute")
    assert Budget.of(Budget(0.1)) == Budget(0.1)
    assert Budget(0, local=0.5).limits(star, centre).local.tolist() == [2, 0, 0, 0, 0]
    big = PairGraph(101, torch.stack([torch.zeros(100, dtype=torch.int64), torch.arange(1, 101)]))
    assert int(Budget(0, local=0.29).limits(big, centre).local[0]) == 29


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1,), "not negative"),
        ((float("nan"),), "finite"),
        ((1.5, "absolute"), "whole number"),
        ((0.1, "edges"), "incident, half-degree, absolute"),
        ((0.1, "incident", -1.0), "local"),
    ],
)
def test_bad_budgets(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Budget(*arguments)  # type: ignore[arg-type]


def test_more_than_the_graph_has() -> None:
    with pytest.raises(BudgetError, match="exceeds the 3 pairs of 3 nodes"):
        Budget(4, "absolute").resolve(PairGraph(3, torch.empty(2, 0, dtype=torch.int64)), torch.tensor([0]))
    for value in (0.1, True, "0.1"):
        with pytest.raises(BudgetError, match=r"Budget\(0.1\)"):
            Budget.of(value)  # type: ignore[arg-type]


def test_limits_are_checked() -> None:
    flips = Perturbation(4, added=torch.tensor([[0, 0], [1, 2]]))
    Limits(2, torch.tensor([2, 1, 1, 0])).check(flips)
    with pytest.raises(BudgetError, match="2 flips were made; the budget allows 1"):
        Limits(1).check(flips)
    with pytest.raises(BudgetError, match="2 flips were made at node 0; its local budget allows 1"):
        Limits(2, torch.tensor([1, 1, 1, 1])).check(flips)


def test_a_kind_has_one_spelling() -> None:
    assert Budget(0.5, "half_degree") == Budget(0.5, "half-degree")  # type: ignore[arg-type]
    assert repr(Budget(0.5, "Half_Degree")) == "Budget(amount=0.5, kind='half-degree', local=None)"  # type: ignore[arg-type]
