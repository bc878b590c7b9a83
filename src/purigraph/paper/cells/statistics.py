"""The statistics of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph import datasets
from purigraph.graph import as_pair_graph
from purigraph.paper.cells.base import CellConfig
from purigraph.runs import Context


class Config(CellConfig):
    """A dataset."""


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Count nodes, undirected edges, features and classes, and the share of edges within a class."""
    data = datasets.load(Config(**config).dataset, seed=None)
    graph = as_pair_graph(data)
    left, right = data.y[graph.pairs]
    return {
        "values": {
            "nodes": graph.num_nodes,
            "edges": graph.num_pairs,
            "features": data.num_features,
            "classes": int(data.y.max()) + 1,
            "homophily": float((left == right).double().mean()),
        }
    }
