"""Link prediction with GPR filters: the pure function (`LinkMap`) and the module with its parameters (`LinkModel`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from purigraph.graph import PairGraph
from purigraph.kernels import Features, all_hops, edge_scores, node_codes


@dataclass(frozen=True)
class LinkMap:
    r"""Maps a weighted graph to link logits (equations 4 to 8 of the paper), with the edge encoder split in two.

    Node encoding, $K+1$ filters over $\tilde A = D^{-1/2} A D^{-1/2}$:
    $$H_k = \sum_{m=0}^{k} \gamma_{k,m} \tilde A^m H^{(0)}, \quad H^{(0)} = X W_n + b_n, \quad \gamma_0 = [1]$$
    Edge encoding and decoding, with $\phi = \mathrm{elu}$ and $H = \|_k H_k$:
    $$\hat A_{i \to j} = \sigma(\phi(\phi(H_i \| H_j) W_e + b_e) \cdot w_d + b_d), \qquad
      \hat A_{ij} = (\hat A_{i \to j} + \hat A_{j \to i}) / 2$$

    Attributes:
        node_weight: (F, Z1) $W_n$, node_bias: (Z1,) $b_n$.
        gamma: (K+1, K+1) lower triangular, or (1, 1) for a GCN encoder.
        second: The second layer (Z1, Z1), (Z1,) of a GCN encoder, the ablation without filters; otherwise None.
        code_weight: ((K+1) Z1, 2 Z2), $W_e$ as two blocks of columns, so one product per node gives both P (the node as
            a source) and Q (the node as a target).
        code_constant: (2 Z2,) $b_e$ followed by zeros, so it enters every sum P + Q once.
        score_weight: (Z2,) $w_d$, score_bias: () $b_d$.
        self_loops: Whether to normalise with self-loops.
    """

    node_weight: Tensor
    node_bias: Tensor
    gamma: Tensor
    second: tuple[Tensor, Tensor] | None
    code_weight: Tensor
    code_constant: Tensor
    score_weight: Tensor
    score_bias: Tensor
    self_loops: bool

    def embed(self, x: Features, dropout: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """Return the initial embeddings $H^{(0)}$, (N, Z1)."""
        return x.linear(self.node_weight, self.node_bias, dropout=dropout, generator=generator)

    def encode(self, h: Tensor, graph: PairGraph) -> Tensor:
        """Return the hops (M, N, Z1) that the filters combine, from the initial embeddings (N, Z1)."""
        if self.self_loops:
            value, diagonal = graph.normalised_weight_with_loops()
        else:
            value, diagonal = graph.normalised_weight(), None
        if self.second is None:
            return all_hops(h, graph.csr, value, diagonal, len(self.gamma) - 1)
        weight, bias = self.second
        first = functional.elu(all_hops(h, graph.csr, value, diagonal, 1)[1])
        return all_hops(torch.addmm(bias, first, weight), graph.csr, value, diagonal, 1)[1:]

    def first_filter_codes(self, h: Tensor) -> Tensor | None:
        """Return the contribution of filter 0 to the codes, (N, 2 Z2): without edges, so the same in all steps."""
        if self.second is not None:
            return None
        return torch.addmm(self.code_constant, functional.elu(h), self.code_weight[: h.shape[1]])

    def logits(
        self,
        h: Tensor,
        graph: PairGraph,
        scored: PairGraph | None = None,
        first_codes: Tensor | None = None,
    ) -> Tensor:
        """Return the link logits of both directions, (2, E).

        Args:
            h: (N, Z1), the initial embeddings.
            graph: The graph for message passing.
            scored: The pairs to score, on the same nodes. Default: those of the graph.
            first_codes: The result of `first_filter_codes(h)`. Default: computed here.
        """
        nodes, pairs = (None, graph) if scored is None else scored.touched
        return self.pair_logits(self.codes(h, graph, nodes, first_codes), pairs)

    def codes(
        self, h: Tensor, graph: PairGraph, nodes: Tensor | None = None, first_codes: Tensor | None = None
    ) -> Tensor:
        """Return P and Q of the nodes (M,), or of all, side by side, (M, 2 Z2); see `logits`."""
        hops = self.encode(h, graph)
        gamma, weight, constant = self.gamma, self.code_weight, self.code_constant
        if first_codes is not None:
            gamma, weight, constant = gamma[1:], weight[h.shape[1] :], first_codes
        if first_codes is not None and nodes is not None:
            constant = first_codes[nodes]
        return node_codes(hops, gamma, weight, constant, nodes=nodes)

    def pair_logits(self, codes: Tensor, pairs: PairGraph) -> Tensor:
        """Return the link logits of both directions, (2, E), of pairs on the nodes that the codes belong to."""
        return edge_scores(codes, self.score_weight, self.score_bias, pairs.csr)


class LinkModel(nn.Module):
    r"""The parameters of a `LinkMap`.

    Args:
        in_channels: F, the number of node features.
        hops: K, the order of the largest filter.
        node_channels: Z1, the width of the node encoding.
        edge_channels: Z2, the width of the edge encoding.
        encoder: "gpr", or "gcn" for a 2-layer GCN instead of the filters.
        self_loops: Whether to normalise with self-loops (a GCN always does).
        generator: The random generator of the initial values. Linear maps are initialised like PyTorch's `Linear`; the
            coefficients of filter k are uniform in $\pm\sqrt{3/(k+1)}$, divided by the sum of their absolute values.
    """

    def __init__(
        self,
        in_channels: int,
        *,
        hops: int,
        node_channels: int,
        edge_channels: int,
        encoder: Literal["gpr", "gcn"],
        self_loops: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder, self.self_loops = encoder, self_loops

        def uniform(fan_in: int, *shape: int) -> nn.Parameter:
            bound = 1 / math.sqrt(fan_in)
            return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))

        self.node_weight = uniform(in_channels, in_channels, node_channels)
        self.node_bias = uniform(in_channels, node_channels)
        if encoder == "gpr":
            self.coefficients = nn.Parameter(_random_coefficients(hops, generator))
            width = (hops + 1) * node_channels
        else:
            self.second_weight = uniform(node_channels, node_channels, node_channels)
            self.second_bias = uniform(node_channels, node_channels)
            width = node_channels
        self.code_weight = uniform(2 * width, width, 2 * edge_channels)
        self.code_bias = uniform(2 * width, edge_channels)
        self.score_weight = uniform(edge_channels, edge_channels)
        self.score_bias = uniform(edge_channels)

    @property
    def in_channels(self) -> int:
        """F."""
        return self.node_weight.shape[0]

    def gamma(self) -> Tensor:
        """Return the coefficients, (K+1, K+1) lower triangular: row k is filter k; filter 0 is fixed."""
        if self.encoder == "gcn":
            return self.node_weight.new_ones(1, 1)
        first = torch.zeros_like(self.coefficients[:1])
        first[0, 0] = 1
        return torch.cat([first, self.coefficients]).tril()

    def trainable(self) -> LinkMap:
        """Return the map with gradients to the parameters."""
        return LinkMap(
            node_weight=self.node_weight,
            node_bias=self.node_bias,
            gamma=self.gamma(),
            second=(self.second_weight, self.second_bias) if self.encoder == "gcn" else None,
            code_weight=self.code_weight,
            code_constant=torch.cat([self.code_bias, torch.zeros_like(self.code_bias)]),
            score_weight=self.score_weight,
            score_bias=self.score_bias,
            self_loops=self.self_loops or self.encoder == "gcn",
        )

    def frozen(self) -> LinkMap:
        """Return the map with constant parameters: gradients flow only to the weights of the graph."""
        live = self.trainable()
        return LinkMap(
            node_weight=live.node_weight.detach(),
            node_bias=live.node_bias.detach(),
            gamma=live.gamma.detach(),
            second=None if live.second is None else (live.second[0].detach(), live.second[1].detach()),
            code_weight=live.code_weight.detach(),
            code_constant=live.code_constant.detach(),
            score_weight=live.score_weight.detach(),
            score_bias=live.score_bias.detach(),
            self_loops=live.self_loops,
        )


def _random_coefficients(hops: int, generator: torch.Generator) -> Tensor:
    rows = torch.zeros(hops, hops + 1)
    for k in range(1, hops + 1):
        bound = math.sqrt(3 / (k + 1))
        row = torch.empty(k + 1).uniform_(-bound, bound, generator=generator)
        rows[k - 1, : k + 1] = row / row.abs().sum()
    return rows
