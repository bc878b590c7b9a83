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
from purigraph.progress import progress

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

    After every step the entries with low weight (at least half of the block) give way to new random pairs.
    Afterwards the best block is kept and fine-tuned with the rate $\eta_0 / \sqrt{t}$. Last, whole flips are
    chosen: those with the most weight, and random draws by weight; the strongest wins. One evaluation of
    the model per step gives the gradient and the accuracy by which the best block is known.

    Args:
        loss: what is maximised.
        resampled_steps: steps after which the block is resampled.
        fixed_steps: steps on the best block, with falling rate.
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
        block_size: int | None,
        learning_factor: float,
        final_samples: int,
    ) -> None:
        super().__init__(loss=loss)
        if min(resampled_steps, fixed_steps) < 0:
            raise InputError(f"{type(self).__name__}: the number of epochs must not be negative.")
        if block_size is not None and block_size < 1:
            raise InputError(f"{type(self).__name__}: block_size must be positive, not {block_size}.")
        if not learning_factor > 0:
            raise InputError(
                f"{type(self).__name__}: learning_factor must be positive, not {learning_factor}."
            )
        if final_samples < 1:
            raise InputError(f"{type(self).__name__}: final_samples must be positive, not {final_samples}.")
        self._resampled_steps = resampled_steps
        self._fixed_steps = fixed_steps
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

        block = self._first_block(space, size, scene)
        best, best_verdict = block, Verdict.none()
        resampled, steps = self._resampled_steps, self._resampled_steps + self._fixed_steps
        with progress(type(self).__name__, steps, enabled=scene.progress) as report:
            for step in range(steps):
                union = block.union
                verdict, gradient = scene.victim.gradient(union.edge_index, block.edge_weight())
                if verdict.beats(best_verdict):
                    best, best_verdict = block, verdict
                decay = math.sqrt(max(step - resampled, 0) + 1)
                weight = block.weight + rate / decay * union.flip_gradient(gradient)
                weight = self._project(weight, union.pairs, scene).clamp_(EPSILON, 1 - EPSILON)
                block = Block(union, weight)
                if step < resampled - 1:
                    block = self._resample(block, space, size, scene)
                elif step in (resampled - 1, steps - 1):
                    # The last block of a phase has not been looked at yet.
                    verdict = scene.victim.relaxed(union.edge_index, block.edge_weight())
                    if verdict.beats(best_verdict):
                        best, best_verdict = block, verdict
                    block = best
                report.update(step + 1, accuracy=verdict.accuracy, best=best_verdict.accuracy)
        return self._discretise(best, scene)

    def _first_block(self, space: PairSpace, size: int, scene: Scene) -> Block:
        """A random block; the start's flips are in it, with full weight."""
        start = scene.start_codes()
        fresh = space.sample(size - len(start), scene.generator, taken=start)
        codes, at_start, _ = merge_codes(start, fresh)
        weight = torch.full_like(codes, EPSILON, dtype=scene.graph.weight.dtype)
        weight[at_start] = 1 - EPSILON
        return Block(Union(scene.graph, codes), weight)

    def _resample(self, block: Block, space: PairSpace, size: int, scene: Scene) -> Block:
        """Keep the entries with weight, at most half of the block, and fill up with new pairs."""
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

    def _discretise(self, block: Block, scene: Scene) -> Perturbation:
        """The strongest of some choices of whole flips: the first by most weight, the others at random."""
        weight, pairs = block.weight.double().cpu(), block.union.pairs.cpu()
        order = torch.argsort(weight, descending=True, stable=True)
        orders = [order[weight[order] > EPSILON]]
        for _ in range(self.final_samples - 1):
            drawn = (
                torch.rand(len(weight), generator=scene.generator, dtype=weight.dtype) < weight
            ).nonzero()
            # Too many are as likely as too few; which of them go is left to chance.
            shuffled = torch.randperm(len(drawn), generator=scene.generator)
            orders.append(drawn.squeeze(1)[shuffled])
        best, best_verdict = Perturbation(scene.graph.num_nodes), Verdict.none()
        for order in orders:
            chosen = choose(order, pairs, scene.limits)
            candidate = Perturbation.of_flips(scene.graph, pairs[:, chosen])
            verdict = scene.victim.verdict(candidate.apply(scene.graph))
            if verdict.beats(best_verdict):
                best, best_verdict = candidate, verdict
        return best
