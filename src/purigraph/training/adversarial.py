"""Adversarial training: every epoch trains on a graph that is attacked to hurt the current classifier."""

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
    """The interface of attacks in adversarial training: return a graph on which the model does badly at some nodes."""

    def __call__(self, model: nn.Module, data: Data, labels: Tensor, nodes: Tensor, seed: int, /) -> Data:
        """Attack `model`.

        Args:
            model: The model, called with (x, edge_index, edge_weight). It must not be modified.
            data: The clean graph; `x` may be a sparse CSR tensor. It must not be modified.
            labels: (N,) int64; -1 for nodes whose label must not be used.
            nodes: (M,) int64, the nodes to attack.
            seed: The random seed; the same seed gives the same graph.

        Returns:
            The same nodes with another `edge_index` and, if needed, `edge_weight`.
        """


def graph_attack(settings: AttackSettings) -> GraphAttack:
    """Return the attack given by the settings, with the interface of adversarial training."""
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
        return attack(model, data, budget, targets=nodes, labels=labels, seed=seed, progress=False).apply(data)

    return run


def adversarial(task: Task, attack: GraphAttack | None = None) -> TrainingResult:
    r"""Minimise the loss on the graph that maximises it, which is found again in every epoch.

    $$\min_\psi \max_{G' \in B(G, \epsilon)} \sum_{v} \ell(f_\psi(G', v), y_v)$$

    As in `Gosch et al. (2023) <https://arxiv.org/abs/2306.15427>`_ and the paper, the labels are those of
    self-training. After some clean epochs, every epoch attacks all labelled nodes of the training graph at once and
    takes a step on the attacked graph.

    The best epoch is also chosen as in these papers: by the loss of the validation nodes in a validation graph that is
    attacked in the same way, at those nodes. Epochs before the first attack can't be chosen: their loss would be that
    of a clean graph, and no later epoch could be better.

    Args:
        task: The task, with `AdversarialSettings`.
        attack: The attack. Default: the one given by the settings.
    """
    settings = task.settings
    assert isinstance(settings, AdversarialSettings)  # ensured by `Regime.settings`
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
        # Every epoch has its own seed, so a resumed run makes the same attacks.
        return attack(model, target, labels, nodes, stream * 1_000_003 + epoch)

    return graph


def _with_sparse_features(model: nn.Module, data: Data) -> Data:
    """Return the data with sparse features if possible: faster, as an attack runs the model about 40 times."""
    if not isinstance(model, Classifier) or not Features(data.x).is_sparse:
        return data
    copied = copy.copy(data)
    copied.x = data.x if data.x.layout == torch.sparse_csr else data.x.to_sparse_csr()
    return copied
