"""How a purifier came to its weights, edge by edge and step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from purigraph.graph import PairGraph


@dataclass(frozen=True)
class Evidence:
    """A purified graph and what led to it.

    Attributes:
        purified: The result. A purifier that adds edges may have more pairs than it was given.
        weights: (E,) of the given pairs, before the first step and after each; at least two.
        directed: (2, E) the scores of both directions of every pair in the last step, where the purifier has such.
        relative_change: For every step, the norm of its change over the norm of the weights before, where it is known.
        converged: Whether the last change was within the tolerance; None if the purifier has no steps.
    """

    purified: PairGraph
    weights: list[Tensor]
    directed: Tensor | None = None
    relative_change: list[float] = field(default_factory=list)
    converged: bool | None = None

    @property
    def score(self) -> Tensor:
        """(E,) the weights of the last step; not cut, whatever the purifier's threshold."""
        return self.weights[-1]

    @classmethod
    def of(cls, graph: PairGraph, purified: PairGraph) -> Evidence:
        """Return what is known of any purifier: the weights before and after."""
        position = purified.find(graph.codes)
        found = purified.weight.new_zeros(graph.num_pairs)
        there = position >= 0
        found[there] = purified.weight[position[there]]
        return cls(purified, [graph.weight, found])
