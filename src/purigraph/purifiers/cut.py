"""Cutting weights at a threshold, and a gradient for it."""

from __future__ import annotations

from torch import Tensor

# Weights within about twice this of the threshold get most of the gradient: a tenth of what weights can be.
_WIDTH = 0.1


def cut(weight: Tensor, threshold: float, *, straight_through: bool = False) -> Tensor:
    r"""Return 1 for weights (E,) from the threshold on and 0 for those below, in the weights' dtype.

    Such a cut has no gradient. With `straight_through` it has that of a sigmoid around the threshold,
    $\sigma((w - t) / 0.1)$, while the result stays the same: the estimator of Bengio et al. (2013), which lets an
    attack find out what it has to do to get an edge above the threshold, or below.
    """
    hard = (weight.detach() >= threshold).to(weight.dtype)
    if not straight_through:
        return hard
    soft = ((weight - threshold) / _WIDTH).sigmoid()
    return hard + (soft - soft.detach())


def cut_parts(weight: Tensor, threshold: float, presence: Tensor | None) -> Tensor:
    r"""Cut weights of pairs that are there to the shares `presence` (E,) and had them multiplied in already.

    The cut is straight-through. What counts is the weight of the whole pair, $w \ge t \pi$; the result is multiplied by
    $\pi$, so that with presences of 0 and 1 it is that of `cut` on the pairs that are there.
    """
    if presence is None:
        return cut(weight, threshold, straight_through=True)
    return presence * cut(weight - threshold * presence, 0.0, straight_through=True)
