"""The worst case over an ensemble of attacks: the number by which to judge a defence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from purigraph import attacks
from purigraph._version import __version__
from purigraph.anchored import Anchored
from purigraph.attacks import Attack, Model, Race
from purigraph.errors import InputError, NoGradientError, UnsupportedModelError
from purigraph.evaluation.arguments import read_numbers, read_seeds
from purigraph.evaluation.ensemble import BEST, MODEL, SMALLER, TRANSFER, Member, read_ensemble
from purigraph.evaluation.robust_accuracy import Evaluation
from purigraph.evaluation.trials import Record, Trials
from purigraph.evaluation.yardsticks import Yardsticks
from purigraph.graph.budget import Kind
from purigraph.graph.perturbation import Perturbation
from purigraph.protection import Protected
from purigraph.tables import Table


@dataclass(frozen=True)
class WorstCase:
    """The result of an ensemble. `print(worst)` shows a table.

    Attributes:
        clean: The accuracy on the graph as it is.
        num_targets: The number of targets.
        budgets: The budgets, ascending.
        results: One evaluation per member, by its name; a member may lack budgets at which nothing was left to win.
        warnings: Reasons to doubt the result.
        yardsticks: What the graph is worth to the model; None if it was not measured.
        certified: The share of the targets that are right and that no edit of the edges can change, where the model
            proves such a thing; None where it does not.
        doubts: The warnings because of which the result is not to be trusted at all.
    """

    clean: float
    num_targets: int
    budgets: list[float]
    results: dict[str, Evaluation]
    warnings: list[str]
    yardsticks: Yardsticks | None = None
    certified: float | None = None
    doubts: list[str] = field(default_factory=list)

    @property
    def is_reliable(self) -> bool:
        """Whether the checks of the model found nothing that speaks against trusting the result."""
        return not self.doubts

    def epsilons(self) -> list[float]:
        """Return the budgets, ascending."""
        return list(self.budgets)

    def attacked(self, epsilon: float) -> float:
        """Return the lowest accuracy of any member at a budget (the mean over seeds of each seed's lowest)."""
        self._check(epsilon)
        lowest: dict[int, float] = {}
        for record in self._records(epsilon):
            lowest[record.seed] = min(record.accuracy, lowest.get(record.seed, self.clean))
        return sum(lowest.values()) / len(lowest) if lowest else self.clean

    def strongest(self, epsilon: float) -> str:
        """Return the member with the lowest mean accuracy at a budget; "none" if no attack was needed."""
        self._check(epsilon)
        there = {name: result for name, result in self.results.items() if result.accuracies(epsilon)}
        return min(there, key=lambda name: there[name].attacked(epsilon)) if there else "none"

    def perturbation(self, epsilon: float, seed: int) -> Perturbation:
        """Return the strongest perturbation found at a budget with a seed."""
        self._check(epsilon)
        found = [record for record in self._records(epsilon) if record.seed == seed]
        if not found:
            raise InputError(f"Nothing was evaluated at epsilon {epsilon} with seed {seed}.")
        return min(found, key=lambda record: record.accuracy).perturbation

    def _records(self, epsilon: float) -> list[Record]:
        return [record for result in self.results.values() for record in result.records if record.epsilon == epsilon]

    def _check(self, epsilon: float) -> None:
        if epsilon not in self.budgets:
            raise InputError(f"Nothing was evaluated at epsilon {epsilon}; available: {self.budgets}.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "purigraph_version": __version__,
            "clean": self.clean,
            "num_targets": self.num_targets,
            "worst": {str(epsilon): self.attacked(epsilon) for epsilon in self.budgets},
            "strongest": {str(epsilon): self.strongest(epsilon) for epsilon in self.budgets},
            "certified": self.certified,
            **({} if self.yardsticks is None else self.yardsticks.to_dict()),
            "members": {
                name: {"records": [record.to_dict() for record in result.records]}
                for name, result in self.results.items()
            },
            "reliable": self.is_reliable,
            "warnings": [*self.doubts, *self.warnings],
        }

    def table(self) -> Table:
        """Return the mean accuracies as a table, one row per member."""
        rows = [[name, *(_shown(result, epsilon) for epsilon in self.budgets)] for name, result in self.results.items()]
        rows.append(["worst case", *(f"{100 * self.attacked(epsilon):.1f}" for epsilon in self.budgets)])
        strong = len(rows) - 1
        notes = [f"clean {100 * self.clean:.1f}"]
        constant = [] if self.certified is None else [("certified, any budget", self.certified)]
        if self.yardsticks is not None:
            constant += self.yardsticks.rows()
            notes += self.yardsticks.notes(min(map(self.attacked, self.budgets), default=None))
        rows += [[name, *[f"{100 * value:.1f}"] * len(self.budgets)] for name, value in constant]
        if any(record.given_up for epsilon in self.budgets for record in self._records(epsilon)):
            notes.append("* given up early: it could not win any more")
        return Table(
            f"Worst case on {self.num_targets} targets (%)",
            ["attack", *(f"eps {epsilon:g}" for epsilon in self.budgets)],
            rows,
            notes=[*notes, *(f"Not to be trusted: {doubt}" for doubt in self.doubts), *self.warnings],
            strong=[strong],
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
    ensemble: str | Sequence[Member] = "focused",
    epochs: int | None = None,
    seeds: int | Sequence[int] = (0,),
    targets: Tensor | None = None,
    budget_kind: Kind = "incident",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    trusted: Data | None = None,
    yardsticks: bool = True,
    give_up: bool = True,
) -> WorstCase:
    """Return the lowest accuracy over an ensemble of attacks, with a warning if a weaker attack beats a stronger one.

    Budgets are attacked from the smallest up. Members that need something unavailable (a model to transfer from, a
    purifier with variants) are left out. So are members that need gradients if the model does not provide any;
    `warnings` reports these. What a certificate proves is not attacked in vain: no member runs once the accuracy has
    reached it, and none at all on a model whose answers are all proven.

    Args:
        model: The model to attack.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        epsilons: The amounts of the budgets, or a single one, by default relative to the number of edges at the
            targets.
        transfer_from: The model for transferred attacks. Default: the classifier behind the purifier.
        ensemble: "focused" (see `focused_ensemble`), "hour" (the same without the focused attacks), "thorough" (see
            `thorough_ensemble`), or the attacks.
        epochs: Make all attacks shorter or longer: the block attacks take this many epochs and a quarter as many for
            fine-tuning, the evolutionary one twice as many generations (see `Attack.with_epochs`). Default: as set in
            the ensemble.
        seeds: One run of every member per seed; a list or a single one.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
        budget_kind: How epsilon becomes a number of flips (see `Budget`).
        checkpoint: A folder to save perturbations in and to resume from; see `evaluate`.
        progress: Whether to show progress on stderr. Default: only if it takes long.
        trusted: The graph that the distilled MLP is made on; see `evaluate`.
        yardsticks: Whether to measure what the graph is worth to the model, and whether attacks on it can be trusted.
        give_up: Whether a member that can't become the strongest any more ends early (see `purigraph.attacks.Race`).

    Raises:
        InputError: If the ensemble is empty or refers to something that does not exist.
        UnsupportedModelError: If none of its attacks can be used on the model.
    """
    amounts, chosen_seeds = sorted(read_numbers(epsilons, name="epsilons")), read_seeds(seeds)
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs must be at least 1, not {epochs}.")
    views = _views(model, transfer_from)
    variants = [view for view in views if view not in (MODEL, TRANSFER)]
    members = [member for member in read_ensemble(ensemble, variants) if member.view in views]
    attackers = {member.name: attacks.create(member.attack, **member.settings) for member in members}
    if epochs is not None:
        attackers = {name: attacker.with_epochs(epochs) for name, attacker in attackers.items()}
    trials = Trials(model, data, targets, budget_kind, checkpoint, progress)
    for name in attackers:
        for amount in amounts:
            trials.check(attackers[name], amount)
    board = _Board(trials, give_up)
    left_out: dict[str, UnsupportedModelError] = {}
    for smaller, epsilon in zip([None, *amounts], amounts, strict=False):
        for member in members:
            if member.name in left_out or (member.begins_from == SMALLER and smaller is None):
                continue
            victim = None if member.view == MODEL else views[member.view]
            try:
                for seed in chosen_seeds:
                    board.play(member, attackers[member.name], victim, epsilon, smaller, seed)
            except UnsupportedModelError as error:
                left_out[member.name] = error
    if not board.records and trials.proof.share < 1 and left_out:
        reason = "; ".join(f"{name}: {_reason(error)}" for name, error in left_out.items())
        raise UnsupportedModelError(f"No attack of the ensemble can be used on this model. {reason}".rstrip())
    results = {
        member.name: Evaluation(trials.clean, len(trials.targets), board.records[member.name])
        for member in members
        if member.name in board.records
    }
    warnings = [f"{name!r} was left out: {_reason(error)}" for name, error in left_out.items()]
    warnings += _doubts([member for member in members if member.name in results], attackers, results, amounts)
    return WorstCase(
        trials.clean,
        len(trials.targets),
        amounts,
        results,
        warnings,
        yardsticks=trials.yardsticks(trusted) if yardsticks else None,
        certified=trials.proof.accuracy if trials.proof.share else None,
        doubts=trials.find_doubts() if yardsticks else [],
    )


class _Board:
    """What every member has found so far, and the strongest of it."""

    def __init__(self, trials: Trials, give_up: bool) -> None:
        self._trials, self._give_up = trials, give_up
        self.records: dict[str, list[Record]] = {}
        self._best: dict[tuple[float, int], Record] = {}

    def play(
        self, member: Member, attack: Attack, victim: Model | None, epsilon: float, smaller: float | None, seed: int
    ) -> None:
        """Run a member at a budget, unless nothing is left to win."""
        best = self._best.get((epsilon, seed))
        lowest = self._trials.clean if best is None else best.accuracy
        if self._trials.proof.share and lowest <= self._trials.proof.accuracy + 1e-12:
            return
        race = Race(best.accuracy) if best is not None and self._give_up else None
        start = self._start(member, epsilon, smaller, seed)
        record = self._trials.run(attack, epsilon, seed + member.seed_offset, victim=victim, start=start, race=race)
        record = replace(record, seed=seed)
        self.records.setdefault(member.name, []).append(record)
        if best is None or record.accuracy < best.accuracy:
            self._best[epsilon, seed] = record

    def _start(self, member: Member, epsilon: float, smaller: float | None, seed: int) -> Perturbation | None:
        if member.begins_from is None:
            return None
        if member.begins_from in (BEST, SMALLER):
            amount = epsilon if member.begins_from == BEST else smaller
            best = None if amount is None else self._best.get((amount, seed))
            return None if best is None else best.perturbation
        for record in self.records.get(member.begins_from, []):
            if (record.epsilon, record.seed) == (epsilon, seed):
                return record.perturbation
        return None


def _views(model: Model, transfer_from: Model | None) -> dict[str, Model]:
    views: dict[str, Model] = {MODEL: model}
    if isinstance(model, Protected | Anchored):
        views[TRANSFER] = model.unprotected()
        views |= model.views()
    if transfer_from is not None:
        views[TRANSFER] = transfer_from
    return views


def _shown(result: Evaluation, epsilon: float) -> str:
    if not result.accuracies(epsilon):
        return "-"
    given_up = all(record.given_up for record in result.records if record.epsilon == epsilon)
    return f"{100 * result.attacked(epsilon):.1f}" + ("*" if given_up else "")


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
        there = [member for member in members if results[member.name].accuracies(epsilon)]
        for other in (member for member in there if member not in adaptive):
            if other.begins_from in (BEST, SMALLER):
                continue  # it goes on from the strongest of the others, and owes them most of its strength
            # A warm-started member is compared with all adaptive ones, any other only with those that start cold.
            rivals = [m for m in adaptive if m in there and (other.begins_from is not None or m.begins_from is None)]
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
