"""Training of classifiers: on labelled nodes, on pseudo-labels, on graphs under attack.

>>> from purigraph import datasets, training
>>> from purigraph.graph.splits import inductive_split
>>> split = inductive_split(datasets.load("synthetic-citation"))
>>> result = training.train("gcn", "vanilla", split, settings={"max_epochs": 5})
>>> result.epochs
5

Which of the settings that the paper's text and its code disagree on serve best was decided on validation nodes:
see `TrainingSettings`.
"""

from purigraph.training.adversarial import GraphAttack, adversarial_train, graph_attack
from purigraph.training.regimes import Regime, regimes, train
from purigraph.training.run import TrainingResult
from purigraph.training.self_training import pseudo_label, self_train
from purigraph.training.settings import PROFILES, AdversarialSettings, AttackSettings, TrainingSettings
from purigraph.training.supervised import train_classifier

__all__ = [
    "PROFILES",
    "AdversarialSettings",
    "AttackSettings",
    "GraphAttack",
    "Regime",
    "TrainingResult",
    "TrainingSettings",
    "adversarial_train",
    "graph_attack",
    "pseudo_label",
    "regimes",
    "self_train",
    "train",
    "train_classifier",
]
