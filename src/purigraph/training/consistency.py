"""Training for answers that stay the same when a part of the graph is hidden."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.kernels import Features
from purigraph.training.edge_loss import losing
from purigraph.training.run import Run, TrainingResult
from purigraph.training.settings import ConsistencySettings
from purigraph.training.task import Task


def consistency(task: Task) -> TrainingResult:
    r"""Minimise the loss of the labelled nodes, and how much the answers to *all* training nodes differ between views.

    $$\min_\psi \frac1S \sum_{s=1}^{S} \Big( \ell\big(f_\psi(G_s), y\big)
      + \lambda\, \frac1N \sum_v \big\| p_v^{(s)} - \bar p_v' \big\|^2 \Big), \qquad
      \bar p_{vc}' \propto \Big( \tfrac1S \textstyle\sum_s p_{vc}^{(s)} \Big)^{1/T}$$

    In a view $G_s$ a share of the nodes has no features (`hidden`; the others' grow, so that the mean stays), and the
    model its own dropout, so that a node's answer can't depend on any one neighbour alone; with `isolated`, `dropped`
    and `added`, edges are missing and false ones are there, too. The mean answer over the views, sharpened by a
    temperature T, is what every view is drawn to: no gradient passes through it. $\lambda$ is `weight`, and grows from
    0 over the first epochs (`ramp`). So the unlabelled nodes teach as well, without a first classifier whose mistakes
    are taken for labels. It is the training of GRAND (`Feng et al. 2020 <https://arxiv.org/abs/2005.11079>`_) for any
    classifier.

    Args:
        task: The task, with `ConsistencySettings`.
    """
    settings = task.settings
    assert isinstance(settings, ConsistencySettings)  # ensured by `Regime.settings`
    edges_change = settings.isolated > 0 or settings.dropped > 0 or settings.added > 0
    view_of = losing(task.train, settings, 2 * task.seed) if edges_change else None

    def objective(run: Run, graph: Data, epoch: int) -> Tensor:
        supervised: list[Tensor] = []
        answers: list[Tensor] = []
        for index in range(settings.views):
            view = graph if view_of is None else view_of(epoch * settings.views + index)
            logits = run.logits(hide_nodes(run.train_x, settings.hidden, graph), view)
            supervised.append(run.label_loss(logits))
            answers.append(logits.softmax(1))
        wanted = sharpened(torch.stack(answers).mean(0).detach(), settings.temperature)
        apart = torch.stack([(one - wanted).square().sum(1).mean() for one in answers]).mean()
        # At first the answers are arbitrary, and should not be held to.
        weight = settings.weight * min(1.0, (epoch - 1) / settings.ramp)
        return torch.stack(supervised).mean() + weight * apart

    return task.fit(task.build(task.seed), "consistency", objective=objective)


def sharpened(probabilities: Tensor, temperature: float) -> Tensor:
    """Return probabilities (N, C) to the power of 1 / temperature, brought back to a sum of 1."""
    return (probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log() / temperature).softmax(1)


def hide_nodes(x: Tensor | Features, share: float, data: Data) -> Tensor | Features:
    """Return features (N, F) of which a random share of the rows is 0; the others grow, so that the mean stays."""
    if share == 0:
        return x
    draws = torch.rand(data.num_nodes, device=data.edge_index.device)
    factor = (draws >= share).to(x.dtype) / (1 - share)
    if isinstance(x, Features):
        return x.scaled_rows(factor)
    if x.layout == torch.strided:
        return x * factor.unsqueeze(1)
    coo = x.to_sparse_coo().coalesce()
    values = coo.values() * factor[coo.indices()[0]]
    scaled = torch.sparse_coo_tensor(coo.indices(), values, coo.shape, is_coalesced=True)
    return scaled.to_sparse_csr() if x.layout == torch.sparse_csr else scaled
