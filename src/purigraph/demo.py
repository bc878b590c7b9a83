"""A complete example on the embedded graph, in two minutes: train, attack, purify, anchor, prove."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn
from torch_geometric.data import Data

from purigraph import datasets
from purigraph.anchored import Anchored
from purigraph.anchors import Anchor
from purigraph.audit import Audit, audit
from purigraph.evaluation import Evaluation, evaluate, model_accuracy
from purigraph.graph.splits import inductive_split
from purigraph.protection import protect
from purigraph.purifiers import GPRGAE
from purigraph.training import train

#: The budget that the summary reports.
MAIN_EPSILON = 0.25
GRAPH = "synthetic-citation"
#: Smaller than the purifier of the paper: trained in half a minute instead of ten.
PRESET = "fast"


@dataclass(frozen=True)
class Budgeted:
    """Accuracies under attack at one budget, as shares of the test nodes.

    Attributes:
        epsilon: The budget relative to the edges at the test nodes.
        flips: The number of edges that may be flipped.
        attacked: The accuracy of the GCN under the attack made for it.
        purified: The accuracy of the GCN under the same attack after purifying the graph.
        protected_attacked: The accuracy of the protected GCN under an attack through the purifier (adaptive).
        anchored_attacked: The same with an anchor, under an attack through purifier and anchor.
    """

    epsilon: float
    flips: int
    attacked: float
    purified: float
    protected_attacked: float
    anchored_attacked: float


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo; `audit` is the evidence of purifying the graph attacked at the main budget.

    Attributes:
        clean: The accuracy of the GCN on the graph as it is.
        protected_clean: That of the GCN behind the purifier,
        anchored_clean: and with an anchor too.
        proven: The share of the test nodes that the anchored GCN classifies right whatever happens to the edges.
    """

    clean: float
    protected_clean: float
    anchored_clean: float
    proven: float
    budgets: list[Budgeted]
    test_nodes: int
    seed: int
    seconds: float
    audit: Audit | None = None

    def main(self) -> Budgeted:
        """Return the budget that the summary reports, or the one closest to it."""
        return min(self.budgets, key=lambda one: abs(one.epsilon - MAIN_EPSILON))

    def won_back(self) -> float:
        """Return the share of the accuracy lost to the attack that purification recovers."""
        lost = self.clean - self.main().attacked
        return (self.main().purified - self.main().attacked) / lost if lost > 0 else float("nan")

    def sentence(self) -> str:
        """Return a summary of the results."""
        one = self.main()
        return (
            f"With {one.flips} edges flipped (epsilon {one.epsilon:g}) the GCN falls from {100 * self.clean:.1f} % to "
            f"{100 * one.attacked:.1f} %; purifying that graph brings it back to {100 * one.purified:.1f} %, and an "
            f"attack through the purifier leaves {100 * one.protected_attacked:.1f} %. With an anchor, an attack "
            f"through everything leaves {100 * one.anchored_attacked:.1f} %, and {100 * self.proven:.1f} % are proven: "
            "no edit of the edges, however large, can change them."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON values, with the figures of the main budget at the top level."""
        one = self.main()
        return {
            "epsilon": one.epsilon,
            "clean": self.clean,
            "attacked": one.attacked,
            "purified": one.purified,
            "protected_clean": self.protected_clean,
            "protected_attacked": one.protected_attacked,
            "anchored_clean": self.anchored_clean,
            "anchored_attacked": one.anchored_attacked,
            "proven": self.proven,
            "seconds": self.seconds,
            "seed": self.seed,
            "test_nodes": self.test_nodes,
            "budgets": [asdict(budget) for budget in self.budgets],
        }


def run_demo(
    *,
    seed: int = 0,
    epsilons: Sequence[float] = (0.1, 0.25, 0.5),
    purifier_epochs: int | None = None,
    attack_epochs: int = 100,
    adaptive_epochs: int = 80,
    progress: bool | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> DemoResult:
    """Run the demo.

    Args:
        seed: The seed of the split, the trainings and the attacks.
        epsilons: The budgets.
        purifier_epochs: The largest number of training epochs of the purifier. Default: that of its preset.
        attack_epochs: The number of epochs of the attack on the plain GCN.
        adaptive_epochs: The number of epochs of the attack through the purifier; that through both has half of them.
        progress: Whether to report progress on the error stream. Default: only if it takes long.
        say: Called with a sentence before each stage.
    """
    started = time.monotonic()
    split = inductive_split(datasets.load(GRAPH, seed=seed))
    test = split.test
    say("Training a GCN on the labelled nodes of a clean graph.")
    gcn = train("gcn", "vanilla", split, seed=seed, progress=progress).model
    say("Training a purifier on the same graph; it never sees a label.")
    length: dict[str, Any] = {} if purifier_epochs is None else {"epochs": purifier_epochs}
    purifier = GPRGAE.preset(PRESET).fit(
        split.train, validation=split.validation, seed=seed, progress=progress, **length
    )
    model = protect(gcn, purifier)
    say("Distilling an anchor from the GCN: it answers from the features alone where it is sure.")
    anchor = Anchor().fit(gcn, split.train, split.validation, seed=seed, progress=progress)
    anchored = protect(gcn, purifier, anchor=anchor)
    options: dict[str, Any] = {"epsilons": epsilons, "seeds": (seed,), "progress": progress, "yardsticks": False}
    say("Attacking the GCN: flipping the edges that hurt it most.")
    attacked = evaluate(
        gcn, test, **options, epochs=attack_epochs, fine_tune_epochs=attack_epochs // 4, loss="tanh-margin"
    )
    purified = [model_accuracy(model, record.perturbation.apply(test)) for record in attacked.records]
    say("Attacking again, through the purifier, starting from the attack above.")
    options |= {"loss": "margin", "final_samples": 5}
    # It starts from the transferred attack, so it can't be weaker.
    adaptive = evaluate(
        model, test, starts=attacked, **options, epochs=adaptive_epochs, fine_tune_epochs=adaptive_epochs // 4
    )
    say("Attacking once more, through purifier and anchor, starting from the attack above.")
    held = evaluate(
        anchored, test, starts=adaptive, **options, epochs=adaptive_epochs // 2, fine_tune_epochs=adaptive_epochs // 8
    )
    budgets = [
        Budgeted(record.epsilon, record.max_flips, record.accuracy, transferred, own.accuracy, last.accuracy)
        for record, transferred, own, last in zip(
            attacked.records, purified, adaptive.records, held.records, strict=True
        )
    ]
    return DemoResult(
        clean=attacked.clean,
        protected_clean=adaptive.clean,
        anchored_clean=held.clean,
        proven=_proven(anchored, test),
        budgets=budgets,
        test_nodes=attacked.num_targets,
        seed=seed,
        seconds=time.monotonic() - started,
        audit=_audit(purifier, gcn, attacked, test),
    )


def _proven(model: Anchored, test: Data) -> float:
    """Return the certified accuracy of an anchored model."""
    accuracy = model.certificate(test).accuracy
    assert accuracy is not None, "the demo's graph has labels"
    return accuracy


def _audit(purifier: GPRGAE, gcn: nn.Module, attacked: Evaluation, test: Data) -> Audit:
    """Return the evidence of purifying the graph that the attack on the plain GCN left at the main budget."""
    record = min(attacked.records, key=lambda one: abs(one.epsilon - MAIN_EPSILON))
    # The clean graph is no trusted snapshot here: then the purifier would have nothing to find out.
    return audit(purifier, record.perturbation.apply(test), classifier=gcn)
