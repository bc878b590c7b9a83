"""The core that PRBCD, LRBCD and PGD share: projected gradient ascent on a block of flips."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from purigraph.attacks.base import Attack
from purigraph.attacks.block import Block
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.projections import project_global
from purigraph.attacks.scene import Scene
from purigraph.attacks.victim import Verdict
from purigraph.attacks.whole_flips import exchange, strongest_choice
from purigraph.checkpoints import State
from purigraph.errors import InputError, MaskedGradientWarning
from purigraph.graph.pair_space import PairSpace
from purigraph.graph.perturbation import Perturbation
from purigraph.progress import Reporter, progress
from purigraph.settings import setting

B = TypeVar("B", bound="BlockAscent")


class Steps(NamedTuple):
    """The numbers of steps of the phases: search with a resampled block, search on the best block, rounding."""

    resampled: int
    fixed: int
    rounding: int


class BlockAscent(Attack):
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

    For B of P pairs, the first rate $\eta_0$ is `learning_factor` times $\max(\log_2(P / B), 1) \cdot \Delta / (2 N)$.

    A subclass says how many steps each phase has and how large the block is, and may narrow the pairs and the
    projection.
    """

    epochs: int = setting("Steps.", default=400, ge=0)
    rounding: bool = setting("Whether the last steps bring the weights to whole flips.", default=True)
    learning_factor: float = setting("Of the learning rate.", default=100.0, gt=0, le=1e9)
    final_samples: int = setting(
        "How many choices of whole flips are tried; the first takes those with the most weight.", default=20, ge=1
    )

    needs_gradient = True
    keeps_checkpoints = True

    def with_epochs(self: B, epochs: int) -> B:
        """Return the same attack with so many epochs."""
        return self.replace(epochs=epochs)

    @abstractmethod
    def _steps(self) -> Steps:
        """Return how many steps each phase has."""

    def _most_pairs(self) -> int | None:
        """Return how many pairs a block holds at most. Default: all."""
        return None

    def _space(self, scene: Scene) -> PairSpace:
        """Return the pairs that may be flipped."""
        return PairSpace(scene.graph.num_nodes, device=scene.graph.device)

    def _project(self, weight: Tensor, pairs: Tensor, scene: Scene) -> Tensor:
        """Bring flip weights (B,) of pairs (2, B) back into the limits."""
        return project_global(weight, scene.limits.total)

    def _run(self, scene: Scene) -> Perturbation:
        space = self._space(scene)
        most, steps = self._most_pairs(), self._steps()
        size = space.size if most is None else min(most, space.size)
        if size < min(scene.limits.total, space.size):
            raise InputError(
                f"{type(self).__name__}: block_size {size} is smaller than the budget of {scene.limits.total} "
                "flips: give a block_size of several times the budget."
            )
        if size == 0:
            return Perturbation(scene.graph.num_nodes)
        rate = self.learning_factor * max(math.log2(space.size / size), 1.0)
        rate *= scene.limits.total / scene.graph.num_nodes / 2
        with progress(type(self).__name__, sum(steps), scene.progress) as report:
            climb = _Climb.resume(scene) or _Climb(Block.sample(space, size, scene))
            while climb.step < sum(steps):
                if climb.step < steps.resampled + steps.fixed:
                    self._search(climb, space, rate, scene, report)
                else:
                    self._round(climb, rate, scene, report)
                climb.step += 1
                scene.offer(climb.state)
        found, rounded = climb.best, climb.block
        chosen, verdict = strongest_choice(found, rounded, self.final_samples, scene)
        if steps.rounding:
            chosen = exchange(chosen, verdict, found.overlay, self.final_samples, scene)
        return Perturbation.of_flips(scene.graph, found.overlay.pairs[:, chosen.to(scene.graph.device)])

    def _step(self, block: Block, rate: float, scene: Scene) -> tuple[Verdict, Block, float]:
        """Return the verdict on a block, the block after one projected step, and the steepest slope."""
        verdict, gradient = scene.victim.gradient(block.overlay, block.weight)
        weight = self._project(block.weight + rate * gradient, block.overlay.pairs, scene)
        return verdict, block.with_weight(weight), float(gradient.abs().max())

    def _search(self, climb: _Climb, space: PairSpace, rate: float, scene: Scene, report: Reporter) -> None:
        """Take one step of the search for the block with the lowest accuracy on the relaxed graph."""
        resampled, fixed, _ = self._steps()
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
            climb.offer(after, scene.victim.relaxed(after.overlay, after.weight))
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
        """Take one step towards a block in which no more pairs have weight than the budget has flips."""
        resampled, fixed, rounding = self._steps()
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
        block: Where it is.
        best: The best block of the search, by `verdict` on the relaxed graph.
        verdict: On the best block.
        step: Steps done.
        blind: Whether no step has had a gradient.
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
        """Return everything, for a checkpoint."""
        tensors = {
            "codes": self.block.overlay.codes,
            "weight": self.block.weight,
            "best_codes": self.best.overlay.codes.clone(),  # the two may be one block, but a file holds no tensor twice
            "best_weight": self.best.weight.clone(),
        }
        # Not a number, if the search has not judged any block yet, is not JSON.
        judged = list(self.verdict) if math.isfinite(self.verdict.accuracy) else None
        return State(tensors, {"step": self.step, "blind": self.blind, "verdict": judged})

    @classmethod
    def resume(cls, scene: Scene) -> _Climb | None:
        """Return the climb that was interrupted, or None."""
        state = scene.resume()
        if state is None:
            return None
        tensors, values = state.tensors, state.values
        climb = cls(Block(Overlay(scene.graph, tensors["codes"]), tensors["weight"]))
        if not torch.equal(tensors["best_codes"], tensors["codes"]):
            climb.best = Block(Overlay(scene.graph, tensors["best_codes"]), tensors["best_weight"])
        elif not torch.equal(tensors["best_weight"], tensors["weight"]):
            climb.best = Block(climb.block.overlay, tensors["best_weight"])
        climb.step, climb.blind = values["step"], values["blind"]
        climb.verdict = Verdict.none() if values["verdict"] is None else Verdict(*values["verdict"])
        return climb
