"""What changed between a trusted snapshot of a graph and today's, and what a purifier thinks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from purigraph.graph import PairGraph, pair_codes
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.purifiers import Purifier
from purigraph.purifiers.explanation import ranks


@dataclass(frozen=True)
class Changes:
    """The edges and nodes that came and went since a trusted snapshot.

    Attributes:
        is_added: (E,) bool, for every pair of today's graph, whether the snapshot lacks it.
        added: (A,) the positions of those pairs.
        added_score: (A,) the purifier's weights of them.
        added_rank: (A,) int64, 1 for the most suspicious.
        removed: (2, R) the pairs of the snapshot that today's graph lacks, as its nodes are numbered today.
        removed_score: (R,) how sure the purifier is that they belong into today's graph.
        removed_rank: (R,) int64, 1 for the surest.
        new_nodes: (K,) the nodes that the snapshot lacks.
        gone_nodes: The ids of nodes that today's graph lacks; edges that went with them are not judged.
        removed_with_nodes: How many edges that are.
    """

    is_added: Tensor
    added: Tensor
    added_score: Tensor
    added_rank: Tensor
    removed: Tensor
    removed_score: Tensor
    removed_rank: Tensor
    new_nodes: Tensor
    gone_nodes: list[str]
    removed_with_nodes: int

    def counts(self) -> dict[str, int]:
        """Return the numbers of changes, for JSON."""
        return {
            "added_edges": len(self.added),
            "removed_edges": self.removed.shape[1],
            "removed_with_nodes": self.removed_with_nodes,
            "new_nodes": len(self.new_nodes),
            "gone_nodes": len(self.gone_nodes),
        }

    def sentence(self) -> str:
        """Return a summary."""
        gone = (
            f" ({self.removed_with_nodes:,} more went with {len(self.gone_nodes):,} nodes)" if self.gone_nodes else ""
        )
        return (
            f"Since the trusted snapshot, {len(self.added):,} edges were added and {self.removed.shape[1]:,} "
            f"removed{gone}; {len(self.new_nodes):,} nodes are new."
        )

    def rows(self, graph: PairGraph, ids: NodeIds) -> dict[str, list[Any]]:
        """Return a table: source, target, change (added or removed), score and rank; by change, then by rank."""
        pairs = torch.cat([graph.pairs.cpu()[:, self.added], self.removed], dim=1)
        change = ["added"] * len(self.added) + ["removed"] * self.removed.shape[1]
        score = torch.cat([self.added_score, self.removed_score])
        rank = torch.cat([self.added_rank, self.removed_rank])
        order = sorted(range(len(change)), key=lambda k: (change[k], int(rank[k])))
        return {
            "source": [ids[int(pairs[0, k])] for k in order],
            "target": [ids[int(pairs[1, k])] for k in order],
            "change": [change[k] for k in order],
            "score": [float(score[k]) for k in order],
            "rank": [int(rank[k]) for k in order],
        }


def compare(
    purifier: Purifier,
    x: Tensor,
    graph: PairGraph,
    score: Tensor,
    ids: NodeIds,
    trusted: PairGraph,
    trusted_ids: NodeIds,
) -> Changes:
    """Find out what changed, and judge it.

    Args:
        purifier: The purifier.
        x: (N, F), the features of today's nodes.
        graph: Today's graph.
        score: (E,) the purifier's weights of its pairs.
        ids: The names of its nodes.
        trusted: The snapshot.
        trusted_ids: The names of its nodes; the same name is the same node.
    """
    position = torch.from_numpy(_positions(trusted_ids, ids))
    pairs = position[trusted.pairs.cpu()]
    there = (pairs >= 0).all(0)
    known = pair_codes.encode(pairs[0][there], pairs[1][there], graph.num_nodes).sort().values
    codes = graph.codes.cpu()
    is_added = ~torch.isin(codes, known)
    added = is_added.nonzero().squeeze(1)
    removed = known[~torch.isin(known, codes)]
    removed_score = _belonging(purifier, x, graph, removed)
    old = torch.zeros(graph.num_nodes, dtype=torch.bool)
    old[position[position >= 0]] = True
    gone = (position < 0).nonzero().squeeze(1).tolist()
    own = score.detach().cpu()[added]
    return Changes(
        is_added=is_added,
        added=added,
        added_score=own,
        added_rank=ranks(own),
        removed=pair_codes.decode(removed, graph.num_nodes),
        removed_score=removed_score,
        removed_rank=ranks(-removed_score),
        new_nodes=(~old).nonzero().squeeze(1),
        gone_nodes=[trusted_ids[node] for node in gone],
        removed_with_nodes=int((~there).sum()),
    )


def _belonging(purifier: Purifier, x: Tensor, graph: PairGraph, removed: Tensor) -> Tensor:
    """Return the weights (R,) that absent pairs, given by codes (R,), would get in this graph if they were there."""
    if not len(removed):
        return torch.zeros(0)
    removed = removed.to(graph.device)
    codes, at_present, at_removed = pair_codes.merge(graph.codes, removed)
    weight, presence = graph.weight.new_ones(len(codes)), graph.weight.new_zeros(len(codes))
    weight[at_present], presence[at_present] = graph.weight, 1
    union = PairGraph.from_codes(graph.num_nodes, codes, weight)
    with torch.no_grad():
        if purifier.adds_edges:  # its result has a weight for any pair
            purified = purifier.purify(x, graph)
            position = purified.find(removed)
            found = torch.where(position >= 0, purified.weight[position.clamp(min=0)], 0.0)
        else:
            found = purifier.whole_weights(x, union, presence).weight[at_removed]
    return found.cpu()


def _positions(names: NodeIds, today: NodeIds) -> Any:
    """Return where each node of the snapshot is today, -1 for those that are gone."""
    if names.numbered and today.numbered:
        numbers = np.arange(len(names), dtype=np.int64)
        return np.where(numbers < len(today), numbers, -1)
    return today.positions(names.names())
