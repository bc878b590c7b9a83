"""Everything that one run of an attack works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.attacks.victim import Victim
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

    def start_codes(self) -> Tensor:
        """Return the start's flips as codes i * N + j, ascending; empty if there is no start."""
        flips = torch.empty((2, 0), dtype=torch.int64) if self.start is None else self.start.flips()
        return pair_codes.encode(flips[0], flips[1], self.graph.num_nodes).to(self.graph.device)

    def resume(self) -> State | None:
        """Return the last state of an interrupted run, or None, and restore the generator to that state.

        Raises:
            ModelFileError: If the checkpoint is damaged or belongs to another run.
        """
        state = self.checkpointer.resume()
        if state is None:
            return None
        tensors = dict(state.tensors)
        self.generator.set_state(tensors.pop("generator"))
        return State({name: tensor.to(self.graph.device) for name, tensor in tensors.items()}, state.values)

    def offer(self, state: Callable[[], State]) -> None:
        """Save the run's state and the generator's if a checkpoint is due; `state` is only called then."""

        def whole() -> State:
            found = state()
            return State({**found.tensors, "generator": self.generator.get_state()}, found.values)

        self.checkpointer.offer(whole)
