"""The worst case over an ensemble of attacks: the number by which to judge a defence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from purigraph import attacks
from purigraph._version import __version__
from purigraph.attacks import Attack, Model
from purigraph.errors import InputError, NoGradientError, UnsupportedModelError
from purigraph.evaluation.arguments import read_numbers, read_seeds
from purigraph.evaluation.robust_accuracy import Evaluation, evaluate
from purigraph.graph.budget import Kind
from purigraph.graph.nodes import read_targets
from purigraph.protection import Protected
from purigraph.registry import canonical
from purigraph.tables import Table

#: The model that an attack is computed on: the attacked one, or the one that attacks are transferred from.
MODEL, TRANSFER = "model", "transfer"


@dataclass(frozen=True)
class Member:
    """One attack of an ensemble.

    Attributes:
        name: Its name in the table.
        attack: The attack's registered name, its class, or an attack.
        settings: Its hyper-parameters, if the attack is given by name or class.
        view: The model it is computed on: the "model" itself, the "transfer" model, or the model with a variant of its
            purifier (`Purifier.variants`; "fewer-steps" and "more-steps" for a GPR-GAE).
        begins_from: The name of an earlier member whose perturbations it starts from; if that member was left out, it
            starts from the clean graph.
    """

    name: str
    attack: str | type[Attack] | Attack
    settings: Mapping[str, Any] = field(default_factory=dict)
    view: str = MODEL
    begins_from: str | None = None


def default_ensemble(
    variants: Sequence[str] = ("fewer-steps", "more-steps"), *, block_size: int = 10_000
) -> list[Member]:
    """Return the default ensemble.

    It covers both block attacks, four losses, transferred, adaptive, warm-started and gradient-free attacks, and
    variants of the purifier.

    Args:
        variants: The variants of the purifier to attack as well (see `Purifier.variants`).
        block_size: Block size of the block attacks.
    """
    block = {"block_size": block_size}
    return [
        Member("transferred prbcd", "prbcd", {**block, "loss": "tanh-margin"}, view=TRANSFER),
        Member("transferred lrbcd", "lrbcd", {**block, "loss": "tanh-margin"}, view=TRANSFER),
        Member("prbcd margin", "prbcd", {**block, "loss": "margin"}),
        Member("prbcd tanh-margin", "prbcd", {**block, "loss": "tanh-margin"}),
        Member("prbcd elu-margin", "prbcd", {**block, "loss": "elu-margin"}),
        Member("prbcd masked-cross-entropy", "prbcd", {**block, "loss": "masked-cross-entropy"}),
        Member("lrbcd margin", "lrbcd", {**block, "loss": "margin"}),
        Member("prbcd from transferred", "prbcd", {**block, "loss": "margin"}, begins_from="transferred prbcd"),
        *(
            Member(f"prbcd, {name.replace('-', ' ')}", "prbcd", {**block, "loss": "margin"}, view=name)
            for name in variants
        ),
        Member("evolutionary", "evolutionary", {"loss": "margin"}, begins_from="transferred prbcd"),
    ]


@dataclass(frozen=True)
class WorstCase:
    """The result of an ensemble. `print(worst)` shows a table; `warnings` lists reasons to doubt the result."""

    clean: float
    num_targets: int
    results: dict[str, Evaluation]
    warnings: list[str]

    def epsilons(self) -> list[float]:
        """Return the budgets, ascending."""
        return next(iter(self.results.values())).epsilons()

    def attacked(self, epsilon: float) -> float:
        """Return the lowest accuracy of any member at a budget (the mean over seeds of each seed's lowest)."""
        if epsilon not in self.epsilons():
            raise InputError(f"Nothing was evaluated at epsilon {epsilon}; available: {self.epsilons()}.")
        per_member = [result.accuracies(epsilon) for result in self.results.values()]
        lowest: list[float] = [min(values) for values in zip(*per_member, strict=True)]
        return sum(lowest) / len(lowest)

    def strongest(self, epsilon: float) -> str:
        """Return the member with the lowest mean accuracy at a budget."""
        return min(self.results, key=lambda name: self.results[name].attacked(epsilon))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "purigraph_version": __version__,
            "clean": self.clean,
            "num_targets": self.num_targets,
            "worst": {str(epsilon): self.attacked(epsilon) for epsilon in self.epsilons()},
            "strongest": {str(epsilon): self.strongest(epsilon) for epsilon in self.epsilons()},
            "members": {name: result.to_dict() for name, result in self.results.items()},
            "warnings": self.warnings,
        }

    def table(self) -> Table:
        """Return the mean accuracies as a table, one row per member."""
        rows = [
            [name, *(f"{100 * result.attacked(epsilon):.1f}" for epsilon in self.epsilons())]
            for name, result in self.results.items()
        ]
        rows.append(["worst case", *(f"{100 * self.attacked(epsilon):.1f}" for epsilon in self.epsilons())])
        return Table(
            f"Worst case on {self.num_targets} targets (%)",
            ["attack", *(f"eps {epsilon:g}" for epsilon in self.epsilons())],
            rows,
            notes=[f"clean {100 * self.clean:.1f}", *self.warnings],
            strong=[len(rows) - 1],
        )

    def __rich__(self) -> Table:
        return self.table()

    def __str__(self) -> str:
        return str(self.table())


def worst_case(
    model: Model,
    data: Data,
    *,
    epsilons: float | Sequence[float] = (0.1, 0.25, 0.5),
    transfer_from: Model | None = None,
    ensemble: Sequence[Member] | None = None,
    epochs: int | None = None,
    seeds: int | Sequence[int] = (0,),
    targets: Tensor | None = None,
    budget_kind: Kind = "incident",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> WorstCase:
    """Return the lowest accuracy over an ensemble of attacks, with a warning if a weaker attack beats a stronger one.

    Members that need something unavailable (a model to transfer from, a purifier with variants) are left out. So are
    members that need gradients if the model does not provide any; `warnings` reports these.

    Args:
        model: The model to attack.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        epsilons: The amounts of the budgets, or a single one, by default relative to the number of edges at the
            targets.
        transfer_from: The model for transferred attacks. Default: the classifier behind the purifier.
        ensemble: The attacks. Default: `default_ensemble()`.
        epochs: Make all attacks shorter or longer: the block attacks take this many epochs and a quarter as many for
            fine-tuning, the evolutionary one half as many generations (see `Attack.with_epochs`). Default: as set in
            the ensemble.
        seeds: One run of every member per seed; a list or a single one.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
        budget_kind: How epsilon becomes a number of flips (see `Budget`).
        checkpoint: A folder to save perturbations in and to resume from; see `evaluate`.
        progress: Whether to show progress on stderr. Default: only if it takes long.

    Raises:
        InputError: If the ensemble is empty or refers to something that does not exist.
        UnsupportedModelError: If none of its attacks can be used on the model.
    """
    epsilons, seeds = read_numbers(epsilons, name="epsilons"), read_seeds(seeds)
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs must be at least 1, not {epochs}.")
    nodes, _ = read_targets(data, targets, None, data.num_nodes)
    views = _views(model, transfer_from)
    variants = [view for view in views if view not in (MODEL, TRANSFER)]
    ensemble = default_ensemble(variants) if ensemble is None else ensemble
    _check(ensemble, variants)
    attackers = {member.name: attacks.create(member.attack, **member.settings) for member in ensemble}
    if epochs is not None:
        attackers = {name: attacker.with_epochs(epochs) for name, attacker in attackers.items()}
    members = [member for member in ensemble if member.view in views]
    results: dict[str, Evaluation] = {}
    left_out: dict[str, UnsupportedModelError] = {}
    for member in members:
        try:
            results[member.name] = evaluate(
                model,
                data,
                attack=attackers[member.name],
                epsilons=epsilons,
                transfer_from=None if member.view == MODEL else views[member.view],
                seeds=seeds,
                targets=nodes,
                budget_kind=budget_kind,
                starts=None if member.begins_from is None else results.get(member.begins_from),
                checkpoint=checkpoint,
                progress=progress,
            )
        except UnsupportedModelError as error:  # noqa: PERF203 (each iteration takes minutes)
            left_out[member.name] = error
    if not results:
        reason = "; ".join(f"{name}: {_reason(error)}" for name, error in left_out.items())
        raise UnsupportedModelError(f"No attack of the ensemble can be used on this model. {reason}".rstrip())
    warnings = [f"{name!r} was left out: {_reason(error)}" for name, error in left_out.items()]
    warnings += _doubts([member for member in members if member.name in results], attackers, results, epsilons)
    clean = next(iter(results.values())).clean
    return WorstCase(clean, len(nodes), results, warnings)


def _check(ensemble: Sequence[Member], variants: Sequence[str]) -> None:
    """Raise if the ensemble is empty or inconsistent."""
    if not ensemble:
        raise InputError("The ensemble is empty: name at least one Member.")
    seen: set[str] = set()
    for member in ensemble:
        if member.name in seen:
            raise InputError(f"Two members of the ensemble are called {member.name!r}: give each its own name.")
        _check_view(member, variants)
        if member.begins_from is not None and member.begins_from not in seen:
            raise InputError(
                f"Member {member.name!r} begins from {member.begins_from!r}, but no earlier member has that name."
            )
        seen.add(member.name)


def _check_view(member: Member, variants: Sequence[str]) -> None:
    """Raise if the view does not exist; for a model without variants, only the form of its name is checked."""
    known = (MODEL, TRANSFER, *variants)
    is_name = member.view == canonical(member.view) and " " not in member.view
    if not is_name or (variants and member.view not in known):
        raise InputError(f"Member {member.name!r} has the view {member.view!r}; it must be one of {', '.join(known)}.")


def _views(model: Model, transfer_from: Model | None) -> dict[str, Model]:
    views: dict[str, Model] = {MODEL: model}
    if isinstance(model, Protected):
        views[TRANSFER] = model.unprotected()
        if model.threshold is None:
            views |= {name: model.with_purifier(variant) for name, variant in model.purifier.variants().items()}
    if transfer_from is not None:
        views[TRANSFER] = transfer_from
    return views


def _reason(error: UnsupportedModelError) -> str:
    """Return why a member was left out. Advice on other attacks is of no use here: they are in the ensemble."""
    if isinstance(error, NoGradientError):
        return "it follows gradients, and no gradient flows from the model's output back to the edges."
    return str(error)


def _doubts(
    members: Sequence[Member],
    attackers: Mapping[str, Attack],
    results: Mapping[str, Evaluation],
    epsilons: Sequence[float],
) -> list[str]:
    """Return signs of masked gradients or of attacks cut short: weaker attacks that beat stronger ones.

    The strongest should be those that follow the gradient of the model itself, without any budget but the given one.
    """
    adaptive = [
        member
        for member in members
        if member.view == MODEL
        and attackers[member.name].needs_gradient
        and not attackers[member.name].imposes_local_budget
    ]
    doubts = []
    for epsilon in epsilons:
        for other in (member for member in members if member not in adaptive):
            # A warm-started member is compared with all adaptive ones, any other only with those that start cold.
            rivals = [m for m in adaptive if other.begins_from is not None or m.begins_from is None]
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
