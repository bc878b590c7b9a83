"""Purifiers that learn from graphs under attack: the default classifier and the default attack for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from torch import nn
from torch_geometric.data import Data

from purigraph.attacks import PGD, PRBCD, Attack
from purigraph.errors import InputError
from purigraph.graph.splits import InductiveSplit
from purigraph.purifiers import Purifier
from purigraph.training.regimes import train

P = TypeVar("P", bound=Purifier)


def fit_against_attacks(
    purifier: P,
    data: InductiveSplit | Data,
    *,
    classifier: nn.Module | None = None,
    attack: Attack | None = None,
    surrogates: int = 0,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> P:
    """Fit a purifier that `learns_from_attacks`, such as GOOD-AT.

    Args:
        purifier: It is fitted in place.
        data: An inductive split, of which it sees the training graph alone; or a trusted graph as it is.
        classifier: What is attacked. Default: a GCN, trained on the split.
        attack: Default: see `default_attack`.
        surrogates: Train so many further GCNs on the split and attack them in turn, not the classifier. GOOD-AT's
            public code has one for every detector.
        seed: Of everything random.
        checkpoint: A folder to keep the state in; an interrupted run resumes from it.
        progress: Report on the error stream. Default: only if it takes long.
        **settings: Those of the purifier's `fit`.

    Raises:
        InputError: If the purifier learns from no attacks, or if a classifier would have to be trained without a split.

    >>> from purigraph import datasets, purifiers
    >>> from purigraph.graph.splits import inductive_split
    >>> split = inductive_split(datasets.load("synthetic-citation"))
    >>> short = {"epochs": 2, "attack_epochs": 2, "attack_pairs": 3000}
    >>> purifier = fit_against_attacks(purifiers.GOODAT(num_detectors=1), split, **short)
    >>> purifier.is_fitted
    True
    """
    if not purifier.learns_from_attacks:
        raise InputError(f"{type(purifier).__name__} learns from no attacks: call its fit(data).")
    chosen = purifier.fit_settings_class(**settings)  # a typing error should not cost a training
    trusted = data.train if isinstance(data, InductiveSplit) else data
    if (classifier is None or surrogates) and not isinstance(data, InductiveSplit):
        raise InputError(
            "There is no classifier to attack: give a trained one (classifier=...), or an InductiveSplit "
            "(purigraph.graph.splits.inductive_split) to train GCNs on."
        )

    def gcn(number: int) -> nn.Module:
        assert isinstance(data, InductiveSplit)
        folder = None if checkpoint is None else Path(checkpoint) / f"gcn-{number}"
        own_seed = seed + 1_000_003 * number  # the first is the one that `train` makes with this seed
        return train("gcn", "vanilla", data, seed=own_seed, checkpoint=folder, progress=progress).model

    purifier.fit(
        trusted,
        classifier=gcn(0) if classifier is None else classifier,
        attacked=[gcn(number + 1) for number in range(surrogates)] or None,
        attack=attack or default_attack(trusted, **chosen.values()),
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
        **settings,
    )
    return purifier


def default_attack(data: Data, *, attack_epochs: int = 100, attack_pairs: int = 100_000, **_: Any) -> Attack:
    """Return PGD where all pairs of a graph's nodes are few enough, else PRBCD on a large block of them.

    On the 2,295 training nodes of Cora, PGD looks at 2.6 million pairs and takes 0.6 s a step on one core, the block of
    100,000 some 0.05 s. GOOD-AT has 20 attacks of 100 steps: `attack_pairs=3_000_000` makes them PGD on Cora and
    Citeseer, in some 25 minutes in place of two.

    Args:
        data: The graph to be attacked.
        attack_epochs: Steps, of which the last two fifths bring PRBCD's weights to whole flips (a third of PGD's).
        attack_pairs: Most pairs to look at.
    """
    nodes = int(data.num_nodes or 0)
    if nodes * (nodes - 1) // 2 <= attack_pairs:
        return PGD(epochs=attack_epochs)
    rounding = 2 * attack_epochs // 5
    return PRBCD(epochs=attack_epochs - rounding, fine_tune_epochs=rounding, block_size=attack_pairs)
