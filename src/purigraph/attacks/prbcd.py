"""PRBCD: projected randomized block coordinate descent."""

from __future__ import annotations

from purigraph.attacks.base import registry
from purigraph.attacks.random_block_ascent import RandomBlockAscent


@registry.register("prbcd")
class PRBCD(RandomBlockAscent):
    r"""Projected randomized block coordinate descent, with one budget for the whole graph.

    From `Robustness of Graph Neural Networks at Scale <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021),
    in the form that the GPR-GAE paper evaluates with. The projection is the nearest point with
    $\sum_e p_e \leq \Delta$. See `BlockAscent` for the steps and the learning rate.
    """
