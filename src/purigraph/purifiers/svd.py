"""GCN-SVD's purifier: what is left of a graph in its leading singular vectors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.graph import LowRankAdjacency, PairGraph
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.low_rank import LowRank, factorise, reconstruct
from purigraph.settings import setting

# A pair of the dense form costs its two indices, its place in the adjacency by rows and columns and its weight, some of
# them twice while they are made.
_BYTES_PER_PAIR = 80
# Values up to this are taken for 0.
_ROUNDING = 1e-9


@registry.register("svd")
class SVD(Purifier):
    r"""Puts the best approximation of low rank in the adjacency's place: attacks are said to live in the high ranks.

    With the singular value decomposition $A = U S V^\top$ of the weighted adjacency, the values are those of
    $$\hat A = \sum_{k \le r} s_k u_k v_k^\top, \qquad s_1 \ge s_2 \ge \dots,$$
    clipped to [0, 1]. They stand on the given edges (`reconstruction="edges"`: no edge is added, and absent ones stay
    absent), or on all pairs of nodes where they are positive ("dense", which adds edges; for small graphs), as a graph
    of purigraph has neither negative weights nor self-loops. The third form is the original's: "factored" keeps
    negative values, those above 1 and the diagonal, for graphs of any size, as a classifier that only multiplies with
    the adjacency needs no more than $U (S (V^\top H))$. It adds edges, too, and there are none to list: it works in
    front of a classifier of purigraph with `takes_factors` (`purigraph.protect` says so otherwise). Features are not
    looked at, and there is nothing to learn.

    The gradient is that of the approximation itself, singular vectors included. With `straight_through` the space that
    the leading singular vectors span is held constant instead and the clipping is passed by, which is faster and takes
    no notice of how close the first singular value that is left out comes to the last that is kept.

    Where those two are equal, the best approximation is not unique: one of them is taken, the same for the same seed.

    Reference: "All You Need Is Low (Rank): Defending Against Adversarial Attacks on Graphs", WSDM 2020.

    Shapes:
        `purifier(data)`: a `Data` with x (N, F), edge_index (2, M), and edge_weight (M,) if any -> a new `Data`; not
        for "factored".
        `purifier(x, edge_index, edge_weight=None)`: -> (M,), differentiable in edge_weight; for "edges" only.
    """

    rank: int = setting("r, the number of singular values that are kept.", default=50, ge=1)
    reconstruction: Literal["edges", "dense", "factored"] = setting(
        'Where the values stand: on the given edges, or on all pairs, listed ("dense") or as the product of two thin '
        'matrices ("factored", for classifiers that take it); the last two add edges.',
        default="edges",
    )
    cutoff: float = setting('Pairs of the "dense" form with a value up to this are left out.', default=0.0, ge=0, lt=1)
    max_dense_nodes: int = setting('The "dense" form refuses graphs with more nodes.', default=5000, ge=1)
    seed: int = setting("Of the vector that the iterations begin from.", default=0, ge=0)
    straight_through: bool = setting(
        "Hold the singular vectors constant and pass the clipping by when the gradient is computed, for attacks: the "
        "result is the same.",
        default=False,
    )

    trial_settings = MappingProxyType({"rank": 6})

    @property
    def adds_edges(self) -> bool:
        """Whether the values stand on all pairs."""
        return self.reconstruction != "edges"

    @property
    def factored(self) -> bool:
        """Whether the result is known by its factors."""
        return self.reconstruction == "factored"

    def factors(self, x: Tensor, graph: PairGraph, presence: Tensor | None = None) -> LowRankAdjacency:
        """Return the approximation by its factors (see `GraphTransform`)."""
        there = graph if presence is None else graph.with_weight(graph.weight * presence)
        return factorise(there, self.rank, seed=self.seed, hold_vectors=self.straight_through)

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the reconstruction (see `Purifier`)."""
        if self.reconstruction == "edges":
            return graph.with_weight(self._values(graph, graph))
        self.require_edges()
        everything = self._all_pairs(graph)
        weight = self._values(graph, everything)
        kept = (weight.detach() > self.cutoff).nonzero().squeeze(1)
        return PairGraph(graph.num_nodes, everything.pairs.index_select(1, kept), weight.index_select(0, kept))

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """The reconstructed values of pairs, in [0, 1]; the graph is decomposed once."""
        low_rank = LowRank(graph, self.rank, seed=self.seed)
        dtype = graph.weight.dtype
        return lambda pairs: _clip(low_rank.entries(pairs.pairs).to(dtype))

    def with_settings(self, **changes: Any) -> SVD:
        """Return the same purifier with other settings."""
        return self.replace(**changes)

    def variants(self) -> Mapping[str, Purifier]:
        """Return the same purifier with the other gradient."""
        name = "exact-gradient" if self.straight_through else "straight-through"
        return {name: self.replace(straight_through=not self.straight_through)}

    def _values(self, graph: PairGraph, wanted: PairGraph) -> Tensor:
        """(M,) in [0, 1], the reconstructed values of some pairs."""
        value = reconstruct(graph, wanted, self.rank, seed=self.seed, hold_vectors=self.straight_through)
        clipped = _clip(value)
        return value + (clipped - value).detach() if self.straight_through else clipped

    def _all_pairs(self, graph: PairGraph) -> PairGraph:
        nodes = graph.num_nodes
        if nodes > self.max_dense_nodes:
            number = nodes * (nodes - 1) // 2
            raise InputError(
                f"The dense reconstruction of a graph with {nodes:,} nodes has {number:,} pairs, which take about "
                f"{number * _BYTES_PER_PAIR / 1e9:,.1f} GB; max_dense_nodes={self.max_dense_nodes:,} refuses it. Use "
                'SVD(reconstruction="factored") in front of a GCN, an APPNP or a GPRGNN, or "edges", which keeps to '
                "the given edges; or raise max_dense_nodes."
            )
        return PairGraph(nodes, torch.triu_indices(nodes, nodes, offset=1, device=graph.device))


def _clip(value: Tensor) -> Tensor:
    """Between parts of a graph that nothing connects, the values are 0 but for rounding: no edges."""
    return value.clamp(0, 1).masked_fill(value.detach() <= _ROUNDING, 0.0)
