"""Numbered sets of node pairs and uniform samples of them."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.graph import pair_codes
from purigraph.graph.distinct_integers import distinct_integers
from purigraph.kernels.sorted_lists import count_below


class PairSpace:
    r"""All unordered pairs of some nodes, numbered row by row of the upper triangle; self-loops have no number.

    With the touched nodes numbered first, the pairs that touch them are a prefix of the triangle. Without `touching`,
    all $K(K-1)/2$ pairs are in the space, and their numbers are in the same order as their codes.

    Args:
        num_nodes: N, the number of nodes.
        nodes: (K,) int64, ascending: the nodes that may appear. Default: all.
        touching: (V,) int64, a subset of these nodes: at least one end of every pair is among them. Default: all.
        device: The device of the codes.

    Attributes:
        size: The number of pairs.
    """

    def __init__(
        self,
        num_nodes: int,
        nodes: Tensor | None = None,
        *,
        touching: Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self._num_nodes = num_nodes
        self._nodes = torch.arange(num_nodes) if nodes is None else nodes.cpu()
        self._device = torch.device(device)
        self._is_ascending = touching is None
        count = num_rows = len(self._nodes)
        if touching is not None:
            is_touched = torch.zeros(num_nodes, dtype=torch.bool)
            is_touched[touching.cpu()] = True
            is_touched = is_touched[self._nodes]
            self._nodes = torch.cat([self._nodes[is_touched], self._nodes[~is_touched]])
            num_rows = int(is_touched.sum())
        self._rank = torch.zeros(num_nodes, dtype=torch.int64)
        self._rank[self._nodes] = torch.arange(count)
        row = torch.arange(count)
        self._starts = row * (2 * count - row - 1) // 2
        self.size = num_rows * (2 * count - num_rows - 1) // 2

    def codes(self, number: Tensor) -> Tensor:
        """Return the codes of the pairs with these numbers."""
        row = count_below(self._starts, number, or_equal=True) - 1
        column = number - self._starts[row] + row + 1
        return pair_codes.encode(self._nodes[row], self._nodes[column], self._num_nodes).to(self._device)

    def numbers(self, codes: Tensor) -> Tensor:
        """Return the numbers of the pairs with these codes; `size` or more for pairs without a node of `touching`."""
        ends = self._rank[pair_codes.decode(codes.cpu(), self._num_nodes)]
        row, column = torch.minimum(*ends), torch.maximum(*ends)
        return self._starts[row] + column - row - 1

    def num_free(self, taken: Tensor) -> int:
        """Return the number of pairs in this space that are not among the codes `taken` of its nodes."""
        return self.size - len(taken if self._is_ascending else self._taken_numbers(taken))

    def sample(self, count: int, generator: torch.Generator, taken: Tensor | None = None) -> Tensor:
        """Draw codes uniformly without replacement, ascending; fewer than `count` only if no more are free.

        Positions among the free numbers are drawn and then mapped to numbers by a walk along the taken ones, so no draw
        has to be rejected.

        Args:
            count: The number of codes to draw.
            generator: A random generator on the CPU, so draws are the same on every device.
            taken: The codes of pairs of the nodes that may not be drawn, ascending.
        """
        gone = torch.empty(0, dtype=torch.int64) if taken is None else self._taken_numbers(taken)
        free = self.size - len(gone)
        position = distinct_integers(free, min(count, free), generator)
        # The number at a position is the position plus the number of taken numbers before it.
        free_before = gone - torch.arange(len(gone))
        codes = self.codes(position + count_below(free_before, position, or_equal=True))
        return codes if self._is_ascending else codes.sort().values

    def _taken_numbers(self, taken: Tensor) -> Tensor:
        """Return the numbers of the codes that are in this space, ascending."""
        numbers = self.numbers(taken)
        return numbers if self._is_ascending else numbers[numbers < self.size].sort().values
