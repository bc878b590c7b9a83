"""The base class of attacks: how they are called, and how their results are verified."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar, final

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph import losses
from purigraph.attacks.model import Model
from purigraph.attacks.race import Race
from purigraph.attacks.scene import Scene
from purigraph.attacks.victim import Verdict, Victim, frozen
from purigraph.checkpoints import Checkpointer
from purigraph.errors import BudgetError, InputError
from purigraph.fingerprint import fingerprint
from purigraph.graph.border import as_pair_graph, read_data
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.nodes import read_targets
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.kernels.feature_matrix import read_features
from purigraph.losses import LossName
from purigraph.model_checks import refuse_caches
from purigraph.numbers import read_seed
from purigraph.registry import Components
from purigraph.settings import Configured, setting

#: A graph with node features: a `Data`, or (x, graph) with any kind of graph that purigraph reads.
Input: TypeAlias = Data | tuple[Any, Any]

A = TypeVar("A", bound="Attack")


class Attack(Configured, ABC):
    r"""An evasion attack on a graph's edges: $\max_{A'} \mathcal{L}(f(X, A'), y_T)$ within a budget of flips.

    A subclass declares its hyper-parameters as settings and implements `_run`; model and data are passed to the call.
    The call does not trust the subclass: it counts the flips itself and compares the result with the clean graph and
    with the start, on the discrete graphs, by accuracy first and loss second. The result is therefore never weaker than
    either.

    Attacks compare by value: two of the same class with equal settings are equal, and evaluating the `repr` of an
    attack recreates it.
    """

    loss: LossName = setting(
        "The loss to maximise, one of `purigraph.losses.names()`; it also breaks ties between equal accuracies.",
        default="tanh-margin",
    )

    #: Whether the model must be differentiable in the edge weights.
    needs_gradient: ClassVar[bool] = False
    #: Whether it supports budgets that also limit the flips at every node (`Budget.local`).
    knows_local_budgets: ClassVar[bool] = False
    #: Whether it imposes a limit at every node even if the budget does not, so that it may rightly be weaker.
    imposes_local_budget: ClassVar[bool] = False
    #: Whether it saves its state in a checkpoint (`Scene.offer`), from which an interrupted run resumes.
    keeps_checkpoints: ClassVar[bool] = False

    @final
    def __call__(
        self,
        model: Model,
        data: Input,
        budget: Budget | int,
        *,
        targets: Tensor | None = None,
        labels: Tensor | None = None,
        start: Perturbation | None = None,
        seed: int = 0,
        restarts: int = 1,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        race: Race | None = None,
    ) -> Perturbation:
        """Find the flips that hurt the model's accuracy on the targets most.

        Args:
            model: Any callable `(x, edge_index, edge_weight) -> logits (N, C)`; if it has a method `relaxed`, see
                `Relaxable`. A module is in evaluation mode during the attack, and its parameters get no gradients. For
                an adaptive attack, pass the protected model.
            data: A `Data`, or (x, graph) with any kind of graph that purigraph reads. The model sees it without
                self-loops, which attacks never change.
            budget: A number of undirected flips, or a `Budget`.
            targets: (M,) node indices or (N,) bool. Default: `data.test_mask`.
            labels: (N,) integers. Default: `data.y`.
            start: A perturbation of the same graph within the budget to start from, e.g. a transferred one.
            seed: The same seed gives the same perturbation.
            restarts: Number of runs, each with different random draws; the best is kept.
            checkpoint: A folder for the state of a long run, one file per restart (only for attacks with
                `keeps_checkpoints`). An interrupted run resumes from it, bit-identically. The files are removed at the
                end.
            progress: Whether to show progress on stderr. Default: only if the attack takes long.
            race: An accuracy that the attack must get below to be of use: it may end early once that is out of reach
                (see `Race`). Default: it never does.

        Returns:
            At most `budget` flips; none if the budget is zero or if nothing found hurts the model.

        Raises:
            BudgetError: If the budget or the start is impossible, or if the attack exceeded the budget.
            UnsupportedModelError: If the model can't be attacked this way: a layer caches the first graph that it sees,
                or no gradient flows back to the edges.
        """
        with torch.inference_mode(False):  # in that mode, there would be no gradients
            return self._find(model, data, budget, targets, labels, start, seed, restarts, checkpoint, progress, race)

    def _find(
        self,
        model: Model,
        data: Input,
        budget: Budget | int,
        targets: Tensor | None,
        labels: Tensor | None,
        start: Perturbation | None,
        seed: int,
        restarts: int,
        checkpoint: str | Path | None,
        progress: bool | None,
        race: Race | None,
    ) -> Perturbation:
        """Do the work of a call; see `__call__`."""
        refuse_caches(model)
        x, graph = read_input(data)
        nodes, known = (tensor.to(graph.device) for tensor in read_targets(data, targets, labels, graph.num_nodes))
        seed = read_seed(seed)
        if not isinstance(restarts, int) or restarts < 1:
            raise InputError(f"restarts must be a whole number, at least 1, not {restarts!r}.")
        limits = self.limits(Budget.of(budget), graph, nodes)
        if start is not None:
            if not isinstance(start, Perturbation):
                raise InputError(f"start must be a Perturbation, not a {type(start).__name__}.")
            # Checked before any work is done: a start that does not fit is the caller's mistake, not the attack's.
            start.check(graph)
            limits.check(start)
        best = Perturbation(graph.num_nodes)
        if limits.total == 0:
            return best
        with frozen(model):
            victim = Victim(model, x, known, nodes, losses.create(self.loss))
            verdict = victim.verdict(graph)
            if not math.isfinite(verdict.loss):
                raise InputError(f"The model's {self.loss} on the clean graph is {verdict.loss}, not finite.")
            purpose = self._purpose(graph, known, nodes, limits, start, verdict)
            candidates = [] if start is None else [start]
            for run in range(restarts):
                # Every run has its own seed, so an interrupted run resumes without repeating the ones before it.
                generator = torch.Generator().manual_seed(seed + 1_000_003 * run)
                checkpointer = Checkpointer(checkpoint, f"attack-{run}", f"{purpose}, seed {seed}, run {run}")
                scene = Scene(victim, graph, known, nodes, limits, start, generator, checkpointer, progress, race)
                candidates.append(self._run(scene))
                checkpointer.clear()
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
        clean: Verdict,
    ) -> str:
        """Return what a checkpoint belongs to: the attack, its inputs, and the model as judged on the clean graph."""
        local = [] if limits.local is None else [limits.local]
        subject = fingerprint(graph.codes, graph.weight, labels, targets, *local)
        begin = "nothing" if start is None else start.digest
        return f"{self!r} with {limits.total} flips from {begin} on {subject}, clean {clean!r}"

    @abstractmethod
    def _run(self, scene: Scene) -> Perturbation:
        """Find flips within `scene.limits`; the caller checks and judges them."""

    def limits(self, budget: Budget, graph: PairGraph, targets: Tensor) -> Limits:
        """Return the limits that a budget sets for this attack on a graph."""
        if budget.local is not None and not self.knows_local_budgets:
            raise BudgetError(
                f"{type(self).__name__} does not support local budgets: use LRBCD, or a Budget without `local`."
            )
        return budget.limits(graph, targets)

    def with_epochs(self: A, epochs: int) -> A:
        """Return the same attack, scaled to take about as long as `epochs` steps of a gradient-based one.

        An attack whose length can't be scaled is returned unchanged.
        """
        return self

    def __repr__(self) -> str:
        return repr(self.settings)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Attack) and bool(self.settings == other.settings)

    def __hash__(self) -> int:
        return hash((type(self), self.settings))

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return partial(type(self), **self.settings.values()), ()


registry: Components[Attack] = Components("attack", "purigraph.attacks")


def read_input(data: Input) -> tuple[Any, PairGraph]:
    """Return the features and the graph, on the features' device and with their dtype.

    Raises:
        InputError: If there are none, if they don't belong together, or if a feature is not finite.
    """
    if isinstance(data, Data):
        x, graph = data.x, read_data(data)[0]
        if x is None:
            raise InputError("data.x is missing: the model needs node features.")
    elif isinstance(data, tuple) and len(data) == 2:
        x, graph = data[0], as_pair_graph(data[1])
    else:
        raise InputError(f"data must be a PyG Data or a tuple (x, graph), not a {type(data).__name__}.")
    if isinstance(x, Tensor):
        if x.shape[:1] != (graph.num_nodes,):
            rows = f"{x.shape[0]} rows" if x.dim() else "no rows"
            raise InputError(f"x has {rows}, but the graph has {graph.num_nodes} nodes.")
        # Not converted: what dtype a model takes is its own affair, and integers may be the indices of embeddings.
        if x.dim() == 2 and x.is_floating_point():
            x = read_features(x, dtype=x.dtype)
        dtype = x.dtype if x.is_floating_point() else graph.weight.dtype
        graph = graph.to(x.device)
        graph = graph.with_weight(graph.weight.detach().to(dtype))
    return x, graph
