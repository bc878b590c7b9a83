"""What a trusted graph already says about pairs of its own nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import GraphError
from purigraph.graph import as_pair_graph, pair_codes
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.memo import Memo


class TrustedPairs:
    """The pairs of trusted nodes, of which it is known whether they are edges.

    No judgement is needed there: an edge between two of them that was added since is ignored, one that was removed is
    restored, and only pairs with a new end are left to an attacker. Node k of the trusted graph is node `n_id[k]` of
    the graphs to come, or node k if it has no `n_id`.

    Args:
        trusted: edge_index, edge_weight if any, and `n_id` (M,) int64 if its nodes are numbered otherwise (see
            `purigraph.graph.inductive_split`).
    """

    def __init__(self, trusted: Data) -> None:
        graph = as_pair_graph(trusted)
        ids = trusted.n_id if "n_id" in trusted else torch.arange(graph.num_nodes)
        if ids.shape != (graph.num_nodes,) or len(torch.unique(ids)) != len(ids) or (len(ids) and int(ids.min()) < 0):
            raise GraphError(
                f"trusted.n_id must have a different number of at least 0 for each of the {graph.num_nodes} nodes."
            )
        self._ids = ids.long().cpu()
        ends = self._ids[graph.pairs.cpu()]
        self._pairs = torch.stack([ends.min(0).values, ends.max(0).values])
        self._weight = graph.weight.detach().cpu()
        self._restored: Memo[tuple[Tensor, Tensor, Tensor]] = Memo(size=4)

    @property
    def num_nodes(self) -> int:
        """Return the smallest number of nodes that a graph with all trusted nodes has."""
        return int(self._ids.max()) + 1 if len(self._ids) else 0

    def changes(self, data: Data) -> Perturbation:
        """Return what was done to the pairs of trusted nodes: the edges added and removed since."""
        now = as_pair_graph(data)
        is_trusted = self._is_trusted(now.num_nodes, now.pairs)
        between = PairGraph(now.num_nodes, now.pairs[:, is_trusted])
        return Perturbation.between(self._graph(now.num_nodes).to(now.device), between)

    def restore(
        self, num_nodes: int, edge_index: Tensor, edge_weight: Tensor | None, presence: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return edges, weights and presences with everything between trusted nodes as the trusted graph has it.

        The gradient at the entries that are ignored is 0.

        Args:
            num_nodes: N.
            edge_index: (2, M) int64.
            edge_weight: (M,), or None for ones.
            presence: (M,), or None if all edges are there.
        """
        known = self._restored.get(edge_index, num_nodes)
        if known is None:
            open_entries = (~self._is_trusted(num_nodes, edge_index)).nonzero().squeeze(1)
            trusted_edges, weight = self._graph(num_nodes).to(edge_index.device).edge_index()
            edges = torch.cat([edge_index[:, open_entries], trusted_edges], dim=1)
            known = edges, open_entries, weight
            self._restored.put(edge_index, known, num_nodes)
        edges, open_entries, weight = known
        dtype = torch.float32 if edge_weight is None else edge_weight.dtype
        given = weight.new_ones(edge_index.shape[1], dtype=dtype) if edge_weight is None else edge_weight
        whole = torch.cat([given.index_select(0, open_entries), weight.to(given)])
        if presence is None:
            return edges, whole, None
        there = torch.cat([presence.index_select(0, open_entries), torch.ones_like(weight, dtype=presence.dtype)])
        return edges, whole, there

    def _graph(self, num_nodes: int) -> PairGraph:
        if num_nodes < self.num_nodes:
            raise GraphError(
                f"The trusted graph has a node {self.num_nodes - 1}, but this graph has {num_nodes} nodes only: it "
                "must hold all trusted nodes under the same numbers."
            )
        order = torch.argsort(pair_codes.encode(self._pairs[0], self._pairs[1], num_nodes))
        return PairGraph(num_nodes, self._pairs[:, order], self._weight[order])

    def _is_trusted(self, num_nodes: int, pairs: Tensor) -> Tensor:
        """Return which pairs (2, M) have two trusted ends; self-loops are left as they are."""
        trusted = torch.zeros(max(num_nodes, self.num_nodes), dtype=torch.bool)
        trusted[self._ids] = True
        trusted = trusted.to(pairs.device)
        return trusted[pairs].all(0) & (pairs[0] != pairs[1])
