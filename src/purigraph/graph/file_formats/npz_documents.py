"""The `.npz` graph file as a document."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph.border import read_data
from purigraph.graph.file_formats.document import GraphDocument, RowVerdict
from purigraph.graph.file_formats.feature_files import require_layout
from purigraph.graph.file_formats.features import MATRIX, FeatureLayout
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.npz import GraphFile, load_npz
from purigraph.graph.splits import MASKS


@dataclass
class NpzDocument(GraphDocument):
    """A `.npz` graph file (docs/graph-files.md): a copy keeps all arrays, known or not, as they are.

    A threshold removes edges from it, as its readers don't know of a mark.
    """

    file: GraphFile | None = None

    suffixes: ClassVar[tuple[str, ...]] = (".npz",)
    always_drops: ClassVar[bool] = True

    @classmethod
    def read(
        cls,
        path: Path,
        features: str | Path | None = None,
        expected: FeatureLayout | None = None,
        *,
        bare: bool = False,
    ) -> NpzDocument:
        """Read a graph file; it has its own features."""
        if features is not None:
            raise InputError(f"{path} has its own node features: leave --features out.")
        file = GraphFile(path)
        data = file.data()
        graph, entries = read_data(data)
        extra = {name: data[name] for name in ("y", *MASKS) if name in data}
        layout = FeatureLayout(MATRIX)
        require_layout(layout, expected, path)
        weight = data.edge_weight if "edge_weight" in data else None
        return cls(path, NodeIds(graph.num_nodes), graph, entries.pair, weight, data.x, layout, extra, [], file)

    def data(self) -> Data:
        """Return the graph with its edges in the order of the file."""
        assert self.file is not None
        return self.file.data()

    def both_ways(self) -> Data:
        """Return the graph with both directions of every edge, and with its self-loops."""
        return load_npz(self.path)

    def save(self, path: Path, verdict: RowVerdict) -> None:
        """Write a copy: with weights, or without the edges that are cut, or, in shadow mode, with `edge_score`."""
        assert self.file is not None
        if verdict.shadow:
            self.file.save_with(path, {f"edge_{name}": values for name, values in verdict.columns().items()})
        elif verdict.keep is None:
            self.file.save_weighted(path, verdict.weight)
        else:
            self.file.save_kept(path, verdict.keep)

    def save_rewired(self, path: Path, data: Data) -> None:
        """Write a copy with the edges of a purifier that can add some."""
        assert self.file is not None
        self.file.save_rewired(path, data)
