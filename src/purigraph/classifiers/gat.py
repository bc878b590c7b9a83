"""The graph attention network, with attention that respects edge weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from purigraph.classifiers.base import Adjacency, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.layered import Aggregate, LayeredClassifier
from purigraph.errors import InputError
from purigraph.kernels.exponent import LARGEST_EXPONENT
from purigraph.kernels.propagation import propagate
from purigraph.settings import setting


@registry.register("gat")
class GAT(LayeredClassifier):
    r"""The graph attention network of `Veličković et al. (2018) <https://arxiv.org/abs/1710.10903>`_.

    Per layer and head, with $h = x W$, $s_{ij} = \mathrm{LeakyReLU}(a_1^T h_i + a_2^T h_j)$ and the edge weights
    $w_{ij}$, $w_{ii} = 1$:

    $$x'_i = b + \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} h_j, \qquad
      \alpha_{ij} = \frac{w_{ij}^{c} \exp s_{ij}}{\sum_{k \in N(i) \cup \{i\}} w_{ik}^{c} \exp s_{ik}}$$

    The weight is outside the exponential: an edge of weight 0 gets no attention, and the gradient is finite there. With
    $c = 1$ an edge of weight 2 counts as two edges. $c = 1 / \ln 2$ is the form of `Geisler et al. (2021)
    <https://arxiv.org/abs/2110.14038>`_ and of the paper's code, which add $\log_2 w_{ij}$ to $s_{ij}$: this is
    infinite at weight 0, and its gradient vanishes as the weight approaches 0, which hides new edges from an attacker.
    On unweighted graphs c makes no difference.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    hidden_channels: int = setting("The width of the hidden layers, all heads together.", default=64, ge=1)
    heads: int = setting(
        "Number of heads of the hidden layers, whose outputs are concatenated; the last layer has one.", default=1, ge=1
    )
    attention_dropout: float = setting("Dropout probability of the attention coefficients.", default=0.0, ge=0, lt=1)
    negative_slope: float = setting("Negative slope of the LeakyReLU.", default=0.2)
    weight_exponent: float = setting(
        "The exponent c; below 1 the gradient at weight 0 would be infinite.", default=1.0, ge=1
    )

    def _build(self) -> None:
        if self.hidden_channels % self.heads:
            raise InputError(
                f"GAT: hidden_channels ({self.hidden_channels}) must be a multiple of heads ({self.heads})."
            )
        super()._build()

    def _build_aggregation(self, widths: Sequence[int]) -> None:
        heads = [*[self.heads] * (len(widths) - 1), 1]
        self.attention = nn.ModuleList(
            Attention(width, number, dropout=self.attention_dropout, negative_slope=self.negative_slope)
            for width, number in zip(widths, heads, strict=True)
        )

    def _aggregation(self, edge_index: Adjacency, edge_weight: Tensor | None, h: Tensor) -> Aggregate:
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        weight = edges.weight if self.weight_exponent == 1 else edges.weight**self.weight_exponent
        return lambda number, h: self.attention[number](h, edges, weight)


class Attention(nn.Module):
    r"""The aggregation of one layer: $b + \sum_j \alpha_{ij} h_j$ per head; see `GAT`.

    Args:
        channels: Z, all heads together.
        heads: Number of heads.
        dropout: Dropout probability of the attention coefficients.
        negative_slope: Negative slope of the LeakyReLU.

    Shapes: h (N, Z) gives (N, Z).
    """

    def __init__(self, channels: int, heads: int, *, dropout: float, negative_slope: float) -> None:
        super().__init__()
        self.heads, self.negative_slope = heads, negative_slope
        self.target = nn.Parameter(torch.empty(heads, channels // heads))
        self.source = nn.Parameter(torch.empty(heads, channels // heads))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.target)
        nn.init.xavier_uniform_(self.source)

    def forward(self, h: Tensor, edges: Edges, weight: Tensor) -> Tensor:
        """Aggregate `h` (N, Z) along the edges; `weight` (M,) is $w^c$ in their order."""
        parts = h.view(h.shape[0], self.heads, -1)
        of_target, of_source = (parts * self.target).sum(-1), (parts * self.source).sum(-1)
        outputs = []
        for head in range(self.heads):
            value, loop = self._attention(of_target[:, head], of_source[:, head], edges, weight)
            outputs.append(propagate(edges.pattern, value, parts[:, head], loop))
        return torch.cat(outputs, dim=1) + self.bias

    def _attention(self, of_target: Tensor, of_source: Tensor, edges: Edges, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the attention of every edge, (M,), and of every self-loop, (N,)."""
        score = of_target.index_select(0, edges.target) + of_source.index_select(0, edges.source)
        score = functional.leaky_relu(score, self.negative_slope)
        loop_score = functional.leaky_relu(of_target + of_source, self.negative_slope)
        with torch.no_grad():
            # The shift that keeps exp in range must not come from an edge of weight 0: its score can be so much larger
            # than all others that they would vanish. The maximum of s + log w avoids that.
            effective = torch.where(weight > 0, score + weight.log(), -math.inf)
            shift = loop_score.scatter_reduce(0, edges.target, effective, "amax")
        exponent = (score - shift.index_select(0, edges.target)).clamp(max=LARGEST_EXPONENT)
        mass, loop_mass = weight * exponent.exp(), (loop_score - shift).exp()
        total = loop_mass.index_add(0, edges.target, mass)
        attention, loop = mass / total.index_select(0, edges.target), loop_mass / total
        return self.dropout(attention), self.dropout(loop)
