"""Which kinds of flips an attack may make: pairs to add, edges to remove, or both."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from purigraph.graph import pair_codes
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.pair_space import PairSpace

#: "both", "add" (only pairs that are no edges) or "remove" (only edges).
Edits: TypeAlias = Literal["both", "add", "remove"]


class Space(Protocol):
    """Pairs that may be flipped, from which a block is drawn."""

    size: int

    def sample(self, count: int, generator: torch.Generator, taken: Tensor | None = None) -> Tensor:
        """Draw codes uniformly without replacement, ascending, none of those `taken`; see `PairSpace.sample`."""


def allowed_pairs(graph: PairGraph, nodes: Tensor | None, edits: Edits) -> Space:
    """Return the pairs of the nodes, (K,) ascending or None for all, that the kind of flips allows."""
    space = PairSpace(graph.num_nodes, nodes, device=graph.device)
    if edits == "both":
        return space
    edges = graph.codes
    if nodes is not None:
        chosen = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
        chosen[nodes] = True
        edges = edges[chosen[graph.pairs].all(0)]
    return EdgesOf(edges) if edits == "remove" else NonEdges(space, edges)


class EdgesOf:
    """The edges of a graph as a space: (E,) codes, ascending."""

    def __init__(self, edges: Tensor) -> None:
        self._edges = edges
        self.size = len(edges)

    def sample(self, count: int, generator: torch.Generator, taken: Tensor | None = None) -> Tensor:
        """Draw codes uniformly without replacement, ascending."""
        free = self._edges if taken is None else self._edges[~torch.isin(self._edges, taken)]
        drawn = torch.randperm(len(free), generator=generator)[:count].sort().values
        return free[drawn.to(free.device)]


class NonEdges:
    """The pairs of a space that are not edges: (E,) codes of the edges, ascending."""

    def __init__(self, space: PairSpace, edges: Tensor) -> None:
        self._space, self._edges = space, edges
        self.size = space.size - len(edges)

    def sample(self, count: int, generator: torch.Generator, taken: Tensor | None = None) -> Tensor:
        """Draw codes uniformly without replacement, ascending."""
        gone = self._edges
        if taken is not None:
            gone = pair_codes.merge(self._edges, taken)[0]
        return self._space.sample(count, generator, gone)
