"""Coauthor Physics: authors who wrote together, words of their papers; a large graph of word counts.

O. Shchur et al.: Pitfalls of Graph Neural Network Evaluation, 2018.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from purigraph.datasets.base import register
from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.sources import RemoteFile, fetch

# The published file is a pickle, which this library does not open, so there is no URL. Ours is a graph file
# (`purigraph.graph.npz`) with sparse features.
FILE = RemoteFile(
    "coauthor_physics/coauthor_physics.npz",
    "68db85370cb84afc92cfc3fb68112a45cdb956744f8efad542e5671b2582ebec",
    hint=(
        "It can't be downloaded: the public file (github.com/EdisonLeeeee/GraphData, commit f8022c2, "
        "datasets/coauthor_phy.npz) is a pickle, which purigraph does not open. If you trust that file, load "
        "it yourself, write its edges, features and labels with purigraph.graph.save_npz, and use the result "
        "with purigraph.graph.load_npz."
    ),
)


@register("coauthor-physics", nodes=34493, edges=247962, features=8415, classes=5, homophily=0.93, files=(FILE,))
def read_coauthor_physics(root: Path | None) -> RawGraph:
    """Read the graph. Its word counts are 1.2 GB as a dense matrix, 14 MB as a CSR tensor (`sparse=True`)."""
    with np.load(fetch(FILE, root), allow_pickle=False) as arrays:
        parts = tuple(arrays[f"x_{part}"] for part in ("data", "indices", "indptr"))
        x = sparse.csr_array(parts, shape=tuple(arrays["x_shape"]))
        return RawGraph(x=x, y=arrays["y"], arcs=arrays["edges"])
