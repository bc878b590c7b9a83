"""The classifier that looks at no edge."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, classifiers
from purigraph.classifiers.first_layer import FirstLayer


@classifiers.register("mlp")
class MLP(Classifier):
    r"""A multi-layer perceptron on the node features; no attack on the edges can reach it.

    $$H^{(l+1)} = \sigma(\mathrm{dropout}(H^{(l)}) W^{(l)} + b^{(l)})$$

    with $\sigma$ = ReLU, and none after the last layer.

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hidden_channels: The width of the hidden layers.
        num_layers: The number of linear layers, at least 1.
        dropout: The share that is dropped before every layer, the first included.

    Shapes: x (N, F) gives (N, C).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
        )
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.first = FirstLayer(widths[0], widths[1], dropout=dropout)
        self.others = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths[1:]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: NodeFeatures, edge_index: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node by its own features; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        for layer in self.others:
            h = layer(self.dropout(h.relu()))
        return h
