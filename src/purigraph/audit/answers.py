"""What purifying the graph does to the answers of a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.evaluation import predict
from purigraph.graph import PairGraph


@dataclass(frozen=True)
class Answers:
    """The answers of a classifier at every node, on the graph as it was given and as it was purified.

    Attributes:
        before: (N,) int64, the classes on the given graph.
        after: (N,) int64, those on the purified one.
        confidence: (N,) the probability of the answer on the purified graph.
        accuracy: The accuracy before and after where labels are known (on `test_mask`, if there is one); else None.
    """

    before: Tensor
    after: Tensor
    confidence: Tensor
    accuracy: tuple[float, float] | None

    @property
    def changed(self) -> Tensor:
        """(K,) the nodes with another answer."""
        return (self.before != self.after).nonzero().squeeze(1)

    def counts(self) -> dict[str, Any]:
        """Return the figures, as JSON values."""
        accuracy = self.accuracy or (None, None)
        return {"changed": len(self.changed), "accuracy_before": accuracy[0], "accuracy_after": accuracy[1]}


def compare_answers(classifier: nn.Module, data: Data, before: PairGraph, after: PairGraph) -> Answers:
    """Ask a classifier, in evaluation mode, on both graphs."""
    logits = []
    for graph in (before, after):
        edge_index, weight = graph.edge_index()
        logits.append(predict(classifier, Data(x=data.x, edge_index=edge_index, edge_weight=weight)).cpu())
    first, second = (one.argmax(1) for one in logits)
    confidence = logits[1].softmax(1).amax(1)
    return Answers(first, second, confidence, _accuracy(data, first, second))


def _accuracy(data: Data, before: Tensor, after: Tensor) -> tuple[float, float] | None:
    labels = data.y if "y" in data else None
    if not isinstance(labels, Tensor) or labels.shape != before.shape or labels.is_floating_point():
        return None
    labels = labels.cpu()
    known = labels >= 0
    if "test_mask" in data and data.test_mask.dim() == 1 and data.test_mask.any():
        known &= data.test_mask.cpu()
    if not known.any():
        return None
    shares = [float((answer[known] == labels[known]).double().mean()) for answer in (before, after)]
    return shares[0], shares[1]
