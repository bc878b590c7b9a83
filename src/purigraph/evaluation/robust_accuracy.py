"""Robust accuracy: attack a model and measure the accuracy that is left."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from purigraph import attacks
from purigraph._version import __version__
from purigraph.attacks import Attack, Model
from purigraph.errors import InputError
from purigraph.evaluation.arguments import read_numbers, read_seeds
from purigraph.evaluation.trials import Record, Trials
from purigraph.evaluation.yardsticks import Yardsticks
from purigraph.graph.budget import Kind
from purigraph.graph.perturbation import Perturbation
from purigraph.tables import Table


@dataclass(frozen=True)
class Evaluation:
    """Clean accuracy and accuracy under attack, per budget and seed. `print(evaluation)` shows a table.

    Attributes:
        clean: The accuracy on the graph as it is.
        num_targets: The number of targets.
        records: One per budget and seed.
        yardsticks: What the graph is worth to the model; None if it was not measured.
        certified: The share of the targets that are right and that no edit of the edges can change, where the model
            proves such a thing; None where it does not.
        doubts: Reasons not to trust the accuracies under attack; none if all is well.
    """

    clean: float
    num_targets: int
    records: list[Record] = field(default_factory=list)
    yardsticks: Yardsticks | None = None
    certified: float | None = None
    doubts: list[str] = field(default_factory=list)

    @property
    def is_reliable(self) -> bool:
        """Whether the checks of the model found nothing that speaks against trusting the result."""
        return not self.doubts

    def epsilons(self) -> list[float]:
        """Return the budgets, ascending."""
        return sorted({record.epsilon for record in self.records})

    def accuracies(self, epsilon: float) -> list[float]:
        """Return the accuracies under attack at a budget, one per seed."""
        return [record.accuracy for record in self.records if record.epsilon == epsilon]

    def attacked(self, epsilon: float) -> float:
        """Return the mean accuracy under attack at a budget."""
        found = self.accuracies(epsilon)
        if not found:
            raise InputError(f"Nothing was evaluated at epsilon {epsilon}; available: {self.epsilons()}.")
        return statistics.fmean(found)

    def perturbation(self, epsilon: float, seed: int) -> Perturbation:
        """Return the perturbation found at a budget with a seed."""
        for record in self.records:
            if (record.epsilon, record.seed) == (epsilon, seed):
                return record.perturbation
        there = ", ".join(f"({record.epsilon}, {record.seed})" for record in self.records)
        raise InputError(
            f"Nothing was evaluated at epsilon {epsilon} with seed {seed}; available: {there or 'nothing'}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "purigraph_version": __version__,
            "clean": self.clean,
            "num_targets": self.num_targets,
            "attacked": {str(epsilon): self.attacked(epsilon) for epsilon in self.epsilons()},
            "records": [record.to_dict() for record in self.records],
            "certified": self.certified,
            **({} if self.yardsticks is None else self.yardsticks.to_dict()),
            "reliable": self.is_reliable,
            "warnings": self.doubts,
        }

    def table(self) -> Table:
        """Return the accuracies as a table, one row per attack and budget."""
        rows = [["none", "clean", "0", "0", _percent([self.clean]), ""]]
        groups: dict[tuple[str, str, float], list[Record]] = {}
        for record in self.records:
            groups.setdefault((record.attack, record.mode, record.epsilon), []).append(record)
        names = _short_names([record.attack for record in self.records])
        for (attack, mode, epsilon), found in groups.items():
            flips = f"{statistics.fmean(len(record.perturbation) for record in found):.0f}/{found[0].max_flips}"
            left = _percent([record.accuracy for record in found])
            rows.append([names[attack], mode, f"{epsilon:g}", flips, left, str(len(found))])
        if self.certified is not None:
            rows.append(["any", "certified", "any", "", _percent([self.certified]), ""])
        # An attack's settings take several lines: list them once below the table, not in every row.
        notes = [attack if attack.startswith(f"{name}(") else f"{name}: {attack}" for attack, name in names.items()]
        if self.yardsticks is not None:
            rows += [["any", name, "any", "", _percent([value]), ""] for name, value in self.yardsticks.rows()]
            notes += self.yardsticks.notes(min(map(self.attacked, self.epsilons()), default=None))
        return Table(
            f"Accuracy on {self.num_targets} targets (%)",
            ["attack", "mode", "epsilon", "flips", "accuracy", "seeds"],
            rows,
            notes=[*notes, *(f"Not to be trusted: {doubt}" for doubt in self.doubts)],
            text_columns=2,
        )

    def __rich__(self) -> Table:
        return self.table()

    def __str__(self) -> str:
        return str(self.table())


def evaluate(
    model: Model,
    data: Data,
    *,
    attack: str | type[Attack] | Attack = "prbcd",
    epsilons: float | Sequence[float] = (0.1, 0.25, 0.5),
    transfer_from: Model | None = None,
    seeds: int | Sequence[int] = (0,),
    targets: Tensor | None = None,
    budget_kind: Kind = "incident",
    starts: Evaluation | None = None,
    restarts: int = 1,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    trusted: Data | None = None,
    yardsticks: bool = True,
    **settings: Any,
) -> Evaluation:
    """Attack a model and measure the accuracy that is left.

    The attack is adaptive: it sees the whole model, including the purifier. With `transfer_from` it is computed on that
    model instead and then applied to `model`. Never trust one of the two alone; see `worst_case`.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`, e.g. a protected classifier.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        attack: A name (see `purigraph.attacks.names()`), a class or an instance.
        epsilons: The amounts of the budgets, or a single one, by default relative to the number of edges at the
            targets.
        transfer_from: The model that the attack is computed on. Default: `model` itself.
        seeds: Seeds of the attack, one run each, or a single one.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
        budget_kind: How epsilon becomes a number of flips (see `Budget`).
        starts: An earlier evaluation on the same graph; each attack starts from its perturbation at the same budget and
            seed.
        restarts: Number of runs of the attack per budget and seed; the strongest counts.
        checkpoint: A folder to save every finished perturbation in, and the state of the running attack. An interrupted
            run resumes from it.
        progress: Whether to show progress on stderr. Default: only if it takes long.
        trusted: The graph on which the MLP that the model is compared with is distilled (see `Yardsticks`). Default:
            the training graph that the masks of `data` give; without masks there is no such MLP.
        yardsticks: Whether to measure what the graph is worth to the model, and whether attacks on it can be trusted.
        **settings: Settings of the attack, if it is given by name or class.
    """
    attacker = attacks.create(attack, **settings)
    amounts, chosen_seeds = read_numbers(epsilons, name="epsilons"), read_seeds(seeds)
    trials = Trials(model, data, targets, budget_kind, checkpoint, progress)
    # Read all budgets and starts before the first attack begins: a mistake in the last must not waste the others' work.
    runs = [
        (epsilon, seed, None if starts is None else starts.perturbation(epsilon, seed))
        for epsilon in amounts
        for seed in chosen_seeds
    ]
    for epsilon in amounts:
        trials.check(attacker, epsilon)
    return Evaluation(
        trials.clean,
        len(trials.targets),
        [
            trials.run(attacker, epsilon, seed, victim=transfer_from, start=start, restarts=restarts)
            for epsilon, seed, start in runs
        ],
        yardsticks=trials.yardsticks(trusted) if yardsticks else None,
        certified=trials.proof.accuracy if trials.proof.share else None,
        doubts=trials.find_doubts() if yardsticks else [],
    )


def _short_names(described: Sequence[str]) -> dict[str, str]:
    """Return the name alone of every attack with settings; numbered where two would have the same name."""
    names: dict[str, str] = {}
    for attack in described:
        name = attack.partition("(")[0]
        same = sum(other.partition("(")[0] == name for other in names)
        names.setdefault(attack, f"{name} {same + 1}" if same else name)
    return names


def _percent(values: Sequence[float]) -> str:
    mean = f"{100 * statistics.fmean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * statistics.stdev(values):.1f}"
