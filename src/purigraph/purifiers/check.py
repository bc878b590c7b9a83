"""Is a graph like the one that a purifier was trained on?"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from purigraph.purifiers.statistics import GraphStatistics
from purigraph.tables import Table

# Distances between distributions are the largest difference of shares, in [0, 1]. Even graphs that come from the same
# source differ by about 1 / sqrt(number of nodes or edges), which is allowed on top of these.
_DEGREE_DISTANCE = 0.2
_SCORE_DISTANCE = 0.2
_MEAN_DEGREE_FACTOR = 2.0
_DENSITY_FACTOR = 2.0
_HOMOPHILY_FACTOR = 0.75
_SUSPICIOUS_FACTOR = 2.0
_SUSPICIOUS_MORE = 0.02


@dataclass(frozen=True)
class Finding:
    """One figure of the two graphs.

    Attributes:
        figure: What is compared.
        trained: Its value for the training graph.
        now: Its value for the graph at hand.
        warning: A sentence if they are unlike; None if they are alike.
    """

    figure: str
    trained: float
    now: float
    warning: str | None = None


@dataclass(frozen=True)
class GraphCheck:
    """How a graph compares with the one that a purifier was trained on.

    Attributes:
        findings: One per figure.
    """

    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> list[str]:
        """Return a sentence for every figure in which the graphs are unlike."""
        return [one.warning for one in self.findings if one.warning is not None]

    @property
    def alike(self) -> bool:
        """Whether there is no warning."""
        return not self.warnings

    def table(self) -> Table:
        """Return the figures as a table."""
        rows = [[one.figure, f"{one.trained:.4g}", f"{one.now:.4g}", _verdict(one)] for one in self.findings]
        columns = ["figure", "training graph", "this graph", "verdict"]
        return Table("Is this graph like the one the purifier was trained on?", columns, rows, self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        findings = [
            {"figure": one.figure, "trained": one.trained, "now": one.now, "warning": one.warning}
            for one in self.findings
        ]
        return {"alike": self.alike, "warnings": self.warnings, "findings": findings}


def compare(trained: GraphStatistics, now: GraphStatistics) -> GraphCheck:
    """Compare the statistics of two graphs, both taken with the same purifier."""
    node_noise = 1 / math.sqrt(max(min(trained.nodes, now.nodes), 1))
    edge_noise = 1 / math.sqrt(max(min(trained.edges, now.edges), 1))
    homophily = [one.edge_similarity - one.pair_similarity for one in (trained, now)]
    suspicious_bar = max(_SUSPICIOUS_FACTOR * trained.suspicious, trained.suspicious + _SUSPICIOUS_MORE) + edge_noise
    degrees = _distance_of_shares(trained.degree_shares, now.degree_shares)
    scores = _distance_of_quantiles(trained.score_quantiles, now.score_quantiles)
    findings = [
        Finding(
            "mean degree",
            trained.mean_degree,
            now.mean_degree,
            "The mean degree is more than twice or less than half that of the training graph."
            if not _within(trained.mean_degree, now.mean_degree, _MEAN_DEGREE_FACTOR)
            else None,
        ),
        Finding(
            "distance of degrees",
            0.0,
            degrees,
            f"Degrees are distributed differently: {100 * degrees:.0f} % of the nodes are in other classes of size."
            if degrees > _DEGREE_DISTANCE + node_noise
            else None,
        ),
        Finding(
            "share of non-zero features",
            trained.feature_density,
            now.feature_density,
            "The features are filled to a different degree: were they made in another way?"
            if not _within(trained.feature_density, now.feature_density, _DENSITY_FACTOR)
            else None,
        ),
        Finding(
            "feature homophily",
            homophily[0],
            homophily[1],
            "Neighbours have less in common than in the training graph: edges were added between strangers, or the "
            "features don't belong to these nodes."
            if homophily[1] < _HOMOPHILY_FACTOR * homophily[0] - edge_noise
            else None,
        ),
        Finding(
            "suspicious edges",
            trained.suspicious,
            now.suspicious,
            f"{100 * now.suspicious:.1f} % of the edges look suspicious, {100 * trained.suspicious:.1f} % did in the "
            "training graph: the graph was attacked, or it is not of the kind that the purifier knows."
            if now.suspicious > suspicious_bar
            else None,
        ),
        Finding(
            "distance of scores",
            0.0,
            scores,
            "The scores of the edges are distributed differently: weights and thresholds don't carry over."
            if scores > _SCORE_DISTANCE + edge_noise
            else None,
        ),
    ]
    return GraphCheck(tuple(findings))


def _verdict(finding: Finding) -> str:
    return "alike" if finding.warning is None else "UNLIKE"


def _within(first: float, second: float, factor: float) -> bool:
    """Whether two figures differ by at most a factor; 0 equals 0 only."""
    if first <= 0 or second <= 0:
        return first == second
    return 1 / factor <= second / first <= factor


def _distance_of_shares(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the total variation distance of two lists of shares, of which the shorter one goes on with zeros."""
    pairs = itertools.zip_longest(first, second, fillvalue=0.0)
    return sum((abs(a - b) for a, b in pairs), start=0.0) / 2


def _distance_of_quantiles(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest difference of two distribution functions that are known by their quantiles."""
    if not first or not second:
        return 0.0 if len(first) == len(second) else 1.0
    return max(
        abs(bisect.bisect_right(first, value) / len(first) - bisect.bisect_right(second, value) / len(second))
        for value in (*first, *second)
    )
