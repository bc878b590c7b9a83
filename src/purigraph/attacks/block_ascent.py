"""The common base of PRBCD, LRBCD and PGD: projected gradient ascent on a block of flips."""

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
from purigraph.attacks.edits import Edits, Space, allowed_pairs
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.projections import project_global
from purigraph.attacks.race import MARKS
from purigraph.attacks.scene import Scene
from purigraph.attacks.victim import Verdict
from purigraph.attacks.whole_flips import exchange, strongest_choice
from purigraph.checkpoint_layout import Entry, Layout, is_count, is_numbers
from purigraph.checkpoints import State
from purigraph.errors import InputError, MaskedGradientWarning
from purigraph.graph.perturbation import Perturbation
from purigraph.progress import Reporter, progress
from purigraph.settings import setting

B = TypeVar("B", bound="BlockAscent")


class Steps(NamedTuple):
    """The number of steps of each phase: search with a resampled block, search on the best block, rounding."""

    resampled: int
    fixed: int
    rounding: int


class BlockAscent(Attack):
    r"""Projected gradient ascent on the flip weights of a random block of pairs.

    The flips $p \in \{0, 1\}^{N(N-1)/2}$ are relaxed to [0, 1], and only a block of them is optimised:

    .. math:: p_{t+1} = \Pi_\Delta(p_t + \eta_t \nabla_p \mathcal{L}(f(X, A \oplus p_t), y_T))

    - **Search.** After every step, new random pairs replace the entries with low weight (at least half of the block).
      Then the best block is kept fixed, and the learning rate decays as $\eta_0 / \sqrt{t}$. One evaluation of the
      model per step gives both the gradient and the accuracy that determines the best block.
    - **Rounding.** The search spreads the budget over many times as many pairs, each flipped a little; the flips with
      the most weight alone are far weaker. So the number of pairs that may have any weight decreases geometrically from
      step to step, down to the budget, while the ascent continues and shifts the weight.
    - **Choice.** The candidates are the flips with the most weight, and random draws by weight; the strongest candidate
      wins. After rounding, a few of its flips are exchanged where that helps.

    For B of P pairs, the initial rate $\eta_0$ is `learning_factor` times
    $\max(\log_2(P / B), 1) \cdot \Delta / (2 N)$.

    A subclass sets the number of steps of each phase and the block size, and may restrict the pairs and the projection.
    """

    epochs: int = setting("Number of steps.", default=400, ge=0)
    rounding: bool = setting("Whether the last steps drive the weights to whole flips.", default=True)
    learning_factor: float = setting("Factor of the learning rate.", default=100.0, gt=0, le=1e9)
    final_samples: int = setting(
        "Number of choices of whole flips to try; the first takes those with the most weight.", default=20, ge=1
    )

    edits: Edits = setting(
        'The flips to consider: "both", "add" (only new edges) or "remove" (only edges that are there). The flips of a '
        "start are kept whatever they are.",
        default="both",
    )

    focus: float | None = setting(
        "Attack only the targets that are easiest to win, as many as the budget pays with this many flips for each; "
        "None attacks all of them.",
        default=None,
        gt=0,
    )

    needs_gradient = True
    keeps_checkpoints = True

    def with_epochs(self: B, epochs: int) -> B:
        """Return the same attack with this many epochs."""
        return self.replace(epochs=epochs)

    @abstractmethod
    def _steps(self) -> Steps:
        """Return the number of steps of each phase."""

    def _most_pairs(self) -> int | None:
        """Return the maximum number of pairs in a block, or None (the default) for all pairs."""
        return None

    def _nodes(self, scene: Scene) -> Tensor | None:
        """Return the nodes (K,) whose pairs may be flipped, ascending, or None (the default) for all."""
        return None

    def _project(self, weight: Tensor, pairs: Tensor, scene: Scene) -> Tensor:
        """Project flip weights (B,) of pairs (2, B) onto the limits."""
        return project_global(weight, scene.limits.total)

    def _run(self, scene: Scene) -> Perturbation:
        if self.focus is not None:
            # A loss over all targets spends flips on many that are never won; these are the ones that can be.
            scene = scene.focused(max(round(scene.limits.total / self.focus), 1))
        space = allowed_pairs(scene.graph, self._nodes(scene), self.edits)
        most, steps = self._most_pairs(), self._steps()
        size = space.size if most is None else min(most, space.size)
        if size < min(scene.limits.total, space.size):
            raise InputError(
                f"{type(self).__name__}: block_size {size} is smaller than the budget of {scene.limits.total} "
                "flips: use a block_size of several times the budget."
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
                if self._is_lost(climb, steps, scene):
                    climb.block = climb.best
                    steps = Steps(0, 0, 0)
                    break
                scene.offer(climb.state)
        found, rounded = climb.best, climb.block
        chosen, verdict = strongest_choice(found, rounded, self.final_samples, scene)
        if steps.rounding:
            chosen = exchange(chosen, verdict, found.overlay, self.final_samples, scene)
        return Perturbation.of_flips(scene.graph, found.overlay.pairs[:, chosen.to(scene.graph.device)])

    def _is_lost(self, climb: _Climb, steps: Steps, scene: Scene) -> bool:
        """Return whether the attack can't win its race any more; the race is looked at a few times in all."""
        search = steps.resampled + steps.fixed
        if climb.step > search or climb.step * MARKS // search == (climb.step - 1) * MARKS // search:
            return False
        climb.marks.append(min(climb.verdict.accuracy, 1.0))
        return scene.is_lost(climb.marks)

    def _step(self, block: Block, rate: float, scene: Scene) -> tuple[Verdict, Block, float]:
        """Return the verdict on a block, the block after one projected step, and the largest absolute gradient."""
        verdict, gradient = scene.victim.gradient(block.overlay, block.weight)
        weight = self._project(block.weight + rate * gradient, block.overlay.pairs, scene)
        return verdict, block.with_weight(weight), float(gradient.abs().max())

    def _search(self, climb: _Climb, space: Space, rate: float, scene: Scene, report: Reporter) -> None:
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
            # The last block of a phase has not been evaluated yet.
            climb.offer(after, scene.victim.relaxed(after.overlay, after.weight))
            climb.block = climb.best
        if climb.blind and step == resampled + fixed - 1:
            warnings.warn(
                f"{type(self).__name__}: the gradient of the {self.loss} loss was exactly 0 for every pair and step: "
                "the result is random. The model masks its gradients (a hard threshold, a saturated loss): try "
                "another loss, or 'evolutionary', which only needs predictions.",
                MaskedGradientWarning,
                stacklevel=2,
            )
        report.update(step + 1, accuracy=verdict.accuracy, best=climb.verdict.accuracy)

    def _round(self, climb: _Climb, rate: float, scene: Scene, report: Reporter) -> None:
        """Take one step towards a block with no more weighted pairs than the budget has flips."""
        resampled, fixed, rounding = self._steps()
        step, total = climb.step - resampled - fixed, scene.limits.total
        surplus = max(int(climb.best.has_weight().sum()) / total, 1.0)
        verdict, block, _ = self._step(climb.block, rate / math.sqrt(fixed + step + 1), scene)
        support = round(total * surplus ** (1 - (step + 1) / rounding))
        climb.block = block.heaviest(support)
        report.update(climb.step + 1, accuracy=verdict.accuracy, pairs=support)


@dataclass
class _Climb:
    """The state of an ascent.

    Attributes:
        block: The current block.
        best: The best block of the search, by `verdict` on the relaxed graph.
        verdict: The verdict on the best block.
        step: Number of steps done.
        blind: Whether the gradient has been 0 in every step so far.
        marks: The best accuracy at the end of every part of the search (see `Race`).
    """

    block: Block
    best: Block = field(init=False)
    verdict: Verdict = field(default_factory=Verdict.none)
    step: int = 0
    blind: bool = True
    marks: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best = self.block

    def offer(self, block: Block, verdict: Verdict) -> None:
        """Keep a block if it beats the best one."""
        if verdict.beats(self.verdict):
            self.best, self.verdict = block, verdict

    def state(self) -> State:
        """Return the whole state, for a checkpoint."""
        tensors = {
            "codes": self.block.overlay.codes,
            "weight": self.block.weight,
            "best_codes": self.best.overlay.codes.clone(),  # may be `block` too, but a file can't hold a tensor twice
            "best_weight": self.best.weight.clone(),
        }
        # Before any block has been judged the accuracy is infinite, which is not valid JSON.
        judged = list(self.verdict) if math.isfinite(self.verdict.accuracy) else None
        return State(tensors, {"step": self.step, "blind": self.blind, "verdict": judged, "marks": self.marks})

    @classmethod
    def resume(cls, scene: Scene) -> _Climb | None:
        """Return the interrupted ascent, or None."""
        dtype = scene.graph.weight.dtype
        state = scene.resume(
            Layout(
                {
                    "codes": Entry(torch.int64, "block"),
                    "weight": Entry(dtype, "block"),
                    "best_codes": Entry(torch.int64, "best block"),
                    "best_weight": Entry(dtype, "best block"),
                },
                {
                    "step": is_count,
                    "blind": lambda value: isinstance(value, bool),
                    "verdict": lambda value: value is None or (is_numbers(value) and len(value) == 2),
                    "marks": is_numbers,
                },
            )
        )
        if state is None:
            return None
        tensors, values = state.tensors, state.values
        with scene.checkpointer.restoring():
            for name in ("codes", "best_codes"):
                scene.check_codes(tensors[name])
        climb = cls(Block(Overlay(scene.graph, tensors["codes"]), tensors["weight"]))
        if not torch.equal(tensors["best_codes"], tensors["codes"]):
            climb.best = Block(Overlay(scene.graph, tensors["best_codes"]), tensors["best_weight"])
        elif not torch.equal(tensors["best_weight"], tensors["weight"]):
            climb.best = Block(climb.block.overlay, tensors["best_weight"])
        climb.step, climb.blind, climb.marks = values["step"], values["blind"], values["marks"]
        climb.verdict = Verdict.none() if values["verdict"] is None else Verdict(*values["verdict"])
        return climb
