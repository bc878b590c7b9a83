"""One call that attacks a model and says what is left of it."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph import attacks
from purigraph._version import __version__
from purigraph.attacks import Attack
from purigraph.attacks.victim import frozen
from purigraph.errors import InputError
from purigraph.fingerprint import fingerprint
from purigraph.graph import PairGraph, as_pair_graph, read_data
from purigraph.graph.budget import Budget, Kind, Limits
from purigraph.graph.perturbation import Perturbation
from purigraph.metrics import accuracy
from purigraph.model_checks import refuse_caches

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
        table = Table(
            title=f"Accuracy on {self.num_targets} targets (%)",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        rows = [["none", "clean", "0", "0", _percent([self.clean]), ""]]
        groups: dict[tuple[str, str, float], list[Record]] = {}
        for record in self.records:
            groups.setdefault((record.attack, record.mode, record.epsilon), []).append(record)
        names = _short_names([record.attack for record in self.records])
        for (attack, mode, epsilon), found in groups.items():
            flips = f"{statistics.fmean(len(record.perturbation) for record in found):.0f}/{found[0].budget}"
            left = _percent([record.accuracy for record in found])
            rows.append([names[attack], mode, f"{epsilon:g}", flips, left, str(len(found))])
        for index, column in enumerate(("attack", "mode", "epsilon", "flips", "accuracy", "seeds")):
            widest = max(len(row[index]) for row in rows)  # where it is narrow, headings may break but figures may not
            table.add_column(column, justify="left" if index < 2 else "right", min_width=widest, overflow="fold")
        for row in rows:
            table.add_row(*row)
        # An attack with its settings takes lines: once below the table, not once per row.
        whole = [attack if attack.startswith(f"{name}(") else f"{name}: {attack}" for attack, name in names.items()]
        table.caption = escape("\n".join(whole))
        table.caption_justify = "left"
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
    restarts: int = 1,
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
        restarts: runs of the attack per budget and seed; the strongest counts.
        folder: keep every perturbation there as a file, and the state of the attack that is under way; a run that
            was interrupted goes on from them.
        progress: report on the error stream.
        **settings: of the attack, when it is given by name.
    """
    attacker = attacks.create(attack, **settings)
    refuse_caches(model)
    target_nodes = find_targets(data, targets)
    data = as_attacks_see_it(data)
    victim = model if transfer_from is None else transfer_from
    mode = "adaptive" if transfer_from is None else "transferred"
    graph = as_pair_graph(data)
    store = None if folder is None else _Store(folder, victim, data, graph, target_nodes, restarts)
    result = Evaluation(model_accuracy(model, data, target_nodes), len(target_nodes))
    # All budgets are read before the first attack begins: a mistake in the last must not cost the others' work.
    for epsilon, allowance in [(epsilon, Budget(epsilon, budget)) for epsilon in epsilons]:
        for seed in map(int, seeds):
            begin = start(epsilon, seed) if start is not None else None
            limits = attacker.limits(allowance, graph, target_nodes)
            path = None if store is None else store.path(attacker, allowance, seed, begin)
            found = None if path is None else _kept(path, graph, limits)
            seconds = 0.0
            if found is None:
                clock = time.monotonic()
                found = attacker(
                    victim,
                    data,
                    None,
                    target_nodes,
                    allowance,
                    seed=seed,
                    start=begin,
                    restarts=restarts,
                    checkpoint=None if path is None else path.with_suffix(".checkpoint"),
                    progress=progress,
                )
                seconds = time.monotonic() - clock
                if path is not None:
                    found.save(path)
            left = model_accuracy(model, found.apply(data), target_nodes)
            result.records.append(Record(epsilon, seed, repr(attacker), mode, left, limits.total, found, seconds))
    return result


def model_accuracy(model: Model, data: Data, targets: Tensor | None = None) -> float:
    """A model's accuracy on the targets (the test nodes when left out), in evaluation mode."""
    nodes = find_targets(data, targets)
    return accuracy(predict(model, data)[nodes], data.y[nodes])


def as_attacks_see_it(data: Data) -> Data:
    """The same graph with both directions of every edge, a weight each, and without self-loops.

    What is measured must be what was attacked: attacks flip undirected pairs and touch no self-loops.
    """
    result = copy.copy(data)
    for key in [key for key in data.keys() if key != "edge_index" and data.is_edge_attr(key)]:  # noqa: SIM118
        del result[key]  # no model is given them, and they would no longer fit
    result.edge_index, weight = read_data(data)[0].edge_index()
    result.edge_weight = weight.to(data.x.dtype) if data.x.is_floating_point() else weight
    return result


def predict(model: Model, data: Data) -> Tensor:
    """A model's outputs (N, C) in evaluation mode and without gradients; its mode is left as it was.

    It is called with weights in any case, ones where the data has none.
    """
    dtype = data.x.dtype if data.x.is_floating_point() else torch.float32
    ones = torch.ones(data.edge_index.shape[1], dtype=dtype, device=data.edge_index.device)
    weight = data.edge_weight if "edge_weight" in data else ones
    with frozen(model), torch.no_grad():
        return model(data.x, data.edge_index, weight)


def find_targets(data: Data, targets: Tensor | None) -> Tensor:
    """(M,) int64, the nodes that count: as given, as a mask, or the test nodes."""
    if targets is None:
        if "test_mask" not in data:
            raise InputError("data has no test_mask: say which nodes count with targets=...")
        targets = data.test_mask
    targets = targets.nonzero().squeeze(1) if targets.dtype == torch.bool else torch.unique(targets)
    if targets.numel() == 0:
        raise InputError("There are no target nodes, so there is no accuracy.")
    if "y" not in data or data.y is None:
        raise InputError("data.y is missing: accuracy needs the labels of the target nodes.")
    if int(data.y[targets].min()) < 0:
        raise InputError("Some target nodes have a negative label, which means none: leave them out.")
    return targets


class _Store:
    """A folder of perturbations, each file named by everything that it depends on.

    A model is known by its parameters and by its outputs on the clean graph, which differ where its code does, or
    where a function closes over another value.
    """

    def __init__(
        self, folder: str | Path, model: Model, data: Data, graph: PairGraph, targets: Tensor, restarts: int
    ) -> None:
        self._folder = Path(folder)
        parts: list[Tensor | str] = [__version__, f"{restarts} runs", graph.codes, graph.weight, targets, data.y]
        parts += [data.x, predict(model, data), type(model).__name__]
        if isinstance(model, nn.Module):
            parts.append(repr(model))
            parts += [part for name_and_value in model.state_dict().items() for part in name_and_value]
        self._base = fingerprint(*parts)

    def path(self, attack: Attack, budget: Budget, seed: int, start: Perturbation | None) -> Path:
        """Where the perturbation of one run of an attack is kept."""
        begin = "" if start is None else start.digest
        key = fingerprint(self._base, repr(attack), repr(budget), str(seed), begin)
        return self._folder / f"{type(attack).__name__.lower()}-{budget.amount:g}-{seed}-{key[:16]}.safetensors"


def _kept(path: Path, graph: PairGraph, limits: Limits) -> Perturbation | None:
    """The perturbation in a file, checked again; None where there is no file."""
    if not path.exists():
        return None
    found = Perturbation.load(path)
    found.check(graph)
    limits.check(found)
    return found


def _short_names(described: Sequence[str]) -> dict[str, str]:
    """For every attack with its settings, the name alone; numbered where two would be called the same."""
    names: dict[str, str] = {}
    for attack in described:
        name = attack.partition("(")[0]
        same = sum(other.partition("(")[0] == name for other in names)
        names.setdefault(attack, f"{name} {same + 1}" if same else name)
    return names


def _percent(values: Sequence[float]) -> str:
    mean = f"{100 * statistics.fmean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * statistics.stdev(values):.1f}"
