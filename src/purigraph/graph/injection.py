"""Graphs with injected edges and the ground truth about them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.graph import pair_codes
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.sampling import sample_non_edges


@dataclass(frozen=True)
class PerturbedGraph:
    r"""A graph with injected edges and its ground truth.

    Attributes:
        graph: The graph over $\mathcal{E} \cup \mathcal{E}_{inject}$. Masked edges have weight 0, which removes them
            from message passing, so one structure serves both messages and scores.
        is_original: (E + E_inject,) bool, whether each edge is an original one.
    """

    graph: PairGraph
    is_original: Tensor


def inject(graph: PairGraph, count: int, generator: torch.Generator, touching: Tensor | None = None) -> PerturbedGraph:
    """Add `count` edges of weight 1, drawn uniformly from the non-edges (see `sample_non_edges`)."""
    return inject_pairs(graph, sample_non_edges(graph, count, generator, touching))


def inject_pairs(graph: PairGraph, injected: Tensor) -> PerturbedGraph:
    """Add edges of weight 1, by the ascending codes of non-edges."""
    codes, at_original, _ = pair_codes.merge(graph.codes, injected)
    weight = graph.weight.new_ones(len(codes))
    weight[at_original] = graph.weight
    is_original = torch.zeros(len(codes), dtype=torch.bool, device=codes.device)
    is_original[at_original] = True
    return PerturbedGraph(PairGraph.from_codes(graph.num_nodes, codes, weight), is_original)
