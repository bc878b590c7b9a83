r"""Losses by name: how wrong a model is about some nodes. Attacks maximise them, training minimises them.

Every loss takes logits (M, C) and labels (M,) of the nodes and returns a scalar, averaged over them. With
$m = z_y - \max_{c \neq y} z_c$, the margin of the true class y, positive while the model is right:

========================================  ==============================================================
`cross-entropy`                           $-\log p_y$
`cw`                                      $-\max(m, 0)$
`leaky-cw`                                $-\mathrm{leaky\_relu}(m)$, slope 0.1
`margin`                                  $-m$
`tanh-margin`                             $\tanh(-m)$
`elu-margin`                              $-\mathrm{elu}(m)$
`masked-cross-entropy`                    $-\log p_y$, over the targets that are still right
`negative-class-cross-entropy`            $\log p_c$ of the best wrong class c
`tanh-margin-l1`                          $\tanh(-m)$ of logits scaled to an L1 norm of 1 per node
========================================  ==============================================================

They differ in where they spend: cross-entropy and margin go on pushing nodes that are wrong already, CW and
the masked one stop there, tanh, ELU and leaky CW taper off
(`Geisler et al. 2021 <https://arxiv.org/abs/2110.14038>`_).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import torch
from pydantic import AfterValidator
from torch import Tensor
from torch.nn import functional

from purigraph.registry import Registry, canonical

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

registry: Registry[Loss] = Registry("loss", "purigraph.losses")
names, register = registry.names, registry.register


def create(name: str) -> Loss:
    """Return the loss of this name."""
    return registry[name]


def _known(name: str) -> str:
    registry[name]  # refuses what there is not
    return canonical(name)


#: The type of a setting that names a loss; it is kept in its one spelling.
LossName: TypeAlias = Annotated[str, AfterValidator(_known)]


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """(M,) the label's logit minus the best other one; positive where the model is right."""
    label = labels.unsqueeze(1)
    return logits.gather(1, label).squeeze(1) - _without_label(logits, labels).amax(1)


@register("cross-entropy")
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the log-probability of the label."""
    return functional.cross_entropy(logits, labels)


@register("cw")
def cw(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the positive part of the margin: nothing to gain at nodes that are wrong already."""
    return -margins(logits, labels).relu().mean()


@register("leaky-cw")
def leaky_cw(logits: Tensor, labels: Tensor) -> Tensor:
    """As `cw`, with a tenth of the slope at nodes that are wrong already."""
    return -functional.leaky_relu(margins(logits, labels), 0.1).mean()


@register("margin")
def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the margin: what the paper attacks GPR-GAE with."""
    return -margins(logits, labels).mean()


@register("tanh-margin")
def tanh_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """The margin through tanh: nodes near the border count most. What the paper attacks all others with."""
    return torch.tanh(-margins(logits, labels)).mean()


@register("tanh-margin-l1")
def tanh_margin_l1(logits: Tensor, labels: Tensor) -> Tensor:
    """As `tanh_margin`, of logits divided by their L1 norm per node (what the authors' code does)."""
    return tanh_margin(functional.normalize(logits, p=1.0, dim=1), labels)


@register("elu-margin")
def elu_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the margin's ELU: linear at nodes that are right, levelling off at those that are wrong."""
    return -functional.elu(margins(logits, labels)).mean()


@register("masked-cross-entropy")
def masked_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, averaged over the targets that are still right; 0 when there are none."""
    right = logits.argmax(1) == labels
    per_node = functional.cross_entropy(logits, labels, reduction="none")
    return torch.where(right, per_node, 0.0).sum() / right.sum().clamp(min=1)


@register("negative-class-cross-entropy")
def negative_class_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of the best wrong class."""
    wrong = _without_label(logits, labels).argmax(1)
    return -functional.cross_entropy(logits, wrong)


def _without_label(logits: Tensor, labels: Tensor) -> Tensor:
    """The logits with the label's at minus infinity."""
    return logits.scatter(1, labels.unsqueeze(1), -torch.inf)
