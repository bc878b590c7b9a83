"""From a `RawGraph` to a PyG `Data`: the only place in this package that needs PyTorch and PyG.

They are imported when a graph is assembled, not before: it takes seconds, and `purigraph datasets` does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse as scipy_sparse

from purigraph.datasets.raw_graph import RawGraph, sorted_unique

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data


def assemble(raw: RawGraph, *, sparse: bool = False) -> Data:
    """Return a `Data` with float32 `x` (N, F), int64 `y` (N,), `edge_index` (2, 2E) and the masks, if there are any.

    `edge_index` has both directions of every edge, sorted; no self-loops and no duplicates.

    Args:
        raw: The graph as its reader returned it.
        sparse: Return `x` as a torch CSR tensor.
    """
    import torch
    from torch_geometric.data import Data

    data = Data(
        x=_features(raw.x, sparse=sparse),
        y=torch.from_numpy(raw.y.astype(np.int64)),
        edge_index=_undirected(raw.arcs, raw.x.shape[0]),
    )
    for name, mask in raw.masks.items():
        data[name] = torch.from_numpy(np.array(mask, order="C"))
    return data


def _features(x: Any, *, sparse: bool) -> Tensor:
    import torch

    from purigraph.graph.sparse_features import csr_from_scipy

    if sparse:
        return csr_from_scipy(scipy_sparse.csr_array(x).astype(np.float32))
    dense = x.toarray() if scipy_sparse.issparse(x) else x
    return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))


def _undirected(arcs: NDArray[Any], num_nodes: int) -> Tensor:
    import torch

    from purigraph.graph import PairGraph, pair_codes

    codes = sorted_unique(pair_codes.encode(arcs[0], arcs[1], num_nodes)[arcs[0] != arcs[1]])
    return PairGraph.from_codes(num_nodes, torch.from_numpy(codes)).edge_index()[0]
