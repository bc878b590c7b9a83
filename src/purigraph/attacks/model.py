"""What can be attacked: any function from features and weighted edges to logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

#: Called with (x, edge_index, edge_weight); returns logits (N, C).
Model: TypeAlias = Callable[..., Tensor]


@runtime_checkable
class Relaxable(Protocol):
    r"""A model that says itself what an edge is worth that is there only in part.

    A gradient-based attack flips pairs in part, $p \in [0, 1]$, before it settles on whole flips, so it needs the
    model between graphs: with an edge there to the share $\pi$, its *presence*. To most models a part of an edge is
    an edge of less weight, $\pi w$, and attacks assume so by default. That is wrong for a model that replaces weights
    by its own, as a purifier does: an absent edge, handed over with a weight of nearly 0, would get its weight back,
    and the attack would climb a hill that has little to do with the model. What it then finds flatters the defence.

    A model with this method is attacked through it. Where all presences are 0 or 1 it must equal the model on the
    edges that are there, and be differentiable in between. `purigraph.Protected` has it.
    """

    def relaxed(self, x: Any, edge_index: Tensor, edge_weight: Tensor, presence: Tensor) -> Tensor:
        """Return the logits (N, C) where edges are there in part.

        Args:
            x: Node features, as the model takes them.
            edge_index: (2, M).
            edge_weight: (M,), what every edge weighs where it is there as a whole.
            presence: (M,) in [0, 1], to what share it is there.
        """
