r"""How far an attack's flips reach: $\lambda$ of the paper's Theorem 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph.evaluation.affected import unaffected_share
from purigraph.graph import as_pair_graph
from purigraph.paper.cells import accuracy
from purigraph.paper.models import make_defence
from purigraph.runs import Context


class Config(accuracy.Config):
    """An attack on a network of some layers.

    Attributes:
        layers: The number of layers.
    """

    layers: int = 2


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the share of nodes whose prediction the flips can't have changed, of all nodes and of the test nodes."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    found = accuracy.attacked(chosen, scene, make_defence(chosen.defence, scene))
    (record,) = found.records
    test = scene.split.test
    graph, flips = as_pair_graph(test), record.perturbation
    return {
        "values": {
            "all nodes": unaffected_share(graph, flips, chosen.layers),
            "test nodes": unaffected_share(graph, flips, chosen.layers, targets=test.test_mask),
        },
        "evaluation": found.to_dict(),
        "flips": flips.digest,
    }
