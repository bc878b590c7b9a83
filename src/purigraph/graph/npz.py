"""The graph file: one `.npz` archive of plain arrays, nothing pickled.

- `edges`: (2, E) integers, each undirected edge once or in both directions;
- `x`: (N, F) numbers, the dense node features; or their CSR parts as in SciPy: `x_data`, `x_indices`, `x_indptr`,
  `x_shape`;
- `edge_weight` (optional): (E,) floating point, finite, not negative and at most 1e15, one per column of `edges`;
- `y` (optional): (N,) integers, the labels;
- `train_mask`, `val_mask`, `test_mask` (optional): (N,) booleans, or (N, S) for S splits.

Other arrays are ignored. `load_npz` and `save_npz` convert between a file and a PyG `Data`; `GraphFile` writes copies
of a file that differ only in their edges or weights. To write a graph file without purigraph:

    np.savez_compressed("graph.npz", edges=edges, x=x)
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import GraphError, InputError
from purigraph.files import atomic_path
from purigraph.graph.border import Entries, read_data, read_edge_index
from purigraph.graph.nodes import read_labels, read_mask
from purigraph.graph.npz_archive import Array, check_memory, read_arrays
from purigraph.graph.npz_copy import copy_npz
from purigraph.graph.npz_features import CSR_KEYS, feature_arrays, read_file_features, to_floating
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.splits import MASKS

OPTIONAL_KEYS = ("edge_weight", "y", *MASKS)
KNOWN_KEYS = ("edges", "x", *CSR_KEYS, *OPTIONAL_KEYS)


class GraphFile:
    """A graph file with its edges in their original order, which can be copied with other weights or edges.

    A copy keeps every other array unchanged: the same dtype, order and sparse parts, and also arrays that purigraph
    does not know.

    Args:
        path: The file; its arrays are read once.

    Raises:
        GraphError: If it is not a graph file. The message names the file, the array and what is wrong with it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._arrays = _read(self.path)

    def data(self, *, sparse: bool = False) -> Data:
        """Return the graph; column k of `edge_index` (2, E) is column k of the file's `edges`.

        Features are float32 (or float64 if the file has that), labels int64; `edge_weight` is set if the file has it.

        Args:
            sparse: Return the features as a torch CSR tensor. Default: False.
        """
        data = _node_data(self._arrays, self.path, sparse=sparse)
        data.edge_index, weight, _, _ = _edges(self._arrays, data.num_nodes, self.path)
        if weight is not None:
            data.edge_weight = weight
        return data

    def save_weighted(self, path: str | Path, edge_weight: Tensor) -> None:
        """Write a copy with these weights (E,), in the order of the file's `edges`.

        They are written with the dtype of the file's `edge_weight`, or as float32 if the file has no weights.
        """
        copy_npz(self.path, path, {"edge_weight": self._as_weight(edge_weight)})

    def save_kept(self, path: str | Path, keep: Tensor) -> None:
        """Write a copy with only the edges of the mask `keep` (E,), in the order of the file's `edges`.

        The same rows are removed from every array `edge_...` with one row per edge.
        """
        kept = _numpy(keep)
        changes: dict[str, Array | None] = {key: array[kept] for key, array in self._edge_arrays().items()}
        copy_npz(self.path, path, {"edges": self._arrays["edges"][:, kept], **changes})

    def save_with(self, path: str | Path, arrays: Mapping[str, Tensor]) -> None:
        """Write a copy with further arrays, or other ones under the same names; everything else is unchanged."""
        copy_npz(self.path, path, {key: _numpy(tensor) for key, tensor in arrays.items()})

    def save_rewired(self, path: str | Path, data: Data) -> None:
        """Write a copy with the edges of `data`, each once, and its `edge_weight` if there is one.

        Other arrays `edge_...` with one row per edge are dropped, as their values for new edges are unknown.
        """
        edges, weight = _each_once(data)
        changes: dict[str, Array | None] = dict.fromkeys(self._edge_arrays())
        changes["edges"] = _numpy(edges).astype(self._arrays["edges"].dtype)
        if "edge_weight" in data:
            changes["edge_weight"] = self._as_weight(weight)
        copy_npz(self.path, path, changes)

    def _as_weight(self, weight: Tensor) -> Array:
        given = self._arrays.get("edge_weight")
        return _numpy(weight).astype(np.float32 if given is None else given.dtype)

    def _edge_arrays(self) -> dict[str, Array]:
        """Return all arrays `edge_...` of the file that have one row per edge, known to purigraph or not."""
        num_edges = self._arrays["edges"].shape[1]
        found = read_arrays(self.path, lambda key: key.startswith("edge_"), partial(_check_keys, self.path))
        return {key: array for key, array in found.items() if array.shape[:1] == (num_edges,)}


def save_npz(data: Data, path: str | Path) -> None:
    """Write a graph file atomically: features, edges (each once), and weights, labels and masks if there are any.

    Sparse features (a torch CSR or COO tensor) are written as CSR parts. Other attributes of `data` are not written.

    Raises:
        GraphError: If `data` is not an undirected graph with features, or has labels or masks that `load_npz` would
            not read.
    """
    try:
        arrays = _arrays(data)
    except InputError as error:
        raise GraphError(f"{error} ({path} was not written.)") from None
    # NumPy appends .npz to a file name that lacks it, but not to an open file.
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # its stub takes allow_pickle for an array


def _arrays(data: Data) -> dict[str, Array]:
    """Return the arrays of a graph file, read by the same rules as a file."""
    if data.x is None:
        raise GraphError("data.x is missing: a graph file needs node features.")
    features = feature_arrays(data.x)
    edges, weight = _each_once(data)
    arrays: dict[str, Array] = {"edges": _numpy(edges)}
    if "edge_weight" in data:
        arrays["edge_weight"] = _numpy(weight)
    arrays.update(features)
    num_nodes = data.x.shape[0]
    if data.num_nodes != num_nodes:
        raise GraphError(f"data.x has {num_nodes} rows, but the graph has {data.num_nodes} nodes.")
    if "y" in data:
        arrays["y"] = _numpy(read_labels(data.y, num_nodes, name="data.y"))
    for key in [key for key in MASKS if key in data]:
        read_mask(data[key], num_nodes, name=f"data.{key}", split=0)
        arrays[key] = _numpy(torch.as_tensor(data[key]))
    return arrays


def load_npz(path: str | Path, *, sparse: bool = False) -> Data:
    """Read a graph file into a `Data` whose `edge_index` (2, 2E) has both directions, sorted by (row, column).

    Features are float32 (or float64 if the file has that), labels int64; `edge_weight` is set if the file has it.
    Self-loops are kept.

    Args:
        path: The file.
        sparse: Return the features as a torch CSR tensor. Default: False.

    Raises:
        GraphError: If it is not a graph file. The message names the file, the array and what is wrong with it.
    """
    arrays = _read(Path(path))
    data = _node_data(arrays, path, sparse=sparse)
    edge_index, given, graph, entries = _edges(arrays, data.num_nodes, path)
    data.edge_index, weight = graph.edge_index()
    loops = entries.pair < 0
    if loops.any():
        both = torch.cat([data.edge_index, edge_index[:, loops]], dim=1)
        weight = torch.cat([weight, entries.weight[loops]])
        order = torch.from_numpy(np.lexsort((_numpy(both[1]), _numpy(both[0]))))
        data.edge_index, weight = both[:, order], weight[order]
    if given is not None:
        data.edge_weight = weight
    return data


def _each_once(data: Data) -> tuple[Tensor, Tensor]:
    """Return the edges (2, E), each once and sorted, self-loops last, and their weights (E,)."""
    graph, entries = read_data(data)
    loops = entries.pair < 0
    edges = torch.cat([graph.pairs, data.edge_index[:, loops].to(graph.pairs.device)], dim=1)
    return edges, torch.cat([graph.weight, entries.weight[loops]])


def _read(path: Path) -> dict[str, Array]:
    return read_arrays(path, KNOWN_KEYS.__contains__, partial(_check_keys, path))


def _node_data(arrays: dict[str, Array], path: str | Path, *, sparse: bool) -> Data:
    """Return features, labels and masks."""
    x = read_file_features(arrays, path, sparse=sparse)
    num_nodes = x.shape[0]
    data = Data(x=x)
    if "y" in arrays:
        y = arrays["y"]
        _check(y.shape == (num_nodes,) and y.dtype.kind in "iub", path, "y", f"({num_nodes},) integer", y)
        data.y = torch.from_numpy(y.astype(np.int64))
    for key in MASKS:
        if key in arrays:
            mask = arrays[key]
            fits = mask.dtype == bool and mask.ndim in (1, 2) and mask.shape[0] == num_nodes
            _check(fits, path, key, f"({num_nodes},) or ({num_nodes}, number of splits) bool", mask)
            data[key] = torch.from_numpy(mask)
    return data


def _check_keys(path: Path, found: list[str]) -> None:
    listing = f"It has: {', '.join(found) or 'nothing'}."
    if "edges" not in found:
        raise GraphError(f"{path} has no array `edges` (2, number of edges). {listing}")
    present = [key for key in CSR_KEYS if key in found]
    if "x" in found and present:
        raise GraphError(f"{path} has both `x` and `{present[0]}`: keep either the dense or the sparse features.")
    if "x" not in found and len(present) < len(CSR_KEYS):
        missing = [key for key in CSR_KEYS if key not in found] if present else ["x"]
        raise GraphError(
            f"{path} has no array {' or '.join(f'`{key}`' for key in missing)}: node features are `x` "
            f"(N, F), or the CSR parts {', '.join(CSR_KEYS)}. {listing}"
        )
    for key in set(found) - set(KNOWN_KEYS):
        meant = difflib.get_close_matches(key.lower(), OPTIONAL_KEYS, n=1, cutoff=0.85)
        if meant and meant[0] not in found:
            raise GraphError(f"{path} has an array `{key}`: the name must be `{meant[0]}`. Rename it or remove it.")


def _edges(
    arrays: dict[str, Array], num_nodes: int, path: str | Path
) -> tuple[Tensor, Tensor | None, PairGraph, Entries]:
    """Return the edges (2, E) in the file's order, their weights (E,) if there are any, and both as a `PairGraph`."""
    edges = arrays["edges"]
    fits = edges.ndim == 2 and edges.shape[0] == 2 and edges.dtype.kind in "iu"
    _check(fits, path, "edges", "(2, E) integer", edges)
    check_memory(8 * edges.size, f"{path}: `edges` take", "use a smaller graph")
    if edges.dtype == np.uint64 and edges.size and int(edges.max()) >= 1 << 63:
        raise GraphError(f"{path}: `edges` holds {int(edges.max())}, but there are {num_nodes} nodes.")
    edge_index = torch.from_numpy(edges.astype(np.int64))
    weight = None
    if "edge_weight" in arrays:
        given = arrays["edge_weight"]
        expected = f"({edges.shape[1]},) floating point"
        _check(given.shape == (edges.shape[1],) and given.dtype.kind == "f", path, "edge_weight", expected, given)
        weight = torch.from_numpy(to_floating(given, path, "edge_weight"))
    try:
        graph, entries = read_edge_index(edge_index, weight, num_nodes)
    except GraphError as error:
        raise GraphError(f"{path}: {error} (edge_index is the array `edges`.)") from None
    return edge_index, weight, graph, entries


def _numpy(tensor: Tensor) -> Array:
    tensor = tensor.detach().cpu()
    # NumPy does not have bfloat16.
    array: Array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _check(fits: bool, path: str | Path, key: str, expected: str, found: Array) -> None:
    if not fits:
        raise GraphError(f"{path}: `{key}` must be {expected}; it is {found.shape} {found.dtype}.")
