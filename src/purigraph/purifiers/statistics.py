"""Statistics of a graph as a purifier sees it, kept with the model to tell later whether another graph is like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from purigraph.errors import ModelFileError
from purigraph.graph import PairGraph
from purigraph.kernels.row_products import Rows
from purigraph.numbers import is_real

#: The number of steps between the lowest and the highest of the kept quantiles.
QUANTILE_STEPS = 20

# Similarities are averaged over at most this many pairs, drawn with a fixed seed.
_SAMPLED_PAIRS = 50_000
_DIGITS = 6


@dataclass(frozen=True)
class GraphStatistics:
    """What is known about a graph and about the scores that a purifier gives to its edges.

    Attributes:
        nodes: N.
        edges: E, undirected.
        features: F.
        mean_degree: The mean number of neighbours.
        degree_shares: The shares of nodes with degree 0, 1, 2 to 3, 4 to 7, and so on.
        feature_density: The share of features that are not 0.
        edge_similarity: The mean cosine similarity of the features of an edge's ends.
        pair_similarity: The same for random pairs of nodes.
        suspicious: The share of edges with a low score: below 0.5, or as the purifier says.
        score_quantiles: The scores of the edges at 0, 5, ..., 100 %; empty without edges.
    """

    nodes: int
    edges: int
    features: int
    mean_degree: float
    degree_shares: tuple[float, ...]
    feature_density: float
    edge_similarity: float
    pair_similarity: float
    suspicious: float
    score_quantiles: tuple[float, ...]

    @classmethod
    def of(cls, x: Tensor, graph: PairGraph, scores: Tensor, suspicious_below: float) -> GraphStatistics:
        """Compute the statistics of a graph with features (N, F) and one score per pair (E,)."""
        degree = graph.degree()
        # frexp gives the number of binary digits, which is the bin: 0 for 0, 1 for 1, 2 for 2 and 3, ...
        bins = torch.frexp(degree.double()).exponent.long()
        shares = torch.bincount(bins, minlength=1).double() / max(graph.num_nodes, 1)
        rows = Rows(x)
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randperm(graph.num_pairs, generator=generator)[:_SAMPLED_PAIRS].to(graph.device)
        drawn = torch.randint(0, max(graph.num_nodes, 1), (2, _SAMPLED_PAIRS), generator=generator).to(graph.device)
        apart = drawn[:, drawn[0] != drawn[1]]
        scores = scores.detach().double()
        grid = torch.linspace(0, 1, QUANTILE_STEPS + 1, dtype=torch.float64, device=scores.device)
        return cls(
            nodes=graph.num_nodes,
            edges=graph.num_pairs,
            features=x.shape[1],
            mean_degree=_rounded(2 * graph.num_pairs / max(graph.num_nodes, 1)),
            degree_shares=tuple(_rounded(share) for share in shares.tolist()),
            feature_density=_rounded(_density(x)),
            edge_similarity=_rounded(_mean_cosine(rows, graph.pairs[:, chosen])),
            pair_similarity=_rounded(_mean_cosine(rows, apart)),
            suspicious=_rounded(float((scores < suspicious_below).double().mean()) if len(scores) else 0.0),
            score_quantiles=tuple(_rounded(value) for value in _quantiles(scores, grid)),
        )

    def record(self) -> dict[str, Any]:
        """Return the statistics as JSON values."""
        values = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def of_record(cls, record: object) -> GraphStatistics:
        """Return the statistics that a record was made from.

        Raises:
            ModelFileError: If it is not such a record.
        """
        names = cls.__dataclass_fields__
        if not isinstance(record, Mapping) or set(record) != set(names):
            raise ModelFileError("The statistics of the training graph in this model are damaged or foreign.")
        values: dict[str, Any] = {}
        for name, value in record.items():
            several = names[name].type.startswith("tuple")
            entries = value if several and isinstance(value, list) else [value]
            if several != isinstance(value, list) or not all(is_real(one) for one in entries):
                raise ModelFileError(
                    f"The statistics of the training graph in this model are damaged or foreign: {name} is {value!r}."
                )
            values[name] = tuple(value) if several else value
        return cls(**values)


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)


def _density(x: Tensor) -> float:
    if x.layout == torch.strided:
        return float(torch.count_nonzero(x)) / max(x.numel(), 1)
    values = x.coalesce().values() if x.layout == torch.sparse_coo else x.values()
    return float(torch.count_nonzero(values)) / max(x.shape[0] * x.shape[1], 1)


def _mean_cosine(rows: Rows, pairs: Tensor) -> float:
    """Return the mean cosine similarity over pairs (2, M), counting rows of zeros as similar to nobody."""
    if pairs.shape[1] == 0:
        return 0.0
    norms = rows.squared_norms().sqrt()
    size = norms[pairs[0]] * norms[pairs[1]]
    return float(torch.where(size > 0, rows.products(pairs) / size.clamp(min=1e-300), 0.0).mean())


def _quantiles(scores: Tensor, grid: Tensor) -> list[float]:
    """Return the scores at these shares of the ascending list (`torch.quantile` refuses long ones)."""
    if not len(scores):
        return []
    ordered = scores.sort().values
    return [float(ordered[round(float(share) * (len(ordered) - 1))]) for share in grid]
