"""The common base of GCN, GAT and the soft median network: linear layers, each followed by an aggregation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Tensor, nn

from purigraph.classifiers.base import Adjacency, Classifier, NodeFeatures
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.settings import setting

#: Maps the number of a layer and h (N, Z) to the aggregated h (N, Z).
Aggregate: TypeAlias = Callable[[int, Tensor], Tensor]


class LayeredClassifier(Classifier):
    r"""$H^{(l+1)} = \sigma(\mathrm{agg}_l(H^{(l)} W^{(l)}))$ with $\sigma$ = ReLU, except after the last layer.

    A subclass implements `_aggregation`, and creates the parameters it needs in `_build_aggregation`.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    trial_settings = MappingProxyType({"hidden_channels": 8})

    hidden_channels: int = setting("The width of the hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers.", default=2, ge=1, le=1_000)
    dropout: float = setting("Dropout probability after every hidden layer.", default=0.5, ge=0, lt=1)
    input_dropout: float = setting("Dropout probability of the features.", default=0.0, ge=0, lt=1)

    def _build(self) -> None:
        widths = [self.in_channels, *[self.hidden_channels] * (self.num_layers - 1), self.out_channels]
        self.first = FirstLayer(widths[0], widths[1], bias=False, dropout=self.input_dropout)
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths[1:]))
        # Before the weights are drawn, so that a seed still gives the same model as in earlier versions.
        self._build_aggregation(widths[1:])
        self.drop = nn.Dropout(self.dropout)
        for layer in (self.first, *self.others):
            nn.init.xavier_uniform_(layer.weight)

    @abstractmethod
    def _build_aggregation(self, widths: Sequence[int]) -> None:
        """Create the parameters of the aggregations, given the width of each layer."""

    @abstractmethod
    def _aggregation(self, edge_index: Adjacency, edge_weight: Tensor | None, h: Tensor) -> Aggregate:
        """Return the aggregation over a graph; h (N, Z) gives the number of nodes, the dtype and the device."""

    def forward(self, x: NodeFeatures, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        aggregate = self._aggregation(edge_index, edge_weight, h)
        h = aggregate(0, h)
        for number, layer in enumerate(self.others, start=1):
            h = aggregate(number, layer(self.drop(h.relu())))
        return h


def zero_biases(widths: Sequence[int]) -> nn.ParameterList:
    """Return one bias per layer, initialised to zero."""
    return nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths)
