"""The classifier that ignores the edges."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

from torch import Tensor, nn

from purigraph.classifiers.base import Adjacency, Classifier, NodeFeatures, registry
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.settings import setting


@registry.register("mlp")
class MLP(Classifier):
    r"""A multi-layer perceptron on the node features; no attack on the edges can reach it.

    $$H^{(l+1)} = \sigma(\mathrm{dropout}(H^{(l)}) W^{(l)} + b^{(l)})$$

    with $\sigma$ = ReLU, except after the last layer.

    Shapes: x (N, F) gives (N, C).
    """

    trial_settings = MappingProxyType({"hidden_channels": 8})

    hidden_channels: int = setting("The width of the hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of linear layers.", default=2, ge=1, le=1_000)
    dropout: float = setting("Dropout probability before every layer, including the first.", default=0.5, ge=0, lt=1)

    uses_edges = False

    @classmethod
    def inside(cls, classifier: Classifier) -> MLP:
        """Return the MLP of a classifier that starts with one and has its settings."""
        return cls(**{name: getattr(classifier, name) for name in cls.settings_class.model_fields})

    def _build(self) -> None:
        widths = [self.in_channels, *[self.hidden_channels] * (self.num_layers - 1), self.out_channels]
        self.first = FirstLayer(widths[0], widths[1], dropout=self.dropout)
        self.others = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths[1:]))
        self.drop = nn.Dropout(self.dropout)

    def forward(
        self, x: NodeFeatures, edge_index: Adjacency | None = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Classify every node by its own features; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        for layer in self.others:
            h = layer(self.drop(h.relu()))
        return h
