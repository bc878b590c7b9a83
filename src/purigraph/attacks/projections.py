"""Projections onto the budget: of flip weights after a gradient step, and of choices of whole flips."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from purigraph.graph.budget import Limits
from purigraph.kernels.compiled import kernel


def project_global(weight: Tensor, total: float, *, tolerance: float = 1e-7) -> Tensor:
    r"""Return the nearest point of $\{p \in [0, 1]^B : \sum p \leq \Delta\}$.

    It is $p = \mathrm{clip}(w - \mu, 0, 1)$ with $\mu = 0$ if that is within the budget, else with the $\mu > 0$ that
    spends $\Delta$ (`Xu et al. 2019 <https://arxiv.org/abs/1906.04214>`_). The sum decreases in $\mu$, so
    bisection finds it.

    Args:
        weight: (B,) floating point.
        total: $\Delta$.
        tolerance: The share of $\Delta$ that may stay unspent; $\Delta$ is never exceeded.
    """
    clipped = weight.clamp(0, 1)
    if float(clipped.sum(dtype=torch.float64)) <= total:
        return clipped
    # Negative entries are clipped to 0 for every shift, and after the first steps few others remain.
    value = weight[weight > 0].double()
    low, high = 0.0, float(value.max())
    while True:
        middle = (low + high) / 2
        spent = float((value - middle).clamp_(0, 1).sum())
        if spent > total:
            low = middle
        else:
            high = middle
        # The second condition: there is no floating-point number left between the two.
        if 0 <= total - spent <= tolerance * total or not low < (low + high) / 2 < high:
            break
    return (weight.double() - high).clamp_(0, 1).to(weight.dtype)


def project_greedy(weight: Tensor, pairs: Tensor, limits: Limits) -> Tensor:
    r"""Return a point of $\{p \in [0, 1]^B : \sum p \leq \Delta, \sum_{e \ni v} p_e \leq \Delta_v\}$, greedily.

    Entries are processed from the largest down; each keeps as much of its weight as the budgets of its two nodes and
    the global budget still allow: the knapsack of LR-BCD (`Gosch et al. 2023 <https://arxiv.org/abs/2306.15427>`_). An
    entry with full weight comes first in all later projections, so an ascent with this projection settles early.

    Args:
        weight: (B,) floating point.
        pairs: (2, B) int64, the nodes whose budgets an entry's weight counts against.
        limits: The limits for the graph; `local` must be set.
    """
    order = torch.argsort(weight, descending=True, stable=True)
    order = order[: int((weight > 0).sum())]
    i, j = pairs[:, order].cpu().numpy()
    wanted = weight[order].clamp(max=1).double().cpu().numpy()
    projected = torch.zeros_like(weight)
    projected[order] = torch.from_numpy(_serve(wanted, i, j, *_plain(limits))).to(weight)
    return projected


def project_nearest(
    weight: Tensor, pairs: Tensor, limits: Limits, *, tolerance: float = 1e-4, sweeps: int = 50
) -> Tensor:
    r"""Return approximately the nearest point of the set that `project_greedy` projects onto.

    It is $p_{ij} = \mathrm{clip}(w_{ij} - \mu - \lambda_i - \lambda_j, 0, 1)$: the global budget and every node's
    budget have a price, 0 while they are not exhausted. The prices are computed in turn, each exactly with the others
    fixed (coordinate ascent on the dual), until none moves by more than `tolerance`; any remaining excess is cut by
    `project_greedy`.

    Args:
        weight: (B,) floating point.
        pairs: (2, B) int64, the nodes whose budgets an entry's weight counts against.
        limits: The limits for the graph; `local` must be set.
        tolerance: Convergence tolerance of the prices.
        sweeps: Maximum number of sweeps over all prices.
    """
    entries = (weight > 0).nonzero().squeeze(1)
    i, j = pairs[:, entries].cpu().numpy()
    prices_paid = _bargain(weight[entries].double().cpu().numpy(), i, j, *_plain(limits), tolerance, sweeps)
    projected = torch.zeros_like(weight)
    projected[entries] = torch.from_numpy(prices_paid).to(weight)
    return project_greedy(projected, pairs, limits)


def choose(order: Tensor, pairs: Tensor, limits: Limits) -> Tensor:
    """Return the entries of `order` (K,) that fit into the limits as whole flips, chosen greedily from the first on.

    Args:
        order: (K,) int64, positions in `pairs`, without repetitions, the most wanted first.
        pairs: (2, B) int64.
        limits: The limits for the graph.
    """
    if limits.local is None:
        return order[: limits.total]
    i, j = pairs[:, order].cpu().numpy()
    granted = _serve(np.ones(len(order)), i, j, *_plain(limits))
    # Demands and limits are integers, so every entry is granted 0 or 1.
    return order[torch.from_numpy(granted).to(order.device) == 1]


def _plain(limits: Limits) -> tuple[float, Any]:
    assert limits.local is not None, "a local projection needs local limits"
    return float(limits.total), limits.local.double().cpu().numpy()


@kernel
def _serve(wanted: Any, i: Any, j: Any, total: float, local: Any) -> Any:
    granted = np.zeros_like(wanted)
    left = local.copy()
    for entry in range(len(wanted)):
        if total <= 0:
            break
        a, b = i[entry], j[entry]
        share = min(wanted[entry], left[a], left[b], total)
        if share > 0:
            granted[entry] = share
            left[a] -= share
            left[b] -= share
            total -= share
    return granted


@kernel
def _price(left: Any, members: Any, limit: float) -> float:
    """Return the smallest price x >= 0 that keeps the members within the limit: sum clip(left - x, 0, 1) <= limit."""
    low, high, price = 0.0, 0.0, 0.0
    for entry in members:
        high = max(high, left[entry])
    for _ in range(100):
        spent, num_between = 0.0, 0
        for entry in members:
            rest = left[entry] - price
            if rest >= 1:
                spent += 1
            elif rest > 0:
                spent += rest
                num_between += 1
        if (price == 0 and spent <= limit) or abs(spent - limit) <= 1e-9:
            return price
        if spent > limit:
            low = price
        else:
            high = price
        # A Newton step if it stays between the bounds (the amount spent is piecewise linear), else bisection.
        price = price + (spent - limit) / num_between if num_between > 0 else low
        if not low < price < high:
            price = (low + high) / 2
    return high


@kernel
def _bargain(weight: Any, i: Any, j: Any, total: float, local: Any, tolerance: float, sweeps: int) -> Any:
    num_entries, num_nodes = len(weight), len(local)
    first = np.zeros(num_nodes + 1, np.int64)
    for entry in range(num_entries):
        first[i[entry] + 1] += 1
        first[j[entry] + 1] += 1
    first = np.cumsum(first)
    members = np.empty(2 * num_entries, np.int64)
    place = first[:-1].copy()
    for entry in range(num_entries):
        members[place[i[entry]]] = entry
        place[i[entry]] += 1
        members[place[j[entry]]] = entry
        place[j[entry]] += 1
    everyone = np.arange(num_entries)
    left = weight.copy()
    whole_price, node_price = 0.0, np.zeros(num_nodes)
    for _ in range(sweeps):
        left += whole_price
        price = _price(left, everyone, total)
        left -= price
        moved = abs(price - whole_price)
        whole_price = price
        for node in range(num_nodes):
            mine = members[first[node] : first[node + 1]]
            if len(mine) == 0:
                continue
            left[mine] += node_price[node]
            price = _price(left, mine, local[node])
            left[mine] -= price
            moved = max(moved, abs(price - node_price[node]))
            node_price[node] = price
        if moved <= tolerance:
            break
    return np.minimum(np.maximum(left, 0.0), 1.0)
