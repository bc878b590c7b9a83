"""From the rows of a file, directed and repeated as they may be, to undirected pairs that are judged once each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.graph import pair_codes
from purigraph.graph.pair_graph import PairGraph


@dataclass(frozen=True)
class Collapsed:
    """The pairs that rows stand for.

    Attributes:
        graph: The pairs; the weight of a pair is the mean over its rows.
        pair: (M,) int64, the pair of every row; -1 for a self-loop.
        loops: How many rows are self-loops.
        repeated: How many rows repeat a row above, in the same direction.
        both_ways: How many pairs have rows in both directions.
        uneven: How many pairs have rows of different weights.
    """

    graph: PairGraph
    pair: Tensor
    loops: int
    repeated: int
    both_ways: int
    uneven: int

    def notes(self) -> list[str]:
        """Return a sentence for everything that readers may not expect."""
        found = []
        if self.loops:
            found.append(f"{count(self.loops, 'self-loop is', 'self-loops are')} kept unchanged, without being judged.")
        if self.repeated:
            found.append(
                f"{count(self.repeated, 'row repeats', 'rows repeat')} an edge: it is judged once, and all its rows "
                "get the same weight."
            )
        if self.both_ways:
            found.append(
                f"{count(self.both_ways, 'edge is', 'edges are')} there in both directions: a purifier ignores "
                "directions, so both get the same weight."
            )
        if self.uneven:
            found.append(
                f"{count(self.uneven, 'edge has', 'edges have')} rows of different weights: the mean is what is "
                "purified."
            )
        return found


def collapse(edges: Tensor, weight: Tensor | None, num_nodes: int) -> Collapsed:
    """Return the pairs of rows (2, M) with weights (M,) or None, for ones.

    >>> rows = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 2, 1]])
    >>> found = collapse(rows, None, 3)
    >>> found.graph.pairs.tolist(), found.pair.tolist(), (found.loops, found.repeated, found.both_ways)
    ([[0, 1], [1, 2]], [0, 0, 1, -1, 0], (1, 1, 1))
    """
    off_diagonal = edges[0] != edges[1]
    rows = edges[:, off_diagonal]
    codes, position = torch.unique(pair_codes.encode(rows[0], rows[1], num_nodes), return_inverse=True)
    pair = torch.full((edges.shape[1],), -1, dtype=torch.int64)
    pair[off_diagonal] = position
    forward = rows[0] < rows[1]
    ways = torch.zeros(2, len(codes), dtype=torch.int64)
    for way, chosen in enumerate((forward, ~forward)):
        ways[way].index_add_(0, position[chosen], torch.ones(int(chosen.sum()), dtype=torch.int64))
    repeated = int((ways - 1).clamp(min=0).sum())
    mean, uneven = torch.ones(len(codes)), 0
    if weight is not None:
        own = weight[off_diagonal].double()
        total = torch.zeros(len(codes), dtype=torch.float64).index_add_(0, position, own)
        exact = total / ways.sum(0)
        apart = (own - exact[position]).abs() > 1e-5 * exact[position].abs() + 1e-8
        uneven = len(torch.unique(position[apart]))
        mean = exact.to(weight.dtype)
    graph = PairGraph.from_codes(num_nodes, codes, mean)
    loops = int((~off_diagonal).sum())
    return Collapsed(graph, pair, loops, repeated, int((ways > 0).all(0).sum()), uneven)


def count(number: int, one: str, several: str) -> str:
    """Return a number with what it counts.

    >>> count(1, "row", "rows"), count(2000, "row", "rows")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {one if number == 1 else several}"
