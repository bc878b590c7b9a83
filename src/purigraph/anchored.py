"""A model whose surest answers do not depend on the edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchors import Anchor, Certificate, TradeOff
from purigraph.anchors.certificate import certified_nodes
from purigraph.anchors.distillation import predict_logits
from purigraph.errors import InputError, UnsupportedModelError
from purigraph.graph.nodes import read_targets

#: The margins that `Anchored.trade_off` shows.
MARGINS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.01)


class Anchored(nn.Module):
    r"""A model that answers by its anchor where that is sure, and as before elsewhere.

    $$f'(X, A)_v = \begin{cases} \log g(x_v) & \text{if the gap of } g(x_v) \text{ is at least the margin} \\
      f(X, A)_v & \text{otherwise} \end{cases}$$

    with an anchor $g$ that sees a node's own features only. The gate does not depend on the edges, so attacks get exact
    gradients. If no node is exposed, the model inside is not run. Made by `purigraph.protect(..., anchor=anchor)`.
    """

    def __init__(self, model: nn.Module, anchor: Anchor) -> None:
        super().__init__()
        self.model = model
        self.anchor = anchor
        self.training = model.training

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return log-probabilities of the anchor or the model's logits, (N, C)."""
        return self._gated(x, lambda: self.model(x, edge_index, edge_weight, *args, **kwargs))

    def relaxed(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the output for partially present edges, by `presence` (M,); see `Protected.relaxed`."""
        inner = getattr(self.model, "relaxed", None)
        if inner is not None:
            return self._gated(x, lambda: inner(x, edge_index, edge_weight, presence, *args, **kwargs))
        return self._gated(x, lambda: self.model(x, edge_index, edge_weight * presence, *args, **kwargs))

    def _gated(self, x: Tensor, answer: Any) -> Tensor:
        probabilities: Tensor = self.anchor(x)
        anchored = probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
        sure = self.anchor.sure(probabilities)
        if bool(sure.all()):
            return anchored
        logits = answer()
        if not isinstance(logits, Tensor) or logits.shape != anchored.shape:
            found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise UnsupportedModelError(
                f"The anchor knows {anchored.shape[1]} classes at {anchored.shape[0]} nodes, so the model must give "
                f"logits of shape {tuple(anchored.shape)}, not {found}."
            )
        return torch.where(sure.unsqueeze(1), anchored.to(logits.dtype), logits)

    def certificate(self, data: Data, *, targets: Tensor | None = None) -> Certificate:
        """Return which answers no edit of the edges can change.

        Args:
            data: x, and y and test_mask for the certified accuracy. Edges are not looked at.
            targets: (M,) indices or (N,) bool, the nodes that the accuracy is over. Default: `data.test_mask`, or all.
        """
        probabilities = self.anchor(data.x)
        nodes, labels = certified_nodes(data, targets, len(probabilities))
        return Certificate.of(probabilities, self.anchor.margin, nodes.to(probabilities.device), labels)

    def trade_off(self, data: Data, *, targets: Tensor | None = None, margins: Sequence[float] = MARGINS) -> TradeOff:
        """Return clean and certified accuracy by margin, on labelled nodes. Never choose a margin on test nodes.

        Args:
            data: x, edge_index, y, and `val_mask` unless `targets` are given.
            targets: (M,) indices or (N,) bool. Default: `data.val_mask`.
            margins: The margins to show.
        """
        if targets is None:
            if "val_mask" not in data:
                raise InputError("data has no val_mask: say with targets=... on which labelled nodes to measure.")
            targets = data.val_mask
        nodes, labels = read_targets(data, targets, None, int(data.num_nodes or 0))
        logits = predict_logits(self.model, data)
        return TradeOff.measure(self.anchor(data.x)[nodes], logits[nodes], labels[nodes], self.anchor.margin, margins)

    def unprotected(self) -> nn.Module:
        """Return the classifier alone; transferred attacks are made on it."""
        inner = getattr(self.model, "unprotected", None)
        found: nn.Module = self.model if inner is None else inner()
        return found

    def views(self) -> Mapping[str, nn.Module]:
        """Return other models to attack instead of this one: those of the model inside, with the same anchor."""
        inner = getattr(self.model, "views", None)
        return {} if inner is None else {name: Anchored(view, self.anchor) for name, view in inner().items()}
