"""Node classifiers by name: `create("gcn", in_channels, out_channels)`; all are called, saved and loaded the same way.

They are plain modules; training is in `purigraph.training`. To add one, write a file with a subclass of `Classifier`
decorated with `@register("name")`; in another package, declare it as an entry point in the group
`purigraph.classifiers`.
"""

from __future__ import annotations

from purigraph.classifiers.appnp import APPNP
from purigraph.classifiers.base import Classifier, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.evennet import EvenNet
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.classifiers.gat import GAT
from purigraph.classifiers.gcn import GCN
from purigraph.classifiers.gprgnn import GPRGNN
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.rung import RUNG
from purigraph.classifiers.soft_median import SoftMedianGDC

__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "GPRGNN",
    "MLP",
    "RUNG",
    "Classifier",
    "Edges",
    "EvenNet",
    "FirstLayer",
    "SoftMedianGDC",
    "create",
    "load",
    "names",
    "register",
    "registry",
]

create, load, names, register = registry.create, registry.load, registry.names, registry.register
