"""Training to lose edges gracefully: in every epoch other nodes are isolated and other edges are missing."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch_geometric.data import Data

from purigraph.graph import as_pair_graph
from purigraph.graph.injection import inject_pairs
from purigraph.graph.sampling import num_non_edges, sample_non_edges
from purigraph.training.run import GraphOfEpoch, TrainingResult
from purigraph.training.self_training import SECOND_MODEL, first_labels
from purigraph.training.settings import ConsistencySettings, EdgeLossSettings, TrainingSettings
from purigraph.training.task import Task


def edge_loss(task: Task) -> TrainingResult:
    r"""Minimise the loss on graphs of which a part is gone.

    $$\min_\psi \mathbb{E}_{G' \sim \mathrm{loss}(G)} \sum_v \ell(f_\psi(G', v), y_v)$$

    An attacker who can afford it deletes all edges of the nodes that need them, and what is left of a defence that
    reweights edges is the accuracy without edges. So that one is trained too: in every epoch a share of the nodes loses
    all edges, and a share of the other edges is missing, as in
    `DropEdge <https://arxiv.org/abs/1907.10903>`_ (Rong et al. 2020). With `added`, there are edges between random
    nodes too, as a purifier lets some false edges pass. The labels are those of self-training. The best epoch is chosen
    on a validation graph that has lost as much, always in the same places, and gained nothing.

    Args:
        task: The task, with `EdgeLossSettings`.
    """
    settings = task.settings
    assert isinstance(settings, EdgeLossSettings)  # ensured by `Regime.settings`
    shared = TrainingSettings(**{name: getattr(settings, name) for name in TrainingSettings.model_fields})
    labelled, seconds = first_labels(replace(task, settings=shared))
    validation = losing(task.validation, settings.replace(added=0.0), 2 * task.seed + 1)(0)
    result = replace(task, train=labelled).fit(
        task.build(task.seed + SECOND_MODEL),
        "edge-loss",
        train_graph=losing(labelled, settings, 2 * task.seed),
        validation_graph=lambda epoch: validation,
    )
    return replace(result, seconds=seconds + result.seconds)


def losing(data: Data, settings: EdgeLossSettings | ConsistencySettings, stream: int) -> GraphOfEpoch:
    """Return for every epoch, or view, a copy of the graph that has lost edges, and gained some if `added` says so."""
    graph = as_pair_graph(data)
    gained = min(round(settings.added * graph.num_pairs), num_non_edges(graph))

    def lose(epoch: int) -> Data:
        # Every epoch has its own seed, so a resumed run loses the same edges.
        generator = torch.Generator().manual_seed(stream * 1_000_003 + epoch)
        isolated = torch.rand(graph.num_nodes, generator=generator) < settings.isolated
        missing = torch.rand(graph.num_pairs, generator=generator) < settings.dropped
        kept = ~(missing.to(graph.device) | isolated.to(graph.device)[graph.pairs].any(0))
        left = graph.keeping(kept)
        if gained:
            left = inject_pairs(left, sample_non_edges(graph, gained, generator)).graph
        lost = copy.copy(data)
        lost.edge_index, weight = left.edge_index()
        if "edge_weight" in data:
            lost.edge_weight = weight.to(data.x.dtype)
        return lost

    return lose
