"""RUNG against the equations as printed, in dense matrices, and what is special about it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from helpers import random_pair_graph
from purigraph.classifiers import RUNG, registry

N, IN, OUT = 12, 6, 3


def make(**settings: object) -> RUNG:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = RUNG(IN, OUT, **{"hidden_channels": 8, **settings})
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def scene(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    graph = random_pair_graph(N, 25, seed, torch.float64)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, IN, generator=generator, dtype=torch.float64), *graph.edge_index()


def dense(model: RUNG, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """The equations of the class's documentation, one by one."""
    adjacency = torch.zeros(N, N, dtype=torch.float64)
    adjacency[edge_index[1], edge_index[0]] = weight
    degree = 1 + adjacency.sum(1)
    normalised = adjacency / degree.sqrt()[:, None] / degree.sqrt()[None, :]
    first = model.mlp(x)
    lam = 1 / model.smoothing - 1
    f = first
    for _ in range(model.num_steps):
        scaled = f / degree.sqrt()[:, None]
        distance = (scaled[:, None] - scaled[None, :]).square().sum(2).sqrt() + model.epsilon
        if model.second_root:
            distance = distance.sqrt()
        penalty = torch.where(distance < model.gamma, 1 / (2 * distance) - 1 / (2 * model.gamma), 0.0)
        penalty.fill_diagonal_(0)
        q = (penalty * adjacency).sum(1) / degree
        f = torch.linalg.solve(torch.diag(q + lam), (penalty * normalised) @ f + lam * first)
    return f


@pytest.mark.parametrize("settings", [{}, {"gamma": 0.7}, {"second_root": True, "gamma": 1.2}, {"smoothing": 0.6}])
def test_it_is_the_printed_equations(settings: dict[str, object]) -> None:
    model, (x, edge_index, weight) = make(**settings), scene()
    torch.testing.assert_close(model(x, edge_index, weight), dense(model, x, edge_index, weight))


def test_an_edge_beyond_gamma_is_cut() -> None:
    model, (x, edge_index, weight) = make(gamma=0.4), scene()
    alone = torch.empty(2, 0, dtype=torch.int64)
    torch.testing.assert_close(make(gamma=0.02)(x, edge_index, weight), model.mlp(x))  # everything is too far apart
    assert not torch.allclose(model(x, edge_index, weight), model(x, alone))


def test_detaching_changes_the_gradient_and_nothing_else() -> None:
    x, edge_index, weight = scene()
    weight = weight.requires_grad_()
    logits = [make(detach=detach)(x, edge_index, weight) for detach in (False, True)]
    assert torch.equal(*logits)
    gradients = [torch.autograd.grad(one.square().sum(), weight)[0] for one in logits]
    assert not torch.allclose(*gradients, rtol=1e-2)


def test_neighbours_with_equal_logits_have_a_finite_weight_and_gradient() -> None:
    x = torch.ones(4, IN, dtype=torch.float64, requires_grad=True)
    edge_index = torch.tensor([[0, 1, 1, 0, 2, 3], [1, 0, 2, 3, 1, 0]])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    weight = torch.ones(edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    logits = make()(x, edge_index, weight)
    for gradient in torch.autograd.grad(logits.square().sum(), [x, weight]):
        assert torch.isfinite(gradient).all()


def test_without_steps_it_is_its_mlp() -> None:
    model, (x, edge_index, weight) = make(num_steps=0), scene()
    assert torch.equal(model(x, edge_index, weight), model.mlp(x))


def test_the_defaults_are_the_public_codes_where_it_follows_the_paper() -> None:
    model = registry.create("rung", IN, OUT)
    assert (model.hidden_channels, model.num_steps, model.smoothing, model.dropout) == (64, 10, 0.9, 0.5)
    assert model.mlp.first.dropout == 0
    assert (model.detach, model.second_root) == (False, False)
