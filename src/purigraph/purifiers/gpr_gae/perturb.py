r"""Perturbed graphs for training: injected, masked and reweighted edges, $G' \sim \mathcal{B}(G, (p, q, \eta))$."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.graph import PairGraph, pair_codes
from purigraph.graph.sampling import sample_non_edges


@dataclass(frozen=True)
class PerturbedGraph:
    r"""A graph with injected edges, and the truth about it.

    Attributes:
        graph: over $\mathcal{E} \cup \mathcal{E}_{inject}$; masked edges are in it with weight 0, which to a
            message is the same as being absent, so that one structure serves for messages and for scores.
        is_original: (E + E_inject,) bool.
    """

    graph: PairGraph
    is_original: Tensor


def inject(graph: PairGraph, count: int, generator: torch.Generator, touching: Tensor | None = None) -> PerturbedGraph:
    """Add `count` edges of weight 1, uniform among the pairs that are no edges."""
    injected = sample_non_edges(graph, count, generator, touching)
    codes, at_original, _ = pair_codes.merge(graph.codes, injected)
    weight = graph.weight.new_ones(len(codes))
    weight[at_original] = graph.weight
    is_original = torch.zeros(len(codes), dtype=torch.bool, device=codes.device)
    is_original[at_original] = True
    return PerturbedGraph(PairGraph.from_codes(graph.num_nodes, codes, weight), is_original)


def perturb(
    graph: PairGraph, injection: float, masking: float, reweighting: float, generator: torch.Generator
) -> PerturbedGraph:
    r"""Sample a perturbed graph.

    Args:
        graph: the original.
        injection: p; round(p E) undirected edges are added.
        masking: q; round(q E) original and round(q E_inject) injected edges are masked.
        reweighting: $\eta$; the weights left are multiplied by draws from $[1/\eta, 1]$. The paper's
            $[\beta, \beta\eta]$ leaves $\beta$ free, as the normalisation removes it; this choice stays in [0, 1].
        generator: on the CPU.
    """
    perturbed = inject(graph, round(injection * graph.num_pairs), generator)
    weight = perturbed.graph.weight.clone()
    if reweighting > 1:
        low = 1 / reweighting
        draws = torch.rand(len(weight), generator=generator).to(weight)
        weight *= low + (1 - low) * draws
    for group in (perturbed.is_original, ~perturbed.is_original):
        members = group.nonzero().squeeze(1)
        chosen = torch.randperm(len(members), generator=generator)[: round(masking * len(members))]
        weight[members[chosen.to(members.device)]] = 0
    return PerturbedGraph(perturbed.graph.with_weight(weight), perturbed.is_original)
