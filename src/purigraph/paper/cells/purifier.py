"""How well a purifier tells edges apart, without any classifier's help, and what it costs a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from purigraph.evaluation import model_accuracy
from purigraph.graph import as_pair_graph
from purigraph.graph.injection import inject
from purigraph.metrics import ranking_scores
from purigraph.paper.cells.accuracy import prediction_cost
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import fitted_purifier, trained_classifier
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import ClassifierSpec, PurifierSpec
from purigraph.protection import protect
from purigraph.runs import Context

_INJECTED_SHARE = 0.5


class Config(CellConfig):
    """A purifier, and a classifier to put it in front of.

    Attributes:
        purifier: The purifier.
        classifier: The classifier.
    """

    purifier: PurifierSpec
    classifier: ClassifierSpec = ClassifierSpec(name="gcn")

    def resolved(self, profile: Profile) -> Config:
        """Resolve the models."""
        return self.model_copy(
            update={
                "purifier": self.purifier.resolved(profile, self.dataset),
                "classifier": self.classifier.resolved(profile, self.dataset),
            }
        )


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return AUC and AP on validation edges and for injected edges of the test graph, and clean accuracies."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    purifier, record = fitted_purifier(chosen.purifier, scene, chosen.classifier)
    classifier = trained_classifier(chosen.classifier, scene)[0]
    test = scene.split.test
    graph = as_pair_graph(test)
    mixed = inject(graph, round(_INJECTED_SHARE * graph.num_pairs), torch.Generator().manual_seed(chosen.seed))
    with torch.no_grad():
        weight = purifier.purify(test.x, mixed.graph).weight
    auc, ap = ranking_scores(weight[mixed.is_original], weight[~mixed.is_original])
    protected = protect(classifier, purifier)
    training = record.get("training") or {}
    return {
        "values": {
            "validation AUC": training.get("auc"),
            "validation AP": training.get("ap"),
            "injected AUC": auc,
            "injected AP": ap,
            "clean": model_accuracy(classifier, test),
            "purified": model_accuracy(protected, test),
        },
        "costs": {
            "purifier": {"seconds": record.get("seconds"), "megabytes": record.get("megabytes")},
            "prediction": prediction_cost(protected, test),
        },
        "parameters": sum(parameter.numel() for parameter in purifier.parameters()),
        "training": training,
    }
