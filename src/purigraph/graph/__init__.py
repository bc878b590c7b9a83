"""Undirected graphs with every edge stored once, and what is done with them."""

from purigraph.graph.border import (
    Entries,
    as_pair_graph,
    read_data,
    read_edge_index,
    read_networkx,
    read_scipy,
    to_scipy,
)
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.low_rank_adjacency import LowRankAdjacency
from purigraph.graph.npz import load_npz, save_npz
from purigraph.graph.pair_graph import PairGraph, inverse_sqrt
from purigraph.graph.perturbation import Perturbation
from purigraph.graph.splits import InductiveSplit, attach_split, inductive_split

__all__ = [
    "Budget",
    "Entries",
    "InductiveSplit",
    "Limits",
    "LowRankAdjacency",
    "PairGraph",
    "Perturbation",
    "as_pair_graph",
    "attach_split",
    "inductive_split",
    "inverse_sqrt",
    "load_npz",
    "read_data",
    "read_edge_index",
    "read_networkx",
    "read_scipy",
    "save_npz",
    "to_scipy",
]
