"""Self-training: a first classifier labels what has no label, a second one learns from all of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch_geometric.data import Data

from purigraph.training.run import TrainingResult, features, stamped
from purigraph.training.settings import TrainingSettings
from purigraph.training.supervised import train_classifier

# The second model gets other initial weights than the first one had.
SECOND_MODEL = 1_000_003


def pseudo_label(model: nn.Module, train: Data) -> Data:
    """A copy of the training graph in which every node has a label: its own, or the one that `model` gives it.

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


def first_labels(
    build: Callable[[int], nn.Module],
    train: Data,
    validation: Data,
    *,
    settings: TrainingSettings,
    seed: int,
    checkpoint: str | Path | None,
    progress: bool | None,
) -> tuple[Data, float]:
    """The training graph with labels for all nodes, and the seconds that took; nothing is trained if all have some."""
    if bool(train.train_mask.all()):
        return train, 0.0
    first = train_classifier(
        build(seed),
        train,
        validation,
        settings=settings,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
        regime="first",
    )
    return pseudo_label(first.model, train), first.seconds


def self_train(
    build: Callable[[int], nn.Module],
    train: Data,
    validation: Data,
    *,
    settings: TrainingSettings | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> TrainingResult:
    """Train a first classifier, label the unlabelled training nodes with it, and train the final one on all.

    As `Gosch et al. (2023) <https://arxiv.org/abs/2306.15427>`_ and the paper do: the two are of one kind, every
    pseudo-label is taken, and it counts as much as a true one. Validation uses true labels only.

    Args:
        build: Makes an untrained classifier from a seed.
        train: The training graph (see `train_classifier`).
        validation: The validation graph.
        settings: Of both trainings; the paper's when left out.
        seed: The same seed gives the same bits.
        checkpoint: A folder to keep both runs' state in.
        progress: Whether to report on the error stream.
    """
    settings = settings or TrainingSettings()
    labelled, seconds = first_labels(
        build, train, validation, settings=settings, seed=seed, checkpoint=checkpoint, progress=progress
    )
    result = train_classifier(
        build(seed + SECOND_MODEL),
        labelled,
        validation,
        settings=settings,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
        regime="self",
    )
    return stamped(replace(result, seconds=seconds + result.seconds))
