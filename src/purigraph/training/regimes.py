"""The training regimes by name, and one way into all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from purigraph import classifiers
from purigraph.errors import InputError
from purigraph.graph.splits import InductiveSplit
from purigraph.registry import Registry
from purigraph.training.adversarial import GraphAttack, adversarial_train
from purigraph.training.run import TrainingResult, check_graphs
from purigraph.training.self_training import self_train
from purigraph.training.settings import AdversarialSettings, TrainingSettings
from purigraph.training.supervised import train_classifier


@dataclass(frozen=True)
class Regime:
    """A way to train.

    Attributes:
        run: Called with (build, train, validation) and settings, seed, checkpoint (a folder) and progress by name.
        settings: Their type.
        attacks: Whether `run` also takes an `attack`.
    """

    run: Callable[..., TrainingResult]
    settings: type[TrainingSettings]
    attacks: bool = False


def _vanilla(
    build: Callable[[int], nn.Module],
    train: Data,
    validation: Data,
    *,
    settings: TrainingSettings,
    seed: int,
    checkpoint: str | Path | None,
    progress: bool | None,
) -> TrainingResult:
    return train_classifier(
        build(seed), train, validation, settings=settings, seed=seed, checkpoint=checkpoint, progress=progress
    )


regimes: Registry[Regime] = Registry("regime", "purigraph.regimes")
regimes.register("vanilla")(Regime(_vanilla, TrainingSettings))
regimes.register("self")(Regime(self_train, TrainingSettings))
regimes.register("adversarial")(Regime(adversarial_train, AdversarialSettings, attacks=True))


def train(
    classifier: str,
    regime: str,
    split: InductiveSplit,
    *,
    hyper: Mapping[str, Any] | None = None,
    settings: TrainingSettings | Mapping[str, Any] | None = None,
    attack: GraphAttack | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> TrainingResult:
    """Build a classifier by name and train it by a regime.

    Args:
        classifier: One of `purigraph.classifiers.classifiers.names()`.
        regime: One of `regimes.names()`: `vanilla` learns from the labelled nodes, `self` from pseudo-labels too,
            `adversarial` from those on graphs under attack.
        split: The graphs (see `purigraph.graph.splits.inductive_split`).
        hyper: The classifier's hyper-parameters.
        settings: Of the training: an instance, or some of them by name; the paper's when left out.
        attack: For `adversarial`: used instead of the one in the settings.
        seed: Of initial weights, dropout and attacks: the same seed gives the same bits, and global random state is
            neither read nor changed.
        checkpoint: A folder to keep the state in; an interrupted training goes on from it, to the same bits.
        progress: Whether to report on the error stream.

    Raises:
        UnknownNameError: Listing the names.
        InputError: When a hyper-parameter, a setting or a graph is not what it should be.
    """
    chosen = regimes[regime]
    if attack is not None and not chosen.attacks:
        raise InputError(f"The regime {regime!r} takes no attack; adversarial does.")
    if not isinstance(settings, TrainingSettings):
        settings = chosen.settings(**(settings or {}))
    elif not isinstance(settings, chosen.settings):
        raise InputError(f"The regime {regime!r} takes {chosen.settings.__name__}, not {type(settings).__name__}.")
    if not isinstance(split, InductiveSplit):
        raise InputError(f"split must be an InductiveSplit (purigraph.graph.splits.inductive_split), not {split!r}.")
    check_graphs(split.train, split.validation)
    x = split.train.x
    in_channels, out_channels = x.shape[1], num_classes(split)

    def build(model_seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(model_seed)
            return classifiers.create(classifier, in_channels, out_channels, **(hyper or {})).to(x.device, x.dtype)

    extra = {"attack": attack} if chosen.attacks else {}
    return chosen.run(
        build,
        split.train,
        split.validation,
        settings=settings,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
        **extra,
    )


def num_classes(split: InductiveSplit) -> int:
    """C: one more than the largest label in the labelled nodes, which are the only labels that may be read."""
    labels = [
        split.train.y[split.train.train_mask],
        split.validation.y[split.validation.val_mask],
    ]
    return int(torch.cat(labels).max()) + 1
