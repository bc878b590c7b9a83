"""A dataset: two rings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from purigraph.datasets import RawGraph, register


@register("outside-ring", nodes=120, edges=120, features=4, classes=2, homophily=1.0)
def read_ring(root: Path | None) -> RawGraph:
    """Two rings of 60 nodes; features tell the ring, faintly."""
    node = np.arange(120)
    follower = np.where(node % 60 == 59, node - 59, node + 1)
    label = (node >= 60).astype(np.int64)
    x = np.random.default_rng(0).normal(size=(120, 4)) + label[:, None]
    return RawGraph(x=x.astype(np.float32), y=label, arcs=np.stack([node, follower]))
