"""The empirical Lipschitz constant of a purifier's step, and the rate of convergence beside Theorem 2's bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field

from purigraph.evaluation import convergence, lipschitz_constant
from purigraph.graph import as_pair_graph
from purigraph.graph.injection import inject
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import fitted_purifier, trained_classifier
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import ClassifierSpec, PurifierSpec
from purigraph.runs import Context


class Config(CellConfig):
    """A purifier that works in steps.

    Attributes:
        purifier: The purifier.
        classifier: A classifier, whose accuracy is recorded after every step.
        samples: The number of pairs of graphs for the Lipschitz constant.
        injection: The share of edges that are injected at the most; the rate is measured with as many.
        alphas: The step sizes.
    """

    purifier: PurifierSpec
    classifier: ClassifierSpec = ClassifierSpec(name="gcn")
    samples: int = 100
    injection: float = 0.5
    alphas: list[float] = Field(default_factory=lambda: [0.3, 0.5, 0.7, 1.0])

    def resolved(self, profile: Profile) -> Config:
        """Resolve the models and, for a trial, the number of samples."""
        changes: dict[str, Any] = {
            "purifier": self.purifier.resolved(profile, self.dataset),
            "classifier": self.classifier.resolved(profile, self.dataset),
        }
        return self.model_copy(update={**changes, "samples": 2} if profile.trial else changes)


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    r"""Return $\hat L$, and for every step size the mean factor between successive changes and its bound.

    The rate is measured on the test graph with injected edges, the bound is $1 - \alpha (1 - \hat L)$.
    """
    chosen = Config(**config)
    scene = chosen.scene(context)
    purifier: Any = fitted_purifier(chosen.purifier, scene)[0]
    classifier = trained_classifier(chosen.classifier, scene)[0]
    test = scene.split.test
    constant = lipschitz_constant(
        purifier, test.x, test, samples=chosen.samples, injection=chosen.injection, seed=chosen.seed
    )
    graph = as_pair_graph(test)
    count = round(chosen.injection * graph.num_pairs)
    injected = test.clone()
    injected.edge_index, injected.edge_weight = inject(
        graph, count, torch.Generator().manual_seed(chosen.seed)
    ).graph.edge_index()
    steps = convergence(classifier, purifier, injected, alphas=chosen.alphas, lipschitz=constant)
    values: dict[str, float | None] = {"": constant}
    for one in steps:
        values[f"rate at alpha {one.alpha:g}"] = None if math.isnan(one.rate) else one.rate
        values[f"bound at alpha {one.alpha:g}"] = one.bound
    return {"values": values, "steps": {f"{one.alpha:g}": one.relative_change for one in steps}}
