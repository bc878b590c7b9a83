r"""Auto-encoders that tell 1-hop and 2-hop connections apart: the paper's validation of structural encodings.

A node encoder gives H (N, Z), and each of two heads scores pairs of nodes as GPR-GAE does, by
$w \cdot \mathrm{ELU}(P_i + Q_j)$ with $P = \mathrm{ELU}(H) W_1 + b$ and $Q = \mathrm{ELU}(H) W_2$, averaged over both
directions. The encoders are GPR-GAE's filters, side by side, and stacks of GCN, GraphSAGE and GIN layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv, GINConv, SAGEConv

from purigraph.graph import PairGraph, to_scipy

EncoderName = Literal["gpr-gae", "gcn", "sage", "gin"]


@dataclass(frozen=True)
class Connections:
    """The pairs of nodes of the two tasks, (2, M) each.

    Attributes:
        edges: Direct connections.
        non_edges: As many random pairs that are none.
        two_hop: Pairs with a common neighbour.
        direct_only: Direct connections without a common neighbour.
        non_two_hop: As many random pairs without a common neighbour as `two_hop` has.
    """

    edges: Tensor
    non_edges: Tensor
    two_hop: Tensor
    direct_only: Tensor
    non_two_hop: Tensor


def connections(graph: PairGraph, generator: torch.Generator, touching: Tensor | None = None) -> Connections:
    """Return the connections of a graph.

    Args:
        graph: The graph.
        generator: Of the random pairs.
        touching: (N,) bool; every connection has at least one of these nodes. Default: any node.
    """
    number = graph.num_nodes
    adjacency = to_scipy(graph)
    squared = (adjacency @ adjacency).tocoo()
    upper = squared.row < squared.col
    hop2 = np.unique(squared.row[upper].astype(np.int64) * number + squared.col[upper])
    hop1 = graph.codes.numpy()

    def pairs(codes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Tensor:
        found = torch.from_numpy(np.stack([codes // number, codes % number]))
        return found if touching is None else found[:, touching[found].any(0)]

    edges, two_hop = pairs(hop1), pairs(hop2)
    direct_only = pairs(np.setdiff1d(hop1, hop2))
    return Connections(
        edges,
        _random_pairs(number, edges.shape[1], torch.from_numpy(hop1), touching, generator),
        two_hop,
        direct_only,
        _random_pairs(number, two_hop.shape[1], torch.from_numpy(hop2), touching, generator),
    )


def _random_pairs(
    number: int, count: int, forbidden: Tensor, touching: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Return `count` random pairs of different nodes that are not among the forbidden codes (sorted)."""
    first = torch.arange(number) if touching is None else touching.nonzero().squeeze(1)
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < count:
        i = first[torch.randint(len(first), (2 * count,), generator=generator)]
        j = torch.randint(number, (2 * count,), generator=generator)
        codes = (torch.minimum(i, j) * number + torch.maximum(i, j))[i != j]
        found = torch.unique(torch.cat([found, codes[~torch.isin(codes, forbidden)]]))
    chosen = found[torch.randperm(len(found), generator=generator)[:count]]
    return torch.stack([chosen // number, chosen % number])


class FilterEncoder(nn.Module):
    r"""GPR-GAE's node encoder: $H_k = \sum_{m \le k} \gamma_{k,m} \tilde A^m X W$ for k = 0 ... K, side by side."""

    def __init__(self, in_channels: int, channels: int, hops: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, channels)
        start = torch.rand(hops, hops + 1) * 2 - 1
        scale = torch.tensor([math.sqrt(3 / (k + 2)) for k in range(hops)]).unsqueeze(1)
        start = (start * scale).tril(1)
        self.coefficients = nn.Parameter(start / start.abs().sum(1, keepdim=True))
        self.width = (hops + 1) * channels

    def forward(self, x: Tensor, graph: PairGraph) -> Tensor:
        """Return (N, (K+1) Z1)."""
        edges, _ = graph.edge_index()
        value = PairGraph(graph.num_nodes, graph.pairs).normalised_weight()
        order = graph.find(torch.minimum(edges[0], edges[1]) * graph.num_nodes + torch.maximum(edges[0], edges[1]))
        matrix = torch.sparse_coo_tensor(edges, value[order], (graph.num_nodes,) * 2, is_coalesced=True)
        hops = [self.linear(x)]
        for _ in range(self.coefficients.shape[0]):
            hops.append(torch.sparse.mm(matrix, hops[-1]))
        mixed = torch.einsum("km,mnz->knz", self.coefficients.tril(1), torch.stack(hops))
        return torch.cat([hops[0], *mixed], dim=1)


class LayerEncoder(nn.Module):
    """A stack of K layers of message passing, with ELU between them."""

    def __init__(self, kind: EncoderName, in_channels: int, channels: int, layers: int) -> None:
        super().__init__()
        widths = [in_channels] + [channels] * layers
        self.layers = nn.ModuleList(_layer(kind, before, after) for before, after in pairwise(widths))
        self.width = channels

    def forward(self, x: Tensor, graph: PairGraph) -> Tensor:
        """Return (N, Z1)."""
        edges, _ = graph.edge_index()
        for number, layer in enumerate(self.layers):
            x = layer(functional.elu(x) if number else x, edges)
        return x


def _layer(kind: EncoderName, before: int, after: int) -> nn.Module:
    layer: nn.Module
    if kind == "gcn":
        layer = GCNConv(before, after)
    elif kind == "sage":
        layer = SAGEConv(before, after)
    else:
        layer = GINConv(nn.Sequential(nn.Linear(before, after), nn.ELU(), nn.Linear(after, after)))
    return layer


class PairHead(nn.Module):
    """Scores pairs of nodes by their encodings."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, channels), nn.Linear(width, channels, bias=False)
        self.score = nn.Linear(channels, 1)

    def forward(self, h: Tensor, pairs: Tensor) -> Tensor:
        """Return logits (M,) of pairs (2, M)."""
        p, q = self.first(functional.elu(h)), self.second(functional.elu(h))
        i, j = pairs
        forward, backward = functional.elu(p[i] + q[j]), functional.elu(p[j] + q[i])
        logits: Tensor = self.score((forward + backward) / 2).squeeze(1)
        return logits


class StructureModel(nn.Module):
    """An encoder with a head for each task."""

    def __init__(
        self, kind: EncoderName, in_channels: int, hops: int, channels: int, edge_channels: int, dropout: float
    ) -> None:
        super().__init__()
        self.encoder: FilterEncoder | LayerEncoder
        if kind == "gpr-gae":
            self.encoder = FilterEncoder(in_channels, channels, hops)
        else:
            self.encoder = LayerEncoder(kind, in_channels, channels, hops)
        self.heads = nn.ModuleList(PairHead(self.encoder.width, edge_channels) for _ in range(2))
        self.dropout = dropout

    def forward(self, x: Tensor, graph: PairGraph) -> Tensor:
        """Return the encodings (N, Z)."""
        encoded: Tensor = self.encoder(functional.dropout(x, self.dropout, self.training), graph)
        return encoded
