"""Thresholds from the validation sets of a training: true edges that it has not seen, among injected ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.purifiers.calibration import Calibration, measure

if TYPE_CHECKING:
    from purigraph.purifiers.gpr_gae.model import GPRGAE


class ScoredGraph(Protocol):
    """A perturbed graph, the pairs in it that count, and which of those are true."""

    @property
    def graph(self) -> PairGraph:
        """The perturbed graph."""

    @property
    def scored(self) -> PairGraph:
        """The pairs that count."""

    @property
    def is_original(self) -> Tensor:
        """Which of those are true, bool."""


def calibrate_on_validation(purifier: GPRGAE, x: Tensor, sets: Sequence[ScoredGraph]) -> Calibration:
    """Return thresholds by the weights that edges of a validation set get, after all steps of a purification.

    Of the sets, the one with the fewest injected edges is taken: the others have up to three for every true edge,
    where all weights are lower than in any graph that is still of use.
    """
    one = min(sets, key=lambda candidate: candidate.graph.num_pairs)
    with torch.no_grad():
        score = purifier.evidence(x, one.graph).score
    found = score[one.graph.find(one.scored.codes)]
    return measure(found[one.is_original], found[~one.is_original], held_out=True)
