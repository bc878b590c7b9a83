"""The border: whatever comes in is checked here and becomes a `PairGraph`; what goes out fits the caller.

Nothing else in the library has to ask whether an edge list is sorted, symmetric, weighted or sane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import GraphError
from purigraph.graph.pair_graph import PairGraph


@dataclass(frozen=True)
class Entries:
    """How the rows of a caller's edge list map onto the pairs of a `PairGraph`.

    Attributes:
        pair: (M,) int64, the pair of every entry; -1 for a self-loop, which no purifier looks at.
        weight: (M,) the weights that came in (ones where there were none).
    """

    pair: Tensor
    weight: Tensor

    def spread(self, pair_weight: Tensor) -> Tensor:
        """One weight per entry, in the caller's order; self-loops keep theirs. Differentiable."""
        if pair_weight.numel() == 0:
            return self.weight
        spread = pair_weight[self.pair.clamp(min=0)]
        is_pair = self.pair >= 0
        # Without self-loops nothing of the weights that came in is in the result, nor may autograd think so.
        return spread if bool(is_pair.all()) else torch.where(is_pair, spread, self.weight.to(spread.dtype))

    def collect(self, values: Tensor, num_pairs: int) -> Tensor:
        """One value per pair, the mean over its entries; self-loops are left out. Differentiable."""
        is_pair = self.pair >= 0
        pair, values = self.pair[is_pair], values[is_pair]
        count = torch.bincount(pair, minlength=num_pairs).to(values.dtype)
        return values.new_zeros(num_pairs).index_add(0, pair, values) / count


def read_edge_index(
    edge_index: Tensor, edge_weight: Tensor | None = None, num_nodes: int | None = None
) -> tuple[PairGraph, Entries]:
    """Turn PyG's edge list into a `PairGraph`, with the way back.

    Each undirected edge stands in it once (in either direction) or twice (in both); the order is free.
    Self-loops are carried along untouched. Gradients flow from the pair's weight to all its entries.

    Args:
        edge_index: (2, M) integer.
        edge_weight: (M,) finite and not negative, the same in both directions; ones when left out.
        num_nodes: N; the largest index plus one when left out.

    Raises:
        GraphError: naming the first offending column and what to do about it.
    """
    _check_shape(edge_index, edge_weight)
    edge_index = edge_index.long()
    num_entries = edge_index.shape[1]
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if num_entries else 0
    _check_range(edge_index, num_nodes)
    if edge_weight is None:
        edge_weight = torch.ones(num_entries, device=edge_index.device)
    else:
        _check_weight(edge_weight)

    row, col = edge_index
    code = torch.minimum(row, col) * num_nodes + torch.maximum(row, col)
    is_loop = row == col
    off_diagonal = (~is_loop).nonzero().squeeze(1)
    codes, position = torch.unique(code[off_diagonal], return_inverse=True)
    pair = torch.full((num_entries,), -1, dtype=torch.int64, device=edge_index.device)
    pair[off_diagonal] = position

    forward = (row < col)[off_diagonal]
    num_forward = torch.bincount(position[forward], minlength=len(codes))
    num_backward = torch.bincount(position[~forward], minlength=len(codes))
    _check_multiplicity(edge_index, off_diagonal, position, forward, num_forward, num_backward)

    given = edge_weight[off_diagonal]
    multiplicity = (num_forward + num_backward).to(given.dtype)
    weight = given.new_zeros(len(codes)).index_add(0, position, given) / multiplicity
    _check_symmetric(edge_index, off_diagonal, position, given, weight)
    graph = PairGraph.from_codes(num_nodes, codes, weight)
    return graph, Entries(pair, edge_weight)


def read_data(data: Data) -> tuple[PairGraph, Entries]:
    """Turn a PyG `Data` (its `edge_index` and, if there, `edge_weight`) into a `PairGraph`."""
    if data.edge_index is None:
        raise GraphError("data.edge_index is missing: a graph without edges has an edge_index of shape (2, 0).")
    weight = data.edge_weight if "edge_weight" in data else None
    return read_edge_index(data.edge_index, weight, data.num_nodes)


def read_scipy(adjacency: Any) -> PairGraph:
    """Turn a SciPy sparse adjacency (symmetric, or triangular with each edge once) into a `PairGraph`."""
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(f"An adjacency matrix is square; this one has shape {adjacency.shape}.")
    coo = sparse.coo_array(adjacency)
    coo.sum_duplicates()
    edge_index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    value = np.asarray(coo.data)
    weight = torch.from_numpy(value if value.dtype == np.float64 else value.astype(np.float32))
    return read_edge_index(edge_index, weight, coo.shape[0])[0]


def read_networkx(graph: Any, weight: str = "weight") -> PairGraph:
    """Turn an undirected networkx graph into a `PairGraph`; nodes are numbered in the graph's own order."""
    if graph.is_directed() or graph.is_multigraph():
        raise GraphError(
            f"A purifier needs a simple undirected graph, not a {type(graph).__name__}: "
            "convert it with networkx.Graph(graph.to_undirected()) first."
        )
    number = {node: position for position, node in enumerate(graph)}
    edges = [(number[u], number[v], float(w)) for u, v, w in graph.edges(data=weight, default=1.0)]
    edge_index = torch.tensor([edge[:2] for edge in edges], dtype=torch.int64).reshape(-1, 2).t()
    return read_edge_index(edge_index, torch.tensor([edge[2] for edge in edges]), len(number))[0]


def as_pair_graph(graph: Any) -> PairGraph:
    """Turn a `PairGraph`, PyG `Data`, edge_index, SciPy sparse or networkx graph into a `PairGraph`."""
    if isinstance(graph, PairGraph):
        return graph
    if isinstance(graph, Data):
        return read_data(graph)[0]
    if isinstance(graph, Tensor):
        return read_edge_index(graph)[0]
    if sparse.issparse(graph):
        return read_scipy(graph)
    if hasattr(graph, "is_multigraph"):
        return read_networkx(graph)
    raise GraphError(
        f"A graph can be a PairGraph, a PyG Data, an edge_index tensor, a SciPy sparse matrix or a networkx "
        f"graph, not a {type(graph).__name__}."
    )


def to_scipy(graph: PairGraph) -> Any:
    """The symmetric adjacency as a SciPy CSR array."""
    csr = graph.csr
    weight = graph.weight.detach()[csr.pair.long()].cpu().numpy()
    shape = (graph.num_nodes, graph.num_nodes)
    return sparse.csr_array((weight, csr.col.cpu().numpy(), csr.rowptr.cpu().numpy()), shape=shape)


def _check_shape(edge_index: Tensor, edge_weight: Tensor | None) -> None:
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        found = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise GraphError(f"edge_index must be a tensor of shape (2, number of edges), not {found}.")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise GraphError(f"edge_index must hold integers, not {edge_index.dtype}.")
    if edge_weight is None:
        return
    if edge_weight.shape != (edge_index.shape[1],):
        raise GraphError(
            f"edge_weight must have one entry per column of edge_index, shape ({edge_index.shape[1]},), "
            f"not {tuple(edge_weight.shape)}."
        )
    if not edge_weight.is_floating_point():
        raise GraphError(f"edge_weight must be floating point, not {edge_weight.dtype}: use edge_weight.float().")


def _check_range(edge_index: Tensor, num_nodes: int) -> None:
    outside = ((edge_index < 0) | (edge_index >= num_nodes)).any(0)
    if outside.any():
        first = int(outside.nonzero()[0])
        raise GraphError(
            f"edge_index column {first} is {edge_index[:, first].tolist()}, but there are {num_nodes} nodes: "
            f"indices run from 0 to {num_nodes - 1} ({int(outside.sum())} columns are outside)."
        )


def _check_weight(edge_weight: Tensor) -> None:
    bad = ~(edge_weight.detach() >= 0) | edge_weight.detach().isinf()
    if bad.any():
        first = int(bad.nonzero()[0])
        raise GraphError(
            f"edge_weight[{first}] is {float(edge_weight[first].detach())}: weights must be finite and not "
            f"negative ({int(bad.sum())} are not)."
        )


def _check_multiplicity(
    edge_index: Tensor,
    off_diagonal: Tensor,
    position: Tensor,
    forward: Tensor,
    num_forward: Tensor,
    num_backward: Tensor,
) -> None:
    repeated = torch.where(forward, num_forward[position], num_backward[position]) > 1
    if repeated.any():
        column = int(off_diagonal[repeated.nonzero()[0]])
        raise GraphError(
            f"edge {edge_index[:, column].tolist()} (column {column}) is listed more than once: "
            "merge duplicates with torch_geometric.utils.coalesce first."
        )
    single = (num_forward + num_backward) == 1
    if single.any() and not single.all():
        column = int(off_diagonal[single[position].nonzero()[0]])
        raise GraphError(
            f"edge {edge_index[:, column].tolist()} (column {column}) has no reverse although other edges "
            "have: this graph is directed. Make it undirected with torch_geometric.utils.to_undirected first."
        )


def _check_symmetric(edge_index: Tensor, off_diagonal: Tensor, position: Tensor, given: Tensor, weight: Tensor) -> None:
    mean = weight.detach()[position]
    apart = (given.detach() - mean).abs() > 1e-5 * mean.abs() + 1e-8
    if apart.any():
        column = int(off_diagonal[apart.nonzero()[0]])
        raise GraphError(
            f"edge {edge_index[:, column].tolist()} (column {column}) has two different weights: "
            "an undirected graph has one weight per edge. Average them with "
            "torch_geometric.utils.to_undirected(..., reduce='mean')."
        )
