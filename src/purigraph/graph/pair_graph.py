"""An undirected weighted graph in which every edge is stored once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from purigraph.errors import GraphError


@dataclass(frozen=True)
class SymmetricCSR:
    """The symmetric adjacency of a pair list by rows: each pair appears in both of its endpoints' rows.

    Attributes:
        rowptr: (N+1,) int64; row i holds the entries rowptr[i] to rowptr[i+1].
        col: (2E,) int32, the neighbour; ascending within a row.
        pair: (2E,) int32, the pair that an entry comes from: a pair's weight is that of its two entries.
    """

    rowptr: Tensor
    col: Tensor
    pair: Tensor

    @cached_property
    def row(self) -> Tensor:
        """(2E,) int64, the row of every entry."""
        counts = self.rowptr.diff()
        return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)


class PairGraph:
    r"""An undirected weighted graph without self-loops, every edge stored once.

    The weighted adjacency is $A_{ij} = A_{ji} = w_e$ for the pair $e = \{i, j\}$, $i < j$. Symmetry is thus
    true by construction. The pairs never change; `with_weight` gives the same structure other weights and
    shares everything that was derived from it.

    Args:
        num_nodes: N.
        pairs: (2, E) int64 with `pairs[0] < pairs[1]`, sorted by (i, j), no pair twice. What comes from
            outside goes through `purigraph.graph.border` instead, which sorts and explains what is wrong.
        weight: (E,) floating point; ones when left out.
    """

    def __init__(self, num_nodes: int, pairs: Tensor, weight: Tensor | None = None) -> None:
        self.num_nodes = num_nodes
        self.pairs = pairs
        if weight is None:
            weight = torch.ones(pairs.shape[1], device=pairs.device)
        if weight.shape != (pairs.shape[1],):
            raise GraphError(
                f"weight must have one entry per pair, shape ({pairs.shape[1]},), not {tuple(weight.shape)}."
            )
        self.weight = weight
        self._derived: dict[str, Any] = {}

    @classmethod
    def from_codes(cls, num_nodes: int, codes: Tensor, weight: Tensor | None = None) -> PairGraph:
        """Build from sorted unique codes i * N + j with i < j."""
        pairs = torch.stack([torch.div(codes, num_nodes, rounding_mode="floor"), codes % num_nodes])
        return cls(num_nodes, pairs, weight)

    @property
    def num_pairs(self) -> int:
        """E, the number of undirected edges."""
        return self.pairs.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the pairs are."""
        return self.pairs.device

    @property
    def codes(self) -> Tensor:
        """(E,) int64, i * N + j for every pair: ascending, so that `searchsorted` finds a pair."""
        if "codes" not in self._derived:
            self._derived["codes"] = self.pairs[0] * self.num_nodes + self.pairs[1]
        codes: Tensor = self._derived["codes"]
        return codes

    @property
    def csr(self) -> SymmetricCSR:
        """The symmetric adjacency by rows; built when first needed and shared by all that `with_weight` made."""
        if "csr" not in self._derived:
            self._derived["csr"] = self._build_csr()
        csr: SymmetricCSR = self._derived["csr"]
        return csr

    @property
    def touched(self) -> tuple[Tensor | None, PairGraph]:
        """The nodes that the pairs touch, (M,) ascending, and the pairs renumbered to them.

        None and the graph itself where that is all nodes. Worked out when first needed and kept: the pairs of a
        validation set are scored again and again.
        """
        if "touched" not in self._derived:
            nodes = torch.unique(self.pairs)
            if len(nodes) == self.num_nodes:
                return None, self
            renumbered = torch.searchsorted(nodes, self.pairs.contiguous())
            self._derived["touched"] = nodes, PairGraph(len(nodes), renumbered, self.weight)
        touched: tuple[Tensor, PairGraph] = self._derived["touched"]
        return touched

    def _build_csr(self) -> SymmetricCSR:
        i, j = self.pairs
        # A row's smaller neighbours come from pairs that end in it, its larger ones from pairs that start in
        # it. Both lists are ascending already, so one stable sort by row gives ascending columns too.
        row = torch.cat([j, i])
        row, order = torch.sort(row, stable=True)
        col = torch.cat([i, j])[order].to(torch.int32)
        pair = torch.arange(self.num_pairs, device=self.device, dtype=torch.int32).repeat(2)[order]
        rowptr = torch.zeros(self.num_nodes + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(torch.bincount(row, minlength=self.num_nodes), 0, out=rowptr[1:])
        return SymmetricCSR(rowptr, col, pair)

    def with_weight(self, weight: Tensor) -> PairGraph:
        """The same pairs with other weights."""
        other = PairGraph(self.num_nodes, self.pairs, weight)
        other._derived = self._derived
        return other

    def to(self, device: torch.device | str) -> PairGraph:
        """The same graph on another device."""
        return PairGraph(self.num_nodes, self.pairs.to(device), self.weight.to(device))

    def find(self, codes: Tensor) -> Tensor:
        """The position of every code among the pairs, -1 where there is no such pair."""
        if self.num_pairs == 0:
            return torch.full_like(codes, -1)
        position = torch.searchsorted(self.codes, codes).clamp_(max=self.num_pairs - 1)
        return torch.where(self.codes[position] == codes, position, -1)

    def degree(self) -> Tensor:
        """(N,) int64, the number of neighbours, whatever the weights."""
        return self.csr.rowptr.diff()

    def weighted_degree(self) -> Tensor:
        """(N,) the sum of the weights at every node; differentiable."""
        degree = self.weight.new_zeros(self.num_nodes)
        return degree.index_add(0, self.pairs[0], self.weight).index_add(0, self.pairs[1], self.weight)

    def normalised_weight(self) -> Tensor:
        r"""(E,) the entries of $D^{-1/2} A D^{-1/2}$, without self-loops; differentiable.

        A node whose weights sum to 0 has no normalisation: its entries are 0, with gradient 0.
        """
        inverse = inverse_sqrt(self.weighted_degree())
        return self.weight * inverse[self.pairs[0]] * inverse[self.pairs[1]]

    def normalised_weight_with_loops(self) -> tuple[Tensor, Tensor]:
        r"""(E,) and (N,): the entries of $(D+I)^{-1/2} (A+I) (D+I)^{-1/2}$ off and on the diagonal."""
        inverse = inverse_sqrt(self.weighted_degree() + 1)
        return self.weight * inverse[self.pairs[0]] * inverse[self.pairs[1]], inverse * inverse

    def edge_index(self) -> tuple[Tensor, Tensor]:
        """PyG's form with both directions: (2, 2E) sorted by (row, column), and (2E,) the weights."""
        csr = self.csr
        return torch.stack([csr.row, csr.col.long()]), self.weight[csr.pair.long()]

    def subgraph(self, nodes: Tensor) -> PairGraph:
        """The induced subgraph on `nodes` (M,), relabelled to their positions in ascending order."""
        nodes = torch.unique(nodes)
        position = torch.full((self.num_nodes,), -1, dtype=torch.int64, device=self.device)
        position[nodes] = torch.arange(len(nodes), device=self.device)
        pairs = position[self.pairs]
        keep = (pairs >= 0).all(0)
        return PairGraph(len(nodes), pairs[:, keep], self.weight[keep])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PairGraph)
            and self.num_nodes == other.num_nodes
            and torch.equal(self.pairs, other.pairs)
            and torch.equal(self.weight, other.weight)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PairGraph(num_nodes={self.num_nodes}, num_pairs={self.num_pairs})"


def inverse_sqrt(degree: Tensor) -> Tensor:
    """d^(-1/2), and 0 (with gradient 0) where d is 0."""
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1.0).rsqrt(), 0.0)


def merge_codes(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge two sorted disjoint code lists without sorting: the merged codes and where each side landed.

    Every element's place is its own rank plus the number of the other side's elements before it.
    """
    at_left = torch.arange(len(left), device=left.device) + torch.searchsorted(right, left)
    at_right = torch.arange(len(right), device=left.device) + torch.searchsorted(left, right)
    merged = left.new_empty(len(left) + len(right))
    merged[at_left] = left
    merged[at_right] = right
    return merged, at_left, at_right
