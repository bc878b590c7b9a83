"""The core that PRBCD, LRBCD and PGD share: projected gradient ascent on a block of flips."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import torch
from torch import Tensor

from purigraph.attacks.base import Attack, Scene
from purigraph.attacks.block import Block
from purigraph.attacks.memory import State
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.projections import project_global
from purigraph.attacks.victim import Verdict
from purigraph.attacks.whole_flips import exchange, strongest_choice
from purigraph.errors import InputError, MaskedGradientWarning
from purigraph.graph.pair_space import PairSpace
from purigraph.graph.perturbation import Perturbation
from purigraph.progress import Reporter, progress


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
    - **Choice.** Whole flips: those with the most weight, and random draws by weight; the strongest wins. After
      rounding a few of its flips are exchanged where that helps.

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
        with progress(type(self).__name__, sum(self._steps), scene.progress) as report:
            climb = _Climb.resume(scene) or _Climb(Block.sample(space, size, scene))
            while climb.step < sum(self._steps):
                if climb.step < sum(self._steps[:2]):
                    self._search(climb, space, rate, scene, report)
                else:
                    self._round(climb, rate, scene, report)
                climb.step += 1
                scene.memory.keep(climb.state)
        found, rounded = climb.best, climb.block
        chosen, verdict = strongest_choice(found, rounded, self.final_samples, scene)
        if self._steps[2]:
            chosen = exchange(chosen, verdict, found.union, self.final_samples, scene)
        return Perturbation.of_flips(scene.graph, found.union.pairs[:, chosen.to(scene.graph.device)])

    def _step(self, block: Block, rate: float, scene: Scene) -> tuple[Verdict, Block, float]:
        """The verdict on a block, the block after one projected step, and the steepest slope."""
        verdict, gradient = scene.victim.gradient(block.union, block.weight)
        weight = self._project(block.weight + rate * gradient, block.union.pairs, scene)
        return verdict, block.with_weight(weight), float(gradient.abs().max())

    def _search(self, climb: _Climb, space: PairSpace, rate: float, scene: Scene, report: Reporter) -> None:
        """One step of the search for the block with the lowest accuracy on the relaxed graph."""
        resampled, fixed, _ = self._steps
        step, block = climb.step, climb.block
        decay = math.sqrt(max(step - resampled, 0) + 1)
        verdict, after, slope = self._step(block, rate / decay, scene)
        climb.blind = climb.blind and slope == 0 and verdict.accuracy > 0
        climb.offer(block, verdict)
        climb.block = after
        if step < resampled - 1:
            climb.block = after.resample(space, scene)
        elif step in (resampled - 1, resampled + fixed - 1):
            # The last block of a phase has not been looked at yet.
            climb.offer(after, scene.victim.relaxed(after.union, after.weight))
            climb.block = climb.best
        if climb.blind and step == resampled + fixed - 1:
            warnings.warn(
                f"{type(self).__name__}: the gradient of the {self.loss} loss was exactly 0 for every pair and step: "
                "what was found is chance. The model masks its gradients (a hard threshold, a saturated loss): try "
                "another loss, or 'evolutionary', which needs predictions only.",
                MaskedGradientWarning,
                stacklevel=2,
            )
        report.update(step + 1, accuracy=verdict.accuracy, best=climb.verdict.accuracy)

    def _round(self, climb: _Climb, rate: float, scene: Scene, report: Reporter) -> None:
        """One step towards a block in which no more pairs have weight than the budget has flips."""
        resampled, fixed, rounding = self._steps
        step, total = climb.step - resampled - fixed, scene.limits.total
        surplus = max(int(climb.best.has_weight().sum()) / total, 1.0)
        verdict, block, _ = self._step(climb.block, rate / math.sqrt(fixed + step + 1), scene)
        support = round(total * surplus ** (1 - (step + 1) / rounding))
        climb.block = block.heaviest(support)
        report.update(climb.step + 1, accuracy=verdict.accuracy, pairs=support)


@dataclass
class _Climb:
    """How far an ascent has come.

    Attributes:
        block: where it is.
        best: the best block of the search, by `verdict` on the relaxed graph.
        step: steps done.
        blind: whether no step has had a gradient.
    """

    block: Block
    best: Block = field(init=False)
    verdict: Verdict = field(default_factory=Verdict.none)
    step: int = 0
    blind: bool = True

    def __post_init__(self) -> None:
        self.best = self.block

    def offer(self, block: Block, verdict: Verdict) -> None:
        """Keep a block if it is better than the best."""
        if verdict.beats(self.verdict):
            self.best, self.verdict = block, verdict

    def state(self) -> State:
        """Everything, for a checkpoint."""
        tensors = {
            "codes": self.block.union.codes,
            "weight": self.block.weight,
            "best_codes": self.best.union.codes.clone(),  # the two may be one block, but a file holds no tensor twice
            "best_weight": self.best.weight.clone(),
        }
        # Not a number, if the search has not judged any block yet, is not JSON.
        judged = list(self.verdict) if math.isfinite(self.verdict.accuracy) else None
        return tensors, {"step": self.step, "blind": self.blind, "verdict": judged}

    @classmethod
    def resume(cls, scene: Scene) -> _Climb | None:
        """The climb that was interrupted, if there is one."""
        found = scene.memory.recall()
        if found is None:
            return None
        tensors, values = found
        device = scene.graph.device
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        climb = cls(Block(Overlay(scene.graph, tensors["codes"]), tensors["weight"]))
        if not torch.equal(tensors["best_codes"], tensors["codes"]):
            climb.best = Block(Overlay(scene.graph, tensors["best_codes"]), tensors["best_weight"])
        elif not torch.equal(tensors["best_weight"], tensors["weight"]):
            climb.best = Block(climb.block.union, tensors["best_weight"])
        climb.step, climb.blind = values["step"], values["blind"]
        climb.verdict = Verdict.none() if values["verdict"] is None else Verdict(*values["verdict"])
        return climb
