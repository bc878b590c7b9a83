"""A purifier, a classifier, an attack and a loss, in no more code than they need."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from purigraph.attacks import Attack, Scene
from purigraph.classifiers import Classifier, Edges, FirstLayer
from purigraph.graph import PairGraph, Perturbation
from purigraph.kernels import propagate
from purigraph.purifiers import Purifier
from purigraph.settings import setting


class Similar(Purifier):
    """Weakens edges between nodes with unlike features."""

    strength: float = setting("How much likeness counts.", default=1.0, gt=0)

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Multiply every weight by a sigmoid of the features' product."""
        dense = x if x.layout == torch.strided else x.to_dense()
        i, j = graph.pairs
        likeness = torch.sigmoid(self.strength * (dense[i] * dense[j]).sum(1)).to(graph.weight.dtype)
        return graph.with_weight(graph.weight.clamp(max=1) * likeness)


class Mean(Classifier):
    """One layer over the weighted sum of the neighbours' features."""

    hidden_channels: int = setting("The width of the hidden layer.", default=8, ge=1)

    def _build(self) -> None:
        self.own = FirstLayer(self.in_channels, self.hidden_channels)
        self.out = nn.Linear(self.hidden_channels, self.out_channels)

    def forward(self, x, edge_index, edge_weight=None):  # type: ignore[no-untyped-def]
        """Classify every node."""
        h = self.own(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return self.out((h + propagate(edges.pattern, edges.weight, h)).tanh())


class Hubs(Attack):
    """Cuts edges at the targets with the most neighbours."""

    knows_local_budgets = True

    def _run(self, scene: Scene) -> Perturbation:
        degree = scene.graph.degree()
        is_target = torch.zeros(scene.graph.num_nodes, dtype=torch.bool)
        is_target[scene.targets] = True
        i, j = scene.graph.pairs
        worth = torch.where(is_target[i] | is_target[j], degree[i] + degree[j], -1)
        order = torch.argsort(worth, descending=True, stable=True)
        left = None if scene.limits.local is None else scene.limits.local.clone()
        chosen: list[int] = []
        for pair in order[worth[order] >= 0].tolist():
            ends = scene.graph.pairs[:, pair]
            if len(chosen) == scene.limits.total:
                break
            if left is not None:
                if int(left[ends].min()) < 1:
                    continue
                left[ends] -= 1
            chosen.append(pair)
        return Perturbation.of_flips(scene.graph, scene.graph.pairs[:, chosen])


def hinge(logits: Tensor, labels: Tensor) -> Tensor:
    """The hinge loss of the margin."""
    label = labels.unsqueeze(1)
    others = logits.scatter(1, label, -torch.inf).amax(1)
    return (1 - logits.gather(1, label).squeeze(1) + others).relu().mean()
