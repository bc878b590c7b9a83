"""DICE: delete internally, connect externally."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.attacks.base import Attack, registry
from purigraph.attacks.projections import choose
from purigraph.attacks.scene import Scene
from purigraph.graph import pair_codes
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.settings import setting


@registry.register("dice")
class DICE(Attack):
    """Remove edges within classes and add edges between classes, at random.

    From `Hiding Individuals and Communities in a Social Network <https://arxiv.org/abs/1608.00375>`_
    (Waniek et al. 2018). It uses the labels but never queries the model: a baseline for attacks that do. Every flip
    touches a target. If there is a start, its flips come first. The loss only breaks ties between equal accuracies.
    """

    add_share: float = setting(
        "The share of the budget that adds edges; the rest removes edges, as long as there are any to remove.",
        default=0.5,
        ge=0,
        le=1,
    )

    knows_local_budgets = True

    def _run(self, scene: Scene) -> Perturbation:
        start, total = scene.start_codes(), scene.limits.total
        cuts = _shuffle(self._internal_edges(scene), scene.generator)
        # Under local budgets some flips don't fit: draw spare ones, to be tried after the wanted ones.
        joins = self._external_pairs(scene, 4 * total)
        num_cuts = min(total - round(self.add_share * total), len(cuts))
        wanted = _shuffle(torch.cat([cuts[:num_cuts], joins[: total - num_cuts]]), scene.generator)
        codes = torch.cat([start, wanted, joins[total - num_cuts :], cuts[num_cuts:]])
        codes = codes[_first_of_each(codes)]
        pairs = PairGraph.from_codes(scene.graph.num_nodes, codes).pairs
        chosen = choose(torch.arange(len(codes), device=codes.device), pairs, scene.limits)
        return Perturbation.of_flips(scene.graph, pairs[:, chosen])

    def _internal_edges(self, scene: Scene) -> Tensor:
        is_target = torch.zeros_like(scene.labels, dtype=torch.bool)
        is_target[scene.targets] = True
        i, j = scene.graph.pairs
        internal = (is_target[i] | is_target[j]) & (scene.labels[i] == scene.labels[j])
        return scene.graph.codes[internal]

    def _external_pairs(self, scene: Scene, count: int) -> Tensor:
        """Return codes of non-edges between a target and a node of another class, at most `count`."""
        num_nodes, device = scene.graph.num_nodes, scene.graph.device
        pick = torch.randint(len(scene.targets), (2 * count,), generator=scene.generator).to(device)
        one = scene.targets[pick]
        other = torch.randint(num_nodes, (2 * count,), generator=scene.generator).to(device)
        codes = pair_codes.encode(one, other, num_nodes)
        codes = codes[(scene.labels[one] != scene.labels[other]) & (scene.graph.find(codes) < 0)]
        return codes[_first_of_each(codes)][:count]


def _shuffle(codes: Tensor, generator: torch.Generator) -> Tensor:
    return codes[torch.randperm(len(codes), generator=generator).to(codes.device)]


def _first_of_each(codes: Tensor) -> Tensor:
    """Return the positions of the first occurrence of every code, in order."""
    ordered, order = torch.sort(codes, stable=True)
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return order[is_first].sort().values
