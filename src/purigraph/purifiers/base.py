"""What every purifier is: a map from a graph to the same graph with trustworthy weights."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, overload

from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph import PairGraph, read_data, read_edge_index


class Purifier(nn.Module, ABC):
    """A purifier gives every edge of a graph a weight in [0, 1].

    A subclass writes `purify`. The two public faces come from here:

    - called on a PyG `Data` it is a transform: a new `Data` with `edge_weight`, the input untouched, so that it can
      stand in `T.Compose([..., purifier])`;
    - called on `(x, edge_index, edge_weight=None)` it returns the edge weights in the caller's own order, so that it
      can stand in front of any model.

    A purifier is always in inference mode when it purifies: `train()` on a model around it changes nothing.
    """

    #: Whether the result can hold edges that the input has not (their ends are then in the new `edge_index`).
    adds_edges: ClassVar[bool] = False

    @abstractmethod
    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """The graph with purified weights. Shapes: x (N, F); differentiable in the weights where it can be."""

    @overload
    def forward(self, x: Data) -> Data: ...

    @overload
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor: ...

    def forward(
        self, x: Data | Tensor, edge_index: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Data | Tensor:
        """Purify a `Data`, or an edge list."""
        if isinstance(x, Data):
            if edge_index is not None:
                raise InputError("Call a purifier with a Data alone, or with (x, edge_index, edge_weight).")
            return self._transform(x)
        if edge_index is None:
            raise InputError("Call a purifier with a Data alone, or with (x, edge_index, edge_weight).")
        if self.adds_edges:
            raise InputError(
                f"{type(self).__name__} can add edges, so weights for the given edge_index are not its whole result: "
                "call it on a Data, or use purify(x, graph)."
            )
        graph, entries = read_edge_index(edge_index, edge_weight, x.shape[0])
        return entries.spread(self._checked(x, graph).weight).to(entries.weight.dtype)

    def purify_parts(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Purify a graph whose pairs are there to the shares `presence` (E,); `graph` has their weights as a whole.

        A purifier that puts weights of its own in the place of the given ones does better than this: it keeps what is
        absent absent at every step, and not only at the last.
        """
        purified = self.purify(x, graph.with_weight(graph.weight * presence))
        return purified.with_weight(purified.weight * presence)

    def relaxed(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor) -> Tensor:
        r"""Purified weights where edges are there only in part: what a gradient-based attack differentiates.

        An attacker flips edges by halves, $\pi \in [0, 1]$, before it settles on whole flips. A purifier's answer must
        then lie between its answers with and without the edge. Handed over as a small weight, an absent edge would
        get its weight back, and the attack would climb a hill that has little to do with the model. With $\pi$ of 0
        and 1 this is `forward` on the edges that are there, exactly, and 0 for the others.

        Shapes: x (N, F), edge_index (2, M), edge_weight (M,), presence (M,) give (M,); differentiable in `presence`.
        """
        graph, entries = read_edge_index(edge_index, edge_weight, x.shape[0])
        if x.shape[0] != graph.num_nodes:
            raise InputError(f"x has {x.shape[0]} rows, but the graph has {graph.num_nodes} nodes.")
        purified = self.purify_parts(x, graph, entries.collect(presence, graph.num_pairs))
        return entries.spread(purified.weight).to(entries.weight.dtype)

    def _transform(self, data: Data) -> Data:
        if data.x is None:
            raise InputError("data.x is missing: a purifier needs node features.")
        graph, entries = read_data(data)
        purified = self._checked(data.x, graph)
        result = copy.copy(data)
        if self.adds_edges:
            result.edge_index, result.edge_weight = purified.edge_index()
        else:
            result.edge_weight = entries.spread(purified.weight).to(entries.weight.dtype)
        return result

    def _checked(self, x: Tensor, graph: PairGraph) -> PairGraph:
        if x.shape[0] != graph.num_nodes:
            raise InputError(f"x has {x.shape[0]} rows, but the graph has {graph.num_nodes} nodes.")
        return self.purify(x, graph)
