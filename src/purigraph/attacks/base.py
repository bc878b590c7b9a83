"""What all attacks share: one way to be called, and a judge that does not trust them."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, final

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph import losses
from purigraph.attacks.memory import Memory
from purigraph.attacks.victim import Model, Verdict, Victim, frozen
from purigraph.errors import BudgetError, InputError
from purigraph.fingerprint import fingerprint
from purigraph.graph.border import as_pair_graph, read_data
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.model_checks import refuse_caches
from purigraph.registry import canonical

Input: TypeAlias = Data | tuple[Any, Any]


@dataclass(frozen=True)
class Scene:
    """Everything that an attack works with.

    Attributes:
        victim: the model, as a function of the graph.
        graph: the clean graph; its weights have the dtype of x.
        labels: (N,) int64.
        targets: (M,) int64, ascending, each once.
        limits: the budget for this graph, above zero.
        start: a perturbation within the limits to begin from, or None.
        generator: the only source of randomness; on the CPU.
        memory: where a long attack may keep its state.
        progress: whether to report.
    """

    victim: Victim
    graph: PairGraph
    labels: Tensor
    targets: Tensor
    limits: Limits
    start: Perturbation | None
    generator: torch.Generator
    memory: Memory
    progress: bool | None

    def start_codes(self) -> Tensor:
        """The start's flips as codes i * N + j, ascending; empty if there is no start."""
        flips = torch.empty((2, 0), dtype=torch.int64) if self.start is None else self.start.flips()
        return (flips[0] * self.graph.num_nodes + flips[1]).to(self.graph.device)


class Attack(ABC):
    r"""An evasion attack on a graph's edges: $\max_{A'} \mathcal{L}(f(X, A'), y_T)$ within a budget of flips.

    A subclass writes `_run` and takes its hyper-parameters keyword-only; model and data come at the call. The
    call does not trust it: it counts the flips itself and compares what was found with the clean graph and with
    the start, on the discrete graphs, by accuracy first and loss second. Its result is therefore never weaker
    than either.

    Args:
        loss: name of what is maximised (`purigraph.losses`); also breaks ties between equal accuracies.
    """

    knows_local_budgets: ClassVar[bool] = True

    def __init__(self, *, loss: str = "tanh-margin") -> None:
        self.loss = canonical(loss)
        self._loss = losses.create(loss)

    @final
    def __call__(
        self,
        model: Model,
        data: Input,
        labels: Tensor | None,
        targets: Tensor,
        budget: Budget | int,
        *,
        seed: int = 0,
        start: Perturbation | None = None,
        restarts: int = 1,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ) -> Perturbation:
        """Find the flips that hurt the model's accuracy on the targets most.

        Args:
            model: any callable `(x, edge_index, edge_weight) -> logits (N, C)`. A module is put into evaluation
                mode meanwhile; its parameters get no gradient. Adaptive means: give the protected model.
            data: a `Data`, or (x, graph) with any kind of graph that purigraph reads. The model sees it without
                self-loops, which no attack touches.
            labels: (N,) integer, or None for `data.y`.
            targets: (M,) node indices or (N,) bool.
            budget: a number of undirected flips, or a `Budget`.
            seed: the same seed gives the same perturbation.
            start: a perturbation of the same graph within the budget to begin from, say a transferred one.
            restarts: how many runs, each with other random draws; the best is kept.
            checkpoint: a file to keep the state of a long run in (of the block attacks and the evolutionary one); an
                interrupted run goes on from it, to the same perturbation. It is removed in the end.
            progress: whether to report on the error stream.

        Returns:
            At most `budget` flips; none if the budget is zero or nothing found is worse than the clean graph.

        Raises:
            BudgetError: if the budget or the start is not possible, or if the attack overspent.
            UnsupportedModelError: if the model can't be attacked like this: a layer keeps the first graph that it
                sees, or nothing flows back to the edges.
        """
        refuse_caches(model)
        x, graph = _read(data)
        labels, targets = _read_labels(data, labels, graph), _read_targets(targets, graph)
        if int(labels[targets].min()) < 0:
            raise InputError("A target has a negative label, which means none: leave it out of the targets.")
        if restarts < 1:
            raise InputError(f"restarts must be at least 1, not {restarts}.")
        limits = self.limits(Budget.of(budget), graph, targets)
        if start is not None:
            # Before any work is done: a start that does not fit is the caller's mistake, not the attack's.
            start.check(graph)
            limits.check(start)
        best = Perturbation(graph.num_nodes)
        if limits.total == 0:
            return best
        with frozen(model):
            victim = Victim(model, x, labels, targets, self._loss)
            verdict = victim.verdict(graph)
            if not math.isfinite(verdict.loss):
                raise InputError(f"The model's {self.loss} on the clean graph is {verdict.loss}, not finite.")
            purpose = self._purpose(graph, labels, targets, limits, start, restarts, verdict)
            candidates = [] if start is None else [start]
            for run in range(restarts):
                # Every run has a seed of its own: one that was interrupted goes on without the ones before it.
                generator = torch.Generator().manual_seed(seed + 1_000_003 * run)
                path = None if checkpoint is None else Path(f"{checkpoint}.{run}" if run else checkpoint)
                memory = Memory(path, f"{purpose}, seed {seed}, run {run}", generator)
                scene = Scene(victim, graph, labels, targets, limits, start, generator, memory, progress)
                candidates.append(self._run(scene))
                memory.forget()
            for found in candidates:
                found.check(graph)
                limits.check(found)
                other = victim.verdict(found.apply(graph))
                if other.beats(verdict):
                    best, verdict = found, other
        return best

    def _purpose(
        self,
        graph: PairGraph,
        labels: Tensor,
        targets: Tensor,
        limits: Limits,
        start: Perturbation | None,
        restarts: int,
        clean: Verdict,
    ) -> str:
        """What a checkpoint is of: the attack, its subject, and the model as far as the clean graph shows it."""
        local = [] if limits.local is None else [limits.local]
        subject = fingerprint(graph.codes, graph.weight, labels, targets, *local)
        begin = "nothing" if start is None else start.digest
        return f"{self!r} with {limits.total} flips from {begin} on {subject}, clean {clean!r}"

    @abstractmethod
    def _run(self, scene: Scene) -> Perturbation:
        """Find flips within `scene.limits`; the caller re-checks them and judges."""

    def limits(self, budget: Budget, graph: PairGraph, targets: Tensor) -> Limits:
        """The budget worked out for a graph, as this attack keeps it."""
        if budget.local is not None and not self.knows_local_budgets:
            raise BudgetError(f"{type(self).__name__} knows no local budgets: use LRBCD, or a Budget without `local`.")
        return budget.limits(graph, targets)

    def settings(self) -> dict[str, Any]:
        """The hyper-parameters by name: `type(attack)(**attack.settings())` is the same attack."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({settings})"


def _read(data: Input) -> tuple[Any, PairGraph]:
    """The features and the graph, on the features' device and with their dtype."""
    if isinstance(data, Data):
        x, graph = data.x, read_data(data)[0]
        if x is None:
            raise InputError("data.x is missing: the model needs node features.")
    elif isinstance(data, tuple) and len(data) == 2:
        x, graph = data[0], as_pair_graph(data[1])
    else:
        raise InputError(f"data must be a PyG Data or a tuple (x, graph), not a {type(data).__name__}.")
    if isinstance(x, Tensor):
        if x.shape[0] != graph.num_nodes:
            raise InputError(f"x has {x.shape[0]} rows, but the graph has {graph.num_nodes} nodes.")
        dtype = x.dtype if x.is_floating_point() else graph.weight.dtype
        graph = graph.to(x.device)
        graph = graph.with_weight(graph.weight.detach().to(dtype))
    return x, graph


def _read_labels(data: Input, labels: Tensor | None, graph: PairGraph) -> Tensor:
    if labels is None and isinstance(data, Data):
        labels = data.y
    if labels is None:
        raise InputError("labels are missing: give (N,) integers, or a Data with y.")
    if labels.shape != (graph.num_nodes,) or labels.is_floating_point():
        raise InputError(f"labels must be ({graph.num_nodes},) integers, not {tuple(labels.shape)} {labels.dtype}.")
    return labels.to(graph.device).long()


def _read_targets(targets: Tensor, graph: PairGraph) -> Tensor:
    targets = targets.to(graph.device)
    if targets.dtype == torch.bool:
        if targets.shape != (graph.num_nodes,):
            raise InputError(f"A mask of targets has shape ({graph.num_nodes},), not {tuple(targets.shape)}.")
        targets = targets.nonzero().squeeze(1)
    if targets.dim() != 1 or targets.is_floating_point():
        raise InputError("targets must be (M,) node indices or an (N,) bool mask.")
    if len(targets) == 0:
        raise InputError("There are no targets: nothing to attack.")
    targets = torch.unique(targets.long())
    if targets[0] < 0 or targets[-1] >= graph.num_nodes:
        raise InputError(f"targets must be nodes from 0 to {graph.num_nodes - 1}.")
    return targets
