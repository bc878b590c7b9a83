"""GraphML and GEXF files, through networkx."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import torch
from torch import Tensor

from purigraph.errors import GraphError, InputError
from purigraph.graph.edge_weights import LARGEST_WEIGHT
from purigraph.graph.file_formats.collapse import collapse
from purigraph.graph.file_formats.document import WEIGHT, GraphDocument, RowVerdict
from purigraph.graph.file_formats.feature_files import read_feature_file, require_layout
from purigraph.graph.file_formats.features import STRUCTURAL, FeatureLayout
from purigraph.graph.file_formats.libraries import require
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.file_formats.structural_features import structural_features
from purigraph.graph.npz_archive import check_memory, open_regular
from purigraph.graph.splits import MASKS
from purigraph.kernels.feature_matrix import LARGEST_FEATURE

# A tree of Python objects takes about this many times the size of its file.
_GROWTH = 30
# The date that networkx writes into a GEXF file would make every day's copy another one.
_DATE = re.compile(rb' lastmodifieddate="[^"]*"')
_LABEL = "y"


@dataclass
class XmlGraph(GraphDocument):
    """A GraphML or GEXF file.

    Attributes of nodes that are numbers at every node are features, unless there is a feature file; an integer
    attribute `y` has the labels, and `train_mask`, `val_mask`, `test_mask` a split. A copy has the attributes `weight`
    and `keep` at its edges, and everything else that networkx reads.
    """

    network: Any = None

    suffixes: ClassVar[tuple[str, ...]] = (".graphml", ".gexf")

    @classmethod
    def read(
        cls,
        path: Path,
        features: str | Path | None = None,
        expected: FeatureLayout | None = None,
        *,
        bare: bool = False,
    ) -> XmlGraph:
        """Read a file.

        Raises:
            GraphError: If it is not such a file, or an attribute is not what it should be; the message names the edge.
        """
        network = _load(path)
        names = [str(node) for node in network]
        if len(set(names)) < len(names):
            raise GraphError(f"{path} has two nodes with the same id as text: rename one of them.")
        if not network.number_of_edges():
            raise GraphError(f"{path} has no edges.")
        own = None if features is None else read_feature_file(features, expected)
        notes: list[str] = []
        if own is not None:
            position = own.ids.positions(names)
            if (position < 0).any():
                missing = [name for name, at in zip(names, position, strict=True) if at < 0]
                raise GraphError(
                    f"{path}: {len(missing):,} nodes have no row in {features}; the first is {missing[0]!r}: add them "
                    "(zeros where nothing is known)."
                )
            x, layout, notes = own.x[torch.from_numpy(position)].contiguous(), own.layout, list(own.notes)
        else:
            x, layout, notes = _attributes(network, path, names, expected)
        require_layout(layout, expected, path if features is None else features)
        number = {node: k for k, node in enumerate(network)}
        rows = [(number[u], number[v]) for u, v in network.edges()]
        edges = torch.tensor(rows, dtype=torch.int64).reshape(-1, 2).t().contiguous()
        weight = _weights(network, path)
        found = collapse(edges, weight, len(names))
        notes = found.notes() + notes
        ids = NodeIds(names)
        return cls(path, ids, found.graph, found.pair, weight, x, layout, _labels(network, path), notes, network)

    def save(self, path: Path, verdict: RowVerdict) -> None:
        """Write a copy through networkx."""
        networkx = require("networkx", self.path)
        network = self.network.copy()
        columns = {name: values.tolist() for name, values in verdict.columns().items()}
        kept = None if verdict.kept_rows is None else verdict.kept_rows.tolist()
        dropped = []
        keys = list(network.edges(keys=True)) if network.is_multigraph() else list(network.edges())
        for row, edge in enumerate(keys):
            own = network.edges[edge]
            if WEIGHT in columns and WEIGHT in own:
                own["weight_before"] = own[WEIGHT]
            own.update({name: values[row] for name, values in columns.items()})
            if kept is not None and not kept[row]:
                dropped.append(edge)
        network.remove_edges_from(dropped)
        with _explained(self.path, "written"):
            if self.path.suffix.lower() == ".gexf":
                networkx.write_gexf(network, path)
                path.write_bytes(_DATE.sub(b"", path.read_bytes(), count=1))
            else:
                networkx.write_graphml_xml(network, path)


def _load(path: Path) -> Any:
    networkx = require("networkx", path)
    with open_regular(path) as file:
        size = path.stat().st_size
        check_memory(_GROWTH * size, f"{path} takes, once it is read,", "convert it to an edge list (.csv)")
        head = file.read(1 << 20)
        if not head.strip():
            raise GraphError(f"{path} is empty.")
        if b"<!ENTITY" in head or b"<!DOCTYPE" in head:
            raise GraphError(f"{path} declares entities or a document type, which are not read: remove them.")
        file.seek(0)
        with _explained(path, "read"):
            if path.suffix.lower() == ".gexf":
                return networkx.read_gexf(file)
            return networkx.read_graphml(file, force_multigraph=False)


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise GraphError(f"{path}: there is not enough memory: convert it to an edge list (.csv).") from None
    except OSError:
        raise
    except ElementTree.ParseError as error:
        raise GraphError(f"{path} is not well-formed XML ({error}): it is damaged, cut short or foreign.") from None
    except Exception as error:  # networkx raises almost anything for a file that is XML, but not as it expects it
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        kind = "GEXF" if path.suffix.lower() == ".gexf" else "GraphML"
        raise GraphError(f"{path} can't be {what} as {kind} ({reason}): check it, or convert it to .csv.") from None


def _attributes(
    network: Any, path: Path, names: list[str], expected: FeatureLayout | None
) -> tuple[Tensor, FeatureLayout, list[str]]:
    """Return the attributes that are numbers at every node as features, sorted by name."""
    counts: dict[str, int] = {}
    for _, own in network.nodes(data=True):
        for name, value in own.items():
            if isinstance(value, int | float) and name not in (_LABEL, *MASKS):
                counts[name] = counts.get(name, 0) + 1
    chosen = sorted(name for name, count in counts.items() if count == len(names))
    partial = sorted(name for name, count in counts.items() if count < len(names))
    if expected is not None and expected.names is not None:
        missing = [name for name in expected.names if name not in chosen]
        if missing:
            raise GraphError(
                f"{path}: not every node has a number as its attribute {missing[0]!r}, which the model was fitted to "
                f"({len(missing)} such attributes): add it, or give the features with --features FILE."
            )
        chosen = list(expected.names)
    notes = []
    if partial:
        notes.append(
            f"The attribute {partial[0]!r} is missing at some nodes, so it is no feature ({len(partial)} such)."
        )
    if not chosen or (expected is not None and expected.kind == STRUCTURAL):
        notes.append("There are no node features: the purifier works by the graph's structure alone, which is weaker.")
        return structural_features(NodeIds(names)), FeatureLayout(STRUCTURAL), notes
    check_memory(8 * len(chosen) * len(names), f"{path}: its features take", "use fewer attributes")
    rows = [[_feature(own[name], path, node, name) for name in chosen] for node, own in network.nodes(data=True)]
    return torch.tensor(rows, dtype=torch.float32), FeatureLayout("attributes", chosen), notes


def _feature(value: Any, path: Path, node: object, name: str) -> float:
    number = float(value) if abs(value) < 1e300 else float("inf")
    if not abs(number) <= LARGEST_FEATURE:
        raise GraphError(
            f"{path}: the attribute {name!r} of node {str(node)!r} is {value}: features must be finite and at most "
            f"{LARGEST_FEATURE:g} in size. Replace or scale it."
        )
    return number


def _weights(network: Any, path: Path) -> Tensor | None:
    given = [own.get(WEIGHT) for _, _, own in network.edges(data=True)]
    if all(value is None for value in given):
        return None
    weights = []
    for (u, v), value in zip(network.edges(), given, strict=True):
        try:
            number = 1.0 if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not 0 <= number <= LARGEST_WEIGHT:
            raise GraphError(
                f"{path}: the weight of the edge from {str(u)!r} to {str(v)!r} is {value!r}: weights must be finite, "
                f"not negative and at most {LARGEST_WEIGHT:g}. Correct or remove it."
            )
        weights.append(number)
    return torch.tensor(weights, dtype=torch.float32)


def _labels(network: Any, path: Path) -> dict[str, Tensor]:
    found = {}
    for name in (_LABEL, *MASKS):
        values = [own.get(name) for _, own in network.nodes(data=True)]
        if all(value is None for value in values):
            continue
        wanted = int if name == _LABEL else bool
        if not all(isinstance(value, wanted) and abs(value) < 1 << 62 for value in values):
            if name == _LABEL:
                continue  # an attribute that is called y may be anything, such as a position
            raise InputError(f"{path}: the attribute {name!r} must be true or false at every node.")
        found[name] = torch.tensor(values)
    return found
