"""Distillation: small MLPs that learn a classifier's answers from the features alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.classifiers import MLP
from purigraph.kernels import Features
from purigraph.modes import evaluation_mode
from purigraph.settings import Settings, setting


class DistillationSettings(Settings):
    """How students are trained."""

    epochs: int = setting("Training epochs of every student.", default=200, ge=1)
    learning_rate: float = setting("The learning rate of Adam.", default=0.01, gt=0)
    weight_decay: float = setting("The weight decay of Adam.", default=5e-4, ge=0)


def untrained_students(members: int, in_channels: int, out_channels: int, *, seed: int, **shape: Any) -> nn.ModuleList:
    """Return MLPs with random initial values; global random state is neither read nor changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleList(MLP(in_channels, out_channels, **shape) for _ in range(members))


def distil(
    students: nn.ModuleList, features: Features, taught: Tensor, seen: Tensor, options: DistillationSettings, seed: int
) -> None:
    r"""Train every student to minimise $-\sum_v t_v \cdot \log \mathrm{softmax}(g(x_v))$.

    Args:
        students: MLPs of F features and C classes.
        features: (N, F).
        taught: (N, C) probabilities, the teacher's answers $t$.
        seen: (N,) bool, the nodes that the sum is over.
        options: Epochs, learning rate and weight decay.
        seed: The seed of the dropout.
    """
    nodes = seen.nonzero().squeeze(1).to(taught.device)
    target = taught[nodes]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for student in students:
            optimizer = torch.optim.Adam(
                student.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay, fused=True
            )
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
            student.train()
            for _ in range(options.epochs):
                loss = -(target * student(features)[nodes].log_softmax(1)).sum(1).mean()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
            optimizer.zero_grad(set_to_none=True)
            student.eval()


def predict_logits(classifier: nn.Module, data: Data) -> Tensor:
    """Return the classifier's logits (N, C) on a graph, in evaluation mode and without gradients."""
    weight = {"edge_weight": data.edge_weight} if "edge_weight" in data else {}
    with evaluation_mode(classifier), torch.no_grad():
        logits: Tensor = classifier(data.x, data.edge_index, **weight)
    return logits


def students_logits(students: nn.ModuleList, features: Features) -> Tensor:
    """Return the logits (S, N, C) of S students of one shape, without dropout and gradients.

    The first layers, which do most of the work, are one product with the features.
    """
    members = [student for student in students if isinstance(student, MLP)]
    members[0].first.check(features)
    with torch.no_grad():
        weight = torch.cat([student.first.weight for student in members]).t()
        bias = torch.cat([student.first.bias for student in members])
        h: Tensor = features.linear(weight, bias).unflatten(1, (len(members), -1)).transpose(0, 1)
        for layers in zip(*(student.others for student in members), strict=True):
            weight = torch.stack([layer.weight for layer in layers]).transpose(1, 2)
            h = torch.baddbmm(torch.stack([layer.bias for layer in layers]).unsqueeze(1), h.relu(), weight)
    return h


def mean_probabilities(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the mean over students of their probabilities: (S, N, C) gives (N, C)."""
    # With the nodes last: for a handful of classes that is ten times faster.
    by_class = (logits / temperature).transpose(1, 2).contiguous()
    return by_class.softmax(1).mean(0).t().contiguous()


def cross_entropy(probabilities: Tensor, taught: Tensor) -> float:
    """Return the mean cross-entropy of probabilities (N, C) with those of the teacher (N, C)."""
    return float(-(taught * probabilities.clamp(min=1e-12).log()).sum(1).mean())
