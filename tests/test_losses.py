from __future__ import annotations

import math

import pytest
import torch

from purigraph import losses
from purigraph.errors import UnknownNameError
from purigraph.losses import margins

# Three nodes: right by 2, wrong by 1, right by 0.5.
LOGITS = torch.tensor([[3.0, 1.0, -1.0], [0.0, 1.0, 0.5], [0.2, -2.0, 0.7]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 2])
MARGINS = [2.0, -1.0, 0.5]


def log_probability(node: int, label: int) -> float:
    row = LOGITS[node].tolist()
    return row[label] - math.log(sum(math.exp(value) for value in row))


BY_HAND = {
    "cross-entropy": -sum(log_probability(n, c) for n, c in enumerate((0, 0, 2))) / 3,
    "cw": -(2.0 + 0.0 + 0.5) / 3,
    "leaky-cw": -(2.0 - 0.1 + 0.5) / 3,
    "margin": -(2.0 - 1.0 + 0.5) / 3,
    "tanh-margin": -(math.tanh(2.0) - math.tanh(1.0) + math.tanh(0.5)) / 3,
    "elu-margin": -(2.0 + (math.exp(-1.0) - 1) + 0.5) / 3,
    "masked-cross-entropy": -(log_probability(0, 0) + log_probability(2, 2)) / 2,
    "negative-class-cross-entropy": (log_probability(0, 1) + log_probability(1, 1) + log_probability(2, 0)) / 3,
    "tanh-margin-l1": -(math.tanh(2.0 / 5.0) - math.tanh(1.0 / 1.5) + math.tanh(0.5 / 2.9)) / 3,
}


def test_margins() -> None:
    torch.testing.assert_close(margins(LOGITS, LABELS), torch.tensor(MARGINS, dtype=torch.float64))


def test_every_loss_is_tested() -> None:
    own = [name for name in losses.names() if losses.create(name).__module__ == losses.__name__]
    assert own == sorted(BY_HAND)


def test_a_name_has_one_spelling() -> None:
    assert losses.create("Tanh_Margin") is losses.create("tanh-margin")
    with pytest.raises(UnknownNameError, match="tanh-margin"):
        losses.create("tanh-margins")


@pytest.mark.parametrize("name", BY_HAND)
def test_equals_the_formula(name: str) -> None:
    assert float(losses.create(name)(LOGITS, LABELS)) == pytest.approx(BY_HAND[name], rel=1e-12)


@pytest.mark.parametrize("name", losses.names())
def test_gradient(name: str) -> None:
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: losses.create(name)(z, LABELS), logits)


@pytest.mark.parametrize("name", losses.names())
def test_does_not_fall_where_the_true_class_loses(name: str) -> None:
    worse = LOGITS.clone()
    worse[0, 0] -= 0.5
    assert losses.create(name)(worse, LABELS) >= losses.create(name)(LOGITS, LABELS)


def test_masked_cross_entropy_without_a_right_node() -> None:
    logits = LOGITS[1:2].clone().requires_grad_()
    loss = losses.create("masked-cross-entropy")(logits, LABELS[1:2])
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert torch.equal(logits.grad, torch.zeros_like(logits))
