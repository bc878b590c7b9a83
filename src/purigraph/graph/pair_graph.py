"""An undirected weighted graph in which every edge is stored once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from purigraph.errors import GraphError
from purigraph.graph import pair_codes
from purigraph.kernels.csr import SymmetricPattern
from purigraph.kernels.sorted_lists import count_below


class PairGraph:
    r"""An undirected weighted graph without self-loops, every edge stored once.

    The weighted adjacency is $A_{ij} = A_{ji} = w_e$ for the pair $e = \{i, j\}$, $i < j$, and thus symmetric by
    construction. The pairs never change; `with_weight` returns the same structure with other weights and shares
    everything derived from it.

    Args:
        num_nodes: N, the number of nodes.
        pairs: (2, E) int64 with `pairs[0] < pairs[1]`, sorted by (i, j), without duplicates. For user input, use
            `purigraph.graph.border` instead, which sorts the pairs and explains what is wrong.
        weight: (E,) floating point. Default: ones.
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
        """Build a graph from sorted unique codes (see `pair_codes`)."""
        graph = cls(num_nodes, pair_codes.decode(codes, num_nodes), weight)
        graph._derived["codes"] = codes
        return graph

    @property
    def num_pairs(self) -> int:
        """Return E, the number of undirected edges."""
        return self.pairs.shape[1]

    @property
    def device(self) -> torch.device:
        """Return the device that the pairs are on."""
        return self.pairs.device

    @property
    def codes(self) -> Tensor:
        """Return the code of every pair (see `pair_codes`), (E,) int64, ascending: `searchsorted` finds a pair."""
        if "codes" not in self._derived:
            self._derived["codes"] = pair_codes.encode(self.pairs[0], self.pairs[1], self.num_nodes)
        codes: Tensor = self._derived["codes"]
        return codes

    @property
    def csr(self) -> SymmetricPattern:
        """Return the symmetric adjacency by rows; built on first use and shared by all graphs from `with_weight`."""
        if "csr" not in self._derived:
            self._derived["csr"] = SymmetricPattern(self.pairs, self.num_nodes)
        csr: SymmetricPattern = self._derived["csr"]
        return csr

    @property
    def touched(self) -> tuple[Tensor | None, PairGraph]:
        """Return the nodes that the pairs touch, (M,) ascending, and the graph renumbered to them.

        Returns None and the graph itself if the pairs touch all nodes. The renumbering is computed on first use and
        cached, as the pairs of a validation set are scored many times.
        """
        if "touched" not in self._derived:
            nodes = torch.unique(self.pairs)
            renumbered = torch.searchsorted(nodes, self.pairs.contiguous())
            # Cached with placeholder weights, as graphs with other weights share it.
            self._derived["touched"] = nodes, PairGraph(len(nodes), renumbered)
        nodes, structure = self._derived["touched"]
        return (None, self) if len(nodes) == self.num_nodes else (nodes, structure.with_weight(self.weight))

    def with_weight(self, weight: Tensor) -> PairGraph:
        """Return the same pairs with other weights."""
        other = PairGraph(self.num_nodes, self.pairs, weight)
        other._derived = self._derived
        return other

    def to(self, device: torch.device | str) -> PairGraph:
        """Return the same graph on another device."""
        return PairGraph(self.num_nodes, self.pairs.to(device), self.weight.to(device))

    def find(self, codes: Tensor) -> Tensor:
        """Return the position of every code among the pairs, or -1 if there is no such pair."""
        if self.num_pairs == 0:
            return torch.full_like(codes, -1)
        position = count_below(self.codes, codes).clamp_(max=self.num_pairs - 1)
        return torch.where(self.codes[position] == codes, position, -1)

    def degree(self) -> Tensor:
        """Return the number of neighbours of every node, (N,) int64, whatever the weights."""
        return self.csr.rowptr.diff().long()

    def weighted_degree(self) -> Tensor:
        """Return the sum of the weights at every node, (N,); differentiable."""
        degree = self.weight.new_zeros(self.num_nodes)
        return degree.index_add(0, self.pairs[0], self.weight).index_add(0, self.pairs[1], self.weight)

    def normalised_weight(self) -> Tensor:
        r"""Return the entries of $D^{-1/2} A D^{-1/2}$, (E,), without self-loops; differentiable.

        If the weights at a node sum to 0, its entries are 0, with gradient 0.
        """
        inverse = inverse_sqrt(self.weighted_degree())
        return self.weight * inverse[self.pairs[0]] * inverse[self.pairs[1]]

    def normalised_weight_with_loops(self) -> tuple[Tensor, Tensor]:
        r"""Return the entries of $(D+I)^{-1/2} (A+I) (D+I)^{-1/2}$ off the diagonal, (E,), and on it, (N,)."""
        inverse = inverse_sqrt(self.weighted_degree() + 1)
        return self.weight * inverse[self.pairs[0]] * inverse[self.pairs[1]], inverse * inverse

    def edge_index(self) -> tuple[Tensor, Tensor]:
        """Return PyG's form with both directions: the edges (2, 2E) sorted by (row, column), and the weights (2E,)."""
        csr = self.csr
        return torch.stack([csr.row, csr.col.long()]), self.weight.index_select(0, csr.pair)

    def subgraph(self, nodes: Tensor) -> PairGraph:
        """Return the induced subgraph on `nodes` (M,), relabelled to their positions in ascending order."""
        nodes = torch.unique(nodes)
        position = torch.full((self.num_nodes,), -1, dtype=torch.int64, device=self.device)
        position[nodes] = torch.arange(len(nodes), device=self.device)
        pairs = position[self.pairs]
        keep = (pairs >= 0).all(0)
        return PairGraph(len(nodes), pairs[:, keep], self.weight[keep])

    def touching(self, nodes: Tensor) -> Tensor:
        """Return which pairs, (E,) bool, have an end among some nodes (M,)."""
        chosen = torch.zeros(self.num_nodes, dtype=torch.bool, device=self.device)
        chosen[nodes] = True
        return chosen[self.pairs].any(0)

    def keeping(self, kept: Tensor) -> PairGraph:
        """Return the graph with only some of its pairs, (E,) bool."""
        return PairGraph(self.num_nodes, self.pairs[:, kept], self.weight[kept])

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
    """Return d^(-1/2), and 0 (with gradient 0) where d is 0."""
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1.0).rsqrt(), 0.0)
