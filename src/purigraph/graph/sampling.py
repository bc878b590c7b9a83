"""Pairs that are no edges, drawn uniformly: exact numbers, no pair twice, never an existing edge."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.pair_space import PairSpace


def num_non_edges(graph: PairGraph, touching: Tensor | None = None) -> int:
    """Return the number of node pairs that are no edges; with `touching`, of those with an end in that node set."""
    return PairSpace(graph.num_nodes, touching=touching).num_free(graph.codes)


def sample_non_edges(
    graph: PairGraph, count: int, generator: torch.Generator, touching: Tensor | None = None
) -> Tensor:
    """Draw pairs that are no edges, uniformly and without replacement.

    Args:
        graph: Whose pairs are never drawn, whatever their weight.
        count: How many.
        generator: On the CPU.
        touching: (V,) distinct nodes; at least one end of every drawn pair is among them. Default: all nodes.

    Returns:
        (count,) int64, the pairs' codes (see `pair_codes`), ascending.
    """
    space = PairSpace(graph.num_nodes, touching=touching, device=graph.device)
    free = space.num_free(graph.codes)
    if count > free:
        raise InputError(
            f"{count} pairs can't be injected: a graph with {graph.num_nodes} nodes and {graph.num_pairs} edges has "
            f"only {free} free pairs there. Use a smaller injection ratio."
        )
    return space.sample(count, generator, taken=graph.codes)
