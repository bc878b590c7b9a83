r"""Convergence of purification: accuracy and change per step, the rate of Theorem 2, and the Lipschitz constant."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.attacks import Model
from purigraph.evaluation.arguments import read_numbers
from purigraph.evaluation.predictions import predict
from purigraph.graph import PairGraph, as_pair_graph, read_data
from purigraph.graph.injection import inject
from purigraph.graph.nodes import read_targets
from purigraph.metrics import accuracy
from purigraph.numbers import read_seed


class Trace(Protocol):
    """The steps of one purification."""

    @property
    def graph(self) -> PairGraph:
        """Return the purified graph."""

    @property
    def weights(self) -> Sequence[Tensor]:
        """Return the weights before the first step and after each one, (E,) each, if a history was requested."""

    @property
    def relative_change(self) -> Sequence[float]:
        r"""Return $\|\Delta A^{(t)}\| / \|A^{(t)}\|$ for every step."""


class SteppedPurifier(Protocol):
    r"""A purifier that works in steps $A^{(t+1)} = A^{(t)} + \alpha (f_\theta(A^{(t)}) - A^{(t)})$ and records them."""

    def trace(
        self,
        x: Tensor,
        graph: PairGraph,
        *,
        alpha: float | None = None,
        tolerance: float | None = None,
        max_steps: int | None = None,
        history: bool = False,
    ) -> Trace:
        """Purify and record the steps; None stands for the purifier's own setting."""

    def with_settings(self, **changes: Any) -> SteppedPurifier:
        """Return the same purifier with other settings: alpha, tolerance, max_steps, threshold."""


@dataclass(frozen=True)
class Convergence:
    r"""The steps of one purification.

    Attributes:
        alpha: The step size.
        accuracies: The classifier's accuracy before the first step and after each one.
        relative_change: $\|\Delta A^{(t)}\| / \|A^{(t)}\|$ for every step.
        rate: The measured ratio of successive changes, as the geometric mean over the steps.
        bound: Theorem 2's factor $1 - \alpha (1 - L)$ for the given Lipschitz constant L.
    """

    alpha: float
    accuracies: list[float]
    relative_change: list[float]
    rate: float
    bound: float | None


def convergence(
    classifier: Model,
    purifier: SteppedPurifier,
    data: Data,
    *,
    alphas: float | Sequence[float] = (0.3, 0.5, 0.7, 1.0),
    max_steps: int = 10,
    lipschitz: float | None = None,
    targets: Tensor | None = None,
) -> list[Convergence]:
    """Purify a (perturbed) graph step by step and classify it after each step, for several step sizes.

    Args:
        classifier: The classifier, without a purifier.
        purifier: A purifier that works in steps, e.g. a `GPRGAE`.
        data: A graph with x, edge_index, y, and a `test_mask` unless `targets` are given.
        alphas: The step sizes, or a single one.
        max_steps: Number of steps to take.
        lipschitz: The constant L for the bound, e.g. from `lipschitz_constant`. Default: no bound.
        targets: (M,) indices or (N,) bool. Default: `data.test_mask`.
    """
    nodes, labels = read_targets(data, targets, None, data.num_nodes)
    graph, entries = read_data(data)
    results = []
    for alpha in read_numbers(alphas, name="alphas"):
        with torch.no_grad():
            trace = purifier.trace(data.x, graph, alpha=alpha, tolerance=0.0, max_steps=max_steps, history=True)
        accuracies = []
        for weight in trace.weights:
            step = copy.copy(data)
            step.edge_weight = entries.spread(weight)
            accuracies.append(accuracy(predict(classifier, step)[nodes], labels[nodes]))
        norms = [
            float((after - before).norm()) for before, after in zip(trace.weights, trace.weights[1:], strict=False)
        ]
        bound = None if lipschitz is None else 1 - alpha * (1 - lipschitz)
        results.append(Convergence(alpha, accuracies, list(trace.relative_change), _mean_factor(norms), bound))
    return results


def lipschitz_constant(
    purifier: SteppedPurifier,
    x: Tensor,
    graph: PairGraph | Data,
    *,
    samples: int = 100,
    injection: float = 0.5,
    seed: int = 0,
) -> float:
    r"""Estimate the Lipschitz constant of the map $f_\theta$, as in the paper's analysis.

    $$\hat L = \max \frac{\|f(A_1) - f(A_2)\|_F}{\|A_1 - A_2\|_F}$$
    over `samples` random pairs of graphs. Norms are over the union of both edge sets; an edge that a graph does not
    have counts as 0. The constant is that of a full step without a threshold, whatever the purifier's own settings are.

    Args:
        purifier: A purifier that works in steps, e.g. a `GPRGAE`.
        x: (N, F) node features.
        graph: The clean graph.
        samples: Number of pairs of graphs to compare.
        injection: Each graph is the clean one with a random number of injected edges, below this share of its edges.
        seed: The same seed gives the same graphs.
    """
    purifier = purifier.with_settings(alpha=1.0, threshold=None, max_steps=1, tolerance=0.0)
    clean = as_pair_graph(graph)
    generator = torch.Generator().manual_seed(read_seed(seed))
    largest = 0.0
    for _ in range(samples):
        counts = [round(float(torch.rand((), generator=generator)) * injection * clean.num_pairs) for _ in range(2)]
        sides = [inject(clean, count, generator).graph for count in counts]
        with torch.no_grad():
            mapped = [purifier.trace(x, side).graph for side in sides]
        distance = _distance(*sides)
        if distance > 0:
            largest = max(largest, _distance(*mapped) / distance)
    return largest


def _distance(one: PairGraph, other: PairGraph) -> float:
    union = torch.unique(torch.cat([one.codes, other.codes]))
    difference = torch.zeros(len(union), dtype=torch.float64)
    difference[torch.searchsorted(union, one.codes)] += one.weight.double()
    difference[torch.searchsorted(union, other.codes)] -= other.weight.double()
    return float(difference.norm())


def _mean_factor(norms: list[float]) -> float:
    """Return the geometric mean of the ratios of successive changes; nan for fewer than two changes."""
    if len(norms) < 2 or norms[0] == 0 or norms[-1] == 0:
        return float("nan")
    return float((norms[-1] / norms[0]) ** (1 / (len(norms) - 1)))
