r"""Perturbed graphs for training: injected, masked and reweighted edges, $G' \sim \mathcal{B}(G, (p, q, \eta))$."""

from __future__ import annotations

import torch

from purigraph.graph import PairGraph
from purigraph.graph.injection import PerturbedGraph, inject


def perturb(
    graph: PairGraph, injection: float, masking: float, reweighting: float, generator: torch.Generator
) -> PerturbedGraph:
    r"""Sample a perturbed graph.

    Args:
        graph: The original graph.
        injection: p; round(p E) undirected edges are added.
        masking: q; round(q E) original and round(q E_inject) injected edges are masked.
        reweighting: $\eta$; the remaining weights are multiplied by samples from $[1/\eta, 1]$. The paper's
            $[\beta, \beta\eta]$ leaves $\beta$ free, as the normalisation cancels it; this choice stays in [0, 1].
        generator: A random generator on the CPU.
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
