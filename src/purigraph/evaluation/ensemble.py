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
from purigraph.errors import InputError, UnsupportedModelError
from purigraph.evaluation.robust_accuracy import Evaluation, Model, Record, evaluate, find_targets
from purigraph.graph.budget import Kind
from purigraph.graph.perturbation import Perturbation
from purigraph.protection import Protected

VIEWS = ("model", "transfer", "fewer-steps", "more-steps")


@dataclass(frozen=True)
class Member:
    """One attack of an ensemble.

    Attributes:
        name: what it is called in the table.
        attack: the attack's registered name.
        settings: its hyper-parameters.
        view: what it is found on: the "model" itself, the "transfer" model, or the model with its purifier at
            another number of steps ("fewer-steps", "more-steps").
        start: the name of an earlier member whose perturbation it begins from; from nothing if that was left out.
        needs_local: whether it obeys local budgets as well, so that it may rightly be weaker than others.
    """

    name: str
    attack: str
    settings: dict[str, Any] = field(default_factory=dict)
    view: str = "model"
    start: str | None = None
    needs_local: bool = False


def default_ensemble(epochs: int = 400, fine_tune_epochs: int = 100, block_size: int = 10_000) -> list[Member]:
    """Both block attacks, four losses, transferred, adaptive, warm-started, gradient-free, and other step counts."""
    block = {"epochs": epochs, "fine_tune_epochs": fine_tune_epochs, "block_size": block_size}
    evolutionary = {"loss": "margin", "generations": max(epochs // 2, 1)}
    return [
        Member("transferred prbcd", "prbcd", {**block, "loss": "tanh-margin"}, view="transfer"),
        Member("transferred lrbcd", "lrbcd", {**block, "loss": "tanh-margin"}, view="transfer", needs_local=True),
        Member("prbcd margin", "prbcd", {**block, "loss": "margin"}),
        Member("prbcd tanh-margin", "prbcd", {**block, "loss": "tanh-margin"}),
        Member("prbcd elu-margin", "prbcd", {**block, "loss": "elu-margin"}),
        Member("prbcd masked-cross-entropy", "prbcd", {**block, "loss": "masked-cross-entropy"}),
        Member("lrbcd margin", "lrbcd", {**block, "loss": "margin"}, needs_local=True),
        Member("prbcd from transferred", "prbcd", {**block, "loss": "margin"}, start="transferred prbcd"),
        Member("prbcd, fewer steps", "prbcd", {**block, "loss": "margin"}, view="fewer-steps"),
        Member("prbcd, more steps", "prbcd", {**block, "loss": "margin"}, view="more-steps"),
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
        if epsilon not in self.epsilons():
            raise InputError(f"Nothing was evaluated at epsilon {epsilon}; there is {self.epsilons()}.")
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

    Members that need something that is not there (a model to transfer from, a purifier with steps) are left out;
    those that need gradients of a model without any too, and `warnings` says so.

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

    Raises:
        InputError: when the ensemble is empty or names what is not there.
        UnsupportedModelError: when none of its attacks can be used on the model.
    """
    ensemble = default_ensemble() if ensemble is None else ensemble
    _check(ensemble)
    nodes = find_targets(data, targets)
    views = _views(model, transfer_from)
    members = [member for member in ensemble if member.view in views]
    results: dict[str, Evaluation] = {}
    left_out: dict[str, UnsupportedModelError] = {}
    for member in members:
        begin = _Starts(results[member.start].records) if member.start in results else None
        try:
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
        except UnsupportedModelError as error:
            left_out[member.name] = error
    if not results:
        reason = "; ".join(f"{name}: {error}" for name, error in left_out.items())
        raise UnsupportedModelError(f"No attack of the ensemble can be used on this model. {reason}".rstrip())
    warnings = [f"{name!r} was left out: {error}" for name, error in left_out.items()]
    warnings += _doubts([member for member in members if member.name in results], results, epsilons)
    clean = next(iter(results.values())).clean
    return WorstCase(clean, len(nodes), results, warnings)


def _check(ensemble: Sequence[Member]) -> None:
    """Refuse an ensemble that could not mean what it says."""
    if not ensemble:
        raise InputError("The ensemble is empty: name at least one Member.")
    seen: set[str] = set()
    for member in ensemble:
        if member.name in seen:
            raise InputError(f"Two members of the ensemble are called {member.name!r}: give each a name of its own.")
        if member.view not in VIEWS:
            raise InputError(f"Member {member.name!r} has the view {member.view!r}; it must be one of {VIEWS}.")
        if member.start is not None and member.start not in seen:
            raise InputError(f"Member {member.name!r} starts from {member.start!r}, which no earlier member is called.")
        seen.add(member.name)


class _Starts:
    """Where to begin: what an earlier member found for the same budget and seed."""

    def __init__(self, records: list[Record]) -> None:
        self._found = {(record.epsilon, record.seed): record.perturbation for record in records}

    def __call__(self, epsilon: float, seed: int) -> Perturbation:
        return self._found[epsilon, seed]


def _views(model: Model, transfer_from: Model | None) -> dict[str, Model]:
    views: dict[str, Model] = {"model": model}
    if isinstance(model, Protected):
        views["transfer"] = model.unprotected()
        if model.threshold is None:
            views |= {name: model.with_purifier(variant) for name, variant in model.purifier.variants().items()}
    if transfer_from is not None:
        views["transfer"] = transfer_from
    return views


def _doubts(members: Sequence[Member], results: dict[str, Evaluation], epsilons: Sequence[float]) -> list[str]:
    """Signs of masked gradients or of an attack cut short: what should be weaker beats what should be stronger."""
    adaptive = [m for m in members if m.view == "model" and not m.needs_local and m.attack in {"prbcd", "pgd"}]
    doubts = []
    for epsilon in epsilons:
        for other in (member for member in members if member not in adaptive):
            # Who began from an earlier result is held against those that did so too; the others against a cold start.
            rivals = [m for m in adaptive if other.start is not None or m.start is None]
            if not rivals:
                continue
            best = min(rivals, key=lambda m: results[m.name].attacked(epsilon))
            gap = results[best.name].attacked(epsilon) - results[other.name].attacked(epsilon)
            if gap > 1e-12:
                doubts.append(
                    f"eps {epsilon:g}: {other.name!r} is stronger than the adaptive {best.name!r} by {100 * gap:.1f} "
                    "points: its gradients are masked, or it was cut short."
                )
    return doubts
