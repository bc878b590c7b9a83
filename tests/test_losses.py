from __future__ import annotations

import math

import pytest
import torch

from purigraph import losses
from purigraph.losses import margins

# Three nodes: right by 2, wrong by 1, right by 0.5.
LOGITS = torch.tensor([[3.0, 1.0, -1.0], [0.0, 1.0, 0.5], [0.2, -2.0, 0.7]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 2])
MARGINS = [2.0, -1.0, 0.5]


def log_probability(node: int, label: int) -> float:
    row = LOGITS[node].tolist()
    return row[label] - math.log(sum(math.exp(value) for value in row))


BY_HAND = {
    "cross_entropy": -sum(log_probability(n, c) for n, c in enumerate((0, 0, 2))) / 3,
    "cw": -(2.0 + 0.0 + 0.5) / 3,
    "leaky_cw": -(2.0 - 0.1 + 0.5) / 3,
    "margin": -(2.0 - 1.0 + 0.5) / 3,
    "tanh_margin": -(math.tanh(2.0) - math.tanh(1.0) + math.tanh(0.5)) / 3,
    "elu_margin": -(2.0 + (math.exp(-1.0) - 1) + 0.5) / 3,
    "masked_cross_entropy": -(log_probability(0, 0) + log_probability(2, 2)) / 2,
    "negative_class_cross_entropy": (log_probability(0, 1) + log_probability(1, 1) + log_probability(2, 0)) / 3,
    "tanh_margin_l1": -(math.tanh(2.0 / 5.0) - math.tanh(1.0 / 1.5) + math.tanh(0.5 / 2.9)) / 3,
}


def test_margins() -> None:
    torch.testing.assert_close(margins(LOGITS, LABELS), torch.tensor(MARGINS, dtype=torch.float64))


def test_every_loss_is_tested() -> None:
    assert sorted(losses.names()) == sorted(name.replace("_", "-") for name in BY_HAND)


@pytest.mark.parametrize("name", BY_HAND)
def test_equals_the_formula(name: str) -> None:
    assert float(losses.create(name)(LOGITS, LABELS)) == pytest.approx(BY_HAND[name], rel=1e-12)


@pytest.mark.parametrize("name", BY_HAND)
def test_gradient(name: str) -> None:
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: losses.create(name)(z, LABELS), logits)


@pytest.mark.parametrize("name", BY_HAND)
def test_does_not_fall_where_the_true_class_loses(name: str) -> None:
    worse = LOGITS.clone()
    worse[0, 0] -= 0.5
    assert losses.create(name)(worse, LABELS) >= losses[name](LOGITS, LABELS)


def test_masked_cross_entropy_without_a_right_node() -> None:
    logits = LOGITS[1:2].clone().requires_grad_()
    loss = losses.create("masked_cross_entropy")(logits, LABELS[1:2])
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert torch.equal(logits.grad, torch.zeros_like(logits))
