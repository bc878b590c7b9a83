"""One detector: an MLP on what is known about the two ends of an edge."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from purigraph.kernels import Features

# Inference handles so many elements of pairs x hidden units at a time.
_CHUNK_ELEMENTS = 1 << 22


class Detector(nn.Module):
    r"""How likely an edge is adversarial, by the features x and the logits z of its ends.

    $$s_{i \to j} = \sigma\bigl(w \cdot \mathrm{dropout}(\mathrm{ReLU}(\mathrm{BN}(
      [x_i \| z_i \| x_j \| z_j] W))) + b\bigr), \qquad s_{ij} = (s_{i \to j} + s_{j \to i}) / 2$$

    The product with W is one with its upper half for the first end and one with its lower half for the second: both
    are taken once per node ("codes") and not once per edge. The batch normalisation makes a bias superfluous.

    Args:
        in_channels: F.
        logits: C, the number of logits; 0 for features alone.
        hidden_channels: H.
        dropout: The share of hidden units that is dropped in training.
        generator: For the initial values, which are those of PyTorch's `Linear`.
    """

    def __init__(
        self, in_channels: int, logits: int, hidden_channels: int, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.dropout = dropout

        def uniform(fan_in: int, *shape: int) -> nn.Parameter:
            bound = 1 / math.sqrt(fan_in)
            return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))

        width = 2 * (in_channels + logits)
        self.feature_weight = uniform(width, in_channels, 2 * hidden_channels)
        self.logit_weight = uniform(width, logits, 2 * hidden_channels)
        self.norm = nn.BatchNorm1d(hidden_channels)
        self.score_weight = uniform(hidden_channels, hidden_channels)
        self.score_bias = uniform(hidden_channels)

    def feature_codes(self, x: Features) -> Tensor:
        """(N, 2H), what the features add to the codes."""
        return x.linear(self.feature_weight, self.feature_weight.new_zeros(self.feature_weight.shape[1]))

    def training_logits(self, x: Features, logits: Tensor, pairs: Tensor, generator: torch.Generator) -> Tensor:
        """(2, B) logits of both directions of pairs (2, B), with the batch's own statistics and with dropout.

        Shapes: x (N, F), logits (N, C).
        """
        sources, targets = (self.feature_codes(x) + logits @ self.logit_weight).chunk(2, dim=1)
        first, second = pairs
        hidden = torch.cat([sources[first] + targets[second], sources[second] + targets[first]])
        hidden = self.norm(hidden).relu()
        if self.dropout > 0:
            kept = torch.rand(hidden.shape, generator=generator).to(hidden.device) >= self.dropout
            hidden = hidden * kept / (1 - self.dropout)
        scored: Tensor = hidden @ self.score_weight + self.score_bias
        return scored.view(2, -1)

    def scores(self, feature_codes: Tensor, logits: Tensor, pairs: Tensor) -> Tensor:
        """(E,) the scores of pairs (2, E), as they are outside of training; differentiable in the logits alone.

        Shapes: feature_codes (N, 2H), logits (N, C).
        """
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight.detach() * (norm.running_var + norm.eps).rsqrt()
        shift = norm.bias.detach() - norm.running_mean * scale
        codes = feature_codes.detach() + logits @ self.logit_weight.detach()
        sources, targets = (part * scale for part in codes.chunk(2, dim=1))
        sources = sources + shift
        weight, bias = self.score_weight.detach(), self.score_bias.detach()

        def directed(first: Tensor, second: Tensor) -> Tensor:
            hidden = functional.relu(sources.index_select(0, first) + targets.index_select(0, second))
            return torch.sigmoid(hidden @ weight + bias)

        chunks = pairs.split(max(_CHUNK_ELEMENTS // len(weight), 1), dim=1)
        return torch.cat([(directed(i, j) + directed(j, i)) / 2 for i, j in chunks])
