"""The part of a graph around some nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.graph import PairGraph
from purigraph.graph.sparse_features import select_rows


@dataclass(frozen=True)
class Neighbourhood:
    """The induced subgraph on all nodes within some hops of a set of nodes.

    Attributes:
        nodes: (M,) its nodes, ascending.
        edges: (E',) the positions of its entries in the edge list of the whole graph.
        touching: (E',) bool, which entries have an end among the given nodes.
    """

    nodes: Tensor
    edges: Tensor
    touching: Tensor


def neighbourhood(graph: PairGraph, edge_index: Tensor, nodes: Tensor, hops: int) -> Neighbourhood:
    """Return what lies within `hops` of the nodes (V,); weights don't matter, a weight of 0 is an edge too."""
    inside = _mask(nodes, graph.num_nodes)
    core = inside
    for _ in range(hops):
        reached = inside[graph.pairs].any(0)
        grown = inside.clone()
        grown[graph.pairs[:, reached].flatten()] = True
        if torch.equal(grown, inside):
            break
        inside = grown
    edges = inside[edge_index].all(0).nonzero().squeeze(1)
    return Neighbourhood(inside.nonzero().squeeze(1), edges, core[edge_index[:, edges]].any(0))


def cut_out(data: Data, part: Neighbourhood) -> Data:
    """Return a neighbourhood as a `Data` of its own: x, edge_index, edge_weight if any, `n_id` and `e_id`."""
    position = torch.full((int(data.num_nodes),), -1, dtype=torch.int64, device=data.edge_index.device)
    position[part.nodes] = torch.arange(len(part.nodes), device=position.device)
    result = Data(x=select_rows(data.x, part.nodes), edge_index=position[data.edge_index[:, part.edges]])
    if "edge_weight" in data:
        result.edge_weight = data.edge_weight[part.edges]
    result.num_nodes, result.n_id, result.e_id = len(part.nodes), part.nodes, part.edges
    return result


def _mask(nodes: Tensor, num_nodes: int) -> Tensor:
    mask = torch.zeros(num_nodes, dtype=torch.bool, device=nodes.device)
    mask[nodes] = True
    return mask
