"""What can be attacked: any function from features and weighted edges to logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from torch import Tensor, nn

#: Called with (x, edge_index, edge_weight); returns logits (N, C).
Model: TypeAlias = Callable[..., Tensor]


@runtime_checkable
class Relaxable(Protocol):
    r"""A model that defines for itself what a partially present edge means.

    A gradient-based attack makes partial flips, $p \in [0, 1]$, before it settles on whole ones, so it evaluates the
    model between graphs, where an edge is present to the degree $\pi$, its *presence*. For most models a partial edge
    is an edge of smaller weight, $\pi w$, and attacks assume this by default. It is wrong for models that replace the
    weights with their own, as purifiers do: an absent edge, passed with a weight of nearly 0, would get its weight
    back, and the attack would follow gradients that have little to do with the model. Its result would make the defence
    look better than it is.

    If a model has this method, attacks use it. Where all presences are 0 or 1 it must equal the model on the present
    edges, and it must be differentiable in between. `purigraph.Protected` implements it.
    """

    def relaxed(self, x: Any, edge_index: Tensor, edge_weight: Tensor, presence: Tensor) -> Tensor:
        """Return the logits (N, C) on partially present edges.

        Args:
            x: Node features, as the model takes them.
            edge_index: (2, M).
            edge_weight: (M,) the weight of every edge when fully present.
            presence: (M,) in [0, 1], the degree to which every edge is present.
        """


class SmallWeights(nn.Module):
    """A model to which a part of an edge is an edge of small weight, as in the literature.

    The model inside has a method `relaxed`, which attacks would use; this one has not. Attacks on it are weaker where a
    purifier brings weights back, and stronger where weights bring about more than themselves, as in a decomposition of
    the whole graph: an honest judge tries both.

    Args:
        model: A model of graphs; see `Relaxable`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, x: Any, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
        """Return the model's output."""
        return self.model(x, edge_index, edge_weight)
