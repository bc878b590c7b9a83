"""An evolutionary attack, which only needs predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import torch
from torch import Tensor

from purigraph.attacks.base import Attack, registry
from purigraph.attacks.projections import choose
from purigraph.attacks.race import MARKS
from purigraph.attacks.scene import Scene
from purigraph.attacks.victim import Verdict
from purigraph.checkpoint_layout import Entry, Layout, is_count, is_numbers
from purigraph.checkpoints import State
from purigraph.graph import pair_codes
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.progress import progress
from purigraph.settings import setting

E = TypeVar("E", bound="Evolutionary")


@dataclass(frozen=True)
class _Individual:
    """A set of flips (codes, ascending), its verdict, and which targets stay classified correctly (M,)."""

    codes: Tensor
    verdict: Verdict
    right: Tensor


@registry.register("evolutionary")
class Evolutionary(Attack):
    """A genetic search over sets of flips, without gradients.

    After `EvA: Evolutionary Attacks on Graphs <https://arxiv.org/abs/2507.08212>`_ (Akhondzadeh et al. 2025). An
    individual is a set of flips within the budget; its fitness is the accuracy under attack, then the loss. Parents are
    selected by tournament; a child gets the flips that both parents share and a random choice of the others; then some
    of its flips are replaced. A replacement flips the pair of any node and a target that the mother leaves correctly
    classified (targeted mutation: nothing is spent on targets that are already misclassified). The best of parents and
    children survive. The attack finds what gradients miss when they are masked, and takes
    `population * (generations + 1)` evaluations of the model. The loss is not differentiated.

    The defaults were chosen on validation nodes of Cora-ML, at epsilon 0.1 and 6,000 evaluations of a GCN: 16
    individuals and few replacements leave 52.1 %, 64 individuals and more replacements 57.9 %, 256 individuals 64.3 %.
    The original has populations of a thousand, which need a hundred times as many evaluations.
    """

    population: int = setting("Number of individuals.", default=16, ge=2)
    generations: int = setting("Number of generations.", default=800, ge=0)
    tournament: int = setting("Number of individuals that compete to become a parent.", default=3, ge=1)
    mutation_rate: float = setting(
        "The share of a child's flips that are replaced, at least one.", default=0.003, ge=0, le=1
    )
    targeted: float = setting(
        "The share of replacements that aim at targets still classified correctly; the others aim at any target.",
        default=0.9,
        ge=0,
        le=1,
    )

    knows_local_budgets = True
    keeps_checkpoints = True
    trial_settings = MappingProxyType({"population": 6, "generations": 3})

    def with_epochs(self: E, epochs: int) -> E:
        """Return the same attack with twice as many generations as `epochs`: 800 for the 400 of a block attack."""
        return self.replace(generations=2 * epochs)

    def _run(self, scene: Scene) -> Perturbation:
        kept = scene.resume(
            Layout(
                {
                    "codes": Entry(torch.int64, "flips of all"),
                    "sizes": Entry(torch.int64, self.population),
                    "verdicts": Entry(torch.float64, self.population, 2),
                    "right": Entry(torch.bool, self.population, len(scene.targets)),
                },
                {"generation": is_count, "marks": is_numbers},
            )
        )
        everyone, done = self._first(scene) if kept is None else _resume(kept, scene)
        marks: list[float] = [] if kept is None else kept.values["marks"]
        with progress("Evolutionary", self.generations, scene.progress) as report:
            for generation in range(done, self.generations):
                children = []
                for _ in range(self.population):
                    mother, father = self._parent(everyone, scene), self._parent(everyone, scene)
                    codes = self._cross(mother.codes, father.codes, scene)
                    children.append(self._evaluate(self._mutate(codes, mother.right, scene), scene))
                everyone = sorted([*everyone, *children], key=_rank)[: self.population]
                report.update(generation + 1, best=everyone[0].verdict.accuracy)
                if (generation + 1) * MARKS // self.generations > generation * MARKS // self.generations:
                    marks.append(everyone[0].verdict.accuracy)
                    if scene.is_lost(marks):
                        break
                scene.offer(partial(_state, everyone, generation + 1, marks))
        return _perturbation(everyone[0].codes, scene)

    def _first(self, scene: Scene) -> tuple[list[_Individual], int]:
        """Return the initial population, the start and variants that fill up its budget, and 0 generations done."""
        start = scene.start_codes()
        everyone = [self._evaluate(start, scene)]
        while len(everyone) < self.population:
            everyone.append(self._evaluate(self._mutate(start, everyone[0].right, scene), scene))
        return sorted(everyone, key=_rank), 0

    def _evaluate(self, codes: Tensor, scene: Scene) -> _Individual:
        verdict, right = scene.victim.predict(_flipped(scene.graph, codes))
        return _Individual(codes, verdict, right)

    def _parent(self, everyone: list[_Individual], scene: Scene) -> _Individual:
        # The list is sorted by fitness: the smallest position wins the tournament.
        position = torch.randint(len(everyone), (self.tournament,), generator=scene.generator).min()
        return everyone[int(position)]

    def _cross(self, mother: Tensor, father: Tensor, scene: Scene) -> Tensor:
        codes, count = torch.unique(torch.cat([mother, father]), return_counts=True)
        shared, single = codes[count == 2], codes[count == 1]
        return self._fit(torch.cat([shared, _shuffle(single, scene.generator)]), scene)

    def _mutate(self, codes: Tensor, right: Tensor, scene: Scene) -> Tensor:
        """Drop some flips at random and fill up the budget with new ones."""
        dropped = torch.rand(len(codes), generator=scene.generator) < self.mutation_rate
        if len(codes) and not dropped.any():
            dropped[torch.randint(len(codes), (1,), generator=scene.generator)] = True
        kept = codes[~dropped.to(codes.device)]
        fresh = self._fresh(scene.limits.total - len(kept), right, scene)
        return self._fit(torch.cat([kept, fresh]), scene)

    def _fresh(self, count: int, right: Tensor, scene: Scene) -> Tensor:
        """Return codes of pairs of a target, if possible one still classified correctly, and any other node."""
        num_nodes, device, generator = scene.graph.num_nodes, scene.graph.device, scene.generator
        aims = scene.targets[right] if right.any() else scene.targets
        aimed = aims[torch.randint(len(aims), (count,), generator=generator).to(device)]
        any_target = scene.targets[torch.randint(len(scene.targets), (count,), generator=generator).to(device)]
        is_aimed = torch.rand(count, generator=generator).to(device) < self.targeted
        one = torch.where(is_aimed, aimed, any_target)
        # A shift by 1 to N - 1 never leads back to the node itself.
        shift = torch.randint(1, max(num_nodes, 2), (count,), generator=generator).to(device)
        other = (one + shift) % num_nodes
        return pair_codes.encode(one, other, num_nodes)

    def _fit(self, codes: Tensor, scene: Scene) -> Tensor:
        """Return ascending codes without repetitions, as many as the limits allow; the first ones take precedence."""
        ordered, inverse = torch.unique(codes, return_inverse=True)
        first = torch.full_like(ordered, len(codes)).scatter_reduce(
            0, inverse, torch.arange(len(codes), device=codes.device), "amin"
        )
        pairs = PairGraph.from_codes(scene.graph.num_nodes, ordered).pairs
        fitting: Tensor = ordered[choose(torch.argsort(first), pairs, scene.limits)]
        return fitting.sort().values


def _rank(individual: _Individual) -> tuple[float, float]:
    """Return a sort key, the fittest first; individuals that drive the model to nan come last (see `Verdict.beats`)."""
    if math.isnan(individual.verdict.loss):
        return math.inf, math.inf
    return individual.verdict.accuracy, -individual.verdict.loss


def _state(everyone: list[_Individual], generation: int, marks: list[float]) -> State:
    """Return the state of a generation, for a checkpoint."""
    tensors = {
        "codes": torch.cat([one.codes for one in everyone]),
        "sizes": torch.tensor([len(one.codes) for one in everyone]),
        "verdicts": torch.tensor([one.verdict for one in everyone], dtype=torch.float64),
        "right": torch.stack([one.right for one in everyone]),
    }
    return State(tensors, {"generation": generation, "marks": marks})


def _resume(state: State, scene: Scene) -> tuple[list[_Individual], int]:
    """Return the population in a checkpoint, and the number of generations done."""
    tensors = state.tensors
    with scene.checkpointer.restoring():
        codes = tensors["codes"].split(tensors["sizes"].tolist())
        for one in codes:
            scene.check_codes(one)
    verdicts = [Verdict(*pair) for pair in tensors["verdicts"].tolist()]
    everyone = zip(codes, verdicts, tensors["right"], strict=True)
    return [_Individual(*one) for one in everyone], state.values["generation"]


def _shuffle(codes: Tensor, generator: torch.Generator) -> Tensor:
    return codes[torch.randperm(len(codes), generator=generator).to(codes.device)]


def _flipped(graph: PairGraph, codes: Tensor) -> PairGraph:
    """Return the graph with the flips made: `Perturbation.apply` without its checks, in half the time."""
    position = graph.find(codes)
    is_edge = position >= 0
    kept = torch.ones(graph.num_pairs, dtype=torch.bool, device=graph.device)
    kept[position[is_edge]] = False
    merged, at_kept, _ = pair_codes.merge(graph.codes[kept], codes[~is_edge])
    weight = graph.weight.new_ones(len(merged))
    weight[at_kept] = graph.weight[kept]
    return PairGraph.from_codes(graph.num_nodes, merged, weight)


def _perturbation(codes: Tensor, scene: Scene) -> Perturbation:
    return Perturbation.of_flips(scene.graph, PairGraph.from_codes(scene.graph.num_nodes, codes).pairs)
