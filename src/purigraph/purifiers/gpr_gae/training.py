"""Self-supervised training of GPR-GAE: restoring a trusted graph from random perturbations of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.checkpoint_layout import Entry, Layout, adam_entries, is_count, is_number
from purigraph.checkpoints import (
    Checkpointer,
    State,
    optimizer_tensors,
    restore_optimizer,
    with_prefix,
    without_prefix,
)
from purigraph.errors import InputError
from purigraph.fingerprint import fingerprint
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.injection import PerturbedGraph, inject
from purigraph.graph.sparse_features import select_rows
from purigraph.kernels import Features
from purigraph.kernels.feature_matrix import read_features
from purigraph.metrics import ranking_scores
from purigraph.numbers import read_seed
from purigraph.progress import progress as show_progress
from purigraph.purifiers.gpr_gae.fit_settings import FitReport, FitSettings
from purigraph.purifiers.gpr_gae.links import LinkMap, LinkModel
from purigraph.purifiers.gpr_gae.perturb import perturb

if TYPE_CHECKING:
    from purigraph.purifiers.gpr_gae.model import GPRGAE


_COUNTERS = ("epochs_run", "best_epoch", "auc", "ap", "best_auc", "best_ap")


@dataclass(frozen=True)
class _ValidationSet:
    """A perturbed validation graph, the pairs to score in it, and which of them are original edges."""

    graph: PairGraph
    scored: PairGraph
    is_original: Tensor


@dataclass(frozen=True)
class _Task:
    features: Features
    graph: PairGraph
    validation_features: Features
    validation_sets: list[_ValidationSet]


class Training:
    """One training run: its state and its checkpoint.

    Args:
        model: The model; its parameters are reset and trained.
        data: The training graph (see `GPRGAE.fit`).
        validation: The validation graph. Default: nodes of `data` are held out.
        settings: The training settings. Default: `FitSettings()`.
        seed: The seed of all randomness.
    """

    def __init__(
        self,
        model: GPRGAE,
        data: Data,
        validation: Data | None = None,
        settings: FitSettings | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.settings, self.seed = settings or FitSettings(), read_seed(seed)
        self.generator = torch.Generator().manual_seed(self.seed)
        x, graph = _inputs(data, "data")
        self.links = model.reset(x.shape[1], self.generator).to(device=x.device, dtype=x.dtype)
        self.task = _prepare(x, graph, data, validation, self.settings, self.generator)
        self.optimizer = torch.optim.Adam(
            self.links.parameters(),
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
            fused=True,
        )
        self.dropout = model.dropout
        seen = [x] if validation is None else [x, _inputs(validation, "validation")[0]]
        self.purpose = _purpose(self.task, seen, self.settings, self.dropout, seed, self.links)
        self.epochs_run, self.best_epoch = 0, 0
        self.auc = self.ap = self.best_auc = self.best_ap = float("nan")
        self.best_state = _copy(self.links)

    def complete(self, checkpoint: str | Path | None, progress: bool | None) -> FitReport:
        """Run to the end, resuming from a checkpoint if there is one; restore the best validation epoch."""
        keeper = Checkpointer(checkpoint, "fit", self.purpose)
        self.resume(keeper)
        with show_progress("GPR-GAE", self.settings.epochs, progress) as report:
            while not self.finished:
                loss = self.epoch()
                report.update(self.epochs_run, loss=loss, AUC=self.auc, AP=self.ap)
                # Only between epochs: within one, the parameters and the random state belong to different epochs.
                keeper.offer(self.state)
        keeper.save(self.state())
        if self.best_epoch == 0:  # there were fewer epochs than `validate_every`
            self.validate()
        self.links.load_state_dict(self.best_state)
        self.optimizer.zero_grad()
        return FitReport(
            self.best_epoch, self.best_auc, self.best_ap, self.epochs_run, self.seed, self.settings, keeper.seconds
        )

    @property
    def validation_sets(self) -> Sequence[_ValidationSet]:
        """Return the perturbed graphs that the best epoch was chosen on."""
        return self.task.validation_sets

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or training has stopped early."""
        patience = self.settings.patience
        stale = patience is not None and self.epochs_run - self.best_epoch >= patience
        return self.epochs_run >= self.settings.epochs or stale

    def epoch(self) -> float:
        """Train on one perturbed graph, validate if due, and return the loss."""
        settings, task = self.settings, self.task
        sizes = settings.injection, settings.masking, settings.reweighting
        adversary = adversary_of(self.links, task.features, task.graph, settings.adversarial)
        perturbed = perturb(task.graph, *sizes, self.generator, adversary)
        loss = training_loss(self.links.trainable(), task.features, perturbed, settings, self.dropout, self.generator)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise InputError(
                f"The training loss became {value} in epoch {self.epochs_run + 1}: lower learning_rate or symmetry, or "
                "scale the features down."
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.epochs_run += 1
        if self.epochs_run % settings.validate_every == 0:
            self.validate()
        return value

    def validate(self) -> None:
        """Score the current model and keep a copy if it is the best so far."""
        self.auc, self.ap = _validation_scores(self.links.frozen(), self.task)
        if self.best_epoch == 0 or self.auc + self.ap > self.best_auc + self.best_ap:
            self.best_auc, self.best_ap, self.best_epoch = self.auc, self.ap, self.epochs_run
            self.best_state = _copy(self.links)

    def state(self) -> State:
        """Return everything that is needed to resume."""
        tensors = {
            **with_prefix("model", self.links.state_dict()),
            **with_prefix("best", self.best_state),
            **optimizer_tensors(self.optimizer),
            "generator": self.generator.get_state(),
        }
        return State(tensors, {name: getattr(self, name) for name in _COUNTERS})

    def resume(self, keeper: Checkpointer) -> None:
        """Resume from the checkpoint of this run, if there is one."""
        found = keeper.resume(self._layout())
        if found is None:
            return
        if found.values["epochs_run"] > self.settings.epochs:
            raise InputError(
                f"{keeper.path} is a checkpoint of {found.values['epochs_run']} epochs already, more than the "
                f"requested {self.settings.epochs}: request at least as many, or use another folder to start again."
            )
        with keeper.restoring():
            self.links.load_state_dict(without_prefix("model", found.tensors))
            self.best_state = without_prefix("best", found.tensors)
            restore_optimizer(self.optimizer, found.tensors)
            self.generator.set_state(found.tensors["generator"])
            if found.values["best_epoch"] > found.values["epochs_run"]:
                raise ValueError("its epochs contradict each other")
        for name in _COUNTERS:
            setattr(self, name, found.values[name])

    def _layout(self) -> Layout:
        """Return what a state of this run looks like, whatever the epoch."""
        state = self.state()
        expected = {name: Entry.like(one) for name, one in state.tensors.items() if not name.startswith("optimizer/")}
        checks = {name: is_count if isinstance(value, int) else is_number for name, value in state.values.items()}
        return Layout(expected, checks, adam_entries(self.optimizer))


def adversary_of(
    links: LinkModel, features: Features, graph: PairGraph, share: float
) -> tuple[float, Callable[[PairGraph], Tensor]] | None:
    """Return who injects the pairs that the model itself takes for edges of the graph; see `perturb`."""

    @torch.no_grad()
    def scores(pairs: PairGraph) -> Tensor:
        frozen = links.frozen()
        return frozen.logits(frozen.embed(features), graph, pairs).mean(0)

    return (share, scores) if share > 0 else None


def training_loss(
    links: LinkMap,
    features: Features,
    perturbed: PerturbedGraph,
    settings: FitSettings,
    dropout: float,
    generator: torch.Generator,
) -> Tensor:
    r"""Return $\mathcal{L}_{restore} + \delta \mathcal{L}_{sym}$.

    The restoration loss is the binary cross-entropy of the averaged score, with target 1 for original and 0 for
    injected edges, each averaged over its own set; the symmetry loss is the mean squared difference between the two
    directions.
    """
    scored, is_original = _batch(perturbed, settings.batch_ratio, generator)
    forward, backward = links.logits(links.embed(features, dropout, generator), perturbed.graph, scored).sigmoid()
    average = (forward + backward) / 2
    if settings.symmetry_passes == 2:
        second = links.logits(links.embed(features, dropout, generator), perturbed.graph, scored)
        backward = second[1].sigmoid()
    each = functional.binary_cross_entropy(average, is_original.to(average.dtype), reduction="none")
    restore = each[is_original].mean() + each[~is_original].mean()
    symmetry: Tensor = (forward - backward).square().mean()
    return restore + settings.symmetry * symmetry


def _batch(
    perturbed: PerturbedGraph, ratio: float | None, generator: torch.Generator
) -> tuple[PairGraph | None, Tensor]:
    """Return the pairs in this epoch's loss: all of them (None, for those of the graph), or a share of each kind."""
    if ratio is None:
        return None, perturbed.is_original
    parts = []
    for group in (perturbed.is_original, ~perturbed.is_original):
        members = group.nonzero().squeeze(1).cpu()
        order = torch.randperm(len(members), generator=generator)
        parts.append(members[order[: max(round(ratio * len(members)), 1)]])
    chosen = torch.cat(parts).sort().values.to(perturbed.graph.device)
    return PairGraph(perturbed.graph.num_nodes, perturbed.graph.pairs[:, chosen]), perturbed.is_original[chosen]


@torch.no_grad()
def _validation_scores(links: LinkMap, task: _Task) -> tuple[float, float]:
    """Return the mean AUC and mean AP over the validation sets."""
    h = links.embed(task.validation_features)
    first_codes = links.first_filter_codes(h)
    scores = []
    for one in task.validation_sets:
        probability = links.logits(h, one.graph, one.scored, first_codes).sigmoid().mean(0)
        scores.append(ranking_scores(probability[one.is_original], probability[~one.is_original]))
    aucs, aps = zip(*scores, strict=True)
    return sum(aucs) / len(aucs), sum(aps) / len(aps)


def _inputs(data: Data, name: str) -> tuple[Tensor, PairGraph]:
    if not isinstance(data, Data):
        raise InputError(f"{name} must be a PyG Data with x and edge_index, not a {type(data).__name__}.")
    graph = as_pair_graph(data)
    x = read_features(data.x, graph.num_nodes, name=f"{name}.x")
    return x, graph.with_weight(graph.weight.detach().to(x.dtype))


def _prepare(
    x: Tensor,
    graph: PairGraph,
    data: Data,
    validation: Data | None,
    settings: FitSettings,
    generator: torch.Generator,
) -> _Task:
    if validation is None:
        order = torch.randperm(graph.num_nodes, generator=generator)
        held_out = order[: round(settings.holdout * graph.num_nodes)].sort().values.to(graph.device)
        kept = order[round(settings.holdout * graph.num_nodes) :].sort().values.to(graph.device)
        whole, whole_x = graph, x
        graph, x = graph.subgraph(kept), select_rows(x, kept)
    else:
        whole_x, whole = _inputs(validation, "validation")
        if whole_x.shape[1] != x.shape[1]:
            raise InputError(f"data has {x.shape[1]} features, validation has {whole_x.shape[1]}: they must agree.")
        whole_x, whole = whole_x.to(x.dtype), whole.with_weight(whole.weight.to(x.dtype))
        held_out = _further_nodes(data, validation)
    needed = round(settings.injection * graph.num_pairs)
    if graph.num_pairs == 0 or needed == 0:
        raise InputError(
            f"The training graph has {graph.num_pairs} edges: too few to learn from. Hold out fewer nodes "
            "(holdout=...), or use a larger graph."
        )
    counted = whole.touching(held_out)
    if not counted.any():
        raise InputError(
            "No edge touches a validation node, so the best epoch can't be chosen: hold out more nodes "
            "(holdout=...), or use a larger validation graph."
        )
    sets = []
    for index in range(1, settings.validation_sets + 1):
        count = max(round(index * settings.validation_injection * int(counted.sum())), 1)
        perturbed = inject(whole, count, generator, held_out.cpu())
        scored = ~perturbed.is_original
        scored[perturbed.is_original] = counted
        pairs = PairGraph(whole.num_nodes, perturbed.graph.pairs[:, scored])
        sets.append(_ValidationSet(perturbed.graph, pairs, perturbed.is_original[scored]))
    return _Task(Features(x), graph, Features(whole_x), sets)


def _further_nodes(data: Data, validation: Data) -> Tensor:
    """Return the validation nodes that are not in the training graph, by `n_id`; all nodes if there is no `n_id`."""
    everything = torch.arange(validation.num_nodes)
    if "n_id" not in data or "n_id" not in validation:
        return everything
    return everything[~torch.isin(validation.n_id, data.n_id)]


def _copy(links: LinkModel) -> dict[str, Tensor]:
    """Return a copy of the parameters that later optimizer steps do not change."""
    return {name: value.detach().clone() for name, value in links.state_dict().items()}


def _purpose(
    task: _Task, features: list[Tensor], settings: FitSettings, dropout: float, seed: int, links: LinkModel
) -> str:
    """Identify a run: it resumes only with the same settings, seed, shapes, graphs and features."""
    shapes = {name: list(value.shape) for name, value in links.state_dict().items()}
    fixed = settings.model_dump(exclude={"epochs", "patience"})
    text = json.dumps([fixed, dropout, seed, shapes, __version__], sort_keys=True)
    graphs = [task.graph, *(one.graph for one in task.validation_sets)]
    contents = [tensor for graph in graphs for tensor in (graph.codes, graph.weight)]
    return fingerprint(text, *contents, *features)
