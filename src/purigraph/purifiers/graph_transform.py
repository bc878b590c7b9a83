"""How a graph goes through a purifier: as a `Data`, as an edge list, in parts, or a neighbourhood of it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph import Entries, LowRankAdjacency, PairGraph, read_data, read_edge_index
from purigraph.graph.nodes import read_nodes
from purigraph.numbers import read_integer
from purigraph.pretrained import Pretrained
from purigraph.purifiers.neighbourhood import cut_out, neighbourhood


class GraphTransform(Pretrained):
    """A map from a graph to the same graph with other weights, which a subclass defines by `purify`.

    It can be called in two ways:

    - on a PyG `Data`, it is a transform that returns a new `Data` with `edge_weight` and leaves the input unchanged, so
      it can be used in `T.Compose([..., purifier])`;
    - on `(x, edge_index, edge_weight=None)`, it returns the edge weights in the caller's order, so it can be put in
      front of any model.

    A purifier always purifies in inference mode: calling `train()` on a model that contains it has no effect.
    """

    @property
    def adds_edges(self) -> bool:
        """Whether the result can have edges that the input does not have. Such purifiers return graphs, not weights."""
        return False

    @property
    def factored(self) -> bool:
        """Whether the result is a matrix that is known by its factors (see `factors`), without edges to list."""
        return False

    def factors(self, x: Tensor, graph: PairGraph, presence: Tensor | None = None) -> LowRankAdjacency:
        """Return the purified adjacency by its factors, if the purifier is `factored`; differentiable.

        Args:
            x: (N, F), the node features.
            graph: The graph.
            presence: (E,) in [0, 1], to what degree each pair is there. Default: ones.
        """
        raise InputError(f"{type(self).__name__} returns edges, not factors: call purify.")

    def require_edges(self) -> None:
        """Raise `InputError` if the purifier is `factored`, for whoever needs edges."""
        if self.factored:
            raise InputError(
                f"This {type(self).__name__} returns the factors of an adjacency and has no edges to list: put it in "
                "front of a classifier (purigraph.protect, or train, evaluate and attack with -m), or use a form with "
                'edges, such as reconstruction="edges".'
            )

    @abstractmethod
    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the graph with purified weights. Shapes: x (N, F). Differentiable in the weights if possible."""

    @overload
    def forward(self, x: Data) -> Data: ...

    @overload
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor: ...

    def forward(
        self, x: Data | Tensor, edge_index: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Data | Tensor:
        """Purify a `Data` or an edge list."""
        if isinstance(x, Data):
            if edge_index is not None:
                raise InputError("Call a purifier with a single Data or with (x, edge_index, edge_weight).")
            return self.purify_data(x)[0]
        if edge_index is None:
            raise InputError("Call a purifier with a single Data or with (x, edge_index, edge_weight).")
        self.require_edges()
        if self.adds_edges:
            raise InputError(
                f"{type(self).__name__} can add edges, so weights for the given edge_index are not its whole result: "
                "call it on a Data, or use purify_edges(x, edge_index)."
            )
        return self.purify_edges(x, edge_index, edge_weight)[1]

    def purify_edges(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, presence: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Purify an edge list; return the edges (2, M') and their weights (M',), differentiable.

        If the purifier can't add edges, these are the given edges in the given order.

        Args:
            x: (N, F), the node features.
            edge_index: (2, M), the edges.
            edge_weight: (M,), their weights. Default: ones.
            presence: (M,) in [0, 1], to what degree each edge is present; see `relaxed`. Default: ones.
        """
        graph, entries = read_edge_index(edge_index, edge_weight, num_rows(x))
        purified = self.purify(x, graph) if presence is None else self.purify_parts(x, graph, entries.collect(presence))
        return self._as_edges(purified, edge_index, entries)

    def factor_edges(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, presence: Tensor | None = None
    ) -> LowRankAdjacency:
        """Purify an edge list to factors; the arguments are those of `purify_edges`, and self-loops are left out."""
        graph, entries = read_edge_index(edge_index, edge_weight, num_rows(x))
        return self.factors(x, graph, None if presence is None else entries.collect(presence))

    def _as_edges(self, purified: PairGraph, edge_index: Tensor, entries: Entries) -> tuple[Tensor, Tensor]:
        """Return a purified graph as edges and weights, in the order of the given edges if none can be added."""
        if self.adds_edges:
            loops = entries.pair < 0
            edges, weight = purified.edge_index()
            return (
                torch.cat([edges, edge_index[:, loops]], dim=1),
                torch.cat([weight, entries.weight[loops].to(weight.dtype)]).to(entries.weight.dtype),
            )
        return edge_index, entries.spread(purified.weight).to(entries.weight.dtype)

    def purify_parts(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Purify a graph whose edges are partially present, by `presence` (E,); `graph` has their full weights."""
        purified = self.whole_weights(x, graph, presence)
        # Purifiers that add edges work on the adjacency matrix, in which a weight of 0 is an absent edge.
        return purified if self.adds_edges else purified.with_weight(purified.weight * presence)

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Return the weight that every pair would get if it were wholly there, while all are there by `presence` (E,).

        `purify_parts` multiplies these by the presence; a chain of purifiers hands them on (dividing by presences near
        0 would ruin the gradients). A purifier that works in several steps, or that keeps the given weights, overrides
        this: what is absent must stay absent at every step, and not only at the last. Where edges can be added this is
        the whole result.
        """
        return self.purify(x, graph.with_weight(graph.weight * presence))

    def relaxed(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor) -> Tensor:
        r"""Return purified weights for partially present edges, which gradient-based attacks differentiate.

        Gradient-based attacks relax flips to $\pi \in [0, 1]$ before they decide on discrete ones. The result of a
        purifier must then lie between its results with and without the edge. If an absent edge were passed as a small
        weight, the purifier would restore its weight, and the attack would optimise an objective that has little to do
        with the model. If all $\pi$ are 0 or 1, the result is exactly `forward` on the present edges and 0 for the
        others.

        Shapes: x (N, F), edge_index (2, M), edge_weight (M,), presence (M,) -> (M,); differentiable in `presence`.
        """
        self.require_edges()
        if self.adds_edges:
            raise InputError(f"{type(self).__name__} can add edges: use purify_edges(..., presence=...).")
        return self.purify_edges(x, edge_index, edge_weight, presence)[1]

    def traced(self, x: Tensor, graph: PairGraph) -> tuple[PairGraph, Any]:
        """Return the purified graph and how its purification went; by default there is nothing to tell, None."""
        return self.purify(x, graph), None

    def purify_data(self, data: Data) -> tuple[Data, Any]:
        """Return a new `Data` with purified weights, as calling the purifier does, and how it went (see `traced`)."""
        graph, entries = self._read(data)
        purified, trace = self.traced(data.x, graph)
        edge_index, edge_weight = self._as_edges(purified, data.edge_index, entries)
        result = copy.copy(data)
        if self.adds_edges:
            for key in [key for key in data.keys() if data.is_edge_attr(key)]:  # noqa: SIM118 (not a mapping)
                del result[key]  # the values of new edges are unknown
            result.edge_index = edge_index
        result.edge_weight = edge_weight
        return result, trace

    @property
    def receptive_field(self) -> int | None:
        """The number of hops around a node within which everything lies that the weights of its edges depend on.

        It bounds the exactness of `purify_subgraph`. None: they depend on the whole graph.
        """
        return None

    def purify_subgraph(self, data: Data, nodes: Any, hops: int) -> Data:
        """Purify the neighbourhood of some nodes only.

        The result is that of purifying the induced subgraph on all nodes within `hops` of the given ones. For the edges
        that touch a given node (`edge_mask`) it equals the purification of the whole graph, up to rounding, if `hops`
        is at least `receptive_field` and the same number of steps is taken; with fewer hops it is an approximation,
        as nodes at the border lack some of their edges.

        Args:
            data: The whole graph: x, edge_index and, optionally, edge_weight.
            nodes: (V,) integer indices or an (N,) bool mask.
            hops: How far the neighbourhood reaches, at least 1.

        Returns:
            A new `Data` with the neighbourhood's x, edge_index and purified edge_weight; `n_id` and `e_id`, its nodes
            and entries in `data`; and `edge_mask`, which of its entries touch a given node.
        """
        self.require_edges()
        if self.adds_edges:
            raise InputError(f"{type(self).__name__} can add edges anywhere in a graph: purify the whole.")
        graph = self._read(data)[0]
        wanted = read_nodes(nodes, graph.num_nodes, name="nodes").to(graph.device)
        part = neighbourhood(graph, data.edge_index, wanted, read_integer(hops, name="hops", least=1))
        result = self.purify_data(cut_out(data, part))[0]
        result.edge_mask = part.touching
        return result

    @staticmethod
    def _read(data: Data) -> tuple[PairGraph, Entries]:
        """Read the edges of a `Data` that has features, too."""
        if data.x is None:
            raise InputError("data.x is missing: a purifier needs node features.")
        graph, entries = read_data(data)
        if num_rows(data.x) != graph.num_nodes:
            raise InputError(f"data.x has {len(data.x)} rows, but the graph has {graph.num_nodes} nodes.")
        return graph, entries


def num_rows(x: object) -> int:
    """Return N of a matrix of node features (N, F); raise `InputError` if it is none."""
    if not isinstance(x, Tensor) or x.dim() != 2:
        found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f"x must be a matrix of node features (N, F), not {found}.")
    return x.shape[0]
