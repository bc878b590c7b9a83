"""Why an edge got its weight: a row per edge, with what a person would look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.graph import PairGraph
from purigraph.kernels.common_neighbours import common_neighbours
from purigraph.kernels.row_products import Rows
from purigraph.purifiers.evidence import Evidence
from purigraph.tables import Table


@dataclass(frozen=True)
class Explanation:
    """A table with a row per edge; `explanation["weight"]` is a column.

    Columns:
        source, target: The two nodes, by their ids.
        weight: What the purifier gives the edge, in [0, 1].
        rank: 1 for the lowest weight, the most suspicious edge; edges of the same weight are ranked by their place.
        step_0, step_1, ...: The weight before the first step of the purification and after each.
        forward, backward: The scores of both directions, where the purifier has such; `weight` is their mean.
        similarity: The cosine of the two nodes' features.
        common_neighbours: How many neighbours the two have in common.
        degree_source, degree_target: How many neighbours each has.
    """

    columns: Mapping[str, Sequence[Any] | Tensor]

    def __len__(self) -> int:
        return len(self.columns["weight"])

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise InputError(f"There is no column {name!r}. The columns are: {', '.join(self.columns)}.")
        return self.columns[name]

    def rows(self, positions: Sequence[int] | Tensor) -> Explanation:
        """Return the rows at these positions, in this order."""
        chosen = [int(position) for position in positions]
        return Explanation(
            {
                name: values[chosen] if isinstance(values, Tensor) else [values[k] for k in chosen]
                for name, values in self.columns.items()
            }
        )

    def worst(self, count: int = 20) -> Explanation:
        """Return the most suspicious edges, those of the lowest rank first."""
        return self.rows(torch.argsort(self["rank"])[:count])

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists, for JSON or `polars.DataFrame`."""
        return {
            name: values.tolist() if isinstance(values, Tensor) else list(values)
            for name, values in self.columns.items()
        }

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`."""
        try:
            import pandas
        except ImportError:
            raise InputError("pandas is not installed: pip install pandas, or use to_dict().") from None
        return pandas.DataFrame(self.to_dict())

    def table(self, count: int = 20) -> Table:
        """Return the most suspicious edges as a table for the terminal."""
        shown = self.worst(count).to_dict()
        names = [name for name in shown if not name.startswith("step_")]
        rows = [[_cell(shown[name][row]) for name in names] for row in range(len(shown["weight"]))]
        titles = [name.replace("_", " ") for name in names]
        return Table(f"The {len(rows)} most suspicious of {len(self):,} edges", titles, rows, text_columns=2)

    def __str__(self) -> str:
        return str(self.table())


def explain_edges(
    x: Tensor, graph: PairGraph, evidence: Evidence, name: Callable[[int], object] = lambda node: node
) -> Explanation:
    """Return the explanation of a purification.

    Args:
        x: (N, F), the node features.
        graph: What was purified.
        evidence: How that went.
        name: Returns the id of a node. Default: its number.
    """
    pairs = graph.pairs.cpu()
    weight = evidence.score.detach().cpu()
    degree = graph.degree().cpu()
    columns: dict[str, Sequence[Any] | Tensor] = {
        "source": [name(node) for node in pairs[0].tolist()],
        "target": [name(node) for node in pairs[1].tolist()],
        "weight": weight,
        "rank": ranks(weight),
    }
    columns.update({f"step_{k}": values.detach().cpu() for k, values in enumerate(evidence.weights)})
    if evidence.directed is not None:
        columns["forward"], columns["backward"] = evidence.directed.detach().cpu()
    columns["similarity"] = cosines(x, graph.pairs)
    columns["common_neighbours"] = common_neighbours(graph.csr, pairs)
    columns["degree_source"], columns["degree_target"] = degree[pairs[0]], degree[pairs[1]]
    return Explanation(columns)


def ranks(weight: Tensor) -> Tensor:
    """Return the rank of every weight, (E,) int64: 1 for the lowest.

    >>> ranks(torch.tensor([0.5, 0.1, 0.5])).tolist()
    [2, 1, 3]
    """
    rank = torch.empty(len(weight), dtype=torch.int64)
    rank[torch.argsort(weight, stable=True)] = torch.arange(1, len(weight) + 1)
    return rank


def cosines(x: Tensor, pairs: Tensor) -> Tensor:
    """Return the cosine of the features of pairs of nodes (2, E), (E,) float64; 0 for a node without any."""
    rows = Rows(x)
    norms = rows.squared_norms()
    size = (norms[pairs[0]] * norms[pairs[1]]).sqrt()
    cosine = torch.where(size > 0, rows.products(pairs) / size.clamp(min=torch.finfo(size.dtype).tiny), 0.0)
    return cosine.cpu()


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
