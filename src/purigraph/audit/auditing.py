"""A purification with its evidence: what every edge got, what is cut and why, what changed, what it does to answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchors import Anchor, Certificate
from purigraph.audit.answers import Answers, compare_answers
from purigraph.audit.changes import Changes, compare
from purigraph.errors import InputError
from purigraph.graph import PairGraph, as_pair_graph, pair_codes, read_data
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.protection import protect
from purigraph.purifiers import Purifier
from purigraph.purifiers.base import require_fitted
from purigraph.purifiers.calibration import USUAL_RATE, Calibration, calibrate, read_rate
from purigraph.purifiers.cutting import CutRules, Decision, decide
from purigraph.purifiers.evidence import Evidence
from purigraph.purifiers.explanation import Explanation, explain_edges

#: Without a threshold, and without a calibration to take one from, edges below this weight are called suspicious.
DOUBTFUL = 0.5


#: What computes the evidence of a purifier on features (N, F) and a graph.
Compute: TypeAlias = Callable[[Purifier, Tensor, PairGraph], Evidence]


@dataclass(frozen=True)
class Trusted:
    """A snapshot that is believed: its pairs, the names of its nodes, and all of it where features are known."""

    graph: PairGraph
    ids: NodeIds
    data: Data | None = None


@dataclass(frozen=True)
class Audit:
    """A purification with its evidence. Made by `purigraph.audit.audit`.

    Attributes:
        x: (N, F) the features.
        graph: What was purified.
        ids: The names of its nodes.
        evidence: How the purifier came to its weights.
        weight: (E,) the resulting weights: the purifier's, but for what a trusted snapshot vouches for.
        decision: What is cut; None without a threshold.
        suspicious_below: The weight below which edges are called suspicious: the threshold, or a usual one.
        chosen_by: Where that comes from, as a sentence.
        judged: (E,) bool, the edges that are judged: all, or those that the trusted snapshot lacks.
        changes: What changed since the trusted snapshot; None without one.
        answers: What purification does to a classifier's answers; None without one.
        certificate: Which answers no edit of the edges can change; None without an anchor.
        rewired: The purified graph of a purifier that can add edges; otherwise None.
    """

    x: Tensor
    graph: PairGraph
    ids: NodeIds
    evidence: Evidence
    weight: Tensor
    decision: Decision | None
    suspicious_below: float
    chosen_by: str
    judged: Tensor
    changes: Changes | None = None
    answers: Answers | None = None
    certificate: Certificate | None = None
    rewired: PairGraph | None = None

    @cached_property
    def suspicious(self) -> Tensor:
        """(E,) bool, the judged edges below `suspicious_below`."""
        return self.judged & (self.evidence.score.cpu() < self.suspicious_below)

    @cached_property
    def explanation(self) -> Explanation:
        """Return why every edge got its weight; see `Purifier.explain`."""
        return explain_edges(self.x, self.graph, self.evidence, self.ids.__getitem__)

    @property
    def keep(self) -> Tensor | None:
        """(E,) bool, which edges stay; None without a threshold."""
        return None if self.decision is None else self.decision.keep

    def counts(self) -> dict[str, Any]:
        """Return the figures, as JSON values."""
        counts: dict[str, Any] = {
            "nodes": self.graph.num_nodes,
            "edges": self.graph.num_pairs,
            "judged": int(self.judged.sum()),
            "suspicious": int(self.suspicious.sum()),
            "suspicious_below": self.suspicious_below,
            "cut": 0 if self.decision is None else self.decision.cut,
            "spared": None
            if self.decision is None
            else {name: getattr(self.decision, name) for name in ("never_cut", "by_degree", "by_share")},
            "added": 0 if self.rewired is None else int((self.graph.find(self.rewired.codes) < 0).sum()),
            "mean_weight": float(self.weight.mean()) if len(self.weight) else None,
            "steps": None if self.evidence.converged is None else len(self.evidence.relative_change),
            "relative_change": None if self.evidence.converged is None else self.evidence.relative_change,
            "converged": self.evidence.converged,
        }
        if self.changes is not None:
            counts["changes"] = self.changes.counts()
        if self.answers is not None:
            counts["answers"] = self.answers.counts()
        if self.certificate is not None:
            counts["fixed_answers"] = int(self.certificate.fixed.sum())
        return counts

    def purified(self) -> PairGraph:
        """Return the resulting graph, with a weight of 0 where an edge is cut."""
        if self.rewired is not None:
            return self.rewired
        keep = self.keep
        return self.graph.with_weight(self.weight if keep is None else self.weight * keep.to(self.weight))


def audit(
    purifier: Purifier,
    data: Data,
    *,
    ids: Sequence[str] | NodeIds | None = None,
    threshold: float | None = None,
    false_positive_rate: float | None = None,
    min_degree: int = 0,
    max_cut: float = 1.0,
    never_cut: Iterable[tuple[Any, Any]] | Tensor | None = None,
    trusted: Data | Trusted | None = None,
    classifier: nn.Module | None = None,
    anchor: Anchor | None = None,
    seed: int = 0,
    compute: Compute | None = None,
) -> Audit:
    """Purify a graph, decide what to cut, and keep the evidence.

    Args:
        purifier: A fitted purifier.
        data: x, edge_index and, optionally, edge_weight.
        ids: N names of the nodes. Default: their numbers.
        threshold: Edges with a weight below this are cut. Default: nothing is cut.
        false_positive_rate: Choose the threshold by the share of true edges that it may cost, from the purifier's own
            calibration or, with a trusted snapshot and a purifier without one, from that snapshot.
        min_degree: Never leave a node with fewer edges than this by a cut; 1 orphans nobody.
        max_cut: Cut at most this share of all edges.
        never_cut: Edges that stay whatever their weight: pairs of ids, or (2, M) numbers of nodes.
        trusted: An earlier graph that is believed. Then only what changed since is judged: edges that it has keep
            their weight and are never cut. With a `Data`, node k is the same node in both.
        classifier: Also compare a classifier's answers before and after.
        anchor: Also say which answers no edit of the edges can change.
        seed: The seed of the edges that are injected where a threshold has to be measured.
        compute: Computes the evidence elsewhere. Default: `Purifier.evidence`, in this process.

    >>> import purigraph as pg
    >>> from purigraph.audit import audit
    >>> data = pg.datasets.load("synthetic-citation")
    >>> purifier = pg.GPRGAE(hops=2, node_channels=8, edge_channels=8).fit(data, epochs=3)
    >>> found = audit(purifier, data, false_positive_rate=0.05, min_degree=1)
    >>> found.decision.cut <= found.graph.num_pairs
    True
    """
    require_fitted(purifier)
    if threshold is not None and false_positive_rate is not None:
        raise InputError("threshold and false_positive_rate both choose a threshold: pass one of them.")
    if data.x is None:
        raise InputError("data.x is missing: a purifier needs node features.")
    graph, _ = read_data(data)
    names = _names(ids, graph.num_nodes)
    with torch.no_grad():
        evidence = purifier.evidence(data.x, graph) if compute is None else compute(purifier, data.x, graph)
    snapshot = _snapshot(trusted)
    changes = None
    if snapshot is not None:
        score = evidence.score
        changes = compare(purifier, data.x, graph, score, names, snapshot.graph, snapshot.ids)
    judged = torch.ones(graph.num_pairs, dtype=torch.bool) if changes is None else changes.is_added
    calibration = _calibration(purifier, trusted, false_positive_rate, seed)
    below, chosen_by = _threshold(threshold, false_positive_rate, calibration)
    weight = _final(evidence, graph)
    if changes is not None:
        weight = torch.where(judged.to(weight.device), weight, graph.weight.to(weight.dtype))
    decision = None
    if threshold is not None or false_positive_rate is not None:
        rules = CutRules(threshold=below, min_degree=min_degree, max_cut=float(max_cut))
        spared = _spared(never_cut, graph, names) | ~judged
        decision = decide(graph, evidence.score, rules, spared)
    elif min_degree or max_cut != 1 or never_cut is not None:
        raise InputError(
            "min_degree, max_cut and never_cut limit what is cut: pass a threshold, or a rate to find one by."
        )
    found = Audit(
        x=data.x,
        graph=graph,
        ids=names,
        evidence=evidence,
        weight=weight,
        decision=decision,
        suspicious_below=below,
        chosen_by=chosen_by,
        judged=judged,
        changes=changes,
        rewired=_rewired(evidence, below, decision) if purifier.adds_edges else None,
    )
    if classifier is not None:
        answers = compare_answers(classifier, data, graph, found.purified())
        found = replace(found, answers=answers)
    if anchor is not None:
        if classifier is None:
            raise InputError("An anchor vouches for the answers of a classifier: pass that too.")
        found = replace(found, certificate=protect(classifier, None, anchor=anchor).certificate(data))
    return found


def _names(ids: Sequence[str] | NodeIds | None, num_nodes: int) -> NodeIds:
    names = ids if isinstance(ids, NodeIds) else NodeIds(num_nodes if ids is None else list(ids))
    if len(names) != num_nodes:
        raise InputError(f"ids has {len(names)} entries, but the graph has {num_nodes} nodes.")
    return names


def _snapshot(trusted: Data | Trusted | None) -> Trusted | None:
    if trusted is None or isinstance(trusted, Trusted):
        return trusted
    graph = as_pair_graph(trusted)
    return Trusted(graph, NodeIds(graph.num_nodes))


def _calibration(
    purifier: Purifier, trusted: Data | Trusted | None, rate: float | None, seed: int
) -> Calibration | None:
    own = purifier.calibration
    if own is not None or rate is None:
        return own
    known = trusted.data if isinstance(trusted, Trusted) else trusted
    if known is None or known.x is None:
        raise InputError(
            f"This {type(purifier).__name__} has no calibration of its own to find a threshold by: pass a threshold, "
            "or a trusted graph with features to measure one on."
        )
    return calibrate(purifier, known, seed=seed)


def _threshold(threshold: float | None, rate: float | None, calibration: Calibration | None) -> tuple[float, str]:
    if threshold is not None:
        return threshold, "as it was asked for"
    if calibration is None:
        return DOUBTFUL, "as nothing better is known: the purifier has no calibration"
    usual = USUAL_RATE if rate is None else read_rate(rate)
    where = "held-out true edges" if calibration.held_out else "true edges of the trusted graph"
    caught = 100 * calibration.caught_at(usual)
    return calibration.threshold(usual), (
        f"below which {100 * usual:g} % of {where} lie, and {caught:.0f} % of randomly injected ones"
    )


def _final(evidence: Evidence, graph: PairGraph) -> Tensor:
    """Return the weights of the given pairs in the result, in the dtype of those given."""
    position = evidence.purified.find(graph.codes)
    found = torch.where(position >= 0, evidence.purified.weight[position.clamp(min=0)], 0.0) if len(position) else None
    return graph.weight if found is None else found.detach().to(graph.weight.dtype)


def _rewired(evidence: Evidence, below: float, decision: Decision | None) -> PairGraph:
    purified = evidence.purified
    if decision is None:
        return purified
    return purified.keeping(purified.weight >= below)


def _spared(never_cut: Iterable[tuple[Any, Any]] | Tensor | None, graph: PairGraph, ids: NodeIds) -> Tensor:
    """Return which pairs may never be cut, (E,) bool."""
    spared = torch.zeros(graph.num_pairs, dtype=torch.bool)
    if never_cut is None:
        return spared
    if isinstance(never_cut, Tensor):
        if never_cut.dim() != 2 or never_cut.shape[0] != 2 or never_cut.is_floating_point():
            raise InputError(f"never_cut must be pairs of ids, or (2, M) integers, not {tuple(never_cut.shape)}.")
        ends = never_cut.long().cpu()
    else:
        pairs = [(str(a), str(b)) for a, b in never_cut]
        ends = torch.stack([torch.from_numpy(ids.positions([pair[k] for pair in pairs])) for k in (0, 1)])
    # Edges that are not there can't be cut either.
    there = ((ends >= 0) & (ends < graph.num_nodes)).all(0)
    codes = pair_codes.encode(ends[0][there], ends[1][there], graph.num_nodes)
    position = graph.find(codes.to(graph.device)).cpu()
    spared[position[position >= 0]] = True
    return spared
