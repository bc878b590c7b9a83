"""The core that PRBCD, LRBCD and PGD share: projected gradient ascent on a block of flips."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.attacks.base import Attack, Scene
from purigraph.attacks.pair_space import PairSpace
from purigraph.attacks.projections import choose, project_global
from purigraph.attacks.union import Union
from purigraph.attacks.victim import Verdict
from purigraph.errors import InputError
from purigraph.graph.pair_graph import merge_codes
from purigraph.graph.perturbation import Perturbation
from purigraph.progress import Reporter, progress

# The least and one minus the greatest weight of a flip. Not 0: models may take logarithms or roots of weights, and
# an entry without weight would have no gradient there.
EPSILON = 1e-7


@dataclass(frozen=True)
class Block:
    """A block of pairs, merged with the graph, and by how much each is flipped."""

    union: Union
    weight: Tensor

    def edge_weight(self) -> Tensor:
        """The weights of `union.edge_index`."""
        return self.union.edge_weight(self.weight)


class BlockDescent(Attack):
    r"""Projected gradient ascent on the flip weights of a random block of pairs.

    The flips $p \in \{0, 1\}^{N(N-1)/2}$ are relaxed to [0, 1], and only a block of them is looked at:

    .. math:: p_{t+1} = \Pi_\Delta(p_t + \eta_t \nabla_p \mathcal{L}(f(X, A \oplus p_t), y_T))

    - **Search.** After every step the entries with low weight (at least half of the block) give way to new
      random pairs. Then the best block stays as it is, and the rate falls as $\eta_0 / \sqrt{t}$. One evaluation
      of the model per step gives both the gradient and the accuracy by which the best block is known.
    - **Rounding.** What is found spreads the budget over many times as many pairs, each flipped a little; the
      flips with the most weight alone are far weaker. So the number of pairs that may have weight at all falls
      geometrically from step to step, down to the budget, while the ascent goes on and moves the weight.
    - **Choice.** Whole flips: those with the most weight, and random draws by weight; the strongest wins.

    Args:
        loss: what is maximised.
        resampled_steps: of the search, after which the block is resampled.
        fixed_steps: of the search, on the best block.
        rounding_steps: none leaves the weights as the search found them.
        block_size: B, the number of pairs looked at; None for all.
        learning_factor: $\eta_0$ is this times $\max(\log_2(\text{pairs} / B), 1) \cdot \Delta / (2 N)$.
        final_samples: how many choices of whole flips are tried.
    """

    knows_local_budgets = False

    def __init__(
        self,
        *,
        loss: str,
        resampled_steps: int,
        fixed_steps: int,
        rounding_steps: int,
        block_size: int | None,
        learning_factor: float,
        final_samples: int,
    ) -> None:
        super().__init__(loss=loss)
        name = type(self).__name__
        if min(resampled_steps, fixed_steps, rounding_steps) < 0:
            raise InputError(f"{name}: the number of epochs must not be negative.")
        if block_size is not None and block_size < 1:
            raise InputError(f"{name}: block_size must be positive, not {block_size}.")
        if not learning_factor > 0:
            raise InputError(f"{name}: learning_factor must be positive, not {learning_factor}.")
        if final_samples < 1:
            raise InputError(f"{name}: final_samples must be positive, not {final_samples}.")
        self._steps = (resampled_steps, fixed_steps, rounding_steps)
        self.block_size = block_size
        self.learning_factor = learning_factor
        self.final_samples = final_samples

    def _space(self, scene: Scene) -> PairSpace:
        """The pairs that may be flipped."""
        return PairSpace(scene.graph.num_nodes, device=scene.graph.device)

    def _project(self, weight: Tensor, pairs: Tensor, scene: Scene) -> Tensor:
        """Bring flip weights (B,) of pairs (2, B) back into the limits."""
        return project_global(weight, scene.limits.total)

    def _run(self, scene: Scene) -> Perturbation:
        space = self._space(scene)
        size = space.size if self.block_size is None else min(self.block_size, space.size)
        if size < min(scene.limits.total, space.size):
            raise InputError(
                f"{type(self).__name__}: block_size {size} is smaller than the budget of {scene.limits.total} "
                "flips: give a block_size of several times the budget."
            )
        if size == 0:
            return Perturbation(scene.graph.num_nodes)
        rate = self.learning_factor * max(math.log2(space.size / size), 1.0)
        rate *= scene.limits.total / scene.graph.num_nodes / 2
        first = self._first_block(space, size, scene)
        with progress(type(self).__name__, sum(self._steps), enabled=scene.progress) as report:
            found = self._search(first, space, rate, scene, report)
            rounded = self._round(found, rate, scene, report)
        return self._choose(rounded, found, scene)

    def _step(self, block: Block, rate: float, scene: Scene) -> tuple[Verdict, Block]:
        """The verdict on a block, and the block after one projected step."""
        union = block.union
        verdict, gradient = scene.victim.gradient(union.edge_index, block.edge_weight())
        weight = self._project(block.weight + rate * union.flip_gradient(gradient), union.pairs, scene)
        return verdict, Block(union, weight.clamp_(EPSILON, 1 - EPSILON))

    def _search(self, block: Block, space: PairSpace, rate: float, scene: Scene, report: Reporter) -> Block:
        """The block with the lowest accuracy on the relaxed graph."""
        resampled, fixed, _ = self._steps
        best, best_verdict = block, Verdict.none()
        for step in range(resampled + fixed):
            decay = math.sqrt(max(step - resampled, 0) + 1)
            verdict, after = self._step(block, rate / decay, scene)
            if verdict.beats(best_verdict):
                best, best_verdict = block, verdict
            block = after
            if step < resampled - 1:
                block = self._resample(block, space, scene)
            elif step in (resampled - 1, resampled + fixed - 1):
                # The last block of a phase has not been looked at yet.
                verdict = scene.victim.relaxed(block.union.edge_index, block.edge_weight())
                if verdict.beats(best_verdict):
                    best, best_verdict = block, verdict
                block = best
            report.update(step + 1, accuracy=verdict.accuracy, best=best_verdict.accuracy)
        return best

    def _round(self, block: Block, rate: float, scene: Scene, report: Reporter) -> Block:
        """A block in which no more pairs have weight than the budget has flips."""
        resampled, fixed, rounding = self._steps
        total = scene.limits.total
        surplus = max(int((block.weight > EPSILON).sum()) / total, 1.0)
        for step in range(rounding):
            verdict, block = self._step(block, rate / math.sqrt(fixed + step + 1), scene)
            support = round(total * surplus ** (1 - (step + 1) / rounding))
            kept = torch.topk(block.weight, min(support, len(block.weight)), sorted=False).indices
            weight = torch.full_like(block.weight, EPSILON)
            weight[kept] = block.weight[kept]
            block = Block(block.union, weight)
            report.update(resampled + fixed + step + 1, accuracy=verdict.accuracy, pairs=support)
        return block

    def _first_block(self, space: PairSpace, size: int, scene: Scene) -> Block:
        """A random block; the start's flips are in it, with full weight."""
        start = scene.start_codes()
        fresh = space.sample(size - len(start), scene.generator, taken=start)
        codes, at_start, _ = merge_codes(start, fresh)
        weight = torch.full_like(codes, EPSILON, dtype=scene.graph.weight.dtype)
        weight[at_start] = 1 - EPSILON
        return Block(Union(scene.graph, codes), weight)

    def _resample(self, block: Block, space: PairSpace, scene: Scene) -> Block:
        """Keep the entries with weight, at most half of the block, and fill up with new pairs."""
        size = len(block.weight)
        if size == space.size:
            return block
        keep = block.weight > EPSILON
        most = size - size // 2
        if int(keep.sum()) > most:
            keep = torch.zeros_like(keep)
            keep[torch.topk(block.weight, most, sorted=False).indices] = True
        kept = block.union.codes[keep]
        fresh = space.sample(size - len(kept), scene.generator, taken=kept)
        codes, at_kept, _ = merge_codes(kept, fresh)
        weight = torch.full_like(codes, EPSILON, dtype=block.weight.dtype)
        weight[at_kept] = block.weight[keep]
        return Block(Union(scene.graph, codes), weight)

    def _choose(self, rounded: Block, found: Block, scene: Scene) -> Perturbation:
        """The strongest of some choices of whole flips: by most weight first, then at random by weight.

        Both blocks have the same pairs: before and after rounding. The random ones follow the weights before it,
        which are far from whole; what is left of the budget is always spent.
        """
        pairs, weight = found.union.pairs.cpu(), found.weight.double().cpu()
        by_weight = torch.argsort(weight, descending=True, stable=True)
        by_weight = by_weight[torch.argsort(rounded.weight.double().cpu()[by_weight], descending=True, stable=True)]
        order = by_weight
        orders = [order]
        for _ in range(self.final_samples - 1):
            luck = torch.rand(2, len(weight), generator=scene.generator, dtype=weight.dtype)
            # Those drawn come first, in any order: too many are as likely as too few. Then the others, each the
            # sooner the more weight it has (exponential waiting times).
            waiting = -torch.log1p(-luck[1]) / weight
            orders.append(torch.where(luck[0] < weight, -luck[1], waiting).argsort())
        has_weight = torch.maximum(found.weight, rounded.weight).cpu() > EPSILON
        best, best_verdict = order[:0], Verdict.none()
        for order in orders:
            chosen = choose(order[has_weight[order]], pairs, scene.limits)
            verdict = self._verdict(chosen, found.union, scene)
            if verdict.beats(best_verdict):
                best, best_verdict = chosen, verdict
        if self._steps[2]:
            best = self._exchange(best, best_verdict, found.union, scene)
        return Perturbation.of_flips(scene.graph, pairs[:, best])

    def _exchange(self, chosen: Tensor, verdict: Verdict, union: Union, scene: Scene) -> Tensor:
        """Replace single flips while that helps; for small budgets, where one flip is much.

        A flip that the gradient holds for useless is taken out, and the pairs that the gradient at the graph
        without it holds for best are tried, as many as there are final samples.
        """
        pairs = union.pairs.cpu()
        num_outs = min(len(chosen), 4)
        for _ in range(num_outs):
            gain = self._gain(chosen, union, scene)
            chosen = chosen[torch.argsort(gain[chosen], stable=True)]
            rest = chosen[1:]
            gain = self._gain(rest, union, scene)
            gain[chosen] = -torch.inf
            for entry in torch.topk(gain, min(self.final_samples // num_outs, len(gain))).indices:
                candidate = choose(torch.cat([rest, entry.view(1)]), pairs, scene.limits)
                other = self._verdict(candidate, union, scene)
                if other.beats(verdict):
                    chosen, verdict = candidate, other
        return chosen

    def _gain(self, chosen: Tensor, union: Union, scene: Scene) -> Tensor:
        """(B,) the loss's gradient with respect to the flips, where the chosen ones are made."""
        weight = torch.full_like(union.codes, EPSILON, dtype=scene.graph.weight.dtype)
        weight[chosen] = 1 - EPSILON
        _, gradient = scene.victim.gradient(union.edge_index, union.edge_weight(weight))
        return union.flip_gradient(gradient).cpu()

    def _verdict(self, chosen: Tensor, union: Union, scene: Scene) -> Verdict:
        """The verdict on the discrete graph with the chosen flips made."""
        flips = Perturbation.of_flips(scene.graph, union.pairs.cpu()[:, chosen])
        return scene.victim.verdict(flips.apply(scene.graph))
