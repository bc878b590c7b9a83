"""The input of training regimes (`Task`), and the definition of a regime (`Regime`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from torch_geometric.data import Data

from purigraph.training.run import GraphOfEpoch, Objective, Run, TrainingResult
from purigraph.training.settings import TrainingSettings


@dataclass(frozen=True)
class Task:
    """A classifier to train and the graphs to train it on; see `purigraph.training.train`.

    Attributes:
        build: Returns an untrained classifier for a seed.
        train: The training graph: x, edge_index, y, train_mask.
        validation: The validation graph: x, edge_index, y, val_mask.
        settings: The training settings.
        seed: The seed of all randomness.
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
        objective: Objective | None = None,
    ) -> TrainingResult:
        """Train `model` on the graphs of the task, or on the graphs given for each epoch (see `Run`)."""
        run = Run(
            model,
            self.train,
            self.validation,
            self.settings,
            seed=self.seed,
            train_graph=train_graph,
            validation_graph=validation_graph,
            first_validation=first_validation,
            objective=objective,
        )
        return run.complete(regime, checkpoint=self.checkpoint, progress=self.progress)


@dataclass(frozen=True)
class Regime:
    """A training regime.

    Attributes:
        run: Called with the task and, if `takes_attack`, with an attack or None.
        settings: The class of its settings.
        takes_attack: Whether it trains on attacked graphs.
        hides_features: Whether the model is shown other features than the graph's.
    """

    run: Callable[..., TrainingResult]
    settings: type[TrainingSettings]
    takes_attack: bool = False
    hides_features: bool = False
