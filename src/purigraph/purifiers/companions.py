"""A purifier that gives new nodes company that nobody can take away: trusted nodes that look like them."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import PairGraph, pair_codes
from purigraph.kernels.known_rows import KnownRows, row_keys
from purigraph.memo import Memo
from purigraph.metrics import gaps
from purigraph.pretrained import ComponentRecord
from purigraph.purifiers.answers import built_answers, taken_answers
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.similarity import Similarities
from purigraph.settings import setting

# Similarities of new with trusted nodes that exist at a time.
_BLOCK_ELEMENTS = 1 << 22


class _Union(NamedTuple):
    """The pairs of a graph together with those of the companions."""

    structure: PairGraph
    given: Tensor  # (E,) where the graph's own pairs are among them
    added: Tensor  # weights (U,) of the companions' pairs, 0 elsewhere


@registry.register("companions")
class Companions(Purifier):
    r"""Connects every new node with the trusted nodes whose features speak for the same answer.

    An attacker who has the flips isolates a node, or drowns its edges in others, and whatever only reweights the given
    edges can't undo that. The edges that this purifier adds come from features and the trusted nodes alone: they can't
    be removed, and what the attacker adds has to outweigh them. With the answers $p$ of a model that sees a node's own
    features only, such as a `purigraph.Anchor`, a node $v$ that the trusted graph did not have gets edges to the
    `count` trusted nodes of the given graph with the largest cosine of $\log p - \overline{\log p}$, each with weight
    $$w_v = (p_v^{(1)} - p_v^{(2)})^\gamma,$$
    the gap of the two largest answers to the power of `caution`: a node whose features leave it undecided needs its own
    edges, and keeps them. An edge that is there anyway has the larger of both weights.

    Trusted nodes are recognised by their features; with none of them in a graph nothing is added. It judges no edge:
    chain it after purifiers that do, `pg.Chain([purifier, pg.Agreement(), pg.Companions()])`.

    Edges to nodes with similar features have been used before to make up for missing or false ones, there between all
    nodes and to learn from (`Jin et al. 2021, SimP-GCN <https://arxiv.org/abs/2011.09643>`_).

    Without a model (`fit(data)` alone) the features themselves are compared and all weights are 1.

    Shapes:
        `purifier(data)`: a `Data` with x (N, F), edge_index (2, M), and edge_weight (M,) if any -> a new `Data` with
        more edges.
    """

    answers_record: ComponentRecord | None = setting(
        "The model whose answers are compared, as `fit` was given it.", default=None
    )
    num_trusted: int = setting("The number of trusted nodes that are recognised; set by `fit`.", default=0, ge=0)
    count: int = setting("How many companions a node gets.", default=32, ge=1)
    caution: float = setting("gamma; 0 treats all nodes alike.", default=2.0, ge=0)
    for_trusted: bool = setting(
        "Whether trusted nodes get companions too, as where nodes are never new and only edges change.", default=False
    )

    learns_from_answers = True
    trial_settings = MappingProxyType({"count": 3, "for_trusted": True})

    def _build(self) -> None:
        self.answers = built_answers(self.answers_record)
        self.trusted = KnownRows(self.num_trusted)
        self._company: Memo[PairGraph] = Memo()
        self._unions: Memo[_Union] = Memo(2)

    @property
    def adds_edges(self) -> bool:
        """Always."""
        return True

    @property
    def is_fitted(self) -> bool:
        """Whether it knows any trusted nodes."""
        return self.num_trusted > 0

    def fit(
        self,
        data: Data,
        *,
        answers: torch.nn.Module | None = None,
        validation: Data | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        **settings: Any,
    ) -> Companions:
        """Remember the trusted nodes. Labels, masks and edges are never read.

        Args:
            data: x: the nodes that may be companions.
            answers: A fitted `Anchor`, or another registered component that maps x (N, F) to probabilities (N, C);
                copied. Default: none, which compares the features.
            validation: Not used: there is nothing to choose.
            seed: Not used: nothing is random.
            checkpoint: Not used: it takes no time.
            progress: Not used.
            **settings: There are none.

        Returns:
            Itself.
        """
        self.fit_settings_class(**settings)
        if data.x is None or len(data.x) == 0:
            raise InputError("data.x is missing or empty: companions are found by their features.")
        record, self.answers = taken_answers(answers)
        self.trusted = KnownRows.of(data.x, torch.empty(len(data.x), 0))
        self._settings = self._settings.replace(answers_record=record, num_trusted=len(self.trusted))
        self._company, self._unions = Memo(), Memo(2)
        self.provenance = {"trusted_nodes": len(data.x), "purigraph_version": __version__}
        self._keep_statistics(data)
        return self

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        return f"Knows {self.num_trusted:,} trusted nodes; others get {self.count} of them as companions."

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the graph with the companions' edges (see `Purifier`)."""
        union = self._union(x, graph)
        given = graph.weight.new_zeros(union.structure.num_pairs).index_copy(0, union.given, graph.weight)
        return union.structure.with_weight(torch.maximum(given, union.added.to(given.dtype)))

    def companions(self, x: Tensor) -> PairGraph:
        """Return the edges that are added to any graph with these features (N, F)."""
        known = self._company.get(x, self.settings)
        if known is None:
            with torch.no_grad():
                known = self._find(x)
            self._company.put(x, known, self.settings)
        return known

    def _find(self, x: Tensor) -> PairGraph:
        if not self.is_fitted:
            raise NotFittedError("This Companions is not fitted yet: call fit(data, answers=anchor), or load one.")
        keys = row_keys(x)
        trusted = self.trusted.recognised(keys)
        # By key, so that which of two equally similar nodes is taken does not depend on the numbers of the nodes.
        candidates = trusted.nonzero().squeeze(1)
        candidates = candidates[keys[candidates].argsort()]
        nodes = torch.arange(len(keys), device=keys.device) if self.for_trusted else (~trusted).nonzero().squeeze(1)
        rows, weight = self._compared(x)
        count = min(self.count, len(candidates) - int(self.for_trusted))
        if count < 1 or len(nodes) == 0:
            return PairGraph(len(keys), nodes.new_empty(2, 0))
        found = _nearest(rows, nodes, candidates, count)
        first = nodes.unsqueeze(1).expand_as(found).reshape(-1)
        low, high = torch.stack([first, found.reshape(-1)]).sort(0).values
        codes = pair_codes.encode(low, high, len(keys))
        codes, place = codes.unique(return_inverse=True)
        # Two trusted nodes may have chosen one another.
        weights = weight.new_zeros(len(codes)).scatter_reduce(0, place, weight[first], "amax")
        return PairGraph.from_codes(len(keys), codes, weights)

    def _compared(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(N, D) what is compared, and (N,) the weights of the companions' edges."""
        if self.answers is None:
            rows = x.to_dense() if x.layout != torch.strided else x
            return rows.float(), torch.ones(len(rows), device=x.device)
        answers = self.answers(x)
        logs = answers.clamp(min=torch.finfo(answers.dtype).tiny).log()
        return logs - logs.mean(1, keepdim=True), gaps(answers) ** self.caution

    def _union(self, x: Tensor, graph: PairGraph) -> _Union:
        company = self.companions(x)
        # An attack shows the same edge list hundreds of times.
        known = self._unions.get(graph.pairs, company)
        if known is None:
            codes, given, added = pair_codes.merge(graph.codes, company.codes)
            structure = PairGraph.from_codes(graph.num_nodes, codes)
            weight = company.weight.new_zeros(len(codes)).index_copy(0, added, company.weight)
            known = _Union(structure, given, weight)
            self._unions.put(graph.pairs, known, company)
        return known

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """The cosine of what is compared, or 0 if it is negative; it does not depend on the graph."""
        prepared, dtype = Similarities(self._compared(x)[0], "cosine"), graph.weight.dtype
        return lambda pairs: prepared.of(pairs.pairs).clamp(0, 1).to(dtype)

    def with_settings(self, **changes: Any) -> Companions:
        """Return the same purifier with other companions; the model is shared."""
        fixed = changes.keys() - {"count", "caution", "for_trusted"}
        if fixed:
            raise InputError(f"{', '.join(sorted(fixed))} can't be changed after `fit`.")
        other = type(self)()
        other._settings = self.settings.replace(**changes)
        other.answers, other.trusted, other.provenance = self.answers, self.trusted, self.provenance
        return other


def _nearest(rows: Tensor, nodes: Tensor, candidates: Tensor, count: int) -> Tensor:
    """(M, count) for each of some nodes (M,), the candidates with the largest cosine; never the node itself."""
    unit = torch.nn.functional.normalize(rows, dim=1)
    others, found = unit[candidates], []
    for block in nodes.split(max(_BLOCK_ELEMENTS // len(candidates), 1)):
        cosine = unit[block] @ others.t()
        cosine.masked_fill_(block.unsqueeze(1) == candidates, -torch.inf)
        found.append(candidates[cosine.topk(count, dim=1).indices])
    return torch.cat(found)
