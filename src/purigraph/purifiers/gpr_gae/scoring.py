"""Scores of any pairs against a purified graph, from node codes that are computed once."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.gpr_gae.links import LinkMap
from purigraph.purifiers.gpr_gae.purification import iterate


def purified_scores(
    links: LinkMap,
    h: Tensor,
    graph: PairGraph,
    first_codes: Tensor | None,
    *,
    alpha: float,
    tolerance: float,
    max_steps: int,
) -> PairScores:
    r"""Return the weights that pairs would get in the purification of a graph that they are not part of.

    A step gives a pair the weight $w^{(t+1)} = w^{(t)} + \alpha (f_\theta(A^{(t)})_{ij} - w^{(t)})$, where $f_\theta$
    depends on the graph through the codes of i and j only. The codes of all nodes are kept for every step, (N, 2 Z2)
    each; with $\alpha = 1$ for the last one alone, as the earlier ones cancel.

    Args:
        links: The trained map.
        h: (N, Z1), the initial embeddings.
        graph: $A^{(0)}$, with weights in the map's dtype.
        first_codes: The contribution of filter 0 to the codes, if it is at hand.
        alpha: The step size.
        tolerance: The relative change at which the purification stops.
        max_steps: The maximum number of steps.
    """
    kept: list[Tensor] = []

    def step(weight: Tensor) -> Tensor:
        codes = links.codes(h, graph.with_weight(weight), None, first_codes)
        if alpha == 1:
            kept.clear()
        kept.append(codes)
        return links.pair_logits(codes, graph).sigmoid().mean(0)

    iterate(step, graph, alpha=alpha, tolerance=tolerance, max_steps=max_steps, lean=False, history=False)
    if not kept:  # there are no edges, so there was nothing to purify; pairs are scored all the same
        kept.append(links.codes(h, graph, None, first_codes))

    def scores(pairs: PairGraph) -> Tensor:
        position = graph.find(pairs.codes)
        known = graph.num_pairs > 0
        given = graph.weight[position.clamp(min=0)] if known else pairs.weight.to(h.dtype)
        weight = torch.where(position >= 0, given, 1.0)
        nodes, renumbered = pairs.touched
        for codes in kept:
            chosen = codes if nodes is None else codes[nodes]
            predicted = links.pair_logits(chosen, renumbered).sigmoid().mean(0)
            weight = weight + alpha * (predicted - weight) if alpha != 1 else predicted
        return weight

    return scores
