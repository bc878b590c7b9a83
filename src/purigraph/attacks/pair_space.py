"""The pairs that an attack may flip, numbered, and samples of them."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.graph.sampling import distinct_integers


class PairSpace:
    r"""All unordered pairs of some nodes, numbered from 0 to $K(K-1)/2 - 1$ row by row of the upper triangle.

    Numbers ascend as the codes i * N + j do, so sorted numbers are sorted codes. Self-loops have none.

    Args:
        num_nodes: N.
        nodes: (K,) int64, ascending: the nodes that may appear; all when left out.
        device: where the codes are wanted.
    """

    def __init__(self, num_nodes: int, nodes: Tensor | None = None, device: torch.device | str = "cpu") -> None:
        self._num_nodes = num_nodes
        self._nodes = torch.arange(num_nodes) if nodes is None else nodes.cpu()
        self._device = torch.device(device)
        count = len(self._nodes)
        self._rank = torch.zeros(num_nodes, dtype=torch.int64)
        self._rank[self._nodes] = torch.arange(count)
        row = torch.arange(count)
        self._starts = row * (2 * count - row - 1) // 2
        self.size = count * (count - 1) // 2

    def codes(self, number: Tensor) -> Tensor:
        """The codes of pairs by their number."""
        row = torch.searchsorted(self._starts, number, right=True) - 1
        column = number - self._starts[row] + row + 1
        return (self._nodes[row] * self._num_nodes + self._nodes[column]).to(self._device)

    def numbers(self, codes: Tensor) -> Tensor:
        """The numbers of pairs of this space by their code."""
        codes = codes.cpu()
        row = self._rank[torch.div(codes, self._num_nodes, rounding_mode="floor")]
        column = self._rank[codes % self._num_nodes]
        return self._starts[row] + column - row - 1

    def sample(self, count: int, generator: torch.Generator, taken: Tensor | None = None) -> Tensor:
        """Codes drawn uniformly without replacement, ascending; fewer only where no more are free.

        A draw picks positions among the numbers that are free, so that nothing is drawn in vain.

        Args:
            count: how many.
            generator: on the CPU, so that every device sees the same draws.
            taken: codes of this space, ascending, that may not be drawn.
        """
        gone = torch.empty(0, dtype=torch.int64) if taken is None else self.numbers(taken)
        free = self.size - len(gone)
        position = distinct_integers(free, min(count, free), generator)
        # A position's number is the position plus the number of taken ones before it.
        free_before = gone - torch.arange(len(gone))
        return self.codes(position + torch.searchsorted(free_before, position, right=True))
