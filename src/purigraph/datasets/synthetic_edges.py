"""Edges of a generated citation network: a degree-corrected block model on two levels, with triadic closure."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from purigraph.datasets.raw_graph import sorted_unique
from purigraph.datasets.synthetic_communities import Communities, Integers

# What a paper cites: one of its community, of its field, of the sister community, or any.
SCOPES = np.array([0.68, 0.26, 0.04, 0.02])
# How often a paper is cited follows a power law; 1.1 gives Cora's quantiles of the degree.
POPULARITY_EXPONENT = 1.1
POPULARITY_CAP_EXPONENT = 0.75
# The share of edges that close a wedge, and in how many rounds (later ones build on the triangles of earlier ones).
CLOSURE_SHARE = 0.13
CLOSURE_ROUNDS = 3
# Draws are made in blocks, so that they take little memory compared with the graph.
BLOCK = 1 << 20
# If a budget is not met after so many rounds, pairs are drawn uniformly: that happens in small and dense graphs.
PATIENCE = 20

CROSS, SAME = 0, 1


def draw_edges(
    communities: Communities, num_edges: int, homophily: float, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    r"""Return the two ends, (E,) and (E,), of exactly `num_edges` distinct undirected edges without self-loops.

    Every paper cites one other first, so that none is isolated; then papers drawn at random cite more, node j
    with probability proportional to $\theta_j$ within a random scope (degree-corrected block model: Karrer and
    Newman, Phys. Rev. E 83, 2011); then wedges u-v-w close to triangles. Edges within a class and across
    classes have separate budgets, which fixes the homophily.
    """
    return _Growth(communities, num_edges, homophily, rng).run()


class _Growth:
    """A growing edge list: sorted unique codes i * N + j with i < j, and how many are within a class."""

    def __init__(self, communities: Communities, num_edges: int, homophily: float, rng: np.random.Generator) -> None:
        self.communities, self.rng = communities, rng
        self.num_nodes = len(communities.of)
        self.codes: Integers = np.empty(0, dtype=np.int64)
        self.counts = np.zeros(2, dtype=np.int64)
        self.budget = _budget(communities.label, num_edges, homophily)
        popularity = (1 - rng.random(self.num_nodes)) ** (-1 / POPULARITY_EXPONENT)
        popularity = np.minimum(popularity, self.num_nodes**POPULARITY_CAP_EXPONENT)
        self.cumulative = np.concatenate([[0.0], np.cumsum(popularity)])
        sister, field = communities.sister, communities.field
        whole = np.zeros_like(field)
        # (4, K): the range of nodes that a scope means to a paper of a community.
        self.low = np.stack([communities.start, communities.field_start[field], communities.start[sister], whole])
        self.high = np.stack(
            [communities.end, communities.field_end[field], communities.end[sister], whole + self.num_nodes]
        )

    def run(self) -> tuple[Integers, Integers]:
        cited = np.round((1 - CLOSURE_SHARE) * self.budget).astype(np.int64)
        lonely = np.arange(self.num_nodes)
        for _ in range(PATIENCE):
            if len(lonely) == 0:
                break
            # The whole budget is open to them: a paper with a foreign label finds few of its own class nearby.
            self.add(lonely, self.cite(lonely, self.budget), self.budget)
            lonely = self.isolated()
        self.fill(cited)
        for done in range(1, CLOSURE_ROUNDS + 1):
            part = cited + (self.budget - cited) * done // CLOSURE_ROUNDS
            self.add(*self.close_wedges(3 * self.missing(part)), part)
        self.fill(self.budget)
        return self.codes // self.num_nodes, self.codes % self.num_nodes

    def fill(self, budget: Integers) -> None:
        """Let papers drawn at random cite others until the budget is met."""
        rounds = 0
        while (missing := self.missing(budget)) > 0:
            source = self.rng.integers(self.num_nodes, size=missing + missing // 2 + 16)
            if rounds < PATIENCE:
                target = self.cite(source, budget)
            else:
                target = self.rng.integers(self.num_nodes, size=len(source))
            self.add(source, target, budget)
            rounds += 1

    def cite(self, source: Integers, budget: Integers) -> Integers:
        """Return what the papers `source` (M,) cite, (M,)."""
        chance = SCOPES.copy()
        open_budgets = self.counts < budget
        if not open_budgets[SAME]:
            chance[:2] = 0
        elif not open_budgets[CROSS]:
            chance[2:] = 0
        scope_ends = np.cumsum(chance / chance.sum())[:-1]
        target = np.empty_like(source)
        for first in range(0, len(source), BLOCK):
            block = slice(first, first + BLOCK)
            community = self.communities.of[source[block]]
            scope = np.searchsorted(scope_ends, self.rng.random(len(community)), side="right")
            low, high = self.low[scope, community], self.high[scope, community]
            mass = self.cumulative[low]
            mass += self.rng.random(len(low)) * (self.cumulative[high] - mass)
            found = np.searchsorted(self.cumulative, mass, side="right") - 1
            target[block] = np.clip(found, low, high - 1)  # rounding may step over a range's end
        return target

    def close_wedges(self, count: int) -> tuple[Integers, Integers]:
        """Return the ends of `count` wedges: a random paper, and a random neighbour of a random neighbour of it."""
        i, j = self.codes // self.num_nodes, self.codes % self.num_nodes
        ones = np.ones(2 * len(i), dtype=np.int8)
        adjacency = sparse.csr_array(
            (ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(self.num_nodes, self.num_nodes)
        )
        first, degree = adjacency.indptr[:-1], np.diff(adjacency.indptr)

        def neighbour(node: Integers) -> Integers:
            step: Integers = (self.rng.random(len(node)) * degree[node]).astype(np.int64)
            return adjacency.indices[first[node] + step].astype(np.int64)  # type: ignore[no-any-return]

        u = self.rng.integers(self.num_nodes, size=count)
        u = u[degree[u] > 0]
        return u, neighbour(neighbour(u))

    def add(self, source: Integers, target: Integers, budget: Integers) -> None:
        """Add the new edges among these, as far as the two budgets allow; of too many, a random part."""
        from purigraph.graph import pair_codes  # imports PyTorch, which listing the datasets does not need

        codes = sorted_unique(pair_codes.encode(source, target, self.num_nodes)[source != target])
        if len(self.codes):
            position = np.searchsorted(self.codes, codes)
            np.minimum(position, len(self.codes) - 1, out=position)
            codes = codes[self.codes[position] != codes]
        label = self.communities.label
        same = np.equal(*label[pair_codes.decode(codes, self.num_nodes)]).astype(np.int64)
        taken = np.ones(len(codes), dtype=bool)
        for kind in (CROSS, SAME):
            members = np.flatnonzero(same == kind)
            surplus = len(members) - max(int(budget[kind] - self.counts[kind]), 0)
            if surplus > 0:
                taken[self.rng.choice(members, surplus, replace=False)] = False
        self.counts += np.bincount(same[taken], minlength=2)
        merged = np.concatenate([self.codes, codes[taken]])
        merged.sort(kind="stable")  # two sorted runs: merged, not sorted anew
        self.codes = merged

    def missing(self, budget: Integers) -> int:
        """Return how many edges are missing until both budgets are met."""
        return int(np.maximum(budget - self.counts, 0).sum())

    def isolated(self) -> Integers:
        """Return the nodes that have no edge yet."""
        touched = np.zeros(self.num_nodes, dtype=bool)
        touched[self.codes // self.num_nodes] = True
        touched[self.codes % self.num_nodes] = True
        return np.flatnonzero(~touched)


def _budget(label: Integers, num_edges: int, homophily: float) -> Integers:
    """Return (2,) the edges across and within classes; at most half of the pairs that there are, to draw fast."""
    size = np.bincount(label)
    pairs_within = int((size * (size - 1) // 2).sum())
    pairs_across = len(label) * (len(label) - 1) // 2 - pairs_within
    within = min(round(homophily * num_edges), pairs_within // 2)
    across = min(num_edges - within, pairs_across // 2)
    return np.array([across, num_edges - across])
