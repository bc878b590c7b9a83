"""Node classifiers by name: `build("gcn", in_channels, out_channels)`; all called the same way, all saved the same way.

They are modules only: how they are trained is written in `purigraph.training`. A new one is one file: a subclass
of `Classifier` under `@classifiers.register("name")`; in another package, an entry point of the
group `purigraph.classifiers`.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from purigraph.classifiers.appnp import APPNP
from purigraph.classifiers.base import Classifier, classifiers
from purigraph.classifiers.evennet import EvenNet
from purigraph.classifiers.gat import GAT
from purigraph.classifiers.gcn import GCN
from purigraph.classifiers.gprgnn import GPRGNN
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.soft_median import SoftMedianGDC
from purigraph.errors import InputError, ModelFileError
from purigraph.pretrained import local_folder, read_document
from purigraph.registry import canonical

__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "GPRGNN",
    "MLP",
    "Classifier",
    "EvenNet",
    "SoftMedianGDC",
    "build",
    "classifiers",
    "hyper_parameters",
    "load",
    "paper_hyper_parameters",
]


def build(name: str, in_channels: int, out_channels: int, **hyper: Any) -> Classifier:
    """Build an untrained classifier.

    Args:
        name: One of `classifiers.names()`.
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hyper: The classifier's own hyper-parameters; see `hyper_parameters`.

    Raises:
        UnknownNameError: Listing the names.
        InputError: When a hyper-parameter is unknown or out of range.
    """
    cls = classifiers[name]
    known = hyper_parameters(name)
    unknown = sorted(hyper.keys() - known.keys())
    if unknown:
        raise InputError(f"{cls.__name__} has no hyper-parameter {', '.join(unknown)}. It has: {', '.join(known)}.")
    return cls(in_channels, out_channels, **hyper)


def hyper_parameters(name: str) -> dict[str, Any]:
    """A classifier's hyper-parameters and their defaults."""
    parameters = inspect.signature(classifiers[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def paper_hyper_parameters(name: str, dataset: str) -> dict[str, Any]:
    """A classifier's hyper-parameters on a dataset in the paper; the defaults where it names no others.

    >>> paper_hyper_parameters("gcn", "ogbn-arxiv")["num_layers"], paper_hyper_parameters("gcn", "cora")["num_layers"]
    (3, 2)
    """
    return {**hyper_parameters(name), **classifiers[name].paper_hyper.get(canonical(dataset), {})}


def load(folder: str | Path) -> Classifier:
    """Load a saved classifier, whichever it is, from a folder or `hf://owner/name`; strictly (see `Pretrained`)."""
    path = local_folder(folder)
    kind, _, name = read_document(path)["class"].partition("/")
    if kind != "classifier" or name not in classifiers:
        raise ModelFileError(f"{folder} holds no registered classifier, but a {kind}{'/' if name else ''}{name}.")
    return classifiers[name].from_pretrained(path)
