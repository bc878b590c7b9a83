"""At which weight to cut: thresholds by the share of true edges that they would cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph import read_data
from purigraph.graph.injection import inject
from purigraph.numbers import is_real, read_seed

if TYPE_CHECKING:
    from purigraph.purifiers.base import Purifier

#: The false-positive rates that thresholds are kept for.
RATES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
#: The share of injected edges in the graphs of `calibrate`, per true edge.
INJECTIONS = (0.1, 0.5, 1.0)

#: The share of true edges that may be called suspicious by chance, where nobody has said so.
USUAL_RATE = 0.01


@dataclass(frozen=True)
class Calibration:
    """Thresholds by false-positive rate, measured on true edges among injected ones; labels are not used.

    Attributes:
        thresholds: For every rate of `RATES`, the largest weight below which at most that share of true edges lie.
        caught: For every rate, the share of injected edges below that threshold.
        true_edges: How many weights of true edges were seen.
        injected_edges: How many of injected ones.
        held_out: Whether the true edges were unseen in training.
    """

    thresholds: tuple[float, ...]
    caught: tuple[float, ...]
    true_edges: int
    injected_edges: int
    held_out: bool = False

    def threshold(self, false_positive_rate: float) -> float:
        """Return the threshold at a rate, between the kept ones by a straight line."""
        return _between(read_rate(false_positive_rate), self.thresholds)

    def caught_at(self, false_positive_rate: float) -> float:
        """Return the share of injected edges that the threshold of a rate catches."""
        return _between(read_rate(false_positive_rate), self.caught)

    def record(self) -> dict[str, Any]:
        """Return what is kept with a model, as JSON values."""
        return {
            "rates": list(RATES),
            "thresholds": list(self.thresholds),
            "caught": list(self.caught),
            "true_edges": self.true_edges,
            "injected_edges": self.injected_edges,
        }

    @classmethod
    def of_record(cls, record: object) -> Calibration | None:
        """Return the calibration of a record; None if it is none."""
        if not isinstance(record, Mapping) or record.get("rates") != list(RATES):
            return None
        thresholds, caught = record.get("thresholds"), record.get("caught")
        true, injected = record.get("true_edges"), record.get("injected_edges")
        if not (
            _are_shares(thresholds) and _are_shares(caught) and isinstance(true, int) and isinstance(injected, int)
        ):
            return None
        return cls(tuple(thresholds), tuple(caught), true, injected, held_out=True)


def measure(true: Tensor, injected: Tensor, *, held_out: bool = False) -> Calibration:
    """Return the calibration of the weights that true (T,) and injected (I,) edges got."""
    ordered = true.detach().double().clamp(0, 1).sort().values
    caught = injected.detach().double()
    thresholds = [float(ordered[min(int(rate * len(ordered)), len(ordered) - 1)]) for rate in RATES[:-1]]
    thresholds = [*thresholds, 1.0]
    shares = [float((caught < threshold).double().mean()) if len(caught) else 0.0 for threshold in thresholds]
    return Calibration(tuple(thresholds), tuple(shares), len(true), len(injected), held_out)


def calibrate(
    purifier: Purifier, data: Data, *, injections: Iterable[float] = INJECTIONS, seed: int = 0
) -> Calibration:
    """Measure thresholds on a trusted graph: inject random edges, purify, and look at the weights of both kinds.

    The edges should be ones that the purifier was not trained on; those of its training graph look better than
    later ones will. `GPRGAE.fit` does the same with its validation sets, and keeps the result.

    Args:
        purifier: Any fitted purifier.
        data: A trusted graph.
        injections: The numbers of injected edges per true edge, of several graphs.
        seed: The seed of the injected edges.
    """
    graph, _ = read_data(data)
    if graph.num_pairs == 0:
        raise InputError("data has no edges to calibrate a threshold on.")
    generator = torch.Generator().manual_seed(read_seed(seed))
    true, injected = [], []
    with torch.no_grad():
        for share in injections:
            perturbed = inject(graph, max(round(share * graph.num_pairs), 1), generator)
            score = purifier.evidence(data.x, perturbed.graph).score
            true.append(score[perturbed.is_original])
            injected.append(score[~perturbed.is_original])
    return measure(torch.cat(true), torch.cat(injected))


def read_rate(rate: Any) -> float:
    """Return a false-positive rate; raise `InputError` unless it is a number from 0 to 1."""
    if not is_real(rate) or not 0 <= rate <= 1:
        raise InputError(f"false_positive_rate must be a number from 0 to 1, not {rate!r}.")
    return float(rate)


def _are_shares(values: Any) -> TypeGuard[list[float]]:
    return (
        isinstance(values, list)
        and len(values) == len(RATES)
        and all(is_real(value) and 0 <= value <= 1 for value in values)
    )


def _between(rate: float, values: tuple[float, ...]) -> float:
    at = max(k for k, known in enumerate(RATES) if known <= rate)
    if RATES[at] == rate:
        return values[at]
    share = (rate - RATES[at]) / (RATES[at + 1] - RATES[at])
    return values[at] + share * (values[at + 1] - values[at])
