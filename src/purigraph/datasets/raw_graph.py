"""What a dataset's reader returns: plain arrays, before they become a PyG `Data`; and helpers to make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, eq=False)
class RawGraph:
    """A graph as NumPy and SciPy arrays; `purigraph.datasets.load` brings it into shape.

    Attributes:
        x: (N, F) features: an array or a SciPy sparse matrix, of any numeric type.
        y: (N,) integer labels.
        arcs: (2, M) node numbers, in any order; directions, duplicates and self-loops do not matter.
        masks: The dataset's own splits, if it has fixed ones: boolean `train_mask`, `val_mask` and `test_mask`, (N,),
            or (N, S) for S splits. Default: none.
    """

    x: Any
    y: NDArray[Any]
    arcs: NDArray[Any]
    masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)


def sorted_unique(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct codes (M,), ascending. Many times faster than `np.unique`, which hashes integers first."""
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=codes[:1] - 1) > 0]


def largest_component(arcs: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    """Return the nodes of the largest connected component, ascending; of several that tie, the one that starts first.

    Shapes: arcs (2, M); self-loops and directions do not matter.
    """
    from scipy.sparse import csgraph  # 0.07 s: only two datasets need it

    adjacency = sparse.coo_array((np.ones(arcs.shape[1], dtype=bool), (arcs[0], arcs[1])), shape=(num_nodes, num_nodes))
    _, component = csgraph.connected_components(adjacency, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())
