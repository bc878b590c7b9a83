r"""Mini-batches of a graph over ranks: subgraphs around random nodes, the same whatever the number of ranks.

A batch starts at random nodes and takes in some of their neighbours, then some of theirs; it is the subgraph that these
nodes induce. Which neighbours are taken depends on a hash of the edge, so every rank can choose for its own rows and
all arrive at the same batch. Rows and edges are then sent to the rank that trains on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.distributed.group import Group
from purigraph.distributed.parts import GraphParts
from purigraph.distributed.row_block import RowBlock
from purigraph.graph import PairGraph
from purigraph.settings import Settings, setting


class BatchSettings(Settings):
    """The mini-batches of a training over ranks."""

    batches: int = setting("The number of batches per epoch, over all ranks.", default=8, ge=1)
    roots: int = setting("The number of random nodes that a batch starts at.", default=256, ge=1)
    neighbours: int = setting("The largest number of neighbours that are taken in per node and round.", default=8, ge=1)
    rounds: int = setting("How often neighbours are taken in.", default=2, ge=0)


@dataclass(frozen=True)
class Subgraph:
    """One mini-batch.

    Attributes:
        nodes: (V,) int64, ascending, its nodes in the whole graph.
        x: (V, F), their features.
        graph: The edges between them, with the nodes numbered from 0.
    """

    nodes: Tensor
    x: Tensor
    graph: PairGraph


class SubgraphSampler:
    """Samples subgraphs of the graph that the ranks hold; all ranks call it together.

    Args:
        parts: The graph.
        block: The rows of this rank.
        weight: (M,) the weights of the entries.
        group: The ranks.
        settings: The size of the batches.
    """

    def __init__(
        self, parts: GraphParts, block: RowBlock, weight: Tensor, group: Group, settings: BatchSettings
    ) -> None:
        self._block, self._weight, self._group, self._settings = block, weight, group, settings
        self.num_nodes = parts.num_nodes
        batches = parts.feature_batches(block.start, block.start + block.num_own)
        self._x = torch.cat([torch.empty(0, parts.num_features), *(x for x, _ in batches)])
        own = torch.arange(block.start, block.start + block.num_own)
        self._names = torch.cat([own, block.halo])

    def sample(self, roots: list[Tensor], salt: int, allowed: Tensor | None = None) -> dict[int, Subgraph]:
        """Return the batches of this rank: number k is for the rank k modulo their number.

        Args:
            roots: The nodes that every batch starts at, the same on all ranks.
            salt: A number that makes the choice of neighbours random.
            allowed: (N,) bool, the nodes that may be taken in. Default: all.
        """
        members = [torch.unique(nodes) for nodes in roots]
        frontier = list(members)
        for turn in range(self._settings.rounds):
            found = self._neighbours(frontier, salt + turn)
            for k, nodes in enumerate(found):
                taken = nodes if allowed is None else nodes[allowed[nodes]]
                frontier[k] = taken[~torch.isin(taken, members[k])]
                members[k] = torch.cat([members[k], frontier[k]]).sort().values
        return self._fetch(members)

    def _own(self, nodes: Tensor) -> Tensor:
        """Return the own ones among ascending nodes, counted from the first own node."""
        start = self._block.start
        low, high = torch.searchsorted(nodes, torch.tensor([start, start + self._block.num_own])).tolist()
        return nodes[low:high] - start

    def _entries(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return the entries in some own rows, and the position among these rows that each belongs to."""
        pointers = self._block.pattern.rowptr.long()
        counts = pointers[own + 1] - pointers[own]
        which = torch.repeat_interleave(torch.arange(len(own)), counts)
        begins = torch.cumsum(counts, 0) - counts
        return torch.arange(len(which)) + (pointers[own] - begins)[which], which

    def _neighbours(self, frontier: list[Tensor], salt: int) -> list[Tensor]:
        """Return some neighbours of the nodes of every batch, ascending; the same on all ranks."""
        found = [torch.empty(0, dtype=torch.int64)]
        for k, nodes in enumerate(frontier):
            own = self._own(nodes)
            entries, which = self._entries(own)
            other = self._names[self._block.pattern.col[entries].long()]
            order = hashed(own[which] + self._block.start, other, salt).argsort()
            order = order[which[order].argsort(stable=True)]
            counts = torch.bincount(which, minlength=len(own))
            place = torch.arange(len(order)) - (torch.cumsum(counts, 0) - counts)[which[order]]
            chosen = order[place < self._settings.neighbours]
            found.append(torch.unique(other[chosen]) + k * self.num_nodes)
        every = torch.unique(self._group.gather_rows(torch.cat(found).to(self._group.device)).cpu())
        cuts = torch.searchsorted(every, torch.arange(len(frontier) + 1) * self.num_nodes).tolist()
        return [every[cuts[k] : cuts[k + 1]] - k * self.num_nodes for k in range(len(frontier))]

    def _fetch(self, members: list[Tensor]) -> dict[int, Subgraph]:
        """Send the own rows of every batch to its rank, and put together the batches of this one."""
        group, size = self._group, self._group.size
        # By the rank that they go to, and by batch within: this is the order in which they arrive.
        order = [k for rank in range(size) for k in range(rank, len(members), size)]
        own = {k: self._own(members[k]) for k in order}
        rows = self._x[torch.cat([own[k] for k in order])]
        counts = [sum(len(own[k]) for k in range(rank, len(members), size)) for rank in range(size)]
        x, x_counts = group.exchange_unknown(rows.to(group.device), counts)

        most = max((len(nodes) for nodes in members), default=1)
        codes, weights = {}, {}
        for k in order:
            codes[k], weights[k] = self._edges(members[k], own[k], most)
            codes[k] += k * most * most
        sent = [sum(len(codes[k]) for k in range(rank, len(members), size)) for rank in range(size)]
        edges, _ = group.exchange_unknown(torch.cat([codes[k] for k in order]).to(group.device), sent)
        values, _ = group.exchange_unknown(torch.cat([weights[k] for k in order]).to(group.device), sent)
        edges, by_code = edges.cpu().sort()
        values = values.cpu()[by_code]

        mine = range(group.rank, len(members), size)
        pieces: dict[int, list[Tensor]] = {k: [] for k in mine}
        for rank, part in enumerate(x.cpu().split(x_counts)):
            first = 0
            for k in mine:
                count = self._count(members[k], rank)
                pieces[k].append(part[first : first + count])
                first += count
        result = {}
        for k in mine:
            low, high = torch.searchsorted(edges, torch.tensor([k, k + 1]) * most * most).tolist()
            local = edges[low:high] - k * most * most
            i = torch.div(local, most, rounding_mode="floor")
            pairs = torch.stack([i, local - i * most])
            graph = PairGraph(len(members[k]), pairs, values[low:high])
            result[k] = Subgraph(members[k], torch.cat(pieces[k]), graph)
        return result

    def _count(self, nodes: Tensor, rank: int) -> int:
        bounds = torch.tensor(self._block.bounds[rank : rank + 2])
        low, high = torch.searchsorted(nodes, bounds).tolist()
        return int(high - low)

    def _edges(self, nodes: Tensor, own: Tensor, base: int) -> tuple[Tensor, Tensor]:
        """Return the edges within `nodes` whose lower end is an own one, as codes of positions, and their weights."""
        entries, which = self._entries(own)
        other = self._names[self._block.pattern.col[entries].long()]
        place = torch.searchsorted(nodes, other).clamp_(max=max(len(nodes) - 1, 0))
        mine = torch.searchsorted(nodes, own + self._block.start)[which]
        inside = (nodes[place] == other) & (mine < place) if len(nodes) else torch.zeros(0, dtype=torch.bool)
        return mine[inside] * base + place[inside], self._weight[entries[inside]]


def hashed(i: Tensor, j: Tensor, salt: int) -> Tensor:
    """Return a hash of pairs of integers (M,) and a salt: int64, as if drawn at random (splitmix64)."""
    mixed = _mix(i * _signed(0x9E3779B97F4A7C15) + j)
    return _mix(mixed + _signed((salt + 1) * 0xBF58476D1CE4E5B9))


def _mix(x: Tensor) -> Tensor:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * _signed(factor)
    return x


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value
