"""The worst that a whole ensemble of attacks finds: the number that a defence is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.evaluation.robust_accuracy import Evaluation, Model, Record, evaluate, find_targets, model_accuracy
from purigraph.graph.budget import Kind
from purigraph.graph.perturbation import Perturbation
from purigraph.protection import Protected
from purigraph.purifiers import GPRGAE


@dataclass(frozen=True)
class Member:
    """One attack of an ensemble.

    Attributes:
        name: what it is called in the table.
        attack: the attack's registered name.
        settings: its hyper-parameters.
        view: what it is found on: the "model" itself, the "transfer" model, or the model with its purifier at
            another number of steps ("fewer steps", "more steps").
        start: the name of an earlier member whose perturbation it begins from.
        needs_local: whether it obeys local budgets as well, so that it may rightly be weaker than others.
    """

    name: str
    attack: str
    settings: dict[str, Any] = field(default_factory=dict)
    view: str = "model"
    start: str | None = None
    needs_local: bool = False


def default_ensemble(epochs: int = 400, fine_tune_epochs: int = 100, block_size: int = 10_000) -> list[Member]:
    """Both block attacks, three losses, transferred, adaptive, warm-started, gradient-free, and other step counts."""
    block = {"epochs": epochs, "fine_tune_epochs": fine_tune_epochs, "block_size": block_size}
    evolutionary = {"loss": "margin", "generations": max(epochs // 2, 1)}
    return [
        Member("transferred prbcd", "prbcd", {**block, "loss": "tanh_margin"}, view="transfer"),
        Member("prbcd margin", "prbcd", {**block, "loss": "margin"}),
        Member("prbcd tanh_margin", "prbcd", {**block, "loss": "tanh_margin"}),
        Member("prbcd masked_cross_entropy", "prbcd", {**block, "loss": "masked_cross_entropy"}),
        Member("lrbcd margin", "lrbcd", {**block, "loss": "margin"}, needs_local=True),
        Member("prbcd from transferred", "prbcd", {**block, "loss": "margin"}, start="transferred prbcd"),
        Member("prbcd, fewer steps", "prbcd", {**block, "loss": "margin"}, view="fewer steps"),
        Member("prbcd, more steps", "prbcd", {**block, "loss": "margin"}, view="more steps"),
        Member("evolutionary", "evolutionary", evolutionary, start="transferred prbcd"),
    ]


@dataclass(frozen=True)
class WorstCase:
    """What an ensemble found. `print(worst)` shows a table; `warnings` says what makes the result doubtful."""

    clean: float
    num_targets: int
    results: dict[str, Evaluation]
    warnings: list[str]

    def epsilons(self) -> list[float]:
        """The budgets, ascending."""
        return next(iter(self.results.values())).epsilons()

    def attacked(self, epsilon: float) -> float:
        """The lowest accuracy that any member reached at a budget (a mean over seeds of each seed's lowest)."""
        per_member = [result.accuracies(epsilon) for result in self.results.values()]
        lowest: list[float] = [min(values) for values in zip(*per_member, strict=True)]
        return sum(lowest) / len(lowest)

    def strongest(self, epsilon: float) -> str:
        """The member with the lowest mean accuracy at a budget."""
        return min(self.results, key=lambda name: self.results[name].attacked(epsilon))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "purigraph_version": __version__,
            "clean": self.clean,
            "num_targets": self.num_targets,
            "worst": {str(epsilon): self.attacked(epsilon) for epsilon in self.epsilons()},
            "strongest": {str(epsilon): self.strongest(epsilon) for epsilon in self.epsilons()},
            "members": {name: result.to_dict() for name, result in self.results.items()},
            "warnings": self.warnings,
        }

    def __rich__(self) -> Table:
        table = Table(title=f"Worst case on {self.num_targets} targets (%)", title_justify="left")
        table.add_column("attack")
        for epsilon in self.epsilons():
            table.add_column(f"eps {epsilon:g}", justify="right")
        for name, result in self.results.items():
            table.add_row(name, *(f"{100 * result.attacked(epsilon):.1f}" for epsilon in self.epsilons()))
        worst = [f"{100 * self.attacked(epsilon):.1f}" for epsilon in self.epsilons()]
        table.add_row("worst case", *worst, style="bold")
        table.caption = "\n".join([f"clean {100 * self.clean:.1f}", *self.warnings])
        table.caption_justify = "left"
        return table

    def __str__(self) -> str:
        console = Console(width=120)
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip()


def worst_case(
    model: Model,
    data: Data,
    *,
    epsilons: Sequence[float] = (0.1, 0.25, 0.5),
    transfer_from: Model | None = None,
    ensemble: Sequence[Member] | None = None,
    seeds: Sequence[int] = (0,),
    targets: Tensor | None = None,
    budget: Kind = "incident",
    folder: str | Path | None = None,
    progress: bool = False,
) -> WorstCase:
    """The lowest accuracy over an ensemble of attacks, with a warning when a weaker attack beats a stronger one.

    Members that need something that is not there (a model to transfer from, a purifier with steps) are left out.

    Args:
        model: what is attacked.
        data: x, edge_index, y, test_mask.
        epsilons: budgets.
        transfer_from: the model for transferred attacks; the classifier behind the purifier when left out.
        ensemble: the attacks; `default_ensemble()` when left out.
        seeds: one run of every member each.
        targets: the nodes that count; the test nodes when left out.
        budget: how epsilon becomes a number of flips.
        folder: keep perturbations there and go on from them.
        progress: report on the error stream.
    """
    nodes = find_targets(data, targets)
    views = _views(model, transfer_from)
    members = [member for member in ensemble or default_ensemble() if member.view in views]
    members = [m for m in members if m.start is None or m.start in {member.name for member in members}]
    results: dict[str, Evaluation] = {}
    for member in members:
        begin = None
        if member.start is not None:
            begin = _Starts(results[member.start].records)
        results[member.name] = evaluate(
            model,
            data,
            attack=member.attack,
            epsilons=epsilons,
            transfer_from=None if member.view == "model" else views[member.view],
            seeds=seeds,
            targets=nodes,
            budget=budget,
            start=begin,
            folder=folder,
            progress=progress,
            **member.settings,
        )
    return WorstCase(model_accuracy(model, data, nodes), len(nodes), results, _doubts(members, results, epsilons))


class _Starts:
    """Where to begin: what an earlier member found for the same budget and seed."""

    def __init__(self, records: list[Record]) -> None:
        self._found = {(record.epsilon, record.seed): record.perturbation for record in records}

    def __call__(self, epsilon: float, seed: int) -> Perturbation:
        return self._found[epsilon, seed]


def _views(model: Model, transfer_from: Model | None) -> dict[str, Model]:
    views: dict[str, Model] = {"model": model}
    if isinstance(model, Protected):
        views["transfer"] = model.classifier
        if isinstance(model.purifier, GPRGAE) and model.threshold is None:
            steps = model.purifier.config.max_steps
            views["fewer steps"] = model.with_purifier(model.purifier.with_settings(max_steps=max(steps // 2, 1)))
            views["more steps"] = model.with_purifier(model.purifier.with_settings(max_steps=2 * steps))
    if transfer_from is not None:
        views["transfer"] = transfer_from
    return views


def _doubts(members: Sequence[Member], results: dict[str, Evaluation], epsilons: Sequence[float]) -> list[str]:
    """Signs of masked gradients or of an attack cut short: what should be weaker beats what should be stronger."""
    adaptive = [
        m for m in members if m.view == "model" and not m.needs_local and m.attack in {"prbcd", "pgd"} and not m.start
    ]
    others = [m for m in members if m not in adaptive and m.start is None]
    doubts = []
    for epsilon in epsilons:
        if not adaptive:
            break
        best = min(adaptive, key=lambda m: results[m.name].attacked(epsilon))
        for other in others:
            gap = results[best.name].attacked(epsilon) - results[other.name].attacked(epsilon)
            if gap > 1e-12:
                doubts.append(
                    f"eps {epsilon:g}: {other.name!r} is stronger than the adaptive {best.name!r} by {100 * gap:.1f} "
                    "points: its gradients are masked, or it was cut short."
                )
    return doubts
