"""Coauthor Physics: authors who wrote together, words of their papers; a large graph of word counts.

O. Shchur et al.: Pitfalls of Graph Neural Network Evaluation, 2018.
"""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from purigraph.datasets.catalogue import register
from purigraph.datasets.sources import RemoteFile, fetch
from purigraph.graph.npz import load_npz

# The published file is a pickle, which this library doesn't open, so there is no URL to give here.
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
def read_coauthor_physics(root: Path | None, *, sparse: bool) -> Data:
    """Word counts: 1.2 GB as a dense matrix, 14 MB as a CSR tensor (`sparse=True`)."""
    return load_npz(fetch(FILE, root), sparse=sparse)
