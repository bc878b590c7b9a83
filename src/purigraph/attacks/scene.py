"""Everything that one run of an attack works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from purigraph.attacks.race import Race
from purigraph.attacks.victim import Victim
from purigraph.checkpoint_layout import Entry, Layout
from purigraph.checkpoints import Checkpointer, State
from purigraph.graph import pair_codes
from purigraph.graph.budget import Limits
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation


@dataclass(frozen=True)
class Scene:
    """Everything that one run of an attack works with.

    Attributes:
        victim: The model, as a function of the graph.
        graph: The clean graph; its weights have the dtype of x.
        labels: (N,) int64.
        targets: (M,) int64, ascending, without repetitions.
        limits: The budget for this graph, above zero.
        start: A perturbation within the limits to start from, or None.
        generator: The only source of randomness; on the CPU.
        checkpointer: Where a long run saves its state; used through `resume` and `offer`.
        progress: Whether to show progress; see `purigraph.progress`.
        race: An accuracy to get below; an attack may end early once that is out of reach.
    """

    victim: Victim
    graph: PairGraph
    labels: Tensor
    targets: Tensor
    limits: Limits
    start: Perturbation | None
    generator: torch.Generator
    checkpointer: Checkpointer
    progress: bool | None
    race: Race | None = None

    def focused(self, count: int) -> Scene:
        """Return the scene with the targets only that are easiest to win: right on the clean graph, by the least.

        Targets whose edges don't matter, as where an anchor is sure, are not among them. There is no race in it, as
        accuracies on a part of the targets can't be compared with those on all.

        Args:
            count: How many targets at most. If no more can be won, nothing changes.
        """
        margin = self.victim.margins(self.graph)
        alone = self.graph.keeping(~self.graph.touching(self.targets))
        movable = self.victim.differs(self.graph, alone) | (self.graph.degree()[self.targets] == 0)
        winnable = ((margin > 0) & movable).nonzero().squeeze(1)
        if len(winnable) <= count:
            return self
        easiest = winnable[margin[winnable].argsort(stable=True)[:count]].sort().values
        targets = self.targets[easiest]
        return replace(self, victim=self.victim.on(targets, self.labels), targets=targets, race=None)

    def start_codes(self) -> Tensor:
        """Return the start's flips as codes i * N + j, ascending; empty if there is no start."""
        flips = torch.empty((2, 0), dtype=torch.int64) if self.start is None else self.start.flips()
        return pair_codes.encode(flips[0], flips[1], self.graph.num_nodes).to(self.graph.device)

    def is_lost(self, marks: Sequence[float]) -> bool:
        """Return whether the race, if there is one, is lost, and note that there; see `Race.is_lost`."""
        if self.race is None or not self.race.is_lost(marks):
            return False
        self.race.abandoned = True
        return True

    def resume(self, layout: Layout | None = None) -> State | None:
        """Return the last state of an interrupted run, or None, and restore the generator to that state.

        Args:
            layout: What the state looks like. Default: it is not checked.

        Raises:
            ModelFileError: If the checkpoint is damaged, belongs to another run or does not have the layout.
        """
        if layout is not None:
            layout = replace(layout, tensors={**layout.tensors, "generator": Entry.like(self.generator.get_state())})
        state = self.checkpointer.resume(layout)
        if state is None:
            return None
        tensors = dict(state.tensors)
        with self.checkpointer.restoring():
            self.generator.set_state(tensors.pop("generator"))
        return State({name: tensor.to(self.graph.device) for name, tensor in tensors.items()}, state.values)

    def check_codes(self, codes: Tensor) -> None:
        """Raise `ValueError` unless codes from a checkpoint are those of pairs of this graph, ascending."""
        pairs = pair_codes.decode(codes, self.graph.num_nodes)
        inside = (pairs[0] >= 0) & (pairs[0] < pairs[1]) & (pairs[1] < self.graph.num_nodes)
        if not bool(inside.all()) or not bool((codes[1:] > codes[:-1]).all()):
            raise ValueError("its codes are not those of pairs of this graph")

    def offer(self, state: Callable[[], State]) -> None:
        """Save the run's state and the generator's if a checkpoint is due; `state` is only called then."""

        def whole() -> State:
            found = state()
            return State({**found.tensors, "generator": self.generator.get_state()}, found.values)

        self.checkpointer.offer(whole)
