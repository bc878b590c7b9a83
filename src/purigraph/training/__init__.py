"""Training of classifiers: on labelled nodes, on pseudo-labels, and on attacked graphs.

>>> from purigraph import datasets, training
>>> from purigraph.graph.splits import inductive_split
>>> split = inductive_split(datasets.load("synthetic-citation"))
>>> result = training.train("gcn", "vanilla", split, settings={"epochs": 5})
>>> result.epochs_run
5

A custom regime is a function of a `Task`, registered with `register("name")(Regime(function, TrainingSettings))` or
through the entry-point group `purigraph.regimes`.
"""

from purigraph.training.adversarial import GraphAttack, graph_attack
from purigraph.training.against_attacks import fit_against_attacks
from purigraph.training.all_labels import AllLabels
from purigraph.training.regimes import names, register, registry, train
from purigraph.training.run import TrainingResult
from purigraph.training.self_training import pseudo_label
from purigraph.training.settings import (
    PROFILES,
    AdversarialSettings,
    AttackSettings,
    ConsistencySettings,
    EdgeLossSettings,
    TrainingSettings,
)
from purigraph.training.task import Regime, Task
from purigraph.training.to_answers import fit_to_answers

__all__ = [
    "PROFILES",
    "AdversarialSettings",
    "AllLabels",
    "AttackSettings",
    "ConsistencySettings",
    "EdgeLossSettings",
    "GraphAttack",
    "Regime",
    "Task",
    "TrainingResult",
    "TrainingSettings",
    "fit_against_attacks",
    "fit_to_answers",
    "graph_attack",
    "names",
    "pseudo_label",
    "register",
    "registry",
    "train",
]
