r"""Losses by name: how wrong a model is about some nodes. Attacks maximise them, training minimises them.

Every loss takes logits (M, C) and labels (M,) of the nodes and returns a scalar, averaged over them. With
$m = z_y - \max_{c \neq y} z_c$, the margin of the true class y, positive where the model is right:

========================================  ==============================================================
`cross-entropy`                           $-\log p_y$
`cw`                                      $-\max(m, 0)$
`leaky-cw`                                $-\mathrm{leaky\_relu}(m)$, slope 0.1
`margin`                                  $-m$
`tanh-margin`                             $\tanh(-m)$
`elu-margin`                              $-\mathrm{elu}(m)$
`masked-cross-entropy`                    $-\log p_y$, over the targets still classified correctly
`negative-class-cross-entropy`            $\log p_c$ of the best wrong class c
`tanh-margin-l1`                          $\tanh(-m)$ of logits scaled to an L1 norm of 1 per node
========================================  ==============================================================

They differ in where they spend the budget: cross-entropy and margin keep pushing nodes that are already misclassified,
CW and masked cross-entropy ignore them, and tanh, ELU and leaky CW taper off
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
    registry[name]  # raises if the name is unknown
    return canonical(name)


#: The type of a setting that names a loss; the name is stored in canonical form.
LossName: TypeAlias = Annotated[str, AfterValidator(_known)]


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the label's logit minus the largest other logit, (M,); positive where the model is right."""
    label = labels.unsqueeze(1)
    return logits.gather(1, label).squeeze(1) - _without_label(logits, labels).amax(1)


@register("cross-entropy")
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the negative log-probability of the label."""
    return functional.cross_entropy(logits, labels)


@register("cw")
def cw(logits: Tensor, labels: Tensor) -> Tensor:
    """Return minus the positive part of the margin: nothing is gained at nodes that are already misclassified."""
    return -margins(logits, labels).relu().mean()


@register("leaky-cw")
def leaky_cw(logits: Tensor, labels: Tensor) -> Tensor:
    """Return `cw` with a tenth of the slope at nodes that are already misclassified."""
    return -functional.leaky_relu(margins(logits, labels), 0.1).mean()


@register("margin")
def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return minus the margin: the loss with which the paper attacks GPR-GAE."""
    return -margins(logits, labels).mean()


@register("tanh-margin")
def tanh_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return tanh of minus the margin: nodes near the decision boundary count most.

    The paper attacks all models but GPR-GAE with it.
    """
    return torch.tanh(-margins(logits, labels)).mean()


@register("tanh-margin-l1")
def tanh_margin_l1(logits: Tensor, labels: Tensor) -> Tensor:
    """Return `tanh_margin` of logits divided by their L1 norm per node, as in the authors' code."""
    return tanh_margin(functional.normalize(logits, p=1.0, dim=1), labels)


@register("elu-margin")
def elu_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return minus the ELU of the margin: linear where the model is right, levelling off where it is wrong."""
    return -functional.elu(margins(logits, labels)).mean()


@register("masked-cross-entropy")
def masked_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy, averaged over the targets still classified correctly; 0 if there are none."""
    right = logits.argmax(1) == labels
    per_node = functional.cross_entropy(logits, labels, reduction="none")
    return torch.where(right, per_node, 0.0).sum() / right.sum().clamp(min=1)


@register("negative-class-cross-entropy")
def negative_class_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability of the best wrong class."""
    wrong = _without_label(logits, labels).argmax(1)
    return -functional.cross_entropy(logits, wrong)


def _without_label(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logits with the label's logit set to minus infinity."""
    return logits.scatter(1, labels.unsqueeze(1), -torch.inf)
