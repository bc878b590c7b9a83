"""The model under attack, as a function of the graph alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from purigraph.attacks.model import Model, Relaxable
from purigraph.attacks.overlay import Overlay
from purigraph.errors import InputError, NoGradientError, UnsupportedModelError
from purigraph.graph.edge_structure import list_edges
from purigraph.graph.pair_graph import PairGraph
from purigraph.losses import Loss
from purigraph.metrics import accuracy
from purigraph.modes import evaluation_mode


class Verdict(NamedTuple):
    """A model's accuracy on the targets, which the attacker minimises, and its loss, which the attacker maximises."""

    accuracy: float
    loss: float

    @classmethod
    def none(cls) -> Verdict:
        """Return the verdict that every other one beats."""
        return cls(math.inf, -math.inf)

    def beats(self, other: Verdict) -> bool:
        """Return whether the attacker prefers this one: lower accuracy, or equal accuracy and higher loss.

        A verdict with a loss of nan beats no other: driving a model to nan does not count as success.
        """
        if math.isnan(self.loss):
            return False
        if self.accuracy != other.accuracy:
            return self.accuracy < other.accuracy
        return self.loss > other.loss


class Victim:
    """A model with everything but the graph fixed.

    Args:
        model: Called with (x, edge_index, edge_weight); returns logits (N, C).
        x: Whatever the model takes as node features; passed on unchanged.
        labels: (N,) int64.
        targets: (M,) int64.
        loss: A function of logits (M, C) and labels (M,), which the attacker maximises.
    """

    def __init__(self, model: Model, x: Any, labels: Tensor, targets: Tensor, loss: Loss) -> None:
        self._model, self._x, self._loss = model, x, loss
        candidate: object = model
        self._relaxable = candidate if isinstance(candidate, Relaxable) else None
        self._targets, self._num_nodes = targets, len(labels)
        self._target_labels = labels[targets]

    def on(self, targets: Tensor, labels: Tensor) -> Victim:
        """Return the same model with other targets (M',), given the labels (N,) of all nodes."""
        return Victim(self._model, self._x, labels, targets, self._loss)

    def logits(self, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        """Return the targets' logits (M, C)."""
        return self._of_targets(self._model(self._x, edge_index, edge_weight))

    def _relaxed_logits(self, overlay: Overlay, presence: Tensor) -> Tensor:
        """Return the targets' logits with edges present to the degree `presence` (2E',); see `Relaxable`."""
        if self._relaxable is not None:
            return self._of_targets(
                self._relaxable.relaxed(self._x, overlay.edge_index, overlay.whole_weight, presence)
            )
        return self.logits(overlay.edge_index, overlay.whole_weight * presence)

    def _of_targets(self, logits: Any) -> Tensor:
        if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[0] != self._num_nodes:
            found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise UnsupportedModelError(
                f"The model must return logits of shape ({self._num_nodes}, number of classes), not {found}."
            )
        if int(self._target_labels.max()) >= logits.shape[1]:
            raise InputError(
                f"A target has the label {int(self._target_labels.max())}, but the model only knows the classes 0 to "
                f"{logits.shape[1] - 1}: leave such nodes out of the targets."
            )
        chosen: Tensor = logits[self._targets]
        return chosen

    @torch.no_grad()
    def relaxed(self, overlay: Overlay, flip_weight: Tensor) -> Verdict:
        """Return the verdict on a graph with partial flips (B,), without computing gradients."""
        return self._judge(self._relaxed_logits(overlay, overlay.presence(flip_weight)))

    def verdict(self, graph: PairGraph) -> Verdict:
        """Return the verdict on a graph, without computing gradients."""
        return self.predict(graph)[0]

    @torch.no_grad()
    def predict(self, graph: PairGraph) -> tuple[Verdict, Tensor]:
        """Return the verdict on a graph, and which targets are classified correctly, (M,) bool."""
        logits = self._logits_on(graph)
        return self._judge(logits), logits.argmax(1) == self._target_labels

    @torch.no_grad()
    def margins(self, graph: PairGraph) -> Tensor:
        """Return by how much the label's probability exceeds the largest other one, (M,); negative where it does not.

        With a single class it is 1.
        """
        probability = self._logits_on(graph).softmax(1)
        label = self._target_labels.unsqueeze(1)
        others = probability.scatter(1, label, 0.0)
        return probability.gather(1, label).squeeze(1) - others.max(1).values

    @torch.no_grad()
    def differs(self, one: PairGraph, other: PairGraph) -> Tensor:
        """Return at which targets, (M,) bool, the model does not give exactly the same on two graphs."""
        return (self._logits_on(one) != self._logits_on(other)).any(1)

    def _logits_on(self, graph: PairGraph) -> Tensor:
        return self.logits(list_edges(graph), graph.weight.index_select(0, graph.csr.pair))

    def _judge(self, logits: Tensor) -> Verdict:
        return Verdict(accuracy(logits, self._target_labels), float(self._loss(logits, self._target_labels)))

    @torch.enable_grad()
    def gradient(self, overlay: Overlay, flip_weight: Tensor) -> tuple[Verdict, Tensor]:
        """Return the verdict and the loss's gradient (B,) with respect to the flip weights (B,), in one pass.

        Non-finite entries are set to 0: an attack that stopped there would make the model look better than it is.

        Raises:
            NoGradientError: If the output is not differentiable in `edge_weight`.
        """
        presence = overlay.presence(flip_weight.detach()).requires_grad_()
        logits = self._relaxed_logits(overlay, presence)
        gradient = None
        if logits.requires_grad:
            loss = self._loss(logits, self._target_labels)
            (gradient,) = torch.autograd.grad(loss, presence, allow_unused=True)
        if gradient is None:
            raise NoGradientError(
                "The model's output does not depend on edge_weight, so there is no gradient to follow. Compute the "
                "attack on a classifier that uses edge_weight, such as a GCN trained on the same graph, and transfer "
                "it: purigraph.evaluate(model, data, transfer_from=gcn). Or use the attack 'evolutionary', which only "
                "needs predictions but takes far longer."
            )
        logits = logits.detach()
        verdict = Verdict(accuracy(logits, self._target_labels), float(loss.detach()))
        return verdict, overlay.flip_gradient(torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0))


@contextmanager
def frozen(model: Model) -> Iterator[None]:
    """Put a module into evaluation mode without parameter gradients, and restore both exactly afterwards."""
    if not isinstance(model, nn.Module):
        yield
        return
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        with evaluation_mode(model):
            yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
