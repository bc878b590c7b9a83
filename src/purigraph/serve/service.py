"""What the service computes, without HTTP: a purifier, the current graph, and the scorer that is kept for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.audit import audit
from purigraph.errors import InputError, PurigraphError
from purigraph.fingerprint import fingerprint
from purigraph.graph import as_pair_graph
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.nodes import read_nodes
from purigraph.graph.sparse_features import select_rows
from purigraph.purifiers.base import Purifier, require_fitted
from purigraph.purifiers.edge_scorer import EdgeScorer
from purigraph.purifiers.neighbourhood import neighbourhood
from purigraph.report import page_text
from purigraph.serve.requests import NeighbourhoodRequest, PurifyRequest, ScoreRequest, as_pairs
from purigraph.serve.settings import ServeSettings


class Service:
    """A purifier and the graph that it answers questions about. Neither may be changed while it is in use.

    Args:
        purifier: A fitted purifier.
        data: The current graph: x, edge_index and, optionally, edge_weight.
        settings: What a request may ask for. Default: `ServeSettings()`.
        name: What the graph is called on the report's page.
        ids: The ids of its nodes, by which requests may name them as text. Default: their numbers.
    """

    def __init__(
        self,
        purifier: Purifier,
        data: Data,
        settings: ServeSettings | None = None,
        *,
        name: str = "graph",
        ids: NodeIds | None = None,
    ) -> None:
        self.purifier, self.data, self.name = require_fitted(purifier), data, name
        self.settings = settings or ServeSettings()
        self._graph = as_pair_graph(data)
        self.num_nodes, self.num_edges = self._graph.num_nodes, self._graph.num_pairs
        self._ids = NodeIds(self.num_nodes) if ids is None else ids
        self.graph_id = fingerprint(self._graph.codes, self._graph.weight.detach(), data.x)[:16]
        self._scorer: EdgeScorer | None = None

    @property
    def ready(self) -> bool:
        """Whether the node states are computed, so that scores take milliseconds."""
        return self._scorer is not None

    def prepare(self) -> None:
        """Compute the node states."""
        scorer = self.purifier.scorer(self.data)
        if self.num_edges:
            scorer.score(self.data.edge_index[:, :1])  # kernels are compiled on first use
        self._scorer = scorer

    def score(self, body: bytes) -> dict[str, Any]:
        """Score the pairs of a `ScoreRequest`."""
        request = ScoreRequest.read(body)
        self._check_number(len(request.pairs), "pairs", self.settings.max_pairs)
        if self._scorer is None:
            self.prepare()
        assert self._scorer is not None
        nodes = self._numbers_of([node for pair in request.pairs for node in pair], "pairs")
        pairs = nodes.reshape(-1, 2).t().contiguous()
        scores = self._scorer.score(pairs.to(self.data.edge_index.device))
        return {"scores": _numbers(scores), **self._about()}

    def neighbourhood(self, body: bytes) -> dict[str, Any]:
        """Purify the neighbourhood that a `NeighbourhoodRequest` asks for."""
        request = NeighbourhoodRequest.read(body)
        self._check_number(request.hops, "hops", self.settings.max_hops)
        self._check_number(len(request.nodes), "nodes", self.settings.max_nodes)
        named = self._numbers_of(request.nodes, "nodes")
        nodes = read_nodes(named, self.num_nodes, name="nodes").to(self._graph.device)
        around = neighbourhood(self._graph, self.data.edge_index, nodes, request.hops)
        if len(around.nodes) > self.settings.max_nodes or len(around.edges) > 2 * self.settings.max_pairs:
            raise InputError(
                f"The neighbourhood has {len(around.nodes):,} nodes and {len(around.edges) // 2:,} edges, which is too "
                "much for one request: ask for fewer nodes or hops."
            )
        with torch.no_grad():
            part = self.purifier.purify_subgraph(self.data, nodes, request.hops)
        # Each edge once, by the nodes' numbers in the served graph.
        edges = part.n_id[part.edge_index]
        once = edges[0] <= edges[1]
        if 2 * int(once.sum()) < edges.shape[1]:  # the graph lists each edge in one direction only
            once = torch.ones_like(once)
        field = self.purifier.receptive_field
        return {
            "edges": self._names_of(edges[:, once]),
            "weights": _numbers(part.edge_weight[once]),
            "touching": part.edge_mask[once].tolist(),
            "exact": field is not None and request.hops >= field,
            **self._about(),
        }

    def purify(self, body: bytes) -> dict[str, Any]:
        """Purify the graph of a `PurifyRequest`."""
        request = PurifyRequest.read(body)
        self._check_number(len(request.edges), "edges", self.settings.max_pairs)
        data = Data(x=self._features(request), edge_index=as_pairs(request.edges).to(self.data.edge_index.device))
        if request.weights is not None:
            if len(request.weights) != len(request.edges):
                raise InputError(f"weights: {len(request.edges)} are needed, one per edge, not {len(request.weights)}.")
            data.edge_weight = torch.tensor(request.weights, device=data.edge_index.device)
        with torch.no_grad():
            result, trace = self.purifier.purify_data(data)
        answer: dict[str, Any] = {"weights": _numbers(result.edge_weight), **self._about()}
        if self.purifier.adds_edges:
            answer["edges"] = result.edge_index.t().tolist()
        if trace is not None:
            answer["converged"] = trace.converged
        return answer

    def report(self) -> str:
        """Return the page of evidence of the served graph's purification, as HTML."""
        return page_text(audit(self.purifier, self.data, ids=self._ids), title=self.name)

    def _features(self, request: PurifyRequest) -> Tensor:
        if (request.x is None) == (request.nodes is None):
            raise InputError("Give either x, the features of the posted nodes, or nodes of the served graph.")
        device = self.data.edge_index.device
        if request.nodes is not None:
            self._check_number(len(request.nodes), "nodes", self.settings.max_nodes)
            return select_rows(self.data.x, self._numbers_of(request.nodes, "nodes").to(device))
        assert request.x is not None
        self._check_number(len(request.x), "x", self.settings.max_nodes)
        width = self.data.x.shape[1]
        uneven = [row for row, values in enumerate(request.x) if len(values) != width]
        if uneven:
            raise InputError(
                f"x: row {uneven[0]} has {len(request.x[uneven[0]])} features; the purifier was trained on {width}."
            )
        return torch.tensor(request.x, dtype=torch.float32, device=device).reshape(len(request.x), width)

    def _numbers_of(self, nodes: Sequence[int | str], name: str) -> Tensor:
        """Return the numbers (M,) of nodes that are given by number or, as text, by id."""
        texts = [node for node in nodes if isinstance(node, str)]
        found = iter(self._ids.positions(texts).tolist())
        numbers = [next(found) if isinstance(node, str) else node for node in nodes]
        for node, number in zip(nodes, numbers, strict=True):
            if not 0 <= number < self.num_nodes:
                raise InputError(f"{name}: {node!r} is not in the served graph, which has {self.num_nodes} nodes.")
        return torch.tensor(numbers, dtype=torch.int64)

    def _names_of(self, pairs: Tensor) -> list[list[int]] | list[list[str]]:
        """Return pairs (2, M) of nodes by their ids, or by their numbers if they have no ids."""
        if self._ids.numbered:
            numbers: list[list[int]] = pairs.t().tolist()
            return numbers
        return [[self._ids[i], self._ids[j]] for i, j in pairs.t().tolist()]

    def _check_number(self, number: int, name: str, most: int) -> None:
        if number > most:
            raise InputError(f"{name}: {number:,} are too many for one request; this service takes {most:,}.")

    def _about(self) -> dict[str, Any]:
        return {"suspicious_below": self.purifier.suspicious_below, "graph": self.graph_id}


def _numbers(values: Tensor) -> list[float]:
    """Return a tensor as JSON numbers.

    Raises:
        PurigraphError: If one is not finite: JSON has no such number, and a client should not act on it.
    """
    if not bool(torch.isfinite(values).all()):
        raise PurigraphError("The result is not finite: the features or weights are too extreme for this purifier.")
    return [round(value, 7) for value in values.double().tolist()]
