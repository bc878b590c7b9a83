"""purigraph: purify a graph that someone hostile may have edited, before a graph neural network sees it.

>>> import purigraph as pg
>>> data = pg.datasets.load("synthetic-citation")
>>> purifier = pg.GPRGAE(hops=2, node_channels=8, edge_channels=8).fit(data, epochs=3)
>>> clean = purifier(data)
>>> bool(((clean.edge_weight >= 0) & (clean.edge_weight <= 1)).all())
True
"""

from purigraph import attacks, classifiers, datasets, graph, purifiers, training
from purigraph._version import __version__
from purigraph.graph import PairGraph
from purigraph.protect import Protected, protect
from purigraph.purifiers import GPRGAE, Purifier

__all__ = [
    "GPRGAE",
    "PairGraph",
    "Protected",
    "Purifier",
    "__version__",
    "attacks",
    "classifiers",
    "datasets",
    "graph",
    "protect",
    "purifiers",
    "training",
]
