"""Thousands of random cases: what comes out is always within the limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from purigraph.attacks.projections import choose, project_global, project_greedy, project_nearest
from purigraph.graph.budget import Limits

cases = settings(max_examples=1000, deadline=None)
weights = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=40)
big = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40)


@cases
@given(weights | big, st.integers(0, 12), st.sampled_from([torch.float32, torch.float64]))
def test_global_projection_keeps_the_budget(values: list[float], total: int, dtype: torch.dtype) -> None:
    weight = torch.tensor(values, dtype=dtype)
    projected = project_global(weight, total)
    assert projected.dtype == dtype
    assert float(projected.min()) >= 0
    assert float(projected.max()) <= 1
    spent, wanted = float(projected.double().sum()), float(weight.double().clamp(0, 1).sum())
    # Rounding to single precision may add half a unit in the last place per entry.
    assert spent <= total * (1 + 1e-6) + 1e-9
    # All is spent if more was wanted; nothing changes if it fits.
    if wanted > total:
        assert spent == pytest.approx(total, rel=1e-5, abs=1e-5)
    else:
        assert torch.equal(projected, weight.clamp(0, 1))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=8), st.integers(1, 4))
def test_global_projection_is_the_nearest_point(values: list[float], total: int) -> None:
    weight = torch.tensor(values, dtype=torch.float64)
    nearest = _nearest(weight, [(np.ones(len(values)), total)])
    torch.testing.assert_close(project_global(weight, total), nearest, atol=1e-4, rtol=0)


@st.composite
def local_cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, Limits]:
    num_nodes = draw(st.integers(2, 10))
    every = torch.triu_indices(num_nodes, num_nodes, 1)
    chosen = draw(st.lists(st.integers(0, every.shape[1] - 1), min_size=1, max_size=25, unique=True))
    weight = draw(st.lists(st.floats(-3, 3, width=32), min_size=len(chosen), max_size=len(chosen)))
    local = draw(st.lists(st.integers(0, 3), min_size=num_nodes, max_size=num_nodes))
    limits = Limits(draw(st.integers(0, 10)), torch.tensor(local))
    return torch.tensor(weight, dtype=torch.float64), every[:, chosen], limits


@cases
@given(local_cases(), st.sampled_from([project_greedy, project_nearest]))
def test_local_projections_keep_both_budgets(case: tuple[Tensor, Tensor, Limits], project) -> None:  # type: ignore[no-untyped-def]
    weight, pairs, limits = case
    projected = project(weight, pairs, limits)
    assert float(projected.min()) >= 0
    assert float(projected.max()) <= 1
    assert float(projected.sum()) <= limits.total + 1e-9
    assert (_at_nodes(projected, pairs, limits) <= limits.local + 1e-9).all()
    assert (projected[weight <= 0] == 0).all()


@settings(max_examples=60, deadline=None)
@given(local_cases())
def test_nearest_is_near(case: tuple[Tensor, Tensor, Limits]) -> None:
    weight, pairs, limits = case
    rows = [(np.ones(len(weight)), limits.total)]
    rows += [((pairs == node).any(0).double().numpy(), int(limits.local[node])) for node in range(len(limits.local))]
    nearest = _nearest(weight, rows)
    distance = (project_nearest(weight, pairs, limits, tolerance=1e-9, sweeps=1000) - weight).norm()
    assert float(distance) <= float((nearest - weight).norm()) + 1e-2


def test_greedy_serves_the_largest_first() -> None:
    weight = torch.tensor([0.4, 0.9, 5.0, 0.8])
    pairs = torch.tensor([[0, 0, 0, 2], [1, 2, 3, 3]])
    limits = Limits(3, torch.tensor([1, 1, 1, 2]))
    # The third takes all that node 0 has; the fourth still finds something at 2 and 3.
    assert project_greedy(weight, pairs, limits).tolist() == pytest.approx([0, 0, 1, 0.8])


@cases
@given(local_cases(), st.booleans(), st.randoms())
def test_choices_keep_both_budgets_and_leave_nothing_that_fits(case, with_local: bool, random) -> None:  # type: ignore[no-untyped-def]
    weight, pairs, limits = case
    limits = limits if with_local else Limits(limits.total)
    order = list(range(len(weight)))
    random.shuffle(order)
    chosen = choose(torch.tensor(order), pairs, limits)
    assert len(chosen) <= limits.total
    assert len(set(chosen.tolist())) == len(chosen)
    if limits.local is None:
        assert chosen.tolist() == order[: limits.total]
        return
    flips = torch.zeros(len(weight))
    flips[chosen] = 1
    left = limits.local - _at_nodes(flips, pairs, limits)
    assert (left >= 0).all()
    if len(chosen) < limits.total:
        others = flips == 0
        assert (left[pairs[:, others]].amin(0) == 0).all()


def _at_nodes(weight: Tensor, pairs: Tensor, limits: Limits) -> Tensor:
    assert limits.local is not None
    zero = weight.new_zeros(len(limits.local))
    return zero.index_add(0, pairs[0], weight).index_add(0, pairs[1], weight)


def _nearest(weight: Tensor, rows: list[tuple[np.ndarray, int]]) -> Tensor:
    """An independent solver: SLSQP on the squared distance."""
    target = weight.numpy()
    constraints = [{"type": "ineq", "fun": lambda p, a=a, b=b: b - a @ p, "jac": lambda p, a=a: -a} for a, b in rows]
    result = optimize.minimize(
        lambda p: 0.5 * ((p - target) ** 2).sum(),
        np.zeros_like(target),
        jac=lambda p: p - target,
        bounds=[(0, 1)] * len(target),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return torch.from_numpy(result.x)
