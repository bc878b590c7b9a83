"""From pairs to the edge list that models take, in linear time.

`PairGraph.csr` sorts, which is fine once per graph. An attack has another graph in every epoch: here the pairs'
own order is used, and each entry is put where it belongs by counting (10x faster for 15,000 pairs).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from purigraph.graph.pair_graph import PairGraph
from purigraph.kernels.compiled import kernel


class BothDirections(NamedTuple):
    """PyG's form of a pair list.

    Attributes:
        edge_index: (2, 2E) int64, sorted by (row, column).
        pair: (2E,) int64, the pair of every entry.
        entries: (2, E) int64, the two entries of every pair.
    """

    edge_index: Tensor
    pair: Tensor
    entries: Tensor


def both_directions(graph: PairGraph) -> BothDirections:
    """The entries of a graph's pairs in both directions."""
    if graph.device.type == "cpu":
        i, j = graph.pairs.contiguous().numpy()
        return BothDirections(*map(torch.from_numpy, _count_and_place(i, j, graph.num_nodes)))
    csr = graph.csr
    pair = csr.pair.long()
    entries = torch.argsort(pair, stable=True).view(-1, 2).t()
    return BothDirections(torch.stack([csr.row, csr.col.long()]), pair, entries)


@kernel
def _count_and_place(i: Any, j: Any, num_nodes: int) -> tuple[Any, Any, Any]:
    num_pairs = len(i)
    place = np.zeros(num_nodes + 1, np.int64)
    for pair in range(num_pairs):
        place[i[pair] + 1] += 1
        place[j[pair] + 1] += 1
    for node in range(num_nodes):
        place[node + 1] += place[node]
    edge_index = np.empty((2, 2 * num_pairs), np.int64)
    pair_of = np.empty(2 * num_pairs, np.int64)
    entries = np.empty((2, num_pairs), np.int64)
    # A row's smaller neighbours come from pairs that end in it, its larger ones from pairs that start in it;
    # both come in ascending order, as the pairs are sorted.
    for pair in range(num_pairs):
        row = j[pair]
        at = place[row]
        place[row] += 1
        edge_index[0, at], edge_index[1, at] = row, i[pair]
        pair_of[at] = pair
        entries[0, pair] = at
    for pair in range(num_pairs):
        row = i[pair]
        at = place[row]
        place[row] += 1
        edge_index[0, at], edge_index[1, at] = row, j[pair]
        pair_of[at] = pair
        entries[1, pair] = at
    return edge_index, pair_of, entries
