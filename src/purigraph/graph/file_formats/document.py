"""A graph in a file of any format: what is read of it, and how it is written again with what was found out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.graph.file_formats.features import FeatureLayout
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.pair_graph import PairGraph

#: The names of what is added to a file; in the other formats, where such names begin with it, with `edge_` before them.
WEIGHT, KEEP, SCORE, WOULD_KEEP = "weight", "keep", "score", "would_keep"


@dataclass(frozen=True)
class RowVerdict:
    """What was found out about the rows of a file, (M,) each.

    Attributes:
        weight: The weight of every row.
        keep: Whether it is kept; None if nothing is cut.
        shadow: Whether to write what was found beside what is there (score, would_keep) and change nothing else.
        drop: Whether to leave out rows that are not kept, instead of saying so.
    """

    weight: Tensor
    keep: Tensor | None = None
    shadow: bool = False
    drop: bool = False

    def columns(self) -> dict[str, Tensor]:
        """Return what is added, by name."""
        added = {SCORE if self.shadow else WEIGHT: self.weight}
        if self.keep is not None:
            added[WOULD_KEEP if self.shadow else KEEP] = self.keep
        return added

    @property
    def kept_rows(self) -> Tensor | None:
        """Return which rows are written, (M,) bool; None for all."""
        return self.keep if self.drop and not self.shadow else None


@dataclass
class GraphDocument(ABC):
    """A graph file.

    Attributes:
        path: The file.
        ids: The names of the nodes.
        graph: The undirected pairs without self-loops, which are judged; with weights.
        row_pair: (M,) int64, the pair of every row of the file; -1 for a self-loop.
        row_weight: (M,) the weights of the rows; None if the file has none.
        x: (N, F) the features.
        layout: What the features are.
        extra: Labels and masks by name, if the file has them.
        notes: Sentences on what was done with what the file holds.
    """

    path: Path
    ids: NodeIds
    graph: PairGraph
    row_pair: Tensor
    row_weight: Tensor | None
    x: Tensor
    layout: FeatureLayout
    extra: dict[str, Tensor] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    #: How the names of files of this format end.
    suffixes: ClassVar[tuple[str, ...]] = ()
    #: Whether edges that are not kept are always left out, as there is no place to say so.
    always_drops: ClassVar[bool] = False

    @property
    def num_rows(self) -> int:
        """M, the number of edges as the file counts them."""
        return len(self.row_pair)

    def data(self) -> Data:
        """Return the graph for a purifier: every pair once, sorted, without self-loops."""
        data = Data(x=self.x, edge_index=self.graph.pairs, **self.extra)
        if self.row_weight is not None:
            data.edge_weight = self.graph.weight
        return data

    def both_ways(self) -> Data:
        """Return the graph for a classifier: both directions of every pair, sorted, without self-loops."""
        edge_index, weight = self.graph.edge_index()
        data = Data(x=self.x, edge_index=edge_index, **self.extra)
        if self.row_weight is not None:
            data.edge_weight = weight
        return data

    def row_weights(self, pair_weight: Tensor) -> Tensor:
        """Return one weight per row, (M,), from those of the pairs (E,); self-loops keep theirs."""
        given = torch.ones(self.num_rows) if self.row_weight is None else self.row_weight
        spread = given.to(pair_weight.dtype).clone()
        judged = self.row_pair >= 0
        spread[judged] = pair_weight[self.row_pair[judged]]
        return spread

    def row_mask(self, pair_mask: Tensor) -> Tensor:
        """Return a mask of the rows, (M,), from one of the pairs (E,); True for self-loops."""
        mask = torch.ones(self.num_rows, dtype=torch.bool)
        judged = self.row_pair >= 0
        mask[judged] = pair_mask[self.row_pair[judged]]
        return mask

    @abstractmethod
    def save(self, path: Path, verdict: RowVerdict) -> None:
        """Write a copy, in the same format, with the verdict; `path` is written directly (see `files.atomic_path`)."""

    def save_rewired(self, path: Path, data: Data) -> None:
        """Write a copy with the edges of a purifier that can add some."""
        from purigraph.errors import InputError

        raise InputError(
            f"This purifier can add edges, and {self.path} has no values for the other columns of new ones: convert "
            "the file to a .npz graph file (docs/graph-files.md), or use a purifier that only weighs edges."
        )

    def facts(self) -> dict[str, Any]:
        """Return what the file holds, as JSON values."""
        return {
            "nodes": len(self.ids),
            "rows": self.num_rows,
            "edges": self.graph.num_pairs,
            "features": self.x.shape[1],
            "feature_layout": self.layout.kind,
            "weighted": self.row_weight is not None,
            "notes": list(self.notes),
        }
