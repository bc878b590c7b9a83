"""A graph and an attack on it that never change, for purifiers that are held to a few lines of NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data

Array = npt.NDArray[np.float64]

#: Undirected edges of two rings with chords, and what an attacker does: pairs that are not there join the graph.
EDGES = (
    [(i, (i + 1) % 6) for i in range(6)]
    + [(6 + i, 6 + (i + 1) % 6) for i in range(6)]
    + [(0, 3), (1, 4), (6, 9), (7, 10), (5, 6)]
)
FLIPS = [(0, 8), (2, 10), (4, 11), (0, 1), (3, 7)]
#: Which words each node has: those of the rings overlap in word 4 alone; node 11 has none.
WORDS = [
    *([0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 3], [2, 3, 4], [0, 3, 4]),
    *([4, 5, 6], [5, 6, 7], [6, 7, 8], [5, 7, 8], [4, 6, 8], []),
]


def words() -> Array:
    """(12, 9): not binary, as the values are of no account to Jaccard."""
    x = np.zeros((12, 9))
    for node, own in enumerate(WORDS):
        x[node, own] = 0.5 + node % 3
    return x


def attacked() -> Array:
    """(12, 12), the adjacency after the flips."""
    adjacency = np.zeros((12, 12))
    for i, j in [*EDGES, *FLIPS]:
        adjacency[i, j] = adjacency[j, i] = 1 - adjacency[i, j]
    return adjacency


def as_data(weighted: bool = False) -> tuple[Data, Array]:
    """The attacked graph as a `Data`, and its adjacency, with some weights or none."""
    adjacency = attacked()
    if weighted:
        scale = 0.2 + 0.06 * np.arange(12)
        adjacency = adjacency * np.sqrt(np.outer(scale, scale))
    edge_index = np.stack(adjacency.nonzero())
    data = Data(x=torch.from_numpy(words()), edge_index=torch.from_numpy(edge_index))
    if weighted:
        data.edge_weight = torch.from_numpy(adjacency[edge_index[0], edge_index[1]])
    return data, adjacency


def dense(data: Data) -> Array:
    """The adjacency of a purified graph."""
    out = np.zeros((data.num_nodes, data.num_nodes))
    out[data.edge_index[0], data.edge_index[1]] = data.edge_weight
    return out
