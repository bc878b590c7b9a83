"""One call that attacks a model and says what is left of it."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph import attacks
from purigraph._version import __version__
from purigraph.attacks import Attack
from purigraph.attacks.victim import frozen
from purigraph.errors import InputError
from purigraph.graph import as_pair_graph
from purigraph.graph.budget import Budget, Kind
from purigraph.graph.perturbation import Perturbation
from purigraph.metrics import accuracy

Model = Callable[..., Tensor]


@dataclass(frozen=True)
class Record:
    """One attack and what it left.

    Attributes:
        epsilon: the budget relative to the edges at the targets.
        seed: of the attack.
        attack: its name and settings.
        mode: "adaptive" (found on the model itself) or "transferred" (found on another one).
        accuracy: of the model on the targets, under the attack.
        budget: the number of flips allowed.
        perturbation: the flips made.
        seconds: that the attack took; 0 when it was read from the folder of an earlier run.
    """

    epsilon: float
    seed: int
    attack: str
    mode: str
    accuracy: float
    budget: int
    perturbation: Perturbation
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON: everything but the flips themselves, of which it gives the number."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "perturbation"}
        return {**values, "added": self.perturbation.added.shape[1], "removed": self.perturbation.removed.shape[1]}


@dataclass(frozen=True)
class Evaluation:
    """Clean accuracy and accuracy under attack, per budget and seed. `print(evaluation)` shows a table."""

    clean: float
    num_targets: int
    records: list[Record] = field(default_factory=list)

    def epsilons(self) -> list[float]:
        """The budgets, ascending."""
        return sorted({record.epsilon for record in self.records})

    def accuracies(self, epsilon: float) -> list[float]:
        """The accuracies under attack at a budget, one per seed."""
        return [record.accuracy for record in self.records if record.epsilon == epsilon]

    def attacked(self, epsilon: float) -> float:
        """The mean accuracy under attack at a budget."""
        found = self.accuracies(epsilon)
        if not found:
            raise InputError(f"Nothing was evaluated at epsilon {epsilon}; there is {self.epsilons()}.")
        return statistics.fmean(found)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "purigraph_version": __version__,
            "clean": self.clean,
            "num_targets": self.num_targets,
            "attacked": {str(epsilon): self.attacked(epsilon) for epsilon in self.epsilons()},
            "records": [record.to_dict() for record in self.records],
        }

    def __rich__(self) -> Table:
        table = Table(title=f"Accuracy on {self.num_targets} targets (%)", title_justify="left")
        for column in ("attack", "mode", "epsilon", "flips", "accuracy", "seeds"):
            table.add_column(column, justify="left" if column in {"attack", "mode"} else "right")
        table.add_row("none", "clean", "0", "0", _percent([self.clean]), "")
        groups: dict[tuple[str, str, float], list[Record]] = {}
        for record in self.records:
            groups.setdefault((record.attack, record.mode, record.epsilon), []).append(record)
        for (attack, mode, epsilon), found in groups.items():
            flips = f"{statistics.fmean(len(record.perturbation) for record in found):.0f}/{found[0].budget}"
            left = _percent([record.accuracy for record in found])
            table.add_row(attack, mode, f"{epsilon:g}", flips, left, str(len(found)))
        return table

    def __str__(self) -> str:
        console = Console(width=120)
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip()


def evaluate(
    model: Model,
    data: Data,
    *,
    attack: str | type[Attack] | Attack = "prbcd",
    epsilons: Sequence[float] = (0.1, 0.25, 0.5),
    transfer_from: Model | None = None,
    seeds: Sequence[int] = (0,),
    targets: Tensor | None = None,
    budget: Kind = "incident",
    start: Callable[[float, int], Perturbation | None] | None = None,
    folder: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> Evaluation:
    """Attack a model and measure what is left of its accuracy.

    The attack is adaptive: it sees the whole model, purifier included. With `transfer_from` it is found on that model
    instead and only then put to `model`. Never believe one of the two alone; see `worst_case`.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`, say a protected classifier.
        data: x, edge_index, y, and a `test_mask` unless `targets` are given.
        attack: a name (`purigraph.attacks.attacks.names()`), a class or an instance.
        epsilons: budgets relative to the edges at the targets.
        transfer_from: the model that the attack is found on.
        seeds: of the attack, one run each.
        targets: (M,) indices or (N,) bool; the test nodes when left out.
        budget: how epsilon becomes a number of flips (`Budget`).
        start: gives, for a budget and seed, a perturbation to begin from.
        folder: keep every perturbation there as a file; a run that was interrupted goes on from them.
        progress: report on the error stream.
        **settings: of the attack, when it is given by name.
    """
    attacker = attacks.create(attack, **settings)
    target_nodes = find_targets(data, targets)
    victim = model if transfer_from is None else transfer_from
    mode = "adaptive" if transfer_from is None else "transferred"
    store = _Store(folder, victim, data, target_nodes) if folder is not None else None
    graph = as_pair_graph(data)
    result = Evaluation(model_accuracy(model, data, target_nodes), len(target_nodes))
    for epsilon in epsilons:
        allowance = Budget(epsilon, budget)
        for seed in seeds:
            begin = start(epsilon, seed) if start is not None else None
            found = store.load(attacker, allowance, seed, begin) if store is not None else None
            seconds = 0.0
            if found is None:
                clock = time.monotonic()
                found = attacker(victim, data, None, target_nodes, allowance, seed=seed, start=begin, progress=progress)
                seconds = time.monotonic() - clock
                if store is not None:
                    store.save(found, attacker, allowance, seed, begin)
            left = model_accuracy(model, found.apply(data), target_nodes)
            flips = attacker.limits(allowance, graph, target_nodes).total
            result.records.append(Record(epsilon, seed, repr(attacker), mode, left, flips, found, seconds))
    return result


def model_accuracy(model: Model, data: Data, targets: Tensor | None = None) -> float:
    """A model's accuracy on the targets (the test nodes when left out), in evaluation mode."""
    logits = predict(model, data)
    nodes = find_targets(data, targets)
    return accuracy(logits[nodes], data.y[nodes])


def predict(model: Model, data: Data) -> Tensor:
    """A model's outputs (N, C) in evaluation mode and without gradients; its mode is left as it was."""
    weight = data.edge_weight if "edge_weight" in data else None
    with frozen(model), torch.no_grad():
        return model(data.x, data.edge_index, weight)


def find_targets(data: Data, targets: Tensor | None) -> Tensor:
    """(M,) int64, the nodes that count: as given, as a mask, or the test nodes."""
    if targets is None:
        if "test_mask" not in data:
            raise InputError("data has no test_mask: say which nodes count with targets=...")
        targets = data.test_mask
    if targets.dtype == torch.bool:
        targets = targets.nonzero().squeeze(1)
    if targets.numel() == 0:
        raise InputError("There are no target nodes, so there is no accuracy.")
    return targets


class _Store:
    """Perturbations as files, named by everything that they depend on."""

    def __init__(self, folder: str | Path, model: Model, data: Data, targets: Tensor) -> None:
        self._folder = Path(folder)
        graph = as_pair_graph(data)
        parts = [graph.codes, graph.weight, targets, data.y]
        self._base = _digest([*parts, *_model_parts(model)])

    def _path(self, attack: Attack, budget: Budget, seed: int, start: Perturbation | None) -> Path:
        begin = "" if start is None else start.digest
        key = json.dumps([self._base, repr(attack), repr(budget), seed, begin])
        name = f"{type(attack).__name__.lower()}-{budget.amount:g}-{seed}"
        return self._folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.safetensors"

    def load(self, attack: Attack, budget: Budget, seed: int, start: Perturbation | None) -> Perturbation | None:
        path = self._path(attack, budget, seed, start)
        return Perturbation.load(path) if path.exists() else None

    def save(self, found: Perturbation, attack: Attack, budget: Budget, seed: int, start: Perturbation | None) -> None:
        found.save(self._path(attack, budget, seed, start))


def _model_parts(model: Model) -> Iterable[Tensor | str]:
    yield repr(model) if isinstance(model, nn.Module) else f"{model.__module__}.{model.__qualname__}"
    if isinstance(model, nn.Module):
        for name, tensor in model.state_dict().items():
            yield name
            yield tensor


def _digest(parts: Iterable[Tensor | str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def _percent(values: Sequence[float]) -> str:
    mean = f"{100 * statistics.fmean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * statistics.stdev(values):.1f}"
