"""PGD: projected gradient ascent on all pairs at once."""

from __future__ import annotations

from types import MappingProxyType

from purigraph.attacks.base import registry
from purigraph.attacks.block_ascent import BlockAscent, Steps
from purigraph.settings import setting


@registry.register("pgd")
class PGD(BlockAscent):
    r"""Projected gradient ascent on the flip weights of all $N(N-1)/2$ pairs, without sampling.

    From `Topology Attack and Defense for Graph Neural Networks <https://arxiv.org/abs/1906.04214>`_
    (Xu et al. 2019), with the learning rate $\eta_0 / \sqrt{t}$. For small graphs: the model sees a complete graph, as
    an edge list of $N(N-1)$ entries (4.4 million for Citeseer), never as a dense matrix. The attack itself needs about
    110 bytes per entry at its peak (half a gigabyte for Citeseer), in addition to the model's memory.
    """

    epochs: int = setting("Number of steps.", default=200, ge=0)
    rounding: bool = setting("Whether the last third of the steps drives the weights to whole flips.", default=True)

    trial_settings = MappingProxyType({"epochs": 9, "final_samples": 3})

    def _steps(self) -> Steps:
        rounding = self.epochs // 3 if self.rounding else 0
        return Steps(resampled=0, fixed=self.epochs - rounding, rounding=rounding)
