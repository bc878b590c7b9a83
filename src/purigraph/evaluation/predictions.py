"""A model's answers on a graph, as attacks see it."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.attacks import Model
from purigraph.attacks.base import read_input
from purigraph.attacks.victim import frozen
from purigraph.errors import InputError
from purigraph.graph import read_data
from purigraph.graph.nodes import read_targets
from purigraph.metrics import accuracy


def model_accuracy(model: Model, data: Data, targets: Tensor | None = None) -> float:
    """Return a model's accuracy on the targets, in evaluation mode.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
    """
    nodes, labels = read_scene(data, targets)
    return accuracy(predict(model, data)[nodes], labels[nodes])


def as_attacks_see_it(data: Data) -> Data:
    """Return the same graph with both directions of every edge, a weight each, and without self-loops.

    The measured graph must be the attacked one: attacks flip undirected pairs and never touch self-loops.
    """
    result = copy.copy(data)
    for key in [key for key in data.keys() if key != "edge_index" and data.is_edge_attr(key)]:  # noqa: SIM118
        del result[key]  # models don't get them, and they would no longer fit
    result.edge_index, weight = read_data(data)[0].edge_index()
    result.edge_weight = weight.to(data.x.dtype) if data.x.is_floating_point() else weight
    return result


def predict(model: Model, data: Data) -> Tensor:
    """Return a model's outputs (N, C) in evaluation mode and without gradients; its mode is restored.

    It is always called with weights: ones if the data does not have any.
    """
    dtype = data.x.dtype if data.x.is_floating_point() else torch.float32
    ones = torch.ones(data.edge_index.shape[1], dtype=dtype, device=data.edge_index.device)
    weight = data.edge_weight if "edge_weight" in data else ones
    with frozen(model), torch.no_grad():
        return model(data.x, data.edge_index, weight)


def read_scene(data: Data, targets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the targets and the labels of a graph with features; everything is checked before a model runs."""
    if not isinstance(data, Data):
        raise InputError(f"data must be a PyG Data with x, edge_index and y, not a {type(data).__name__}.")
    _, graph = read_input(data)
    if not isinstance(data.x, Tensor):
        raise InputError(f"data.x must be a tensor of node features, not a {type(data.x).__name__}.")
    return read_targets(data, targets, None, graph.num_nodes)
