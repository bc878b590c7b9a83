"""The structure of an edge list, without its weights: computed once for every `edge_index` tensor.

Attacks, purifiers and classifiers see the same edge list thousands of times with different weights. `structure_of`
returns the structure computed when the list was first seen; a tensor is recognised if it is the same object and has
not been written to since (see `purigraph.memo`). Code that makes an edge list from a graph should use `list_edges`,
so the structure does not have to be computed again.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from purigraph.errors import GraphError
from purigraph.graph import pair_codes
from purigraph.graph.pair_codes import read_num_nodes
from purigraph.graph.pair_graph import PairGraph
from purigraph.kernels.csr import Pattern, counting_order
from purigraph.memo import Memo

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class ByTarget(NamedTuple):
    """The entries of an edge list, sorted by target.

    Attributes:
        pattern: N x N, one row per target; its columns are the sources.
        order: (M,) int64, the position in the list of every entry.
        is_edge: (M,) bool, in the new order, False for self-loops; None if there are no self-loops.
    """

    pattern: Pattern
    order: Tensor
    is_edge: Tensor | None


class Undirected(NamedTuple):
    """The entries of an edge list as entries of an undirected graph.

    Attributes:
        graph: One pair per edge. Its weights are meaningless, as all graphs with this structure share it.
        pair: (M,) int64, the pair of every entry; -1 for a self-loop.
        off_diagonal: (M',) int64, the entries that are not self-loops; None if there are no self-loops.
        position: (M',) int64, their pairs.
        multiplicity: (E,) int64, the number of entries of every pair, 1 or 2; the same for all.
    """

    graph: PairGraph
    pair: Tensor
    off_diagonal: Tensor | None
    position: Tensor
    multiplicity: Tensor


class EdgeStructure:
    """The structure of an edge list (2, M) on N nodes.

    It is valid as long as the tensor is alive and unchanged; it does not keep the tensor alive.

    Args:
        edge_index: (2, M) integer.
        num_nodes: N, larger than all entries. For user input, use `structure_of`, which checks it.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self._edge_index = weakref.ref(edge_index)

    def edge_index(self) -> Tensor:
        """Return the list itself, as int64."""
        edge_index = self._edge_index()
        assert edge_index is not None, "an edge list's structure is used after the list is gone"
        return edge_index.long()

    @cached_property
    def by_target(self) -> ByTarget:
        """Return the entries sorted by target, directed or not, for message passing in a classifier."""
        source, target = self.edge_index()
        rowptr, order = counting_order(target, self.num_nodes)
        pattern = Pattern(rowptr, source.index_select(0, order), self.num_nodes)
        is_edge = pattern.col != pattern.row
        return ByTarget(pattern, order, None if bool(is_edge.all()) else is_edge)

    @cached_property
    def undirected(self) -> Undirected:
        """Return the undirected graph of a list that has each edge once (in either direction) or twice (in both).

        Raises:
            GraphError: If an edge is listed more than once, or only some edges have a reverse.
        """
        edge_index = self.edge_index()
        row, col = edge_index
        off_diagonal = None if bool((row != col).all()) else (row != col).nonzero().squeeze(1)
        if off_diagonal is not None:
            row, col = row[off_diagonal], col[off_diagonal]
        codes, position = torch.unique(pair_codes.encode(row, col, self.num_nodes), return_inverse=True)
        forward = row < col
        num_forward = torch.bincount(position[forward], minlength=len(codes))
        num_backward = torch.bincount(position[~forward], minlength=len(codes))
        repeated = torch.where(forward, num_forward[position], num_backward[position]) > 1
        if repeated.any():
            column = first_column(repeated, off_diagonal)
            raise GraphError(
                f"edge {edge_index[:, column].tolist()} (column {column}) is listed more than once: "
                "merge duplicates with torch_geometric.utils.coalesce first."
            )
        multiplicity = num_forward + num_backward
        single = multiplicity == 1
        if single.any() and not single.all():
            column = first_column(single[position], off_diagonal)
            raise GraphError(
                f"edge {edge_index[:, column].tolist()} (column {column}) has no reverse edge, but other edges do: "
                "this graph is directed. Make it undirected with torch_geometric.utils.to_undirected first."
            )
        pair = position
        if off_diagonal is not None:
            pair = torch.full((edge_index.shape[1],), -1, dtype=torch.int64, device=edge_index.device)
            pair[off_diagonal] = position
        return Undirected(PairGraph.from_codes(self.num_nodes, codes), pair, off_diagonal, position, multiplicity)


_structures: Memo[EdgeStructure] = Memo(8)


def structure_of(edge_index: Tensor, num_nodes: int) -> EdgeStructure:
    """Return the structure of an edge list, computed when the list is first seen.

    Args:
        edge_index: (2, M) integer.
        num_nodes: N, the number of nodes.

    Raises:
        GraphError: If it is not such a tensor, or a node does not exist.
    """
    check_form(edge_index)
    structure = _structures.get(edge_index, num_nodes)
    if structure is None:
        check_range(edge_index, num_nodes)
        structure = EdgeStructure(edge_index, num_nodes)
        remember(edge_index, structure)
    return structure


def remember(edge_index: Tensor, structure: EdgeStructure) -> None:
    """Make `structure_of` return this structure for this tensor until the tensor is written to."""
    _structures.put(edge_index, structure, structure.num_nodes)


def list_edges(graph: PairGraph) -> Tensor:
    """Return a graph's edges in both directions, (2, 2E) int64, sorted by (row, column).

    The structure of the list is taken from the graph, so it is never computed again for this tensor.
    """
    csr = graph.csr
    edge_index = torch.stack([csr.row, csr.col.long()])
    structure = EdgeStructure(edge_index, graph.num_nodes)
    pair = csr.pair.long()
    twice = torch.full((graph.num_pairs,), 2, device=graph.device)
    structure.undirected = Undirected(graph.with_weight(torch.ones_like(graph.weight)), pair, None, pair, twice)
    # The list is sorted by source. Its reverse is sorted by target and has the same pattern.
    structure.by_target = ByTarget(*csr.by_column, is_edge=None)
    remember(edge_index, structure)
    return edge_index


def check_form(edge_index: object) -> None:
    """Raise `GraphError` unless this is an integer tensor of shape (2, M)."""
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        found = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise GraphError(f"edge_index must be a tensor of shape (2, number of edges), not {found}.")
    if edge_index.dtype not in _INTEGERS:
        advice = ": use edge_index.long()" if edge_index.dtype in (torch.uint16, torch.uint32, torch.uint64) else ""
        raise GraphError(f"edge_index must hold integers, not {edge_index.dtype}{advice}.")
    if edge_index.layout != torch.strided:
        raise GraphError("edge_index must be a dense tensor: use edge_index.to_dense().")


def check_range(edge_index: Tensor, num_nodes: int) -> None:
    """Raise `GraphError` unless all indices are nodes."""
    read_num_nodes(num_nodes)
    if edge_index.numel() == 0:
        return
    low, high = (int(bound) for bound in edge_index.aminmax())
    if low >= 0 and high < num_nodes:
        return
    outside = ((edge_index < 0) | (edge_index >= num_nodes)).any(0)
    first = int(outside.nonzero()[0])
    raise GraphError(
        f"edge_index column {first} is {edge_index[:, first].tolist()}, but there are {num_nodes} nodes: "
        f"indices run from 0 to {num_nodes - 1} ({int(outside.sum())} columns are outside)."
    )


def first_column(chosen: Tensor, off_diagonal: Tensor | None) -> int:
    """Return the column of the first entry chosen by the mask `chosen` (M',) over the off-diagonal entries."""
    first = int(chosen.nonzero()[0])
    return first if off_diagonal is None else int(off_diagonal[first])
