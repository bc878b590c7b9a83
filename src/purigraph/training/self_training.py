"""Self-training: a first classifier labels the unlabelled nodes, and a second one is trained on all nodes."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import nn
from torch_geometric.data import Data

from purigraph.modes import evaluation_mode
from purigraph.training.run import TrainingResult, features
from purigraph.training.task import Task

# Added to the seed, so the second model has other initial weights than the first one.
SECOND_MODEL = 1_000_003


def pseudo_label(model: nn.Module, train: Data) -> Data:
    """Return a copy of the training graph in which every node has a label: its own, or the prediction of `model`.

    Its `train_mask` contains all nodes. Labels of nodes outside the original `train_mask` are not used.
    """
    with evaluation_mode(model), torch.no_grad():
        weight = (train.edge_weight,) if "edge_weight" in train else ()
        predicted = model(features(model, train), train.edge_index, *weight).argmax(1)
    labelled = copy.copy(train)
    labelled.y = torch.where(train.train_mask, train.y, predicted)
    labelled.train_mask = torch.ones_like(train.train_mask)
    return labelled


def first_labels(task: Task) -> tuple[Data, float]:
    """Return the training graph with labels for all nodes, and the seconds that it took.

    Nothing is trained if all nodes are already labelled.
    """
    if bool(task.train.train_mask.all()):
        return task.train, 0.0
    first = task.fit(task.build(task.seed), "first")
    return pseudo_label(first.model, task.train), first.seconds


def self_training(task: Task) -> TrainingResult:
    """Train a first classifier, label the unlabelled training nodes with it, and train the final one on all nodes.

    As in `Gosch et al. (2023) <https://arxiv.org/abs/2306.15427>`_ and the paper, both classifiers are of the same
    kind, and every pseudo-label is used, with the same weight as a true label. Validation uses only true labels.
    """
    labelled, seconds = first_labels(task)
    result = replace(task, train=labelled).fit(task.build(task.seed + SECOND_MODEL), "self")
    return replace(result, seconds=seconds + result.seconds)
