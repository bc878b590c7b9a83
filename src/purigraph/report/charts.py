"""The charts of a page as numbers: where bars, lines and labels stand in an SVG. Nothing here is markup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

WIDTH, HEIGHT = 640.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 16.0, 16.0, 48.0
_BINS = 40


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram."""

    x: float
    y: float
    width: float
    height: float
    count: int
    low: float
    high: float
    suspicious: bool


@dataclass(frozen=True)
class Mark:
    """A place on an axis and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Histogram:
    """How many edges have which weight; the counts are on a logarithmic scale.

    Attributes:
        bars: The bars.
        columns: Marks of the weights.
        rows: Marks of the counts.
        threshold: Where the threshold is.
    """

    bars: list[Bar]
    columns: list[Mark]
    rows: list[Mark]
    threshold: float


@dataclass(frozen=True)
class Line:
    """A line with a band around it, as the points of SVG's polyline and polygon."""

    name: str
    points: str
    band: str


@dataclass(frozen=True)
class Steps:
    """How weights went, step by step."""

    lines: list[Line]
    columns: list[Mark]
    rows: list[Mark]


def histogram(weight: Tensor, threshold: float) -> Histogram:
    """Return the histogram of weights (E,) in [0, 1]."""
    values = weight.detach().double().cpu().clamp(0, 1)
    bins = (values * _BINS).long().clamp(max=_BINS - 1)
    counts = torch.bincount(bins, minlength=_BINS).tolist()
    top = max(*counts, 1)
    scale = (HEIGHT - TOP - BOTTOM) / math.log10(top + 1)
    bars = []
    for k, count in enumerate(counts):
        height = scale * math.log10(count + 1)
        low, high = k / _BINS, (k + 1) / _BINS
        bars.append(
            Bar(
                _across(low),
                HEIGHT - BOTTOM - height,
                _across(high) - _across(low) - 1,
                height,
                count,
                low,
                high,
                high <= threshold + 1e-9,
            )
        )
    marks = [10**power for power in range(int(math.log10(top)) + 1)]
    rows = [Mark(HEIGHT - BOTTOM - scale * math.log10(mark + 1), f"{mark:,}") for mark in marks]
    columns = [Mark(_across(k / 5), f"{k / 5:g}") for k in range(6)]
    return Histogram(bars, columns, rows, _across(min(max(threshold, 0.0), 1.0)))


def steps(weights: Sequence[Tensor], groups: dict[str, Tensor]) -> Steps:
    """Return the medians of groups of edges, (E,) masks, over the steps, with bands that hold 90 % of each."""
    last = max(len(weights) - 1, 1)

    def column(k: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * k / last

    def row(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(value, 0.0), 1.0)

    lines = []
    for name, mask in groups.items():
        if not mask.any():
            continue
        spread = [_percentiles(values.detach().cpu().double()[mask]) for values in weights]
        points = " ".join(f"{column(k):.1f},{row(one[1]):.1f}" for k, one in enumerate(spread))
        upper = [f"{column(k):.1f},{row(one[2]):.1f}" for k, one in enumerate(spread)]
        lower = [f"{column(k):.1f},{row(one[0]):.1f}" for k, one in enumerate(spread)]
        lines.append(Line(name, points, " ".join(upper + lower[::-1])))
    columns = [Mark(column(k), f"{k}") for k in range(len(weights))]
    return Steps(lines, columns, [Mark(row(k / 4), f"{k / 4:g}") for k in range(5)])


def sparkline(values: Sequence[float], width: float = 60.0, height: float = 16.0) -> str:
    """Return the points of a small line of values in [0, 1].

    >>> sparkline([1.0, 0.0], 10, 10)
    '0.0,1.0 10.0,9.0'
    """
    last = max(len(values) - 1, 1)
    return " ".join(
        f"{width * k / last:.1f},{height - 1 - (height - 2) * min(max(value, 0.0), 1.0):.1f}"
        for k, value in enumerate(values)
    )


def _across(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def _percentiles(values: Tensor) -> tuple[float, float, float]:
    ordered = values.sort().values
    low, middle, high = (float(ordered[round(share * (len(ordered) - 1))]) for share in (0.05, 0.5, 0.95))
    return low, middle, high
