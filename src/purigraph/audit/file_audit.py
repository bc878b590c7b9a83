"""Purifying a graph in a file: from the paths and options of a request to the files that come of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph import anchors, classifiers, purifiers
from purigraph.audit.auditing import Audit, Compute, Trusted, audit
from purigraph.audit.dataset_documents import DatasetDocument
from purigraph.devices import check_device
from purigraph.errors import DatasetError, InputError, NotFittedError, UnknownNameError
from purigraph.files import atomic_path
from purigraph.graph import read_data
from purigraph.graph.file_formats import FeatureLayout, GraphDocument, RowVerdict, read_graph_file
from purigraph.graph.npz_archive import open_regular
from purigraph.purifiers import Purifier
from purigraph.settings import Settings, setting


class Request(Settings):
    """What is to be purified, by what, and how. Files are given by their paths, models by their folders."""

    graph: str = setting("A dataset's name, or a graph file.")
    purifier: str = setting("The folder of a purifier, or hf://owner/name.")
    features: str | None = setting("A file with the features of the graph's nodes.", default=None)
    trusted: str | None = setting("A file, a trusted snapshot: only changes since are judged.", default=None)
    threshold: float | None = setting("Cut edges below this weight.", default=None, ge=0, le=1)
    false_positive_rate: float | None = setting(
        "Choose the threshold by the share of true edges that it may cost.", default=None, ge=0, le=1
    )
    min_degree: int = setting("Never leave a node with fewer edges than this by a cut.", default=0, ge=0)
    max_cut: float = setting("Cut at most this share of all edges.", default=1.0, ge=0, le=1)
    never_cut: str | None = setting("A file with edges that are never cut.", default=None)
    shadow: bool = setting("Only score: write what was found beside what is there.", default=False)
    drop: bool = setting("Leave out edges that are cut, instead of marking them.", default=False)
    settings: dict[str, Any] = setting("Settings of the purification that differ from the model's.", default={})
    classifier: str | None = setting("The folder of a classifier, whose answers are compared.", default=None)
    anchor: str | None = setting("The folder of an anchor for that classifier.", default=None)
    seed: int = setting("The seed of a dataset's split, and of edges injected to measure a threshold.", default=0, ge=0)
    device: str = setting("Where to compute.", default="cpu")

    def files(self) -> dict[str, str]:
        """Return the files that are read, by their role; models and datasets are not among them."""
        graph = {"graph": self.graph} if is_graph_file(self.graph) else {}
        others = {name: getattr(self, name) for name in ("features", "trusted", "never_cut")}
        return {**graph, **{name: path for name, path in others.items() if path is not None}}

    def models(self) -> dict[str, str]:
        """Return the models that are read, by their role."""
        given = {name: getattr(self, name) for name in ("purifier", "classifier", "anchor")}
        return {name: folder for name, folder in given.items() if folder is not None}


def is_graph_file(graph: str) -> bool:
    """Whether this is a graph file, by its ending or as there is such a file, and not the name of a dataset."""
    from purigraph.graph.file_formats import SUFFIXES

    return Path(graph).suffix.lower() in SUFFIXES or Path(graph).is_file()


@dataclass(frozen=True)
class FileAudit:
    """A purified graph file, before it is written.

    Attributes:
        request: What was asked for.
        document: The graph as it was read.
        audit: What was found.
        purifier: Of which class the purifier is.
        notes: Sentences on what was done with the contents of the files.
        seconds: How long it took.
    """

    request: Request
    document: GraphDocument
    audit: Audit
    purifier: str
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def write(self, path: Path) -> None:
        """Write the graph in its own format to `path` directly; see `save`."""
        found, document = self.audit, self.document
        if found.rewired is not None:
            document.save_rewired(path, self._rewired())
            return
        shadow = self.request.shadow
        pair_weight = found.evidence.score.to(found.weight.dtype) if shadow else found.weight
        keep = None if found.keep is None else document.row_mask(found.keep)
        weight = document.row_weights(pair_weight.cpu())
        document.save(path, RowVerdict(weight, keep, shadow, self.request.drop or document.always_drops))

    def save(self, path: str | Path) -> None:
        """Write the graph in its own format, whole or not at all."""
        with atomic_path(path) as temporary:
            self.write(temporary)

    def _rewired(self) -> Data:
        """Return the edges of a purifier that can add some, with the self-loops of the file."""
        assert self.audit.rewired is not None
        original = self.document.data()
        _, entries = read_data(original)
        loops = entries.pair < 0
        edges, weight = self.audit.rewired.to("cpu").edge_index()
        edges = torch.cat([edges, original.edge_index[:, loops]], dim=1)
        result = Data(x=self.document.x, edge_index=edges)
        if self.audit.decision is None:
            result.edge_weight = torch.cat([weight, entries.weight[loops].to(weight.dtype)])
        return result


def audit_file(request: Request, *, compute: Compute | None = None) -> FileAudit:
    """Read a graph and a purifier, purify, and return everything that there is to write and to tell.

    Args:
        request: What is asked for.
        compute: Computes the evidence elsewhere. Default: `Purifier.evidence`, in this process.

    Raises:
        PurigraphError: If a file can't be read or the options don't fit; nothing is written in any case.
    """
    started = time.monotonic()
    check_device(request.device)
    purifier = load_purifier(request).to(request.device)
    expected = FeatureLayout.of_record((purifier.provenance or {}).get("features"))
    document = open_graph(request.graph, request.features, expected, seed=request.seed)
    if request.drop and request.shadow:
        raise InputError("shadow only scores, and drop leaves edges out: choose one of them.")
    data = document.data().to(request.device)
    classifier = None if request.classifier is None else classifiers.load(request.classifier).to(request.device)
    anchor = None if request.anchor is None else anchors.load(request.anchor).to(request.device)
    found = audit(
        purifier,
        data,
        ids=document.ids,
        threshold=request.threshold,
        false_positive_rate=request.false_positive_rate,
        min_degree=request.min_degree,
        max_cut=request.max_cut,
        never_cut=None if request.never_cut is None else _listed_edges(request.never_cut, document),
        trusted=None if request.trusted is None else _trusted(request.trusted),
        classifier=classifier,
        anchor=anchor,
        seed=request.seed,
        compute=compute,
    )
    seconds = time.monotonic() - started
    return FileAudit(request, document, found, type(purifier).__name__, list(document.notes), seconds)


def open_graph(
    graph: str, features: str | None = None, expected: FeatureLayout | None = None, *, seed: int = 0
) -> GraphDocument:
    """Return a dataset or a graph file as a document."""
    if is_graph_file(graph):
        return read_graph_file(graph, features, expected)
    if features is not None:
        raise InputError(f"{graph} is a dataset with its own features: leave --features out.")
    try:
        return DatasetDocument.load(graph, seed)
    except UnknownNameError as error:
        raise DatasetError(f"{error} Or pass the path of a graph file (.npz, .csv, ...; see docs/files.md).") from None


def _trusted(path: str) -> Trusted:
    document = read_graph_file(path, bare=True)
    data = None if document.layout.kind == "structural" else document.data()
    return Trusted(document.graph, document.ids, data)


def _listed_edges(path: str, document: GraphDocument) -> Tensor:
    """Return the edges of a file as numbers of nodes, (2, M); those between nodes that are not there are -1."""
    with open_regular(path) as file:
        if not file.read(1):
            return torch.zeros(2, 0, dtype=torch.int64)  # nothing is listed
    listed = read_graph_file(path, bare=True)
    position = torch.from_numpy(document.ids.positions(listed.ids.names()))
    return position[listed.graph.pairs]


def load_purifier(request: Request) -> Purifier:
    """Return the fitted purifier of a request, with the settings that it changes."""
    purifier = purifiers.load(request.purifier)
    if not purifier.is_fitted:
        raise NotFittedError(f"The purifier in {request.purifier} is not trained: train one with `purigraph fit`.")
    if not request.settings:
        return purifier
    # Only purifiers with settings that can be changed after training have `with_settings`.
    with_settings = getattr(purifier, "with_settings", None)
    if with_settings is None:
        raise InputError(f"The settings of a trained {type(purifier).__name__} can't be changed: omit --set.")
    changed: Purifier = with_settings(**request.settings)
    return changed
