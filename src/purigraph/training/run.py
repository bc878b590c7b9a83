"""One training run of a classifier: epochs, the choice of the best one, and a checkpoint to resume from."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph import losses
from purigraph._version import __version__
from purigraph.checkpoint_layout import Entry, Layout, adam_entries, entries, is_count, is_finite_pair, is_numbers
from purigraph.checkpoints import Checkpointer, State, optimizer_tensors, restore_optimizer, with_prefix, without_prefix
from purigraph.classifiers import Classifier
from purigraph.errors import InputError, PurigraphError
from purigraph.fingerprint import fingerprint
from purigraph.graph.nodes import read_labels, read_mask, require_labels
from purigraph.graph.splits import MASKS
from purigraph.kernels import Features
from purigraph.kernels.feature_matrix import read_features
from purigraph.metrics import accuracy
from purigraph.pretrained import Pretrained
from purigraph.progress import progress as show_progress
from purigraph.training.settings import TrainingSettings

#: Returns the graph of an epoch: the clean one, or an attacked one. Epochs are counted from 1.
GraphOfEpoch: TypeAlias = Callable[[int], Data]
#: Returns the loss that an epoch minimises on its graph, with the model in training mode.
Objective: TypeAlias = Callable[["Run", Data, int], Tensor]


@dataclass(frozen=True)
class TrainingResult:
    """A trained model and the history of its training.

    Attributes:
        model: The model at its best epoch, in evaluation mode.
        regime: The name of the regime.
        best_epoch: The epoch with the lowest validation loss, counted from 1.
        epochs_run: The number of epochs run.
        validation_loss: The validation loss at the best epoch.
        validation_accuracy: The validation accuracy at the best epoch, on the same graph as the loss.
        train_losses: The training loss of every epoch.
        validation_losses: The validation loss of every epoch that was validated.
        seconds: The time of the run, including the time before an interruption.
        seed: The seed of the run.
        settings: The settings of the run.
        purifier: The name and settings of the purifier that the training and the validation graph went through (see
            `purigraph.purifiers.Recipe`), or None.
    """

    model: nn.Module
    regime: str
    best_epoch: int
    epochs_run: int
    validation_loss: float
    validation_accuracy: float
    train_losses: tuple[float, ...]
    validation_losses: tuple[float, ...]
    seconds: float
    seed: int
    settings: TrainingSettings
    purifier: Mapping[str, Any] | None = None

    def record(self) -> dict[str, Any]:
        """Return the record that is saved with the model, which documents its origin."""
        names = ("regime", "best_epoch", "epochs_run", "validation_loss", "validation_accuracy", "seed")
        values = {name: getattr(self, name) for name in names}
        purifier = {} if self.purifier is None else {"purifier": dict(self.purifier)}
        return {**values, "settings": self.settings.to_json(), **purifier, "purigraph_version": __version__}


class Run:
    """A training run and its state.

    The optimiser is Adam with weight decay on all parameters. The epoch with the lowest validation loss is kept, and
    training stops early if that loss no longer improves.

    Args:
        model: The model, trained in place.
        train: The training graph; only the labels in its `train_mask` are used.
        validation: The validation graph; only the labels in its `val_mask` are used.
        settings: The training settings.
        seed: The seed of dropout. Global random state is neither read nor changed.
        train_graph: Returns the graph that an epoch trains on, with the same nodes and features. Default: `train`.
        validation_graph: Returns the graph that an epoch is validated on. Default: `validation`.
        first_validation: The first epoch that is validated; earlier ones can't be the best.
        objective: What an epoch minimises. Default: the loss of the labelled nodes.

    Attributes:
        train_x: The features of the training graph.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Data,
        validation: Data,
        settings: TrainingSettings,
        *,
        seed: int,
        train_graph: GraphOfEpoch | None = None,
        validation_graph: GraphOfEpoch | None = None,
        first_validation: int = 1,
        objective: Objective | None = None,
    ) -> None:
        train, validation = read_graphs(train, validation)
        self.model, self.settings, self.seed = model, settings, seed
        self._train_graph = train_graph or (lambda epoch: train)
        self._validation_graph = validation_graph or (lambda epoch: validation)
        self._first_validation = max(first_validation, settings.choose_from)
        self._objective = objective or Run.supervised_loss
        self._device = train.edge_index.device
        self._train_nodes = train.train_mask.nonzero().squeeze(1)
        self._train_labels = train.y[self._train_nodes]
        self._validation_nodes = validation.val_mask.nonzero().squeeze(1)
        self._validation_labels = validation.y[self._validation_nodes]
        self.train_x, self._validation_x = features(model, train), features(model, validation)
        self._loss = losses.create(settings.loss)
        self._purpose = json.dumps(
            {
                "model": type(model).__qualname__,
                "settings": settings.to_json(),
                "seed": seed,
                "start": fingerprint(*model.state_dict().values()),
                "train": fingerprint(*_contents(train), self._train_nodes, self._train_labels),
                "validation": fingerprint(*_contents(validation), self._validation_nodes, self._validation_labels),
            }
        )
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.epochs_run = 0
        self.best_epoch = 0
        self.best_loss, self.best_accuracy = math.inf, math.nan
        self.best_state: dict[str, Tensor] = {}
        self.train_losses: list[float] = []
        self.validation_losses: list[float] = []
        self._random_state: list[Tensor] | None = None

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or training has stopped early."""
        if self.epochs_run >= self.settings.epochs:
            return True
        return self.best_epoch > 0 and self.epochs_run - self.best_epoch >= self.settings.patience

    @property
    def _name(self) -> str:
        """The model's, or that of the classifier inside of it (see `OnFactors`)."""
        return str(getattr(self.model, "trained_name", type(self.model).__name__))

    def complete(
        self, regime: str, *, checkpoint: str | Path | None = None, progress: bool | None = None
    ) -> TrainingResult:
        """Run to the end, resuming from a checkpoint if there is one, and restore the model's best epoch.

        Args:
            regime: The name used in progress reports, the checkpoint and the result.
            checkpoint: The folder of the checkpoint.
            progress: See `purigraph.progress`.
        """
        keeper = Checkpointer(checkpoint, regime, self._purpose)
        self._resume(keeper)
        with (
            torch.random.fork_rng(self._random_devices()),
            show_progress(f"{self._name} {regime}", self.settings.epochs, progress) as report,
        ):
            self._seed()
            while not self.finished:
                self._epoch()
                report.update(self.epochs_run, loss=self.train_losses[-1], validation=self.best_loss)
                keeper.offer(self._state)
            keeper.save(self._state())
        if self.best_epoch == 0:
            raise PurigraphError(f"The validation loss was never finite in {self.epochs_run} epochs.")
        self.model.load_state_dict(self.best_state)
        self.model.zero_grad(set_to_none=True)
        self.model.eval()
        result = TrainingResult(
            model=self.model,
            regime=regime,
            best_epoch=self.best_epoch,
            epochs_run=self.epochs_run,
            validation_loss=self.best_loss,
            validation_accuracy=self.best_accuracy,
            train_losses=tuple(self.train_losses),
            validation_losses=tuple(self.validation_losses),
            seconds=keeper.seconds,
            seed=self.seed,
            settings=self.settings,
        )
        if isinstance(self.model, Pretrained):
            self.model.provenance = result.record()
        return result

    def _epoch(self) -> None:
        epoch = self.epochs_run + 1
        graph = self._train_graph(epoch)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._objective(self, graph, epoch)
        if not math.isfinite(float(loss.detach())):
            raise PurigraphError(
                f"The training loss became {float(loss.detach())} in epoch {epoch}: lower the learning rate, or check "
                "the features for values that are not finite."
            )
        loss.backward()
        self.optimizer.step()
        self.train_losses.append(float(loss.detach()))
        self.epochs_run = epoch
        last = epoch == self.settings.epochs
        due = epoch >= self._first_validation and epoch % self.settings.validate_every == 0
        if due or (last and self.best_epoch == 0):
            self._validate(epoch)

    def supervised_loss(self, graph: Data, epoch: int) -> Tensor:
        """Return the loss of the labelled nodes on the graph of an epoch."""
        return self.label_loss(self.logits(self.train_x, graph))

    def label_loss(self, logits: Tensor) -> Tensor:
        """Return the loss of logits (N, C) of the training graph at its labelled nodes."""
        loss: Tensor = self._loss(logits[self._train_nodes], self._train_labels)
        return loss

    def _validate(self, epoch: int) -> None:
        graph = self._validation_graph(epoch)
        self.model.eval()
        with torch.no_grad():
            logits = self.logits(self._validation_x, graph)[self._validation_nodes]
            loss = float(self._loss(logits, self._validation_labels))
        self.validation_losses.append(loss)
        if loss < self.best_loss:
            self.best_epoch, self.best_loss = epoch, loss
            self.best_accuracy = accuracy(logits, self._validation_labels)
            # Cloned, as a detached tensor on the CPU still shares memory with the parameter.
            self.best_state = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def logits(self, x: Tensor | Features, graph: Data) -> Tensor:
        """Return the model's logits (N, C) for features and the edges of a graph."""
        logits: Tensor = (
            self.model(x, graph.edge_index, graph.edge_weight)
            if "edge_weight" in graph
            else self.model(x, graph.edge_index)
        )
        return logits

    def _state(self) -> State:
        tensors = {
            **with_prefix("model", self.model.state_dict()),
            **with_prefix("best", self.best_state),
            **optimizer_tensors(self.optimizer),
            **{f"random/{index}": state for index, state in enumerate(self._random_states())},
        }
        values = {
            "epochs_run": self.epochs_run,
            "best_epoch": self.best_epoch,
            # JSON has neither infinity nor NaN.
            "best": [self.best_loss, self.best_accuracy] if self.best_epoch else None,
            "train_losses": self.train_losses,
            "validation_losses": self.validation_losses,
        }
        return State(tensors, values)

    def _layout(self) -> Layout:
        """Return what a state of this run looks like, whatever the epoch."""
        random = {f"random/{index}": Entry.like(state) for index, state in enumerate(self._random_states())}
        return Layout(
            tensors={**entries("model", self.model.state_dict()), **random},
            values={
                "epochs_run": is_count,
                "best_epoch": is_count,
                "best": lambda best: best is None or is_finite_pair(best),
                "train_losses": is_numbers,
                "validation_losses": is_numbers,
            },
            optional=[entries("best", self.model.state_dict()), *adam_entries(self.optimizer)],
        )

    def _resume(self, keeper: Checkpointer) -> None:
        found = keeper.resume(self._layout())
        if found is None:
            return
        with keeper.restoring():
            self.model.load_state_dict(without_prefix("model", found.tensors))
            restore_optimizer(self.optimizer, found.tensors)
            self.best_state = without_prefix("best", found.tensors)
            random = without_prefix("random", found.tensors)
            self._random_state = [random[name] for name in sorted(random)]
            for state in self._random_state[:1]:
                torch.Generator().set_state(state)  # raises an error if it is not the state of a generator
            self.epochs_run, self.best_epoch = found.values["epochs_run"], found.values["best_epoch"]
            self.train_losses = found.values["train_losses"]
            self.validation_losses = found.values["validation_losses"]
            known = (self.best_epoch > 0, bool(self.best_state), found.values["best"] is not None)
            if len(set(known)) > 1 or self.best_epoch > self.epochs_run or len(self.train_losses) != self.epochs_run:
                raise ValueError("its epochs contradict each other")
        if found.values["best"] is not None:
            self.best_loss, self.best_accuracy = found.values["best"]

    def _random_devices(self) -> list[torch.device]:
        return [self._device] if self._device.type == "cuda" else []

    def _random_states(self) -> list[Tensor]:
        states = [torch.get_rng_state()]
        return states + [torch.cuda.get_rng_state(device) for device in self._random_devices()]

    def _seed(self) -> None:
        if self._random_state is None:
            torch.manual_seed(self.seed)
            return
        torch.set_rng_state(self._random_state[0])
        for device, state in zip(self._random_devices(), self._random_state[1:], strict=True):
            torch.cuda.set_rng_state(state, device)


def features(model: nn.Module, data: Data) -> Tensor | Features:
    """Return the features of a graph in the form that is fastest for the model."""
    return Features(data.x) if isinstance(model, Classifier) else data.x


def _contents(data: Data) -> list[Tensor]:
    return [data.x, data.edge_index, *([data.edge_weight] if "edge_weight" in data else [])]


def read_graphs(train: Data, validation: Data) -> tuple[Data, Data]:
    """Return the graphs with floating point features and int64 labels; the given ones are not changed.

    Raises:
        InputError: If they can't be trained on or leak validation or test nodes.
    """
    read = _read_graph(train, "train_mask", "train"), _read_graph(validation, "val_mask", "validate")
    for mask in MASKS[1:]:
        if mask not in train:
            continue
        leaked = int(read_mask(train[mask], train.num_nodes, name=f"data.{mask}").sum())
        if leaked:
            raise InputError(
                f"The training graph holds {leaked} nodes of {mask}: training is inductive and must "
                "not see them. Create the graphs with purigraph.graph.splits.inductive_split."
            )
    return read


def _read_graph(data: Data, mask: str, purpose: str) -> Data:
    for name in ("x", "edge_index", "y", mask):
        if name not in data or data[name] is None:
            raise InputError(
                f"data.{name} is missing: training needs features, edges, labels and the masks of a split, as "
                "returned by purigraph.graph.splits.inductive_split."
            )
    x = read_features(data.x, data.num_nodes, name="data.x")
    y = read_labels(data.y, data.num_nodes, name="data.y")
    chosen = read_mask(data[mask], data.num_nodes, name=f"data.{mask}")
    if not chosen.any():
        raise InputError(f"{mask} is empty: there is nothing to {purpose} on.")
    require_labels(y, chosen.nonzero().squeeze(1).to(y.device), name=mask)
    weighted = "edge_weight" in data and isinstance(data.edge_weight, Tensor) and data.edge_weight.requires_grad
    if x is data.x and y is data.y and not weighted:
        return data
    result = copy.copy(data)
    result.x, result.y = x, y
    if weighted:
        result.edge_weight = data.edge_weight.detach()  # the caller's graph of gradients is not trained through
    return result
