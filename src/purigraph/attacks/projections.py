"""Back into the budget: weights after a gradient step, and choices of whole flips."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from purigraph.graph.budget import Limits
from purigraph.kernels.compiled import kernel


def project_global(weight: Tensor, total: float, *, tolerance: float = 1e-7) -> Tensor:
    r"""The nearest point of $\{p \in [0, 1]^B : \sum p \leq \Delta\}$.

    It is $p = \mathrm{clip}(w - \mu, 0, 1)$ with $\mu = 0$ if that fits, else with the $\mu > 0$ that spends
    $\Delta$ (`Xu et al. 2019 <https://arxiv.org/abs/1906.04214>`_). What is spent falls as $\mu$ grows, so
    bisection finds it.

    Args:
        weight: (B,) floating point.
        total: $\Delta$.
        tolerance: how much of $\Delta$, as a share, may stay unspent; it is never exceeded.
    """
    clipped = weight.clamp(0, 1)
    if float(clipped.sum(dtype=torch.float64)) <= total:
        return clipped
    # Entries below 0 stay there for every shift, and the others are few after the first steps.
    value = weight[weight > 0].double()
    low, high = 0.0, float(value.max())
    while True:
        middle = (low + high) / 2
        spent = float((value - middle).clamp_(0, 1).sum())
        if spent > total:
            low = middle
        else:
            high = middle
        # The second condition: no number between the two is left.
        if 0 <= total - spent <= tolerance * total or not low < (low + high) / 2 < high:
            break
    return (weight.double() - high).clamp_(0, 1).to(weight.dtype)


def project_local(weight: Tensor, pairs: Tensor, limits: Limits) -> Tensor:
    r"""A point of $\{p \in [0, 1]^B : \sum p \leq \Delta, \sum_{e \ni v} p_e \leq \Delta_v\}$, greedily.

    The entries are served from the largest down, each with as much of its weight as its two nodes and the whole
    have left: the fractional knapsack of LR-BCD (`Gosch et al. 2023 <https://arxiv.org/abs/2306.15427>`_).

    Args:
        weight: (B,) floating point.
        pairs: (2, B) int64, the nodes that an entry's weight is charged to.
        limits: of the graph; its `local` must be there.
    """
    assert limits.local is not None
    wanted = weight.clamp(max=1)
    candidates = (weight > 0).nonzero().squeeze(1)
    order = candidates[torch.argsort(weight[candidates], descending=True, stable=True)]
    i, j = pairs[:, order].cpu().numpy()
    granted = _serve(
        wanted[order].double().cpu().numpy(), i, j, float(limits.total), limits.local.double().cpu().numpy()
    )
    projected = torch.zeros_like(weight)
    projected[order] = torch.from_numpy(granted).to(weight)
    return projected


def choose(order: Tensor, pairs: Tensor, limits: Limits) -> Tensor:
    """The entries of `order` (K,) that fit into the limits, taken whole and greedily from the first on.

    Args:
        order: (K,) int64, positions in `pairs`, each at most once, the most wanted first.
        pairs: (2, B) int64.
        limits: of the graph.
    """
    if limits.local is None:
        return order[: limits.total]
    i, j = pairs[:, order].cpu().numpy()
    wanted = np.ones(len(order))
    granted = _serve(wanted, i, j, float(limits.total), limits.local.double().cpu().numpy())
    # Whole demands against whole limits: what is granted is 0 or 1.
    return order[torch.from_numpy(granted).to(order.device) == 1]


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
