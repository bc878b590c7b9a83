"""AUC for telling 1-hop and 2-hop connections apart: the appendix's validation of structural encodings."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from purigraph import datasets
from purigraph.graph import as_pair_graph
from purigraph.metrics import ranking_scores
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.profiles import Profile
from purigraph.paper.structure import Connections, EncoderName, StructureModel, connections
from purigraph.runs import Context


class Config(CellConfig):
    """An auto-encoder. The paper gives the optimiser, the tasks and the split; the sizes are ours and equal for all.

    Attributes:
        encoder: The node encoder.
        hops: K, its filters' order or its layers.
        channels: Z1, the width of the node encoding (of each filter).
        edge_channels: Z2, the width of the edge encoding.
        dropout: Of the features.
        epochs: The maximum number of epochs.
        patience: Stop after this many epochs without a better validation score.
        validate_every: Epochs between validations.
        most_pairs: The most connections of a kind in the loss of an epoch, drawn anew for each.
    """

    encoder: EncoderName
    hops: int
    channels: int = 64
    edge_channels: int = 128
    dropout: float = 0.5
    epochs: int = 500
    patience: int = 100
    validate_every: int = 10
    most_pairs: int = 10_000

    def resolved(self, profile: Profile) -> Config:
        """Resolve the lengths."""
        changes: dict[str, Any] = {"epochs": profile.epochs(self.epochs)}
        if profile.trial:
            changes |= {"channels": 4, "edge_channels": 4, "validate_every": 1, "most_pairs": 500}
        return self.model_copy(update=changes)

    def components(self) -> Iterator[str]:
        """Yield the experiment itself: nothing of the library but graphs is in it."""
        yield "structure"


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Train on 80 % of the nodes, choose the epoch on 10 %, and return both AUCs on the last 10 %."""
    chosen = Config(**config)
    generator = torch.Generator().manual_seed(chosen.seed)
    data = datasets.load(chosen.dataset, seed=None)
    number = int(data.num_nodes or 0)
    order = torch.randperm(number, generator=generator)
    role = torch.zeros(number, dtype=torch.int64)
    role[order[number * 8 // 10 : number * 9 // 10]] = 1
    role[order[number * 9 // 10 :]] = 2
    graph = as_pair_graph(data)
    scenes = []
    for last in range(3):  # training, validation and test graph, each with the nodes of those before
        nodes = (role <= last).nonzero().squeeze(1)
        part = graph.subgraph(nodes)
        touching = None if last == 0 else role[nodes] == last
        scenes.append((data.x[nodes], part, connections(part, generator, touching)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chosen.seed)
        model = StructureModel(
            chosen.encoder, data.num_features, chosen.hops, chosen.channels, chosen.edge_channels, chosen.dropout
        )
        best_epoch, score = _train(model, scenes[0], scenes[1], chosen, generator)
    one_hop, two_hop = _scores(model, scenes[2])
    return {
        "values": {"1-hop": one_hop, "2-hop": two_hop},
        "best_epoch": best_epoch,
        "validation": score,
        "connections": {"1-hop": scenes[2][2].edges.shape[1], "2-hop": scenes[2][2].two_hop.shape[1]},
    }


def _train(
    model: StructureModel,
    train: tuple[Tensor, Any, Connections],
    validation: tuple[Tensor, Any, Connections],
    chosen: Config,
    generator: torch.Generator,
) -> tuple[int, float]:
    """Train both heads together; the model is left as it was at its best epoch, which is returned with its score."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.00005)
    best_epoch, best_score, best_state = 0, -1.0, copy.deepcopy(model.state_dict())
    x, graph, found = train

    def some(pairs: Tensor) -> Tensor:
        drawn = torch.randperm(pairs.shape[1], generator=generator)[: chosen.most_pairs]
        return pairs[:, drawn]

    for epoch in range(1, chosen.epochs + 1):
        model.train()
        h = model(x, graph)
        first, second = model.heads
        loss = _loss(first, h, [some(found.edges)], [some(found.non_edges)])
        loss = loss + _loss(second, h, [some(found.two_hop)], [some(found.direct_only), some(found.non_two_hop)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % chosen.validate_every == 0 or epoch == chosen.epochs:
            score = sum(_scores(model, validation))
            if score > best_score:
                best_epoch, best_score, best_state = epoch, score, copy.deepcopy(model.state_dict())
            elif epoch - best_epoch >= chosen.patience:
                break
    model.load_state_dict(best_state)
    return best_epoch, best_score


def _loss(head: nn.Module, h: Tensor, positive: Sequence[Tensor], negative: Sequence[Tensor]) -> Tensor:
    """Return the cross-entropy of each kind of connection, averaged over itself; the head runs once for all."""
    kinds = [*positive, *negative]
    logits = head(h, torch.cat(kinds, dim=1)).split([pairs.shape[1] for pairs in kinds])
    losses = [
        functional.binary_cross_entropy_with_logits(found, torch.full_like(found, float(number < len(positive))))
        for number, found in enumerate(logits)
    ]
    return torch.stack(losses).sum()


def _scores(model: StructureModel, scene: tuple[Tensor, Any, Connections]) -> tuple[float, float]:
    """Return the AUC of edges against random pairs, and of 2-hop connections against direct ones that are not 2-hop."""
    x, graph, found = scene
    model.eval()
    first, second = model.heads
    with torch.no_grad():
        h = model(x, graph)
        return _auc(first, h, found.edges, found.non_edges), _auc(second, h, found.two_hop, found.direct_only)


def _auc(head: nn.Module, h: Tensor, positive: Tensor, negative: Tensor) -> float:
    logits = head(h, torch.cat([positive, negative], dim=1))
    return ranking_scores(logits[: positive.shape[1]], logits[positive.shape[1] :])[0]
