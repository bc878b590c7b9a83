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

# The maximum number of chosen flips that `exchange` tries to replace.
_EXCHANGED = 4


def strongest_choice(found: Block, rounded: Block, samples: int, scene: Scene) -> tuple[Tensor, Verdict]:
    """Return the strongest of several choices of whole flips: by largest weight, and at random by weight.

    Args:
        found: The block before rounding. The random choices follow its weights, which are far from 0 and 1.
        rounded: The same pairs after rounding (or the same block). The first choice follows its weights, then those of
            `found` if some of the budget is left.
        samples: Number of choices to try (one more after rounding).
        scene: The scene whose limits apply.

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
    """Yield orders of the positions of all entries with weight, the most wanted first."""
    entries = (found.has_weight() | rounded.has_weight()).nonzero().squeeze(1).cpu()
    weight, after = found.weight.double().cpu()[entries], rounded.weight.cpu()[entries]
    by_weight = torch.argsort(weight, descending=True, stable=True)
    yield entries[by_weight[torch.argsort(after[by_weight], descending=True, stable=True)]]
    if rounded is not found:
        yield entries[by_weight]
    for _ in range(samples - 1):
        luck = torch.rand(2, len(weight), generator=generator, dtype=weight.dtype)
        # Drawn entries come first, in random order, as there may be too many. As there may also be too few, the others
        # follow, the sooner the more weight they have (exponential waiting times): no part of the budget is left over.
        waiting = -torch.log1p(-luck[1]) / weight
        yield entries[torch.where(luck[0] < weight, -luck[1], waiting).argsort()]


def exchange(chosen: Tensor, verdict: Verdict, overlay: Overlay, tries: int, scene: Scene) -> Tensor:
    """Replace single flips where that helps: for small budgets, where a single flip matters.

    The flips with the smallest gradient are removed one at a time; the flips with the largest gradient on the graph
    without the removed one are tried instead.

    Args:
        chosen: Positions in the overlay's block.
        verdict: The verdict on the chosen flips.
        overlay: The overlay of the graph and the block.
        tries: Number of replacements to try in total.
        scene: The scene whose limits apply.
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
    """Return the loss's gradient (B,) with respect to the flips, with the chosen ones made."""
    weight = torch.full_like(overlay.codes, EPSILON, dtype=scene.graph.weight.dtype)
    weight[chosen] = 1 - EPSILON
    return scene.victim.gradient(overlay, weight)[1].cpu()


def _verdict(chosen: Tensor, overlay: Overlay, scene: Scene) -> Verdict:
    """Return the verdict on the discrete graph with the chosen flips made."""
    flips = Perturbation.of_flips(scene.graph, overlay.pairs.cpu()[:, chosen])
    return scene.victim.verdict(flips.apply(scene.graph))
