"""Uniform samples of non-edges: exactly as many as asked for, without duplicates or existing edges."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.pair_space import PairSpace


def num_non_edges(graph: PairGraph, touching: Tensor | None = None) -> int:
    """Return the number of node pairs that are not edges; with `touching`, only those with an end in that node set."""
    return PairSpace(graph.num_nodes, touching=touching).num_free(graph.codes)


def sample_non_edges(
    graph: PairGraph, count: int, generator: torch.Generator, touching: Tensor | None = None
) -> Tensor:
    """Draw non-edges uniformly and without replacement.

    Args:
        graph: The graph; its pairs are never drawn, whatever their weight.
        count: The number of pairs to draw.
        generator: A random generator on the CPU.
        touching: (V,) distinct nodes; at least one end of every drawn pair is among them. Default: all nodes.

    Returns:
        (count,) int64, the codes of the pairs (see `pair_codes`) in ascending order.
    """
    space = PairSpace(graph.num_nodes, touching=touching, device=graph.device)
    free = space.num_free(graph.codes)
    if count > free:
        raise InputError(
            f"{count} pairs can't be injected: a graph with {graph.num_nodes} nodes and {graph.num_pairs} edges has "
            f"only {free} free pairs there. Use a smaller injection ratio."
        )
    return space.sample(count, generator, taken=graph.codes)
