"""Chameleon, duplicates removed: Wikipedia pages, few of whose links stay within a class; 10 fixed splits.

O. Platonov et al.: A Critical Look at the Evaluation of GNNs under Heterophily, ICLR 2023.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from purigraph.datasets.base import register
from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.sources import RemoteFile, fetch

FILE = RemoteFile(
    "chameleon/chameleon_filtered.npz",
    "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
    (
        "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/"
        "a431395582e929d88271309716bea4fe24ce6318/data/chameleon_filtered.npz",
    ),
)


@register("chameleon", nodes=890, edges=8854, features=2325, classes=5, homophily=0.23, files=(FILE,))
def read_chameleon(root: Path | None) -> RawGraph:
    """Read the graph, with masks (890, 10): one column per split."""
    with np.load(fetch(FILE, root), allow_pickle=False) as arrays:
        return RawGraph(
            x=arrays["node_features"],
            y=arrays["node_labels"],
            arcs=arrays["edges"].T,
            masks={f"{role}_mask": arrays[f"{role}_masks"].T for role in ("train", "val", "test")},
        )
