"""Which edges are cut: below a threshold, and within the limits that an operator sets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.graph import PairGraph
from purigraph.settings import Settings, setting


class CutRules(Settings):
    """Limits to what is cut; all of them hold at once."""

    threshold: float = setting("Edges with a weight below this are cut.", ge=0, le=1)
    min_degree: int = setting(
        "Never leave a node with fewer edges than this by a cut. 1: no node is orphaned.", default=0, ge=0
    )
    max_cut: float = setting(
        "Cut at most this share of all edges, those of the lowest weights first.", default=1.0, ge=0, le=1
    )


@dataclass(frozen=True)
class Decision:
    """What is cut, and what was spared.

    Attributes:
        rules: The rules.
        keep: (E,) bool.
        below: How many edges are below the threshold.
        never_cut: How many of them are kept because they may never be cut,
        by_degree: because a node would have too few edges left,
        by_share: and because enough others were cut.
    """

    rules: CutRules
    keep: Tensor
    below: int
    never_cut: int
    by_degree: int
    by_share: int

    @property
    def cut(self) -> int:
        """How many edges are cut."""
        return int((~self.keep).sum())

    def sentence(self) -> str:
        """Return a summary."""
        spared = {
            "may never be cut": self.never_cut,
            f"stay as a node would have fewer than {self.rules.min_degree} left": self.by_degree,
            f"stay as {100 * self.rules.max_cut:.3g} % of all edges are cut already": self.by_share,
        }
        reasons = ", ".join(f"{number:,} {why}" for why, number in spared.items() if number)
        text = f"{self.cut:,} of {len(self.keep):,} edges with a weight below {self.rules.threshold:.4g} are cut"
        return f"{text}; of those below, {reasons}." if reasons else f"{text}."


def decide(graph: PairGraph, weight: Tensor, rules: CutRules, never_cut: Tensor | None = None) -> Decision:
    """Decide which edges are cut, from the most suspicious one on.

    Args:
        graph: The pairs.
        weight: (E,) their purified weights.
        rules: Threshold and limits.
        never_cut: (E,) bool, edges that stay whatever their weight. Default: none.
    """
    weight = weight.detach().cpu()
    below = weight < rules.threshold
    spared = torch.zeros_like(below) if never_cut is None else never_cut.cpu()
    if spared.shape != below.shape or spared.dtype != torch.bool:
        raise InputError(f"never_cut must be a bool mask of shape ({graph.num_pairs},), not {tuple(spared.shape)}.")
    candidates = (below & ~spared).nonzero().squeeze(1)
    candidates = candidates[torch.argsort(weight[candidates], stable=True)]
    # Rounded down, but for the rounding of the product itself.
    allowed = int(rules.max_cut * graph.num_pairs + 1e-9)
    chosen, by_degree = _within_degrees(graph, candidates, rules.min_degree, allowed)
    keep = torch.ones(graph.num_pairs, dtype=torch.bool)
    keep[chosen] = False
    by_share = len(candidates) - len(chosen) - by_degree
    return Decision(rules, keep, int(below.sum()), int((below & spared).sum()), by_degree, by_share)


def _within_degrees(graph: PairGraph, candidates: Tensor, least: int, allowed: int) -> tuple[Tensor, int]:
    """Return the first `allowed` candidates whose cut leaves both ends with enough edges, and how many were passed."""
    if least == 0:
        return candidates[:allowed], 0
    degree = graph.degree().tolist()
    chosen: list[int] = []
    passed = 0
    ends = graph.pairs[:, candidates.to(graph.device)].t().tolist()
    for candidate, (i, j) in zip(candidates.tolist(), ends, strict=True):
        if len(chosen) == allowed:
            break
        if degree[i] <= least or degree[j] <= least:
            passed += 1
            continue
        degree[i] -= 1
        degree[j] -= 1
        chosen.append(candidate)
    return torch.tensor(chosen, dtype=torch.int64), passed
