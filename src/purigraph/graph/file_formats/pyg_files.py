"""PyG's `Data` in a `.pt` file, loaded without running what somebody may have pickled into it."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from purigraph.errors import GraphError, InputError
from purigraph.graph.edge_structure import check_form
from purigraph.graph.edge_weights import check_weight_form, check_weight_range
from purigraph.graph.file_formats.collapse import collapse
from purigraph.graph.file_formats.document import GraphDocument, RowVerdict
from purigraph.graph.file_formats.feature_files import FeatureFile, read_feature_file, require_layout
from purigraph.graph.file_formats.features import MATRIX, STRUCTURAL, FeatureLayout
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.file_formats.structural_features import structural_features
from purigraph.graph.nodes import read_labels, read_mask
from purigraph.graph.npz_archive import check_memory, open_regular
from purigraph.graph.splits import MASKS
from purigraph.kernels.feature_matrix import read_features

_CLASSES = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]


@dataclass
class PyGFile(GraphDocument):
    """A `Data`, or a dictionary with `edge_index` and `x`, that `torch.save` wrote.

    A copy is the same with `edge_weight`, and `edge_keep` if there is a threshold.
    """

    contents: dict[str, Any] = field(default_factory=dict)
    is_data: bool = True

    suffixes: ClassVar[tuple[str, ...]] = (".pt", ".pth")

    @classmethod
    def read(
        cls,
        path: Path,
        features: str | Path | None = None,
        expected: FeatureLayout | None = None,
        *,
        bare: bool = False,
    ) -> PyGFile:
        """Read a `.pt` file, with PyTorch's restricted unpickler (`weights_only`).

        Raises:
            GraphError: If it is not such a file, holds other objects, or is not a graph.
        """
        loaded = _load(path)
        contents = _contents(loaded, path)
        if "edge_index" not in contents:
            raise GraphError(f"{path} has no `edge_index`. It has: {', '.join(map(str, contents)) or 'nothing'}.")
        own = None if features is None else read_feature_file(features, expected)
        try:
            return cls._of(path, contents, isinstance(loaded, Data), own, expected)
        except InputError as error:
            raise error if str(error).startswith(str(path)) else GraphError(f"{path}: {error}") from None

    @classmethod
    def _of(
        cls,
        path: Path,
        contents: dict[str, Any],
        is_data: bool,
        own: FeatureFile | None,
        expected: FeatureLayout | None,
    ) -> PyGFile:
        for name in ("edge_index", "edge_weight", "y", *MASKS):
            given = contents.get(name)
            if isinstance(given, Tensor) and (given.layout != torch.strided or given.is_quantized):
                raise GraphError(
                    f"{path}: `{name}` must be a plain dense tensor, not a {given.layout} {given.dtype} one."
                )
        edge_index = contents["edge_index"]
        check_form(edge_index)
        edges, notes = edge_index.long(), []
        largest = int(edges.max()) + 1 if edges.numel() else 0
        x, layout = contents.get("x"), FeatureLayout(MATRIX)
        if own is not None:
            if x is not None:
                raise InputError(f"{path} has its own node features `x`: leave --features out.")
            x, layout, notes = own.x, own.layout, list(own.notes)
        if x is None:
            count = contents.get("num_nodes", largest)
            count = count if isinstance(count, int) and 0 <= count < 1 << 31 else largest
            x, layout = structural_features(NodeIds(max(count, largest))), FeatureLayout(STRUCTURAL)
            notes.append(
                "There are no node features: the purifier works by the graph's structure alone, which is weaker."
            )
        x = read_features(x)
        require_layout(layout, expected, path)
        if edges.numel() and (int(edges.min()) < 0 or largest > len(x)):
            column = int(((edges < 0) | (edges >= len(x))).any(0).nonzero()[0])
            raise GraphError(
                f"{path}: edge {edges[:, column].tolist()} (column {column} of edge_index) is not between nodes 0 to "
                f"{len(x) - 1}: there are {len(x)} rows of features."
            )
        weight = contents.get("edge_weight")
        if weight is not None:
            check_weight_form(weight, edges.shape[1])
            check_weight_range(weight)
            weight = weight.detach().float()
        found = collapse(edges, weight, len(x))
        extra = {}
        if isinstance(contents.get("y"), Tensor) and contents["y"].dim() == 1 and not contents["y"].is_floating_point():
            extra["y"] = read_labels(contents["y"], len(x), name="y")
        for name in MASKS:
            if contents.get(name) is not None:
                read_mask(contents[name], len(x), name=name, split=0)
                extra[name] = contents[name]
        # Both directions of an edge are PyG's usual form, and nothing to tell.
        notes = [note for note in found.notes() if "both directions" not in note] + notes
        ids = NodeIds(len(x)) if own is None or own.ids.numbered else own.ids
        if not ids.numbered:
            raise InputError(f"{path} numbers its nodes from 0: give features without ids (.npy, or a SciPy .npz).")
        return cls(path, ids, found.graph, found.pair, weight, x, layout, extra, notes, contents, is_data)

    def save(self, path: Path, verdict: RowVerdict) -> None:
        """Write a copy; with `drop`, entries with a row per edge lose those that are cut."""
        kept = verdict.kept_rows
        result = dict(self.contents)
        for name, values in verdict.columns().items():
            result[f"edge_{name}"] = values.detach().cpu()
        if kept is not None:
            for name, value in result.items():
                if name == "edge_index":
                    result[name] = value[:, kept]
                elif isinstance(value, Tensor) and name.startswith("edge_") and value.shape[:1] == kept.shape:
                    result[name] = value[kept]
        with open(path, "wb") as file:
            torch.save(Data(**result) if self.is_data else result, file)


def _load(path: Path) -> Any:
    with open_regular(path) as file:
        size = path.stat().st_size
        check_memory(3 * size, f"{path} takes, once it is read,", "use a smaller graph")
        if not size:
            raise GraphError(f"{path} is empty: save a Data with torch.save.")
        try:
            with warnings.catch_warnings(), torch.serialization.safe_globals(_CLASSES):
                warnings.simplefilter("ignore")
                return torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise GraphError(
                f"{path} does not hold a Data of tensors alone: it is damaged or foreign, or has other Python objects, "
                "which are never opened. Save Data(x=..., edge_index=...) or a dictionary of tensors with torch.save."
            ) from None
        except MemoryError:
            raise GraphError(f"{path}: there is not enough memory to read it: use a smaller graph.") from None
        except (zipfile.BadZipFile, *_DAMAGE) as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise GraphError(f"{path} is not a file of torch.save ({reason}): it is damaged or foreign.") from None


# What damaged bytes raise in PyTorch's reader: almost anything.
_DAMAGE = (
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OSError,
    OverflowError,
    AssertionError,
    ImportError,
)


def _contents(loaded: Any, path: Path) -> dict[str, Any]:
    """Return the entries by name. Tensors that claim more than the file holds (views of few numbers) are refused."""
    try:
        entries = dict(loaded.to_dict()) if isinstance(loaded, Data) else loaded
    except Exception:  # a damaged Data may hold anything
        entries = None
    if not isinstance(entries, Mapping) or not all(isinstance(name, str) for name in entries):
        raise GraphError(f"{path} holds a {type(loaded).__name__}, not a Data or a dictionary of tensors.")
    size = path.stat().st_size
    for name, value in entries.items():
        tensors = []
        if isinstance(value, Tensor):
            try:
                tensors = [value] if value.layout == torch.strided else [value.values()]
            except (RuntimeError, NotImplementedError):
                raise GraphError(f"{path}: `{name}` is a tensor of a layout that can't be read.") from None
        if any(tensor.numel() * tensor.element_size() > size for tensor in tensors):
            raise GraphError(f"{path}: `{name}` claims {tensors[0].numel():,} numbers, more than the file holds.")
    return dict(entries)
