"""The rows of the benchmark table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from purigraph.bench.measure import by_turns, child_memory, floor_seconds, once
from purigraph.bench.workloads import WORKLOADS
from purigraph.purifiers import GPRGAE

CORA = {"num_nodes": 2708, "num_edges": 5278, "num_features": 1433}
PUBMED = {"num_nodes": 19717, "num_edges": 44324, "num_features": 500}
ARXIV = {"num_nodes": 169343, "num_edges": 1157799, "num_features": 128}


@dataclass(frozen=True)
class Row:
    """One workload: our time, the time of the reference, the floor, and the peak memory of both sides.

    `ratio` is how many times faster we are than the reference; `floor_multiple` is how many times slower we are than
    the unavoidable matrix products. Both are None if there is nothing to compare with.
    """

    name: str
    size: str
    ours_s: float
    reference_s: float | None
    floor_s: float | None
    ours_mb: float | None
    reference_mb: float | None

    @property
    def ratio(self) -> float | None:
        """Return the time of the reference divided by ours."""
        return None if self.reference_s is None else self.reference_s / self.ours_s

    @property
    def floor_multiple(self) -> float | None:
        """Return our time divided by the floor."""
        return None if self.floor_s is None else self.ours_s / self.floor_s

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        names = (
            "name",
            "size",
            "ours_s",
            "reference_s",
            "ratio",
            "floor_s",
            "floor_multiple",
            "ours_mb",
            "reference_mb",
        )
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class _Plan:
    name: str
    size: str
    arguments: dict[str, Any]
    rounds: int
    divide: int = 1  # the number of units of work in one timed call
    has_reference: bool = True
    large: bool = False


_PLANS = [
    _Plan("purify", "cora", CORA, rounds=7),
    _Plan("gradient", "cora", {**CORA, "block": 10_000}, rounds=3),
    _Plan("diffusion_gradient", "cora", {**CORA, "block": 250_000}, rounds=3),
    _Plan("train_epoch", "cora", CORA, rounds=3, divide=3),
    _Plan("prbcd_vs_pyg", "cora", {**CORA, "block": 10_000, "epochs": 20}, rounds=3, divide=20),
    # The reference is the same without the anchor, so the ratio is near 1; the small purifier, where it counts most.
    _Plan("anchored_prediction", "cora", {**CORA, **GPRGAE.presets["fast"].shape}, rounds=7),
    _Plan("purify", "pubmed", PUBMED, rounds=3),
    _Plan("gradient", "pubmed", {**PUBMED, "block": 50_000}, rounds=1, has_reference=False),
    # The reference would need 5 TFlop and tens of GB of memory traffic per step: minutes, without new insight.
    _Plan("arxiv_purify", "arxiv", ARXIV, rounds=1, has_reference=False, large=True),
    _Plan("arxiv_attack_epoch", "arxiv", {**ARXIV, "block": 1_000_000}, rounds=1, has_reference=False, large=True),
]


def run(*, quick: bool = False, memory: bool = True, only: Collection[str] | None = None) -> Iterator[Row]:
    """Measure and yield row by row.

    Args:
        only: The names of the rows to measure. Default: all.
        quick: Whether to measure only Cora's size, with fewer repetitions; the large sizes take minutes.
        memory: Whether to also measure peak memory, in child processes.
    """
    for plan in _PLANS:
        if (quick and plan.size != "cora") or (only is not None and plan.name not in only):
            continue
        yield _measure(plan, quick=quick, memory=memory)


def _measure(plan: _Plan, *, quick: bool, memory: bool) -> Row:
    work = WORKLOADS[plan.name](**plan.arguments)
    num_nodes = plan.arguments["num_nodes"]
    sides = {"ours": work.ours, **({"reference": work.reference} if plan.has_reference else {})}
    if plan.large:
        # Calls take minutes: our side is warmed up with one call, and the reference is timed once.
        work.ours()
        times = {name: once(side) for name, side in sides.items()}
    else:
        times = by_turns(sides, rounds=1 if quick else plan.rounds)
    floor = None if work.floors is None else work.floors * floor_seconds(num_nodes)
    del work, sides
    peaks: dict[str, float | None] = {"ours": None, "reference": None}
    if memory:
        for side in times:
            peaks[side] = child_memory(plan.name, side, **plan.arguments)
    return Row(
        name=plan.name,
        size=plan.size,
        ours_s=times["ours"] / plan.divide,
        reference_s=times["reference"] / plan.divide if "reference" in times else None,
        floor_s=floor,
        ours_mb=peaks["ours"],
        reference_mb=peaks["reference"],
    )
