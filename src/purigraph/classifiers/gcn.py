"""The graph convolutional network."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.kernels.propagation import propagate
from purigraph.settings import setting


@registry.register("gcn")
class GCN(Classifier):
    r"""The graph convolutional network of `Kipf and Welling (2017) <https://arxiv.org/abs/1609.02907>`_.

    $$H^{(l+1)} = \sigma\bigl(\tilde D^{-1/2} (A + I) \tilde D^{-1/2} H^{(l)} W^{(l)} + b^{(l)}\bigr)$$

    with $\tilde D_{ii} = 1 + \sum_j A_{ij}$ and $\sigma$ = ReLU, none after the last layer. The same function
    as a stack of PyG's `GCNConv`, some six times faster where edge weights need gradients (see
    `purigraph.kernels.propagation`).

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    paper_hyper = MappingProxyType({"ogbn-arxiv": {"hidden_channels": 256, "num_layers": 3}})
    trial_settings = MappingProxyType({"hidden_channels": 8})

    hidden_channels: int = setting("The width of the hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers.", default=2, ge=1)
    dropout: float = setting("The share that is dropped after every hidden layer.", default=0.5, ge=0, lt=1)
    input_dropout: float = setting("The share of the features that is dropped.", default=0.0, ge=0, lt=1)

    def _build(self) -> None:
        widths = [self.in_channels, *[self.hidden_channels] * (self.num_layers - 1), self.out_channels]
        self.first = FirstLayer(widths[0], widths[1], bias=False, dropout=self.input_dropout)
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths[1:]))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths[1:])
        self.drop = nn.Dropout(self.dropout)
        for layer in (self.first, *self.others):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        value, loop = edges.normalised_with_loops()
        h = propagate(edges.pattern, value, h, loop) + self.biases[0]
        for layer, bias in zip(self.others, list(self.biases)[1:], strict=True):
            h = propagate(edges.pattern, value, layer(self.drop(h.relu())), loop) + bias
        return h
