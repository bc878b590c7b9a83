"""Random flips: the baseline that every other attack must beat."""

from __future__ import annotations

import torch

from purigraph.attacks.base import Attack, registry
from purigraph.attacks.projections import choose
from purigraph.attacks.scene import Scene
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.pair_space import PairSpace
from purigraph.graph.perturbation import Perturbation


@registry.register("random-flip")
class RandomFlip(Attack):
    """Flip pairs drawn uniformly from all: the baseline that every other attack must beat.

    Nearly all random pairs are not edges, so this mostly adds edges. If there is a start, its flips come first. The
    loss only breaks ties between equal accuracies.
    """

    knows_local_budgets = True

    def _run(self, scene: Scene) -> Perturbation:
        limits, start = scene.limits, scene.start_codes()
        nodes = None if limits.local is None else (limits.local > 0).nonzero().squeeze(1)
        space = PairSpace(scene.graph.num_nodes, nodes, device=scene.graph.device)
        # Under local budgets some draws don't fit: draw spare ones.
        spare = 0 if limits.local is None else 3 * limits.total
        fresh = space.sample(limits.total - len(start) + spare, scene.generator, taken=start)
        fresh = fresh[torch.randperm(len(fresh), generator=scene.generator).to(fresh.device)]
        pairs = PairGraph.from_codes(scene.graph.num_nodes, torch.cat([start, fresh])).pairs
        chosen = choose(torch.arange(pairs.shape[1], device=pairs.device), pairs, limits)
        return Perturbation.of_flips(scene.graph, pairs[:, chosen])
