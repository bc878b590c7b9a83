"""Graphs in files of the user's own: edge lists (CSV, TSV, Parquet), GraphML, GEXF, PyG's `.pt`, and `.npz`.

`read_graph_file` gives a `GraphDocument`: the graph, the names of its nodes, and a way to write the same file again
with weights. What every format holds, and what becomes of odd contents, is in docs/files.md.
"""

from __future__ import annotations

from pathlib import Path

from purigraph.errors import GraphError
from purigraph.graph.file_formats.document import GraphDocument, RowVerdict
from purigraph.graph.file_formats.edge_lists import EdgeList
from purigraph.graph.file_formats.feature_files import FeatureFile, read_feature_file
from purigraph.graph.file_formats.features import FeatureLayout
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.file_formats.npz_documents import NpzDocument
from purigraph.graph.file_formats.pyg_files import PyGFile
from purigraph.graph.file_formats.xml_graphs import XmlGraph
from purigraph.graph.npz_archive import open_regular

FORMATS = (NpzDocument, EdgeList, PyGFile, XmlGraph)
SUFFIXES = tuple(suffix for kind in FORMATS for suffix in kind.suffixes)

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "FeatureFile",
    "FeatureLayout",
    "GraphDocument",
    "NodeIds",
    "RowVerdict",
    "read_feature_file",
    "read_graph_file",
]


def read_graph_file(
    path: str | Path,
    features: str | Path | None = None,
    expected: FeatureLayout | None = None,
    *,
    bare: bool = False,
) -> GraphDocument:
    """Read a graph file of any supported format.

    Args:
        path: The file; its ending says the format: .npz, .csv, .tsv, .parquet, .graphml, .gexf, .pt.
        features: A file with the features of its nodes, for formats without: .csv, .tsv, .parquet, .npy, .npz.
        expected: The features that a model was fitted to (`FeatureLayout.of_record`); columns are put into its order.
        bare: Whether only nodes and edges are needed: no features are then made for an edge list without any.

    Raises:
        GraphError: If a file can't be read or is malformed. The message names the file, the row and the remedy.
        InputError: If a library for this format is missing.
    """
    place = Path(path)
    suffix = place.suffix.lower()
    for kind in FORMATS:
        if suffix in kind.suffixes:
            return kind.read(place, features, expected, bare=bare)
    with open_regular(place) as file:  # says so if there is no such file
        is_archive = file.read(2) == b"PK"
    if is_archive:
        return NpzDocument.read(place, features, expected, bare=bare)
    raise GraphError(
        f"{path} is of an unknown format: its name must end in one of {', '.join(SUFFIXES)} (see docs/files.md)."
    )
