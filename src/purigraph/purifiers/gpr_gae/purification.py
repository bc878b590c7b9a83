r"""The convergent multi-step update.

$$A^{(t+1)} = A^{(t)} + \alpha\,(f_\theta(A^{(t)}) - A^{(t)}), \qquad
  \text{stop when } \|\Delta A^{(t)}\| / \|A^{(t)}\| \le \tau$$
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from purigraph.graph import PairGraph


@dataclass
class Purification:
    """A purified graph and the history of its purification.

    Attributes:
        graph: The result.
        weights: (E,) before the first step and after each step; empty unless the history was requested.
        relative_change: For every step, the norm of its direction divided by the norm of the weights before it.
        converged: Whether the last change was within the tolerance.
    """

    graph: PairGraph
    weights: list[Tensor] = field(default_factory=list)
    relative_change: list[float] = field(default_factory=list)
    converged: bool = False


def iterate(
    step: Callable[[Tensor], Tensor],
    graph: PairGraph,
    *,
    presence: Tensor | None = None,
    alpha: float,
    tolerance: float,
    max_steps: int,
    lean: bool,
    history: bool,
) -> Purification:
    """Apply `step`, a map from weights (E,) to predicted weights (E,), until the weights converge.

    Args:
        step: $f_\\theta$ on the graph's pairs.
        graph: $A^{(0)}$.
        presence: $\\pi$ (E,) in [0, 1], to what degree every edge is present. A step is then $\\pi \\odot f_\\theta$,
            so absent edges stay absent. Default: ones.
        alpha: The step size.
        tolerance: $\\tau$, the relative change at which to stop.
        max_steps: The maximum number of steps.
        lean: Whether to keep only the weights between steps and recompute every step in the backward pass, so memory
            does not grow with the number of steps.
        history: Whether to keep the weights of all steps.
    """
    weight = graph.weight
    result = Purification(graph)
    if history:
        result.weights.append(weight.detach())
    for _ in range(max_steps if graph.num_pairs else 0):
        if lean and torch.is_grad_enabled() and weight.requires_grad:
            predicted = checkpoint(step, weight, use_reentrant=False, preserve_rng_state=False)
        else:
            predicted = step(weight)
        if presence is not None:
            predicted = presence * predicted
        delta = predicted - weight
        change = _relative_norm(delta.detach(), weight.detach())
        weight = predicted if alpha == 1 else weight + alpha * delta
        result.relative_change.append(change)
        if history:
            result.weights.append(weight.detach())
        if change <= tolerance:
            break
    result.converged = not result.relative_change or result.relative_change[-1] <= tolerance
    result.graph = graph.with_weight(weight)
    return result


def _relative_norm(delta: Tensor, weight: Tensor) -> float:
    """Return |delta| / |weight|, and 0 if both are 0.

    Both matrices are symmetric and contain each pair twice, so the factors cancel.
    """
    change, size = float(delta.norm()), float(weight.norm())
    if size > 0:
        return change / size
    return float("inf") if change > 0 else 0.0
