"""A dataset's graph as a document, which is written as a new `.npz` graph file."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch_geometric.data import Data

from purigraph import datasets
from purigraph.graph import read_data, save_npz
from purigraph.graph.file_formats.document import GraphDocument, RowVerdict
from purigraph.graph.file_formats.features import MATRIX, FeatureLayout
from purigraph.graph.file_formats.node_ids import NodeIds


@dataclass
class DatasetDocument(GraphDocument):
    """A graph that was loaded by its name."""

    loaded: Data | None = None

    suffixes: ClassVar[tuple[str, ...]] = (".npz",)
    always_drops: ClassVar[bool] = True

    @classmethod
    def load(cls, name: str, seed: int) -> DatasetDocument:
        """Load a dataset by name."""
        data = datasets.load(name, seed=seed)
        graph, entries = read_data(data)
        ids, weight = NodeIds(graph.num_nodes), data.edge_weight if "edge_weight" in data else None
        return cls(Path(name), ids, graph, entries.pair, weight, data.x, FeatureLayout(MATRIX), {}, [], data)

    def data(self) -> Data:
        """Return the dataset as it was loaded."""
        assert self.loaded is not None
        return self.loaded

    def save(self, path: Path, verdict: RowVerdict) -> None:
        """Write a new graph file with weights, or without the edges that are cut."""
        result = copy.copy(self.data())
        if verdict.keep is None:
            result.edge_weight = verdict.weight
        else:
            assert result.edge_index is not None
            result.edge_index = result.edge_index[:, verdict.keep]
        save_npz(result, path)

    def save_rewired(self, path: Path, data: Data) -> None:
        """Write a new graph file with the edges of `data`."""
        result = copy.copy(self.data())
        result.edge_index = data.edge_index
        if "edge_weight" in data:
            result.edge_weight = data.edge_weight
        save_npz(result, path)
