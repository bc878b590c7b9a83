"""Isolation: cut off the targets that need their edges. No gradient, and no reweighting of edges can undo it."""

from __future__ import annotations

import heapq

import torch
from torch import Tensor

from purigraph.attacks.base import Attack, registry
from purigraph.attacks.scene import Scene
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation


@registry.register("isolation")
class Isolation(Attack):
    """Delete all edges of the targets that are right with the graph and wrong without it, the cheapest first.

    Whether a target is right without its edges takes one evaluation of the model, on the graph without any edge at a
    target. A target costs as many flips as it has edges left; an edge between two such targets serves both. No defence
    that only reweights edges can restore what is gone, so this is a floor that needs no gradient: a defence that keeps
    more than its accuracy without edges only does so while the budget is too small to isolate everyone.

    If there is a start, its flips come first and the rest of the budget isolates targets on the graph that it leaves.
    The loss only breaks ties between equal accuracies.
    """

    def _run(self, scene: Scene) -> Perturbation:
        start = Perturbation(scene.graph.num_nodes) if scene.start is None else scene.start
        before = start.apply(scene.graph)
        right = scene.victim.predict(before)[1]
        right_alone = scene.victim.predict(before.keeping(~before.touching(scene.targets)))[1]
        wanted = scene.targets[right & ~right_alone]
        cut = _cheapest_first(before, wanted, scene.limits.total - len(start))
        # Edges that the start added and that are cut again are no flips at all.
        return Perturbation.between(scene.graph, before.keeping(~cut))


def _cheapest_first(graph: PairGraph, nodes: Tensor, budget: int) -> Tensor:
    """Return the pairs (E,) bool whose removal isolates as many of the nodes as cheapest-first order affords."""
    cut = torch.zeros(graph.num_pairs, dtype=torch.bool, device=graph.device)
    edges: dict[int, set[int]] = {node: set() for node in nodes.tolist()}
    at_node = graph.touching(nodes).nonzero().squeeze(1)
    ends = dict(zip(at_node.tolist(), graph.pairs[:, at_node].t().tolist(), strict=True))
    for position, pair in ends.items():
        for node in edges.keys() & set(pair):
            edges[node].add(position)
    queue = [(len(mine), node) for node, mine in edges.items()]
    heapq.heapify(queue)
    while queue:
        cost, node = heapq.heappop(queue)
        mine = edges.get(node)
        if mine is None or cost != len(mine):
            continue  # isolated already, or cheaper by now and therefore in the queue once more
        if cost > budget:
            break
        budget -= cost
        del edges[node]
        for position in mine:
            cut[position] = True
            for other in edges.keys() & set(ends[position]):
                edges[other].discard(position)
                heapq.heappush(queue, (len(edges[other]), other))
    return cut
