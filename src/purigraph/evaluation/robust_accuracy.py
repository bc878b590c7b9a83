"""Robust accuracy: attack a model and measure the accuracy that is left."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph import attacks
from purigraph._version import __version__
from purigraph.attacks import Attack, Model
from purigraph.attacks.base import read_input
from purigraph.attacks.victim import frozen
from purigraph.errors import InputError
from purigraph.evaluation.arguments import read_numbers, read_seeds
from purigraph.evaluation.kept_perturbations import KeptPerturbations
from purigraph.graph import as_pair_graph, read_data
from purigraph.graph.budget import Budget, Kind
from purigraph.graph.nodes import read_targets
from purigraph.graph.perturbation import Perturbation
from purigraph.metrics import accuracy
from purigraph.model_checks import refuse_caches
from purigraph.tables import Table


@dataclass(frozen=True)
class Record:
    """One attack and its result.

    Attributes:
        epsilon: The amount of the budget: a share of the edges at the targets, unless another kind was chosen.
        seed: Seed of the attack.
        attack: Its name and settings.
        mode: "adaptive" (computed on the model itself) or "transferred" (computed on another one).
        accuracy: The model's accuracy on the targets, under the attack.
        max_flips: Number of flips that the budget allows.
        perturbation: The flips made.
        seconds: Duration of the attack, including the time before an interruption.
    """

    epsilon: float
    seed: int
    attack: str
    mode: str
    accuracy: float
    max_flips: int
    perturbation: Perturbation
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the number of flips instead of the flips themselves."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "perturbation"}
        return {**values, "added": self.perturbation.added.shape[1], "removed": self.perturbation.removed.shape[1]}


@dataclass(frozen=True)
class Evaluation:
    """Clean accuracy and accuracy under attack, per budget and seed. `print(evaluation)` shows a table."""

    clean: float
    num_targets: int
    records: list[Record] = field(default_factory=list)

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
        return Table(
            f"Accuracy on {self.num_targets} targets (%)",
            ["attack", "mode", "epsilon", "flips", "accuracy", "seeds"],
            rows,
            # An attack's settings take several lines: list them once below the table, not in every row.
            notes=[attack if attack.startswith(f"{name}(") else f"{name}: {attack}" for attack, name in names.items()],
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
        **settings: Settings of the attack, if it is given by name or class.
    """
    attacker = attacks.create(attack, **settings)
    refuse_caches(model)
    amounts, chosen_seeds = read_numbers(epsilons, name="epsilons"), read_seeds(seeds)
    nodes, _ = _read_scene(data, targets)
    data = as_attacks_see_it(data)
    victim = model if transfer_from is None else transfer_from
    mode = "adaptive" if transfer_from is None else "transferred"
    graph = as_pair_graph(data)
    parts = [f"{restarts} runs", graph.codes, graph.weight, nodes, data.y, data.x]
    kept = KeptPerturbations(checkpoint, victim, partial(predict, victim, data), parts)
    result = Evaluation(model_accuracy(model, data, nodes), len(nodes))
    # Read all budgets and starts before the first attack begins: a mistake in the last must not waste the others' work.
    runs = [
        (Budget(epsilon, budget_kind), seed, None if starts is None else starts.perturbation(epsilon, seed))
        for epsilon in amounts
        for seed in chosen_seeds
    ]
    for budget, seed, start in runs:
        limits = attacker.limits(budget, graph, nodes)
        slot = kept.slot(attacker, budget, seed, start)
        found, seconds = slot.load(graph, limits), slot.seconds
        if found is None:
            clock = time.monotonic()
            found = attacker(
                victim,
                data,
                budget,
                targets=nodes,
                start=start,
                seed=seed,
                restarts=restarts,
                checkpoint=slot.checkpoint,
                progress=progress,
            )
            seconds += time.monotonic() - clock
            slot.keep(found, seconds)
        left = model_accuracy(model, found.apply(data), nodes)
        result.records.append(Record(budget.amount, seed, repr(attacker), mode, left, limits.total, found, seconds))
    return result


def model_accuracy(model: Model, data: Data, targets: Tensor | None = None) -> float:
    """Return a model's accuracy on the targets, in evaluation mode.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
    """
    nodes, labels = _read_scene(data, targets)
    return accuracy(predict(model, data)[nodes], labels[nodes])


def as_attacks_see_it(data: Data) -> Data:
    """Return the same graph with both directions of every edge, a weight each, and without self-loops.

    The measured graph must be the attacked one: attacks flip undirected pairs and never touch self-loops.
    """
    result = copy.copy(data)
    for key in [key for key in data.keys() if key != "edge_index" and data.is_edge_attr(key)]:  # noqa: SIM118
        del result[key]  # models don't get them, and they would no longer fit
    result.edge_index, weight = read_data(data)[0].edge_index()
    result.edge_weight = weight.to(data.x.dtype) if data.x.is_floating_point() else weight
    return result


def predict(model: Model, data: Data) -> Tensor:
    """Return a model's outputs (N, C) in evaluation mode and without gradients; its mode is restored.

    It is always called with weights: ones if the data does not have any.
    """
    dtype = data.x.dtype if data.x.is_floating_point() else torch.float32
    ones = torch.ones(data.edge_index.shape[1], dtype=dtype, device=data.edge_index.device)
    weight = data.edge_weight if "edge_weight" in data else ones
    with frozen(model), torch.no_grad():
        return model(data.x, data.edge_index, weight)


def _read_scene(data: Data, targets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the targets and the labels of a graph with features; everything is checked before a model runs."""
    if not isinstance(data, Data):
        raise InputError(f"data must be a PyG Data with x, edge_index and y, not a {type(data).__name__}.")
    _, graph = read_input(data)
    if not isinstance(data.x, Tensor):
        raise InputError(f"data.x must be a tensor of node features, not a {type(data.x).__name__}.")
    return read_targets(data, targets, None, graph.num_nodes)


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
