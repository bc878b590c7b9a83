"""Training on the labelled nodes alone."""

from __future__ import annotations

from pathlib import Path

from torch import nn
from torch_geometric.data import Data

from purigraph.training.run import Run, TrainingResult
from purigraph.training.settings import TrainingSettings


def train_classifier(
    model: nn.Module,
    train: Data,
    validation: Data,
    *,
    settings: TrainingSettings | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    regime: str = "vanilla",
) -> TrainingResult:
    r"""Train a classifier inductively: the training graph holds neither validation nor test nodes.

    Minimises the mean loss over the labelled training nodes with Adam and weight decay, one step per epoch on the
    whole graph. With the margin $m = z_y - \max_{c \neq y} z_c$ the losses are `tanh_margin`, $\tanh(-m)$, and
    `cross_entropy`. After every epoch the loss of the validation nodes is measured in the validation graph; the
    epoch where it is lowest is the one that is kept.

    Args:
        model: Any module `(x, edge_index) -> logits (N, C)`; trained in place, from the weights that it has.
        train: x, edge_index, y, train_mask (see `purigraph.graph.splits.inductive_split`).
        validation: x, edge_index, y, val_mask.
        settings: The paper's when left out.
        seed: Of dropout: the same seed gives the same bits.
        checkpoint: A folder to keep the run's state in; an interrupted run goes on from it, to the same bits.
        progress: Whether to report on the error stream.
        regime: A name for the result.

    Raises:
        InputError: When something is missing from the graphs, or training could see what it must not.
        ModelFileError: When the checkpoint is damaged or belongs to another run.
    """
    run = Run(model, train, validation, settings or TrainingSettings(), seed=seed)
    seconds = run.complete(title=f"{type(model).__name__} {regime}", checkpoint=checkpoint, progress=progress)
    return run.result(regime, seconds)
