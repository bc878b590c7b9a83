"""purigraph: purify a graph that someone hostile may have edited, before a graph neural network sees it.

>>> import purigraph as pg
>>> data = pg.datasets.load("synthetic-citation")
>>> purifier = pg.GPRGAE(hops=2, node_channels=8, edge_channels=8).fit(data, epochs=3)
>>> clean = purifier(data)
>>> bool(((clean.edge_weight >= 0) & (clean.edge_weight <= 1)).all())
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from purigraph._version import __version__

if TYPE_CHECKING:
    from purigraph import attacks, audit, classifiers, datasets, evaluation, graph, losses, purifiers, report, training
    from purigraph.anchored import Anchored
    from purigraph.anchors import Anchor, Votes
    from purigraph.evaluation import evaluate, worst_case
    from purigraph.graph import PairGraph
    from purigraph.protection import Protected, protect
    from purigraph.purifiers import GPRGAE, SVD, Agreement, Chain, Companions, Jaccard, Purifier

# Where every public name lives. They are imported when first used: PyTorch and PyG take seconds, which
# `purigraph --help` and shell completion should not pay.
_HOMES = {
    "Chain": "purigraph.purifiers",
    "Anchor": "purigraph.anchors",
    "Anchored": "purigraph.anchored",
    "GPRGAE": "purigraph.purifiers",
    "Agreement": "purigraph.purifiers",
    "Companions": "purigraph.purifiers",
    "Jaccard": "purigraph.purifiers",
    "PairGraph": "purigraph.graph",
    "Protected": "purigraph.protection",
    "Purifier": "purigraph.purifiers",
    "SVD": "purigraph.purifiers",
    "Votes": "purigraph.anchors",
    "attacks": "",
    "audit": "",
    "classifiers": "",
    "datasets": "",
    "evaluate": "purigraph.evaluation",
    "evaluation": "",
    "graph": "",
    "losses": "",
    "protect": "purigraph.protection",
    "purifiers": "",
    "report": "",
    "training": "",
    "worst_case": "purigraph.evaluation",
}

__all__ = [
    "GPRGAE",
    "SVD",
    "Agreement",
    "Anchor",
    "Anchored",
    "Chain",
    "Companions",
    "Jaccard",
    "PairGraph",
    "Protected",
    "Purifier",
    "Votes",
    "__version__",
    "attacks",
    "audit",
    "classifiers",
    "datasets",
    "evaluate",
    "evaluation",
    "graph",
    "losses",
    "protect",
    "purifiers",
    "report",
    "training",
    "worst_case",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'purigraph' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(import_module(home), name) if home else import_module(f"purigraph.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
