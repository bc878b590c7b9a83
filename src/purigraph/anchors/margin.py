"""How sure is sure enough: what a margin gives up of clean accuracy, and what it makes certain in return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from purigraph.metrics import gaps
from purigraph.tables import Table

# See `Harm`.
_POWER = 3


def smallest_margin(gap: Tensor, harm: Tensor, allowed: float) -> float:
    """Return the smallest margin at which anchored nodes do no more harm than allowed.

    With a smaller margin more nodes are anchored, and more answers are certain. Nodes are anchored from the largest gap
    down, as long as the total harm stays within what is allowed at every point on the way.

    Args:
        gap: (M,) of nodes that the anchor was not distilled on.
        harm: (M,) what anchoring the node costs: 1 if an answer gets worse, -1 if it gets better, in [-1, 1].
        allowed: The mean harm over all M nodes that is acceptable.

    Returns:
        The margin; above 1, so that no node is anchored, if even the surest do too much harm.

    >>> smallest_margin(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.0, 0.0, 1.0]), allowed=0.1)
    0.5
    """
    order = torch.argsort(gap, descending=True, stable=True)
    total = harm[order].double().cumsum(0)
    too_much = (total > allowed * len(gap) + 1e-9).nonzero()
    count = int(too_much[0]) if len(too_much) else len(gap)
    # Nodes of equal gap are anchored together or not at all.
    while 0 < count < len(gap) and gap[order[count - 1]] == gap[order[count]]:
        count -= 1
    if count == len(gap):
        return 0.0
    return float(gap[order[count - 1]]) if count else 2.0


def class_weights(labels: Tensor, answers: Tensor) -> Tensor:
    """Return weights (M,) of labelled nodes, by which their classes are as frequent as answers (N, C) say, with mean 1.

    Validation nodes are often drawn class by class, so many of each. What a margin costs is not the same for all
    classes, and a mean over such nodes is that of a graph whose classes are equally large, which it is not.

    >>> class_weights(torch.tensor([0, 0, 1]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]))
    tensor([0.3750, 0.3750, 2.2500])
    """
    drawn = torch.bincount(labels, minlength=answers.shape[1]).to(answers)
    weight = (answers.mean(0) / drawn.clamp(min=1))[labels]
    return weight * len(labels) / weight.sum()


@dataclass(frozen=True)
class Harm:
    r"""How much more likely the classifier is right than the anchor, by the anchor's gap: $h(g) = c\,(1 - g)^3$.

    An anchor that is sure does no harm, and one that is undecided does most. The power was chosen on the validation
    nodes of ten splits of Cora with three classifiers, 4,200 answers in all: 3 has the least squared error there
    (746.2; 2 and 4 have 747.8 and 747.9). Its size c depends on the graph and the classifier and is fitted.

    Attributes:
        at_no_gap: c.
    """

    at_no_gap: float

    @classmethod
    def fit(cls, gap: Tensor, harm: Tensor, weight: Tensor) -> Harm:
        """Return the one whose total is that of some labelled nodes; 0 if the anchor does better there.

        Args:
            gap: (M,) the anchor's gaps.
            harm: (M,) 1 where the classifier alone is right, -1 where the anchor alone is right, else 0.
            weight: (M,) how much each of them counts.
        """
        shape = float((weight * cls(1.0)(gap)).sum())
        return cls(max(float((weight * harm).double().sum()), 0.0) / shape if shape > 0 else 0.0)

    def __call__(self, gap: Tensor) -> Tensor:
        """Return the expected harm at gaps (M,), (M,)."""
        return self.at_no_gap * (1 - gap.double()) ** _POWER


@dataclass(frozen=True)
class TradeOff:
    """Clean accuracy against certified accuracy, by margin.

    Attributes:
        margins: The margins, ascending.
        exposed: For every margin, the share of nodes that the classifier answers.
        clean: The accuracy on the graph as it is.
        certified: The share of nodes that are right and that no edit of the edges can change.
        classifier: The accuracy of the classifier alone.
        chosen: The margin that the model has.
        num_nodes: How many nodes this was measured on.
    """

    margins: Sequence[float]
    exposed: Sequence[float]
    clean: Sequence[float]
    certified: Sequence[float]
    classifier: float
    chosen: float
    num_nodes: int

    @classmethod
    def measure(
        cls, anchored: Tensor, classified: Tensor, labels: Tensor, chosen: float, margins: Sequence[float]
    ) -> TradeOff:
        """Measure it from probabilities of the anchor (M, C), logits of the classifier (M, C) and labels (M,)."""
        gap, ours, theirs = gaps(anchored), anchored.argmax(1) == labels, classified.argmax(1) == labels
        sure = [gap >= margin for margin in margins]
        return cls(
            margins=list(margins),
            exposed=[float((~mask).double().mean()) for mask in sure],
            clean=[float(torch.where(mask, ours, theirs).double().mean()) for mask in sure],
            certified=[float((mask & ours).double().mean()) for mask in sure],
            classifier=float(theirs.double().mean()),
            chosen=chosen,
            num_nodes=len(labels),
        )

    def table(self) -> Table:
        """Return the curve as a table; the chosen margin stands out."""
        nearest = min(range(len(self.margins)), key=lambda index: abs(self.margins[index] - self.chosen))
        rows = [
            [f"{margin:.3g}", *(f"{100 * value:.1f}" for value in values)]
            for margin, *values in zip(self.margins, self.exposed, self.clean, self.certified, strict=True)
        ]
        return Table(
            f"What the margin trades, on {self.num_nodes} nodes (%)",
            ["margin", "exposed", "clean", "certified"],
            rows,
            notes=[f"The classifier alone: {100 * self.classifier:.1f}. The margin of this model: {self.chosen:.3g}."],
            text_columns=1,
            strong=[nearest],
        )

    def plot(self, path: str | Path) -> None:
        """Draw clean against certified accuracy into an image file (needs the extra `purigraph[paper]`)."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3.6), layout="constrained")
        axes: Any = figure.subplots()
        axes.plot([100 * one for one in self.certified], [100 * one for one in self.clean], "o-", color="#1b7837")
        axes.axhline(100 * self.classifier, color="#b2182b", linestyle="--", label="classifier alone, clean")
        axes.set_xlabel("certified accuracy (%), at any number of flips")
        axes.set_ylabel("clean accuracy (%)")
        axes.legend(frameon=False)
        figure.savefig(path)

    def __str__(self) -> str:
        return str(self.table())
