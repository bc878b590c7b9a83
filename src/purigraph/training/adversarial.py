"""Adversarial training: every epoch learns from the graph that hurts the classifier most at that time."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.attacks import LRBCD, PRBCD, Attack
from purigraph.classifiers import Classifier
from purigraph.graph.budget import Budget
from purigraph.kernels import Features
from purigraph.training.run import GraphOfEpoch, TrainingResult
from purigraph.training.self_training import SECOND_MODEL, first_labels
from purigraph.training.settings import AdversarialSettings, AttackSettings
from purigraph.training.task import Task

_LEARNING_FACTOR = 100.0
_LOCAL_LEARNING_FACTOR = 20 * _LEARNING_FACTOR


class GraphAttack(Protocol):
    """What adversarial training calls: it gives a graph back in which the model does badly on some nodes."""

    def __call__(self, model: nn.Module, data: Data, labels: Tensor, nodes: Tensor, seed: int, /) -> Data:
        """Attack `model`.

        Args:
            model: Called with (x, edge_index, edge_weight); to be left as it is.
            data: The clean graph; `x` may be a sparse CSR tensor. Not to be changed.
            labels: (N,) int64; -1 at nodes whose label must not be known.
            nodes: (M,) int64, those to attack.
            seed: The same seed gives the same graph.

        Returns:
            The same nodes with another `edge_index`, and `edge_weight` if need be.
        """


def graph_attack(settings: AttackSettings) -> GraphAttack:
    """The attack that the settings name, as adversarial training calls it."""
    shared: dict[str, Any] = {
        "loss": settings.loss,
        "epochs": settings.epochs,
        "fine_tune_epochs": 0,
        "rounding": False,
        "block_size": settings.block_size,
    }
    attack: Attack
    if settings.name == "prbcd":
        attack = PRBCD(**shared, learning_factor=settings.learning_factor or _LEARNING_FACTOR)
    else:
        factor = settings.learning_factor or _LOCAL_LEARNING_FACTOR
        attack = LRBCD(**shared, learning_factor=factor, projection=settings.projection)
    budget = Budget(settings.epsilon)

    def run(model: nn.Module, data: Data, labels: Tensor, nodes: Tensor, seed: int, /) -> Data:
        return attack(model, data, labels, nodes, budget, seed=seed).apply(data)

    return run


def adversarial(task: Task, attack: GraphAttack | None = None) -> TrainingResult:
    r"""Minimise the loss on the graph that maximises it, anew in every epoch.

    $$\min_\psi \max_{G' \in B(G, \epsilon)} \sum_{v} \ell(f_\psi(G', v), y_v)$$

    as `Gosch et al. (2023) <https://arxiv.org/abs/2306.15427>`_ and the paper do: the labels are those of
    self-training; after some clean epochs every epoch attacks all labelled nodes of the training graph at once, and
    steps on the graph that comes out.

    The best epoch is chosen as they do too: by the loss of the validation nodes in a validation graph that is attacked
    with the same means, at those nodes. Epochs before the first attack can't be chosen: their loss would be that
    of a clean graph, which no later epoch could compete with.

    Args:
        task: Its settings are `AdversarialSettings`.
        attack: Default: the one that the settings name.
    """
    settings = task.settings
    assert isinstance(settings, AdversarialSettings)  # `Regime.settings`
    labelled, seconds = first_labels(replace(task, settings=settings.clean()))
    model = task.build(task.seed + SECOND_MODEL)
    attack = attack or graph_attack(settings.attack)
    clean = settings.clean_epochs
    result = replace(task, train=labelled).fit(
        model,
        "adversarial",
        train_graph=_under_attack(attack, model, labelled, "train_mask", 2 * task.seed, clean),
        validation_graph=_under_attack(attack, model, task.validation, "val_mask", 2 * task.seed + 1, clean),
        first_validation=clean + 1,
    )
    return replace(result, seconds=seconds + result.seconds)


def _under_attack(
    attack: GraphAttack, model: nn.Module, data: Data, mask: str, stream: int, clean_epochs: int
) -> GraphOfEpoch:
    nodes = data[mask].nonzero().squeeze(1)
    labels = torch.where(data[mask], data.y, -1)
    target = _with_sparse_features(model, data)

    def graph(epoch: int) -> Data:
        if epoch <= clean_epochs:
            return data
        # Every epoch has a seed of its own, so that a resumed run meets the same attacks.
        return attack(model, target, labels, nodes, stream * 1_000_003 + epoch)

    return graph


def _with_sparse_features(model: nn.Module, data: Data) -> Data:
    """An attack runs the model some forty times: on sparse features that costs a fraction."""
    if not isinstance(model, Classifier) or not Features(data.x).is_sparse:
        return data
    copied = copy.copy(data)
    copied.x = data.x if data.x.layout == torch.sparse_csr else data.x.to_sparse_csr()
    return copied
