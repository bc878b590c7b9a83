"""Citeseer and Cora-ML: CSR adjacency and attributes in an `.npz`, of which the largest component is taken.

A. Bojchevski, S. Günnemann: Deep Gaussian Embedding of Graphs, ICLR 2018. The copies are those of S. Geisler
et al.: Robustness of Graph Neural Networks at Scale, NeurIPS 2021.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from purigraph.datasets.base import register
from purigraph.datasets.raw_graph import RawGraph, largest_component
from purigraph.datasets.sources import RemoteFile, fetch

REPOSITORY = "https://raw.githubusercontent.com/sigeisler/robustness_of_gnns_at_scale"


def _file(name: str, sha256: str) -> RemoteFile:
    urls = tuple(f"{REPOSITORY}/{revision}/data/{name}.npz" for revision in ("d28a9a2", "HEAD"))
    return RemoteFile(f"{name}/{name}.npz", sha256, urls)


CITESEER = _file("citeseer", "8d8aa684f48b8f6d9103b5c58a538cd34ef6af58c70dab4d8ad851f1e67161b1")
CORA_ML = _file("cora_ml", "46b98cabc9c22c09de0d30140fbf68d004b21d2f05e234feb96ba6e84ec7c86a")


@register("citeseer", nodes=2110, edges=3668, features=3703, classes=6, homophily=0.73, files=(CITESEER,))
def read_citeseer(root: Path | None) -> RawGraph:
    """Read the graph: computer-science papers; 0/1 words."""
    return _read(CITESEER, root)


@register("cora-ml", nodes=2810, edges=7981, features=2879, classes=7, homophily=0.78, files=(CORA_ML,))
def read_cora_ml(root: Path | None) -> RawGraph:
    """Read the graph: machine-learning papers; weighted words."""
    return _read(CORA_ML, root)


def _read(file: RemoteFile, root: Path | None) -> RawGraph:
    # The archive also holds pickled names and metadata. They are not needed, and allow_pickle stays off.
    with np.load(fetch(file, root), allow_pickle=False) as arrays:
        adjacency, attributes = (
            sparse.csr_array(
                tuple(arrays[f"{matrix}.{part}"] for part in ("data", "indices", "indptr")),
                shape=tuple(arrays[f"{matrix}.shape"]),
            )
            for matrix in ("adj_matrix", "attr_matrix")
        )
        labels = arrays["labels"]
    # Neither self-loops nor directions change the component.
    nodes = largest_component(np.stack(adjacency.nonzero()), adjacency.shape[0])
    arcs = np.stack(adjacency[nodes][:, nodes].nonzero())
    return RawGraph(x=attributes[nodes], y=labels[nodes], arcs=arcs)
