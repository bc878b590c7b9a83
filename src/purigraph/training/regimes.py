"""The training regimes by name, and `train`, which runs any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from purigraph import classifiers
from purigraph.errors import InputError
from purigraph.graph.splits import InductiveSplit
from purigraph.numbers import read_seed
from purigraph.purifiers import Purifier
from purigraph.purifiers.base import require_fitted
from purigraph.registry import Registry
from purigraph.training.adversarial import GraphAttack, adversarial
from purigraph.training.consistency import consistency
from purigraph.training.edge_loss import edge_loss
from purigraph.training.purified import OnFactors, purify_split, record_purifier
from purigraph.training.run import TrainingResult, read_graphs
from purigraph.training.self_training import self_training
from purigraph.training.settings import (
    AdversarialSettings,
    ConsistencySettings,
    EdgeLossSettings,
    TrainingSettings,
)
from purigraph.training.supervised import supervised
from purigraph.training.task import Regime, Task

#: A label beyond this is a mistake, and would be found only when memory is full.
MOST_CLASSES = 100_000

registry: Registry[Regime] = Registry("regime", "purigraph.regimes")
names, register = registry.names, registry.register
register("vanilla")(Regime(supervised, TrainingSettings))
register("self")(Regime(self_training, TrainingSettings))
register("edge-loss")(Regime(edge_loss, EdgeLossSettings))
register("consistency")(Regime(consistency, ConsistencySettings, hides_features=True))
register("adversarial")(Regime(adversarial, AdversarialSettings, takes_attack=True))


def train(
    classifier: str | Callable[[int], nn.Module],
    regime: str,
    split: InductiveSplit,
    *,
    hyper: Mapping[str, Any] | None = None,
    settings: TrainingSettings | Mapping[str, Any] | None = None,
    attack: GraphAttack | None = None,
    purifier: Purifier | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> TrainingResult:
    """Train a classifier with a regime.

    Args:
        classifier: One of `purigraph.classifiers.names()`, or a function that makes your own untrained model from a
            seed: any module `(x, edge_index) -> logits (N, C)`.
        regime: One of `names()`: `vanilla` trains on the labelled nodes, `self` also on pseudo-labels, `edge-loss` and
            `adversarial` on both, on graphs that lose edges and on attacked graphs; `consistency` on the labelled
            nodes, so that the answers to all others are alike whatever part of the graph is hidden.
        split: The graphs (see `purigraph.graph.splits.inductive_split`).
        hyper: The hyper-parameters of the classifier.
        settings: The training settings: an instance, or some of them by name. Default: those of the paper.
        attack: For `adversarial`, the attack to use instead of the one in the settings.
        purifier: Train on the graphs as this fitted purifier leaves them, with their weights, as the original Jaccard
            and SVD defences do; the result records it. Not for regimes that attack the training graph. Default: none.
        seed: The seed of initial weights, dropout and attacks; results are bit-identical for the same seed. Global
            random state is neither read nor changed.
        checkpoint: The folder for the state of the run; an interrupted run resumes from it, bit-identically.
        progress: Whether to report progress on the error stream. Default: only if it takes long.

    Raises:
        UnknownNameError: If there is no such classifier or regime; the message lists the known ones.
        InputError: If a hyper-parameter, a setting or a graph is invalid.
        ModelFileError: If the checkpoint is damaged or belongs to another run.
    """
    chosen = registry[regime]
    if attack is not None and not chosen.takes_attack:
        raise InputError(f"The regime {regime!r} takes no attack; only adversarial does.")
    if not isinstance(settings, TrainingSettings):
        settings = chosen.settings(**(settings or {}))
    elif not isinstance(settings, chosen.settings):
        raise InputError(f"The regime {regime!r} takes {chosen.settings.__name__}, not {type(settings).__name__}.")
    if not isinstance(split, InductiveSplit):
        raise InputError(f"split must be an InductiveSplit (purigraph.graph.splits.inductive_split), not {split!r}.")
    if purifier is not None and chosen.takes_attack:
        raise InputError(
            f"The regime {regime!r} attacks the training graph, which a purifier would have changed before: leave "
            "out the purifier, and put it in front of the trained model with purigraph.protect."
        )
    if purifier is not None and require_fitted(purifier).factored and chosen.hides_features:
        raise InputError(
            f"The regime {regime!r} hides features, which a purifier that gives factors would be asked about again "
            "and again: train with another regime, or without the purifier."
        )
    seed = read_seed(seed)
    # Training takes gradients, also if it is called where they are switched off.
    with torch.inference_mode(False), torch.enable_grad():
        train_graph, validation_graph = read_graphs(split.train, split.validation)
        split = replace(split, train=train_graph, validation=validation_graph)
        build = _builder(classifier, split, hyper)
        if purifier is not None and require_fitted(purifier).factored:
            build = OnFactors.builder(build, purifier)
        elif purifier is not None:
            split = purify_split(split, purifier)
        task = Task(build, split.train, split.validation, settings, seed, checkpoint, progress)
        result = chosen.run(task, attack) if chosen.takes_attack else chosen.run(task)
    return result if purifier is None else record_purifier(result, purifier)


def num_classes(split: InductiveSplit) -> int:
    """Return C: one more than the largest label of the labelled nodes, the only labels that may be used."""
    labels = [
        split.train.y[split.train.train_mask],
        split.validation.y[split.validation.val_mask],
    ]
    largest = int(torch.cat(labels).max())
    if largest >= MOST_CLASSES:
        raise InputError(
            f"data.y holds the label {largest}, so that a classifier would need an output for each of {largest + 1} "
            f"classes; at most {MOST_CLASSES:,} are possible. Number the classes from 0."
        )
    return largest + 1


def _builder(
    classifier: str | Callable[[int], nn.Module], split: InductiveSplit, hyper: Mapping[str, Any] | None
) -> Callable[[int], nn.Module]:
    if not isinstance(classifier, str):
        if hyper:
            raise InputError("hyper does not apply to your own model: set its hyper-parameters where it is made.")
        return classifier
    name, x, out_channels = classifier, split.train.x, num_classes(split)

    def build(seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return classifiers.create(name, x.shape[1], out_channels, **(hyper or {})).to(x.device, x.dtype)

    return build
