"""The graph convolutional network."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, classifiers
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.classifiers.propagation import propagate


@classifiers.register("gcn")
class GCN(Classifier):
    r"""The graph convolutional network of `Kipf and Welling (2017) <https://arxiv.org/abs/1609.02907>`_.

    $$H^{(l+1)} = \sigma\bigl(\tilde D^{-1/2} (A + I) \tilde D^{-1/2} H^{(l)} W^{(l)} + b^{(l)}\bigr)$$

    with $\tilde D_{ii} = 1 + \sum_j A_{ij}$ and $\sigma$ = ReLU, none after the last layer. The same function
    as a stack of PyG's `GCNConv`, some six times faster where edge weights need gradients (see `propagation`).

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hidden_channels: The width of the hidden layers; 64 in the paper, 256 for OGB-arXiv.
        num_layers: 2 in the paper, 3 for OGB-arXiv.
        dropout: The share that is dropped after every hidden layer.
        input_dropout: The share of the features that is dropped.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    paper_hyper = MappingProxyType({"ogbn-arxiv": {"hidden_channels": 256, "num_layers": 3}})

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
            input_dropout=input_dropout,
        )
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.first = FirstLayer(widths[0], widths[1], bias=False, dropout=input_dropout)
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths[1:]))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths[1:])
        self.dropout = nn.Dropout(dropout)
        for layer in (self.first, *self.others):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        value, loop = edges.normalised_with_loops()
        h = propagate(edges.pattern, value, h, loop) + self.biases[0]
        for layer, bias in zip(self.others, list(self.biases)[1:], strict=True):
            h = propagate(edges.pattern, value, layer(self.dropout(h.relu())), loop) + bias
        return h
