"""What purifiers and anchors do not protect from: a node that lies about its own features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.anchored import Anchored
from purigraph.attacks import Model
from purigraph.attacks.victim import frozen
from purigraph.errors import InputError
from purigraph.evaluation.predictions import as_attacks_see_it, read_scene


def flip_features(model: Model, data: Data, flips: int, *, targets: Tensor | None = None) -> Data:
    r"""Flip features of every target, those that hurt the model most; greedy, one flip of every target at a time.

    Flipping a feature that is not 0 removes it; flipping one that is 0 gives it the mean of those that are not. With
    the margin $m_v = \max_{c \neq y_v} f_{vc} - f_{v y_v}$ and the change $\delta_{vk}$ of a flip, every step flips for
    every target the feature with the largest $\delta_{vk} \, \partial \sum_u m_u / \partial x_{vk}$. A feature is
    flipped once at most. Gradients pass an anchor, but not a purifier's judgement of the edges.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`.
        data: A graph with dense x, edge_index, y, and a `test_mask` unless `targets` are given.
        flips: The number of flips per target.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.

    Returns:
        A copy of the data with other features.
    """
    nodes, labels = read_scene(data, targets)
    if data.x.layout != torch.strided:
        raise InputError("Features are flipped one by one: give them as a dense matrix.")
    if not 0 <= flips <= data.x.shape[1]:
        raise InputError(f"flips must be from 0 to the number of features, {data.x.shape[1]}, not {flips}.")
    seen = as_attacks_see_it(data)
    x = data.x.detach().clone()
    usual = x[x != 0].mean() if bool((x != 0).any()) else x.new_tensor(1.0)
    flipped = torch.zeros_like(x, dtype=torch.bool)
    with frozen(model):
        for _ in range(flips):
            own = x.clone().requires_grad_()
            logits = _differentiable(model, own, seen.edge_index, seen.edge_weight)[nodes]
            right = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, labels[nodes].unsqueeze(1), True)
            margin = logits.masked_fill(right, -torch.inf).max(1).values - logits[right]
            (gradient,) = torch.autograd.grad(margin.sum(), own)
            gain = torch.where(x != 0, -x, usual) * gradient
            best = gain[nodes].masked_fill(flipped[nodes], -torch.inf).argmax(1)
            x[nodes, best] = torch.where(x[nodes, best] != 0, torch.zeros_like(usual), usual)
            flipped[nodes, best] = True
    result = data.clone()
    result.x = x
    return result


def _differentiable(model: Any, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
    """Return the outputs, with gradients with respect to features that an anchor's own forward does not give."""
    if not isinstance(model, Anchored):
        logits: Tensor = model(x, edge_index, edge_weight)
        return logits
    anchor = model.anchor
    probabilities = anchor.differentiable(x)
    smallest = torch.finfo(x.dtype).tiny
    inner = _differentiable(model.model, x, edge_index, edge_weight)
    return torch.where(anchor.sure(probabilities).unsqueeze(1), probabilities.clamp(min=smallest).log(), inner)
