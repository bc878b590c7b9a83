"""What GCN, GAT and the soft median network have in common: linear layers, each followed by an aggregation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.settings import setting

#: From the number of a layer and h (N, Z) to the aggregated h (N, Z).
Aggregate: TypeAlias = Callable[[int, Tensor], Tensor]


class LayeredClassifier(Classifier):
    r"""$H^{(l+1)} = \sigma(\mathrm{agg}_l(H^{(l)} W^{(l)}))$ with $\sigma$ = ReLU, none after the last layer.

    A subclass writes `_aggregation`, and makes what that needs in `_build_aggregation`.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    trial_settings = MappingProxyType({"hidden_channels": 8})

    hidden_channels: int = setting("The width of the hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers.", default=2, ge=1, le=1_000)
    dropout: float = setting("The share that is dropped after every hidden layer.", default=0.5, ge=0, lt=1)
    input_dropout: float = setting("The share of the features that is dropped.", default=0.0, ge=0, lt=1)

    def _build(self) -> None:
        widths = [self.in_channels, *[self.hidden_channels] * (self.num_layers - 1), self.out_channels]
        self.first = FirstLayer(widths[0], widths[1], bias=False, dropout=self.input_dropout)
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths[1:]))
        # Before the weights are drawn, as it always was: a seed gives the model that it gave.
        self._build_aggregation(widths[1:])
        self.drop = nn.Dropout(self.dropout)
        for layer in (self.first, *self.others):
            nn.init.xavier_uniform_(layer.weight)

    @abstractmethod
    def _build_aggregation(self, widths: Sequence[int]) -> None:
        """Make the parameters of the aggregations, one for each layer's width."""

    @abstractmethod
    def _aggregation(self, edge_index: Tensor, edge_weight: Tensor | None, h: Tensor) -> Aggregate:
        """Return the aggregation over a graph; h (N, Z) shows the number of nodes, the dtype and the device."""

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        aggregate = self._aggregation(edge_index, edge_weight, h)
        h = aggregate(0, h)
        for number, layer in enumerate(self.others, start=1):
            h = aggregate(number, layer(self.drop(h.relu())))
        return h


def zero_biases(widths: Sequence[int]) -> nn.ParameterList:
    """Return one bias for each layer, zero at first."""
    return nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths)
