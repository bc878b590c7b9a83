"""Drawing node pairs uniformly: exact sizes, no pair twice, never an existing edge."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.graph.pair_graph import PairGraph


def distinct_integers(bound: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` distinct integers below `bound`, uniform over all such sets; ascending."""
    if count > bound:
        raise InputError(f"{count} distinct values can't be drawn from {bound}.")
    if 3 * count >= bound:
        return torch.randperm(bound, generator=generator)[:count].sort().values
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < count:
        # Each round misses few: collisions are rare where count is below a third of the bound.
        missing = count - len(found)
        draws = torch.randint(bound, (missing + missing // 4 + 8,), generator=generator)
        found = torch.unique(torch.cat([found, draws]))
    # The surplus is dropped by chance, not by size: by symmetry every set is equally likely.
    if len(found) > count:
        found = found[torch.randperm(len(found), generator=generator)[:count].sort().values]
    return found


def num_non_edges(graph: PairGraph, touching: Tensor | None = None) -> int:
    """The number of node pairs that are no edges; with `touching`, of those with an end in that node set."""
    n = graph.num_nodes
    if touching is None:
        return n * (n - 1) // 2 - graph.num_pairs
    rest = n - len(touching)
    inside = torch.zeros(n, dtype=torch.bool)
    inside[touching] = True
    return n * (n - 1) // 2 - rest * (rest - 1) // 2 - int(inside[graph.pairs].any(0).sum())


def sample_non_edges(
    graph: PairGraph, count: int, generator: torch.Generator, touching: Tensor | None = None
) -> Tensor:
    """Draw pairs that are no edges, uniformly and without replacement.

    Every pair has a rank in the triangle above the diagonal. A draw picks distinct positions among the ranks that
    are free, and a binary search over the taken ranks turns positions into ranks: nothing is ever rejected.

    Args:
        graph: whose pairs are never drawn, whatever their weight.
        count: how many.
        generator: on the CPU.
        touching: (V,) distinct nodes; at least one end of every drawn pair is among them. All when left out.

    Returns:
        (count,) int64, the pairs' codes i * N + j, ascending.
    """
    free = num_non_edges(graph, touching)
    if count > free:
        raise InputError(
            f"{count} pairs can't be injected: a graph with {graph.num_nodes} nodes and {graph.num_pairs} edges has "
            f"only {free} free pairs there. Use a smaller injection ratio."
        )
    n = graph.num_nodes
    # With the touched nodes numbered first, the pairs that touch them are a prefix of the ranks.
    order = _touched_first(n, touching)
    number = torch.empty_like(order)
    number[order] = torch.arange(n)
    rows = torch.arange(n + 1)
    offset = rows * n - rows * (rows + 1) // 2
    prefix = int(offset[n if touching is None else len(touching)])
    taken = _rank(number[graph.pairs.cpu()], offset)
    taken = taken[taken < prefix].sort().values
    position = distinct_integers(prefix - len(taken), count, generator)
    rank = position + torch.searchsorted(taken - torch.arange(len(taken)), position, right=True)
    a = torch.searchsorted(offset, rank, right=True) - 1
    b = rank - offset[a] + a + 1
    i, j = order[a], order[b]
    codes = torch.minimum(i, j) * n + torch.maximum(i, j)
    return (codes if touching is None else codes.sort().values).to(graph.device)


def _touched_first(num_nodes: int, touching: Tensor | None) -> Tensor:
    if touching is None:
        return torch.arange(num_nodes)
    is_touched = torch.zeros(num_nodes, dtype=torch.bool)
    is_touched[touching] = True
    return torch.cat([is_touched.nonzero().squeeze(1), (~is_touched).nonzero().squeeze(1)])


def _rank(pairs: Tensor, offset: Tensor) -> Tensor:
    a, b = torch.minimum(*pairs), torch.maximum(*pairs)
    return offset[a] + b - a - 1
