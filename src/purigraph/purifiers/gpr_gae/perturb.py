r"""Perturbed graphs for training: injected, masked and reweighted edges, $G' \sim \mathcal{B}(G, (p, q, \eta))$."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.graph.injection import PerturbedGraph, inject_pairs
from purigraph.graph.sampling import num_non_edges, sample_non_edges

# An adversary picks its pairs among this many times as many random ones.
_CANDIDATES = 10


def perturb(
    graph: PairGraph,
    injection: float,
    masking: float,
    reweighting: float,
    generator: torch.Generator,
    adversary: tuple[float, Callable[[PairGraph], Tensor]] | None = None,
) -> PerturbedGraph:
    r"""Sample a perturbed graph.

    Args:
        graph: The original graph.
        injection: p; round(p E) undirected edges are added.
        masking: q; round(q E) original and round(q E_inject) injected edges are masked.
        reweighting: $\eta$; the remaining weights are multiplied by samples from $[1/\eta, 1]$. The paper's
            $[\beta, \beta\eta]$ leaves $\beta$ free, as the normalisation cancels it; this choice stays in [0, 1].
        generator: A random generator on the CPU.
        adversary: A share of the injected edges, and a function that scores pairs (E',): so many of the injected edges
            are those that it scores highest among ten times as many random ones. Default: all are random.
    """
    count = round(injection * graph.num_pairs)
    injected = sample_non_edges(graph, count, generator)
    if adversary is not None:
        share, scores = adversary
        hard = round(share * count)
        pool = sample_non_edges(graph, min(_CANDIDATES * hard, num_non_edges(graph)), generator)
        best = scores(PairGraph.from_codes(graph.num_nodes, pool)).topk(min(hard, len(pool))).indices
        kept = torch.randperm(count, generator=generator)[hard:].to(injected.device)
        injected = torch.cat([injected[kept], pool[best]]).unique()
    perturbed = inject_pairs(graph, injected)
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
