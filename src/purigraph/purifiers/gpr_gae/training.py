"""Self-supervised training of GPR-GAE: restoring a trusted graph from random perturbations of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

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
from purigraph.purifiers.gpr_gae.links import LinkMap, LinkModel
from purigraph.purifiers.gpr_gae.perturb import perturb
from purigraph.settings import Settings, setting

if TYPE_CHECKING:
    from purigraph.purifiers.gpr_gae.model import GPRGAE


_COUNTERS = ("epochs_run", "best_epoch", "auc", "ap", "best_auc", "best_ap")


class FitSettings(Settings):
    """Training settings of GPR-GAE, with the paper's symbols in brackets."""

    epochs: int = setting("The number of epochs.", default=2000, ge=1)
    injection: float = setting("[p] The number of injected edges per edge, both undirected.", default=1.5, gt=0)
    masking: float = setting("[q] The share of masked edges.", default=0.2, ge=0, lt=1)
    reweighting: float = setting("[eta] Weights are sampled from [1/eta, 1]; 1 disables it.", default=3.0, ge=1)
    symmetry: float = setting("[delta] The weight of the symmetry loss.", default=0.2, ge=0)
    symmetry_passes: Literal[1, 2] = setting(
        "The number of forward passes. With 2, each direction has its own dropout mask.", default=1
    )
    learning_rate: float = setting("The learning rate of Adam.", default=0.01, gt=0, le=1000)
    weight_decay: float = setting("The weight decay of Adam.", default=1e-4, ge=0, le=1000)
    batch_ratio: float | None = setting(
        "The share of pairs in the loss of every epoch, for large graphs. None uses all.", default=None, gt=0, le=1
    )
    validation_sets: int = setting("The number of perturbed graphs that the best epoch is chosen on.", default=10, ge=1)
    validation_injection: float = setting(
        "The share of injected pairs in validation set i is i times this.", default=0.3, gt=0
    )
    validate_every: int = setting("The number of epochs between validations.", default=3, ge=1)
    holdout: float = setting("The share of nodes held out if there is no validation graph.", default=0.1, gt=0, lt=1)
    patience: int | None = setting(
        "Stop after this many epochs without a better validation score. None disables early stopping.",
        default=None,
        ge=1,
    )


class FitOptions(TypedDict, total=False):
    """The settings of `FitSettings` as keyword arguments, for editors and type checkers."""

    epochs: int
    injection: float
    masking: float
    reweighting: float
    symmetry: float
    symmetry_passes: Literal[1, 2]
    learning_rate: float
    weight_decay: float
    batch_ratio: float | None
    validation_sets: int
    validation_injection: float
    validate_every: int
    holdout: float
    patience: int | None


@dataclass(frozen=True)
class FitReport:
    """The report of a training; `score` is mean AUC + mean AP over the validation sets at the best epoch.

    `seconds` is the time of the whole run, including the time before an interruption; None for a loaded purifier.
    """

    best_epoch: int
    auc: float
    ap: float
    epochs_run: int
    seed: int
    settings: FitSettings
    seconds: float | None = None

    @property
    def score(self) -> float:
        """Return the score that the best epoch was chosen by."""
        return self.auc + self.ap

    def record(self) -> dict[str, Any]:
        """Return the record that is saved with the model, which documents its origin."""
        values = {name: getattr(self, name) for name in ("best_epoch", "auc", "ap", "epochs_run", "seed")}
        return {**values, "settings": self.settings.to_json(), "purigraph_version": __version__}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> FitReport | None:
        """Return the report that a record was made from, or None if it is not such a record."""
        names = ("best_epoch", "auc", "ap", "epochs_run", "seed")
        if not isinstance(record.get("settings"), dict) or not all(name in record for name in names):
            return None
        known = {name: value for name, value in record["settings"].items() if name in FitSettings.model_fields}
        return cls(**{name: record[name] for name in names}, settings=FitSettings(**known))


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
    def finished(self) -> bool:
        """Whether all epochs are done or training has stopped early."""
        patience = self.settings.patience
        stale = patience is not None and self.epochs_run - self.best_epoch >= patience
        return self.epochs_run >= self.settings.epochs or stale

    def epoch(self) -> float:
        """Train on one perturbed graph, validate if due, and return the loss."""
        settings, task = self.settings, self.task
        perturbed = perturb(task.graph, settings.injection, settings.masking, settings.reweighting, self.generator)
        loss = _loss(self.links.trainable(), task.features, perturbed, settings, self.dropout, self.generator)
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


def _loss(
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
    counted = _touching(whole, held_out)
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


def _touching(graph: PairGraph, nodes: Tensor) -> Tensor:
    inside = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    inside[nodes] = True
    return inside[graph.pairs].any(0)


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
