"""Attacks on one model and one graph, one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from purigraph.attacks import Attack, Model, Race
from purigraph.evaluation.kept_perturbations import KeptPerturbations
from purigraph.evaluation.predictions import as_attacks_see_it, model_accuracy, predict, read_scene
from purigraph.evaluation.reliability import Proof, find_doubts, proven
from purigraph.evaluation.yardsticks import Yardsticks, measure_yardsticks
from purigraph.graph import as_pair_graph
from purigraph.graph.budget import Budget, Kind
from purigraph.graph.perturbation import Perturbation
from purigraph.model_checks import refuse_caches


@dataclass(frozen=True)
class Record:
    """One attack and its result.

    Attributes:
        epsilon: The amount of the budget: a share of the edges at the targets, unless another kind was chosen.
        seed: Seed of the attack.
        attack: Its name and settings.
        mode: "adaptive" (computed on the model itself), "transferred" (computed on another one) or "proven" (not run,
            as no edit of the edges can change an answer).
        accuracy: The model's accuracy on the targets, under the attack.
        max_flips: Number of flips that the budget allows.
        perturbation: The flips made.
        seconds: Duration of the attack, including the time before an interruption.
        given_up: Whether the attack was given up, as it could not win any more (see `Race`).
    """

    epsilon: float
    seed: int
    attack: str
    mode: str
    accuracy: float
    max_flips: int
    perturbation: Perturbation
    seconds: float
    given_up: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the number of flips and their hash instead of the flips themselves."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "perturbation"}
        found = self.perturbation
        return {**values, "added": found.added.shape[1], "removed": found.removed.shape[1], "flips": found.digest}


class Trials:
    """Runs attacks on one model and graph.

    Args:
        model: The model whose accuracy is measured.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
        budget_kind: How epsilon becomes a number of flips (see `Budget`).
        checkpoint: A folder to save every finished perturbation in, and the state of the running attack.
        progress: Whether to show progress on stderr. Default: only if it takes long.

    Attributes:
        targets: (M,) int64.
        clean: The accuracy on the clean graph.
        proof: What no edit of the edges can change.
    """

    def __init__(
        self,
        model: Model,
        data: Data,
        targets: Tensor | None,
        budget_kind: Kind,
        checkpoint: str | Path | None,
        progress: bool | None,
    ) -> None:
        refuse_caches(model)
        self.targets, _ = read_scene(data, targets)
        self._model, self._original = model, data
        self._data = as_attacks_see_it(data)
        self._graph = as_pair_graph(self._data)
        self._kind: Kind = budget_kind
        self._checkpoint, self._progress = checkpoint, progress
        self._kept: dict[tuple[int, int], KeptPerturbations] = {}
        self.clean = model_accuracy(model, self._data, self.targets)
        self.proof: Proof = proven(model, self._data, self.targets)

    def find_doubts(self) -> list[str]:
        """Return reasons not to trust attacks on the model; none where its answers are proven anyway."""
        return [] if self.proof.share == 1 else find_doubts(self._model, self._data, self.targets)

    def yardsticks(self, trusted: Data | None) -> Yardsticks:
        """Return what the graph is worth to the model."""
        return measure_yardsticks(self._model, self._original, self.targets, trusted=trusted)

    def check(self, attack: Attack, epsilon: float) -> None:
        """Raise if the budget makes no sense for the attack on this graph."""
        attack.limits(Budget(epsilon, self._kind), self._graph, self.targets)

    def run(
        self,
        attack: Attack,
        epsilon: float,
        seed: int,
        *,
        victim: Model | None = None,
        start: Perturbation | None = None,
        restarts: int = 1,
        race: Race | None = None,
    ) -> Record:
        """Run one attack.

        Args:
            attack: The attack.
            epsilon: The amount of the budget.
            seed: The seed of the attack.
            victim: The model that the attack is computed on. Default: the model itself.
            start: A perturbation to start from.
            restarts: Number of runs; the strongest counts.
            race: An accuracy to get below, see `Race`.
        """
        budget, name = Budget(epsilon, self._kind), repr(attack)
        limits = attack.limits(budget, self._graph, self.targets)
        if self.proof.share == 1:
            nothing = Perturbation(self._graph.num_nodes)
            return Record(budget.amount, seed, name, "proven", self.clean, limits.total, nothing, 0.0)
        mode = "adaptive" if victim is None else "transferred"
        victim = self._model if victim is None else victim
        slot = self._kept_for(victim, restarts).slot(attack, budget, seed, start, race)
        found, seconds = slot.load(self._graph, limits), slot.seconds
        if found is None:
            clock = time.monotonic()
            found = attack(
                victim,
                self._data,
                budget,
                targets=self.targets,
                start=start,
                seed=seed,
                restarts=restarts,
                checkpoint=slot.checkpoint,
                progress=self._progress,
                race=race,
            )
            seconds += time.monotonic() - clock
            slot.keep(found, seconds, given_up=race is not None and race.abandoned)
        elif race is not None:
            race.abandoned = slot.given_up
        left = model_accuracy(self._model, found.apply(self._data), self.targets)
        given_up = race is not None and race.abandoned
        return Record(budget.amount, seed, name, mode, left, limits.total, found, seconds, given_up)

    def _kept_for(self, victim: Model, restarts: int) -> KeptPerturbations:
        key = id(victim), restarts
        if key not in self._kept:
            data = self._data
            parts = [f"{restarts} runs", self._graph.codes, self._graph.weight, self.targets, data.y, data.x]
            self._kept[key] = KeptPerturbations(self._checkpoint, victim, partial(predict, victim, data), parts)
        return self._kept[key]
