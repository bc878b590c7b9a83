"""Generated graphs of any size, written part by part: for trials and measurements."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from purigraph.distributed.parts import GraphParts
from purigraph.distributed.parts_writer import PartsWriter
from purigraph.errors import InputError

_MOST_PAIRS = 1 << 21


def generate_parts(
    folder: str | Path, *, num_nodes: int, num_edges: int, num_features: int, near: float = 0.0, seed: int = 0
) -> GraphParts:
    """Write a random graph without self-loops or repeated edges; memory does not grow with its size.

    Every pair of nodes is equally likely, which is the worst case for a split over ranks: nearly every node has
    neighbours on all of them.

    Args:
        folder: The folder to write.
        num_nodes: N.
        num_edges: E, about; repetitions that are drawn are left out.
        num_features: F; normally distributed.
        near: The share of edges whose ends are at most N / 1000 apart, as in a graph with local structure.
        seed: The random seed.
    """
    if num_nodes < 2 or num_edges > num_nodes * (num_nodes - 1) // 4:
        raise InputError(f"{num_edges} edges are too many for {num_nodes} nodes: at most half of all pairs.")
    generator = torch.Generator().manual_seed(seed)
    blocks = max(-(-num_edges // _MOST_PAIRS), 1)
    # Bounds in the numbers of the lower ends such that every block has the same number of possible pairs.
    share = torch.linspace(0, 1, blocks + 1, dtype=torch.float64)
    bounds = (num_nodes * (1 - (1 - share).sqrt())).round().long().clamp(max=num_nodes)
    with PartsWriter(folder, num_features) as writer:
        for block, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            count = num_edges * (block + 1) // blocks - num_edges * block // blocks
            codes = _draw(low, high, count, num_nodes, near, generator)
            source = torch.div(codes, num_nodes, rounding_mode="floor")
            writer.add_edges(source, codes - source * num_nodes)
        step = max((1 << 24) // max(num_features, 1), 1)
        for first in range(0, num_nodes, step):
            writer.add_features(torch.randn(min(step, num_nodes - first), num_features, generator=generator))
    return GraphParts.open(folder)


def _draw(low: int, high: int, count: int, num_nodes: int, near: float, generator: torch.Generator) -> Tensor:
    """Return about `count` distinct codes i N + j with low <= i < high and i < j, ascending."""
    # The number of possible j falls linearly with i: its distribution function is inverted.
    rest = torch.tensor([num_nodes - low, num_nodes - high], dtype=torch.float64).square()
    draws = torch.rand(count, generator=generator, dtype=torch.float64)
    i = (num_nodes - (rest[0] + draws * (rest[1] - rest[0])).sqrt()).long().clamp(low, max(high - 1, low))
    i.clamp_(max=num_nodes - 2)
    reach = (num_nodes - 1 - i).double()
    if near > 0:
        is_near = torch.rand(count, generator=generator) < near
        reach = torch.where(is_near, reach.clamp(max=max(num_nodes // 1000, 1)), reach)
    j = i + 1 + (torch.rand(count, generator=generator, dtype=torch.float64) * reach).long()
    codes: Tensor = torch.unique(i * num_nodes + j.clamp_(max=num_nodes - 1))
    return codes
