"""Training on the labelled nodes only."""

from __future__ import annotations

from purigraph.training.run import TrainingResult
from purigraph.training.task import Task


def supervised(task: Task) -> TrainingResult:
    r"""Train a classifier inductively: the training graph holds neither validation nor test nodes.

    Minimises the mean loss of the labelled training nodes with Adam and weight decay, with one full-batch step per
    epoch. After every epoch, the loss of the validation nodes is computed in the validation graph; the epoch with the
    lowest loss is kept.
    """
    return task.fit(task.build(task.seed), "vanilla")
