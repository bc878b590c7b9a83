"""The border of the library: checks user input, converts it to a `PairGraph`, and converts results back.

No other module has to check whether an edge list is sorted, symmetric, weighted or valid.
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
from purigraph.graph.edge_structure import Undirected, check_form, first_column, structure_of
from purigraph.graph.edge_weights import check_weight_form, check_weight_range
from purigraph.graph.pair_codes import read_num_nodes
from purigraph.graph.pair_graph import PairGraph


@dataclass(frozen=True)
class Entries:
    """How the entries of a caller's edge list map to the pairs of a `PairGraph`.

    Attributes:
        undirected: The undirected structure of the list.
        weight: (M,) the weights passed in (ones if there were none).
    """

    undirected: Undirected
    weight: Tensor

    @property
    def pair(self) -> Tensor:
        """Return the pair of every entry, (M,) int64; -1 for a self-loop, which purifiers ignore."""
        return self.undirected.pair

    def spread(self, pair_weight: Tensor) -> Tensor:
        """Return one weight per entry, in the caller's order; self-loops keep their weights. Differentiable."""
        if pair_weight.numel() == 0:
            return self.weight
        if self.undirected.off_diagonal is None:
            # Without self-loops, the result does not depend on the weights passed in; nor may it for autograd.
            return pair_weight.index_select(0, self.pair)
        spread = pair_weight.index_select(0, self.pair.clamp(min=0))
        return torch.where(self.pair >= 0, spread, self.weight.to(spread.dtype))

    def collect(self, values: Tensor) -> Tensor:
        """Return one value per pair, the mean over its entries; self-loops are ignored. Differentiable."""
        return _mean_per_pair(values, self.undirected)


def read_edge_index(
    edge_index: Tensor, edge_weight: Tensor | None = None, num_nodes: int | None = None
) -> tuple[PairGraph, Entries]:
    """Convert PyG's edge list to a `PairGraph`, together with the mapping back.

    Each undirected edge is listed once (in either direction) or twice (in both), in any order. Self-loops are kept
    unchanged. Gradients flow from a pair's weight to all its entries.

    Args:
        edge_index: (2, M) integer. Its structure is computed once per tensor (see `structure_of`).
        edge_weight: (M,) finite, not negative and at most 1e15, the same in both directions. Default: ones.
        num_nodes: N, the number of nodes. Default: the largest index plus one.

    Raises:
        GraphError: If the list is malformed. The message names the first offending column and what to do about it.
    """
    check_form(edge_index)
    if edge_weight is not None:
        check_weight_form(edge_weight, edge_index.shape[1])
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    num_nodes = read_num_nodes(num_nodes)
    structure = structure_of(edge_index, num_nodes)
    if edge_weight is None:
        undirected, device = structure.undirected, edge_index.device
        graph = undirected.graph.with_weight(torch.ones(undirected.graph.num_pairs, device=device))
        return graph, Entries(undirected, torch.ones(edge_index.shape[1], device=device))
    check_weight_range(edge_weight)
    undirected = structure.undirected
    if edge_weight.dtype.itemsize < 4:
        # In half precision, the sum of both directions can overflow; the mean can't.
        weight = _mean_per_pair(edge_weight.float(), undirected).to(edge_weight.dtype)
    else:
        weight = _mean_per_pair(edge_weight, undirected)
    _check_symmetric(edge_index, edge_weight, weight, undirected)
    return undirected.graph.with_weight(weight), Entries(undirected, edge_weight)


def read_data(data: Data) -> tuple[PairGraph, Entries]:
    """Convert a PyG `Data` (its `edge_index` and, if present, `edge_weight`) to a `PairGraph`."""
    if data.edge_index is None:
        raise GraphError("data.edge_index is missing: a graph without edges has an edge_index of shape (2, 0).")
    weight = data.edge_weight if "edge_weight" in data else None
    return read_edge_index(data.edge_index, weight, count_nodes(data))


def count_nodes(data: Data) -> int:
    """Return N, the number of nodes of a PyG `Data`, which PyG works out from the tensors that it holds.

    Raises:
        GraphError: If they don't say, as `edge_index` or `x` is not what it should be.
    """
    check_form(data.edge_index)
    try:
        return read_num_nodes(data.num_nodes)
    except (IndexError, RuntimeError, TypeError) as error:
        raise GraphError(f"data does not say how many nodes it has ({error}): data.x must be (N, F).") from None


def read_scipy(adjacency: Any) -> PairGraph:
    """Convert a SciPy sparse adjacency (symmetric, or triangular with each edge once) to a `PairGraph`."""
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(f"An adjacency matrix must be square; this one has shape {adjacency.shape}.")
    coo = sparse.coo_array(adjacency)
    coo.sum_duplicates()
    edge_index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    value = np.asarray(coo.data)
    if value.dtype.kind not in "fiub":
        raise GraphError(f"An adjacency matrix must hold real numbers, not {value.dtype}.")
    weight = torch.from_numpy(value if value.dtype == np.float64 else value.astype(np.float32))
    return read_edge_index(edge_index, weight, coo.shape[0])[0]


def read_networkx(graph: Any, weight: str = "weight") -> PairGraph:
    """Convert an undirected networkx graph to a `PairGraph`; nodes are numbered in the graph's own order."""
    if graph.is_directed() or graph.is_multigraph():
        raise GraphError(
            f"A purifier needs a simple undirected graph, not a {type(graph).__name__}: "
            "convert it with networkx.Graph(graph.to_undirected()) first."
        )
    number = {node: position for position, node in enumerate(graph)}
    edges = [(number[u], number[v], _number(u, v, w)) for u, v, w in graph.edges(data=weight, default=1.0)]
    edge_index = torch.tensor([edge[:2] for edge in edges], dtype=torch.int64).reshape(-1, 2).t()
    return read_edge_index(edge_index, torch.tensor([edge[2] for edge in edges]), len(number))[0]


def _number(u: object, v: object, weight: Any) -> float:
    try:
        return float(weight)
    except (TypeError, ValueError, OverflowError):
        raise GraphError(f"The weight of the edge between {u!r} and {v!r} is not a number: {weight!r}.") from None


def as_pair_graph(graph: Any) -> PairGraph:
    """Convert a `PairGraph`, PyG `Data`, edge_index, SciPy sparse matrix or networkx graph to a `PairGraph`."""
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
    """Return the symmetric adjacency as a SciPy CSR array."""
    csr = graph.csr
    weight = graph.weight.detach().index_select(0, csr.pair).cpu().numpy()
    shape = (graph.num_nodes, graph.num_nodes)
    return sparse.csr_array((weight, csr.col.cpu().numpy(), csr.rowptr.cpu().numpy()), shape=shape)


def _mean_per_pair(values: Tensor, undirected: Undirected) -> Tensor:
    """Return the mean of the values (M,) over the entries of every pair, (E,)."""
    if undirected.off_diagonal is not None:
        values = values[undirected.off_diagonal]
    total = values.new_zeros(undirected.graph.num_pairs).index_add(0, undirected.position, values)
    return total / undirected.multiplicity.to(values.dtype)


def _check_symmetric(edge_index: Tensor, given: Tensor, weight: Tensor, undirected: Undirected) -> None:
    given = given.detach()
    if undirected.off_diagonal is not None:
        given = given[undirected.off_diagonal]
    mean = weight.detach().index_select(0, undirected.position)
    if torch.equal(given, mean):
        return
    apart = (given - mean).abs() > 1e-5 * mean.abs() + 1e-8
    if apart.any():
        column = first_column(apart, undirected.off_diagonal)
        raise GraphError(
            f"edge {edge_index[:, column].tolist()} (column {column}) has two different weights: "
            "an undirected graph has one weight per edge. Average them with "
            "torch_geometric.utils.to_undirected(..., reduce='mean')."
        )
