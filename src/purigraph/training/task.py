"""What every regime is given, and what a regime is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from torch_geometric.data import Data

from purigraph.training.run import GraphOfEpoch, Run, TrainingResult
from purigraph.training.settings import TrainingSettings


@dataclass(frozen=True)
class Task:
    """A classifier to train and the graphs to train it on; see `purigraph.training.train`.

    Attributes:
        build: Makes an untrained classifier from a seed.
        train: The training graph: x, edge_index, y, train_mask.
        validation: The validation graph: x, edge_index, y, val_mask.
        settings: Of the training.
        seed: Of everything random.
        checkpoint: The folder of the checkpoints.
        progress: See `purigraph.progress`.
    """

    build: Callable[[int], nn.Module]
    train: Data
    validation: Data
    settings: TrainingSettings
    seed: int = 0
    checkpoint: str | Path | None = None
    progress: bool | None = None

    def fit(
        self,
        model: nn.Module,
        regime: str,
        *,
        train_graph: GraphOfEpoch | None = None,
        validation_graph: GraphOfEpoch | None = None,
        first_validation: int = 1,
    ) -> TrainingResult:
        """Train `model` on the task's graphs, or on those that each epoch is given (see `Run`)."""
        run = Run(
            model,
            self.train,
            self.validation,
            self.settings,
            seed=self.seed,
            train_graph=train_graph,
            validation_graph=validation_graph,
            first_validation=first_validation,
        )
        return run.complete(regime, checkpoint=self.checkpoint, progress=self.progress)


@dataclass(frozen=True)
class Regime:
    """A way to train.

    Attributes:
        run: Called with the task, and with an attack or None if it takes one.
        settings: The type of its settings.
        takes_attack: Whether it trains on graphs under attack.
    """

    run: Callable[..., TrainingResult]
    settings: type[TrainingSettings]
    takes_attack: bool = False
