"""Training on the labelled nodes alone."""

from __future__ import annotations

from purigraph.training.run import TrainingResult
from purigraph.training.task import Task


def supervised(task: Task) -> TrainingResult:
    r"""Train a classifier inductively: the training graph holds neither validation nor test nodes.

    Minimises the mean loss over the labelled training nodes with Adam and weight decay, one step per epoch on the
    whole graph. After every epoch the loss of the validation nodes is measured in the validation graph; the epoch
    where it is lowest is kept.
    """
    return task.fit(task.build(task.seed), "vanilla")
