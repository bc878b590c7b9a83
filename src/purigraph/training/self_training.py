"""Self-training: a first classifier labels what has no label, a second one learns from all of it."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import nn
from torch_geometric.data import Data

from purigraph.training.run import TrainingResult, features
from purigraph.training.task import Task

# The second model gets other initial weights than the first one had.
SECOND_MODEL = 1_000_003


def pseudo_label(model: nn.Module, train: Data) -> Data:
    """Return a copy of the training graph in which every node has a label: its own, or the one that `model` predicts.

    `train_mask` then holds all nodes. The labels of nodes outside of it before are not read.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        weight = (train.edge_weight,) if "edge_weight" in train else ()
        predicted = model(features(model, train), train.edge_index, *weight).argmax(1)
    model.train(was_training)
    labelled = copy.copy(train)
    labelled.y = torch.where(train.train_mask, train.y, predicted)
    labelled.train_mask = torch.ones_like(train.train_mask)
    return labelled


def first_labels(task: Task) -> tuple[Data, float]:
    """Return the training graph with labels for all nodes, and the seconds that took.

    Nothing is trained if all nodes have a label already.
    """
    if bool(task.train.train_mask.all()):
        return task.train, 0.0
    first = task.fit(task.build(task.seed), "first")
    return pseudo_label(first.model, task.train), first.seconds


def self_training(task: Task) -> TrainingResult:
    """Train a first classifier, label the unlabelled training nodes with it, and train the final one on all.

    As `Gosch et al. (2023) <https://arxiv.org/abs/2306.15427>`_ and the paper do: the two are of one kind, every
    pseudo-label is taken, and it counts as much as a true one. Validation uses true labels only.
    """
    labelled, seconds = first_labels(task)
    result = replace(task, train=labelled).fit(task.build(task.seed + SECOND_MODEL), "self")
    return replace(result, seconds=seconds + result.seconds)
