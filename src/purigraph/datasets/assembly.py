"""From raw arrays to a `Data`: undirected, without self-loops and duplicates, in the types models take."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse as scipy_sparse
from scipy.sparse import csgraph
from torch import Tensor
from torch_geometric.data import Data

from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.sparse_features import csr_from_scipy


def assemble(x: Any, y: NDArray[Any], arcs: NDArray[Any], *, sparse: bool = False) -> Data:
    """A `Data` with float32 `x` (N, F), int64 `y` (N,) and `edge_index` (2, 2E), both directions, sorted.

    Args:
        x: (N, F), an array or a SciPy sparse matrix.
        y: (N,) labels.
        arcs: (2, M) in any order; directions, duplicates and self-loops are dropped.
        sparse: Give `x` as a torch CSR tensor.
    """
    return Data(
        x=features(x, sparse=sparse),
        y=torch.from_numpy(y.astype(np.int64)),
        edge_index=undirected(arcs, x.shape[0]),
    )


def features(x: Any, *, sparse: bool) -> Tensor:
    """Features (N, F) as float32: a dense tensor, or a torch CSR tensor."""
    if sparse:
        return csr_from_scipy(scipy_sparse.csr_array(x).astype(np.float32))
    dense = x.toarray() if scipy_sparse.issparse(x) else x
    return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))


def undirected(arcs: NDArray[Any], num_nodes: int) -> Tensor:
    """The edge_index (2, 2E) of the simple undirected graph under `arcs` (2, M): both directions, sorted."""
    low = np.minimum(arcs[0], arcs[1]).astype(np.int64)
    high = np.maximum(arcs[0], arcs[1]).astype(np.int64)
    off_diagonal = low < high
    codes = sorted_unique(low[off_diagonal] * num_nodes + high[off_diagonal])
    return PairGraph.from_codes(num_nodes, torch.from_numpy(codes)).edge_index()[0]


def sorted_unique(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct codes (M,), ascending. Many times faster than `np.unique`, which hashes integers first."""
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=codes[:1] - 1) > 0]


def largest_component(arcs: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    """The nodes of the largest connected component, ascending; the one that starts first if several tie."""
    adjacency = scipy_sparse.coo_array(
        (np.ones(arcs.shape[1], dtype=bool), (arcs[0], arcs[1])), shape=(num_nodes, num_nodes)
    )
    _, component = csgraph.connected_components(adjacency, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())
