"""Writing graphs in parts: one that is in memory, or block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.distributed.partition import locality_order
from purigraph.distributed.parts import MANIFEST, GraphParts, Part, parquet, part_of
from purigraph.errors import InputError
from purigraph.files import atomic_path
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.sparse_features import select_rows
from purigraph.kernels.feature_matrix import read_features

# Ranks read whole row groups: small enough for an even split, large enough to be read at full speed.
_EDGE_GROUP = 1 << 18
_FEATURE_NUMBERS = 1 << 17


class PartsWriter:
    """Writes a graph part by part; the manifest comes last, so what is interrupted is no graph.

    Args:
        folder: The folder to write.
        num_features: F.
        weighted: Whether edges have weights.
        named: Whether nodes have names.
    """

    def __init__(self, folder: str | Path, num_features: int, *, weighted: bool = False, named: bool = False) -> None:
        self.folder, self.num_features, self.weighted, self.named = Path(folder), num_features, weighted, named
        self._edges: list[Part] = []
        self._features: list[Part] = []
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def __enter__(self) -> PartsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()

    def add_edges(self, source: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
        """Write edges (B,), (B,) as the next part of the edges."""
        columns = {"source": _numpy(source), "target": _numpy(target)}
        if self.weighted:
            columns["weight"] = np.ones(len(source), np.float32) if weight is None else _numpy(weight)
        file = f"edges/part-{len(self._edges):05}.parquet"
        self._edges.append(write_table(self.folder, file, columns, _EDGE_GROUP))

    def add_features(self, x: Tensor, names: Tensor | None = None) -> None:
        """Write the features (B, F) of the next nodes, and their names (B,), as the next part of the features."""
        import pyarrow

        flat = pyarrow.array(_numpy(x.float()).reshape(-1))
        columns: dict[str, Any] = {"x": pyarrow.FixedSizeListArray.from_arrays(flat, self.num_features)}
        if self.named:
            if names is None:
                raise InputError("This graph has named nodes: pass a name for every row of x.")
            columns["node"] = _numpy(names)
        file = f"features/part-{len(self._features):05}.parquet"
        self._features.append(
            write_table(self.folder, file, columns, max(_FEATURE_NUMBERS // max(self.num_features, 1), 1))
        )

    def finish(self) -> GraphParts:
        """Write the manifest and return the graph."""
        nodes = sum(part.rows for part in self._features)
        edges, features = tuple(self._edges), tuple(self._features)
        parts = GraphParts(self.folder, nodes, self.num_features, edges, features, self.weighted, self.named)
        parts.save()
        return parts


def write_parts(
    data: Data | PairGraph, folder: str | Path, *, x: Tensor | None = None, parts: int = 1, reorder: bool = False
) -> GraphParts:
    """Write a graph that is in memory as a folder of Parquet files; self-loops are left out.

    Args:
        data: A PyG `Data` with x, or a graph whose features are `x`.
        folder: The folder to write.
        x: (N, F), the features. Default: those of `data`.
        parts: The number of files of each kind.
        reorder: Whether to number the nodes so that neighbours are close (see `locality_order`), which saves
            communication on graphs with a geometry. Results have the old numbers.
    """
    if parts < 1:
        raise InputError(f"parts must be at least 1, not {parts}.")
    graph = as_pair_graph(data)
    x = read_features(data.x if x is None and isinstance(data, Data) else x, graph.num_nodes)
    order = locality_order(graph) if reorder else None
    pairs = graph.pairs
    if order is not None:
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        pairs = place[pairs]
    weighted = not bool((graph.weight == 1).all())
    with PartsWriter(folder, x.shape[1], weighted=weighted, named=reorder) as writer:
        for begin, end in _even(graph.num_pairs, parts):
            writer.add_edges(pairs[0, begin:end], pairs[1, begin:end], graph.weight[begin:end].detach().float())
        for begin, end in _even(graph.num_nodes, parts):
            rows = torch.arange(begin, end) if order is None else order[begin:end]
            block = select_rows(x, rows)
            writer.add_features(block if block.layout == torch.strided else block.to_dense(), rows)
    return GraphParts.open(folder)


def write_table(folder: Path, file: str, columns: dict[str, Any], group: int) -> Part:
    """Write columns as one Parquet file, atomically, and return its description."""
    import pyarrow

    table = pyarrow.table(columns)
    with atomic_path(folder / file) as temporary:
        parquet().write_table(table, temporary, row_group_size=group, compression="zstd", use_dictionary=False)
    return part_of(folder, file, table.num_rows)


def _even(count: int, parts: int) -> Iterator[tuple[int, int]]:
    for part in range(parts):
        yield count * part // parts, count * (part + 1) // parts


def _numpy(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().numpy()
