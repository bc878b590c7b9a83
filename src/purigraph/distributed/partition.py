"""Contiguous ranges of nodes, one per rank, that take about the same time and memory."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from purigraph.graph import PairGraph, border

# A node costs as much as this many entries of its row (both directions of an edge count). Measured with K = 7, Z1 = 128
# and Z2 = 512: 24 microseconds for the codes of a node, 0.5 for the hops and the score of an entry.
NODE_COST = 48
# Edges are counted per block of nodes, so that the counts stay small whatever the number of nodes.
_MOST_BLOCKS = 1 << 20


def block_size(num_nodes: int) -> int:
    """Return the number of consecutive nodes that are counted together."""
    return max(-(-num_nodes // _MOST_BLOCKS), 1)


def count_entries(source: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Return the number of entries in the rows of every block of nodes, (blocks,) int64."""
    size = block_size(num_nodes)
    blocks = -(-num_nodes // size)
    total = torch.zeros(blocks, dtype=torch.int64)
    for ends in (source, target):
        for part in ends.split(1 << 22):
            total += torch.bincount(torch.div(part, size, rounding_mode="floor"), minlength=blocks)
    return total


def balanced_ranges(entries: Tensor, num_nodes: int, size: int) -> list[int]:
    """Split the nodes into `size` contiguous ranges of about equal cost, entries + `NODE_COST` nodes.

    Args:
        entries: (blocks,) the entries of all ranks in every block (see `count_entries`).
        num_nodes: N, the number of nodes.
        size: The number of ranges; some are empty if there are fewer nodes.

    Returns:
        The `size` + 1 bounds, from 0 to N.
    """
    width = block_size(num_nodes)
    ends = torch.arange(1, len(entries) + 1).mul_(width).clamp_(max=num_nodes)
    cost = entries.cumsum(0) + NODE_COST * ends
    whole = int(cost[-1]) if len(cost) else 0
    shares = torch.tensor([whole * part // size for part in range(1, size)], dtype=torch.int64)
    cuts = torch.searchsorted(cost, shares, right=True) * width
    return [0, *cuts.clamp_(max=num_nodes).tolist(), num_nodes]


def locality_order(graph: PairGraph) -> Tensor:
    """Return an order of the nodes, (N,) int64, in which neighbours are close: fewer rows of other ranks are needed.

    This is the reverse Cuthill-McKee order, which takes linear time. It pays where the graph has a geometry (roads,
    meshes, communities that are loosely connected), and little where everything is a few steps from everything.
    """
    order = reverse_cuthill_mckee(border.to_scipy(graph), symmetric_mode=True)
    return torch.from_numpy(np.ascontiguousarray(order, dtype=np.int64))
