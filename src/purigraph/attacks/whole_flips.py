"""From flip weights to whole flips: which of the block's pairs are flipped in the end."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from purigraph.attacks.block import EPSILON, Block
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.projections import choose
from purigraph.attacks.scene import Scene
from purigraph.attacks.victim import Verdict
from purigraph.graph.perturbation import Perturbation

# How many of the chosen flips are called into question at the end.
_EXCHANGED = 4


def strongest_choice(found: Block, rounded: Block, samples: int, scene: Scene) -> tuple[Tensor, Verdict]:
    """Return the strongest of some choices of whole flips: by most weight, and at random by weight.

    Args:
        found: A block before rounding. The random choices follow its weights, which are far from whole.
        rounded: The same pairs after it (or the same block). The first choice follows its weights, and those of
            `found` where some of the budget is left.
        samples: How many choices are tried (one more where there was rounding).
        scene: Whose limits are kept.

    Returns:
        Positions in the block, and the verdict on the discrete graph.
    """
    pairs = found.overlay.pairs.cpu()
    best, best_verdict = torch.empty(0, dtype=torch.int64), Verdict.none()
    for order in _orders(found, rounded, samples, scene.generator):
        chosen = choose(order, pairs, scene.limits)
        verdict = _verdict(chosen, found.overlay, scene)
        if verdict.beats(best_verdict):
            best, best_verdict = chosen, verdict
    return best, best_verdict


def _orders(found: Block, rounded: Block, samples: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield positions of all entries with weight, the most wanted first."""
    entries = (found.has_weight() | rounded.has_weight()).nonzero().squeeze(1).cpu()
    weight, after = found.weight.double().cpu()[entries], rounded.weight.cpu()[entries]
    by_weight = torch.argsort(weight, descending=True, stable=True)
    yield entries[by_weight[torch.argsort(after[by_weight], descending=True, stable=True)]]
    if rounded is not found:
        yield entries[by_weight]
    for _ in range(samples - 1):
        luck = torch.rand(2, len(weight), generator=generator, dtype=weight.dtype)
        # Those drawn come first, in any order: too many are as likely as too few. Then the others, each the sooner
        # the more weight it has (exponential waiting times): no part of the budget is left over.
        waiting = -torch.log1p(-luck[1]) / weight
        yield entries[torch.where(luck[0] < weight, -luck[1], waiting).argsort()]


def exchange(chosen: Tensor, verdict: Verdict, overlay: Overlay, tries: int, scene: Scene) -> Tensor:
    """Replace single flips where that helps: for small budgets, where one flip is much.

    The flips that the gradient thinks least of are taken out, one after the other, and those are tried instead that
    the gradient at the graph without it thinks best of.

    Args:
        chosen: Positions in the overlay's block.
        verdict: On the chosen ones.
        overlay: Of the graph and the block.
        tries: How many, in all.
        scene: Whose limits are kept.
    """
    pairs = overlay.pairs.cpu()
    weakest = chosen[torch.argsort(_gain(chosen, overlay, scene)[chosen], stable=True)][: min(_EXCHANGED, tries)]
    for out in weakest:
        rest = chosen[chosen != out]
        gain = _gain(rest, overlay, scene)
        gain[chosen] = -torch.inf
        for entry in torch.topk(gain, min(tries // len(weakest), len(gain))).indices:
            candidate = choose(torch.cat([rest, entry.view(1)]), pairs, scene.limits)
            other = _verdict(candidate, overlay, scene)
            if other.beats(verdict):
                chosen, verdict = candidate, other
    return chosen


def _gain(chosen: Tensor, overlay: Overlay, scene: Scene) -> Tensor:
    """Return the loss's gradient (B,) with respect to the flips, where the chosen ones are made."""
    weight = torch.full_like(overlay.codes, EPSILON, dtype=scene.graph.weight.dtype)
    weight[chosen] = 1 - EPSILON
    return scene.victim.gradient(overlay, weight)[1].cpu()


def _verdict(chosen: Tensor, overlay: Overlay, scene: Scene) -> Verdict:
    """Return the verdict on the discrete graph with the chosen flips made."""
    flips = Perturbation.of_flips(scene.graph, overlay.pairs.cpu()[:, chosen])
    return scene.victim.verdict(flips.apply(scene.graph))
