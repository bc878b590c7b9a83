"""Graphs as purigraph sees them: undirected, every edge once."""

from purigraph.graph.border import (
    Entries,
    as_pair_graph,
    read_data,
    read_edge_index,
    read_networkx,
    read_scipy,
    to_scipy,
)
from purigraph.graph.pair_graph import PairGraph, SymmetricCSR, inverse_sqrt, merge_codes

__all__ = [
    "Entries",
    "PairGraph",
    "SymmetricCSR",
    "as_pair_graph",
    "inverse_sqrt",
    "merge_codes",
    "read_data",
    "read_edge_index",
    "read_networkx",
    "read_scipy",
    "to_scipy",
]
