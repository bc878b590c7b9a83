"""LRBCD: block coordinate descent under a budget for every node."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from torch import Tensor

from purigraph.attacks.base import Scene
from purigraph.attacks.block_descent import BlockDescent
from purigraph.attacks.projections import project_greedy, project_nearest
from purigraph.errors import InputError
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.pair_space import PairSpace


class LRBCD(BlockDescent):
    r"""Block coordinate descent that keeps a local budget $\Delta_v = \lfloor \lambda d_v \rfloor$ at every node.

    From `Adversarial Training for Graph Neural Networks <https://arxiv.org/abs/2306.15427>`_ (Gosch et al. 2023).
    Only pairs of nodes that both have a budget are looked at, and weights are projected to the budgets of all
    nodes and of the whole. See `BlockDescent` for the rest.

    Args:
        loss: what is maximised (`purigraph.losses`).
        local: $\lambda$, used when the budget of the call names none.
        epochs: steps with resampling.
        fine_tune_epochs: steps on the best block, with falling rate.
        rounding: whether these steps bring the weights to whole flips; False is the paper's form.
        projection: `nearest`, or `greedy`, the paper's form: it serves the entries from the largest down while
            both nodes and the whole have something left, settles early and needs far larger blocks.
        block_size: pairs looked at; several times the budget.
        learning_factor: of the learning rate.
        final_samples: choices of whole flips that are tried; the first takes those with the most weight.
    """

    knows_local_budgets = True

    def __init__(
        self,
        *,
        loss: str = "tanh-margin",
        local: float = 0.5,
        epochs: int = 400,
        fine_tune_epochs: int = 100,
        rounding: bool = True,
        projection: Literal["nearest", "greedy"] = "nearest",
        block_size: int = 10_000,
        learning_factor: float = 100.0,
        final_samples: int = 20,
    ) -> None:
        super().__init__(
            loss=loss,
            resampled_steps=epochs,
            fixed_steps=0 if rounding else fine_tune_epochs,
            rounding_steps=fine_tune_epochs if rounding else 0,
            block_size=block_size,
            learning_factor=learning_factor,
            final_samples=final_samples,
        )
        self.epochs = epochs
        self.fine_tune_epochs = fine_tune_epochs
        self.rounding = rounding
        if projection not in ("nearest", "greedy"):
            raise InputError(f"LRBCD: projection is 'nearest' or 'greedy', not {projection!r}.")
        self.projection = projection
        if not local >= 0:
            raise InputError(f"LRBCD: local must not be negative, but is {local}.")
        self.local = local

    def limits(self, budget: Budget, graph: PairGraph, targets: Tensor) -> Limits:
        """The budget worked out for a graph, with this attack's local share if it names none."""
        if budget.local is None:
            budget = replace(budget, local=self.local)
        return super().limits(budget, graph, targets)

    def _space(self, scene: Scene) -> PairSpace:
        assert scene.limits.local is not None  # see limits
        nodes = (scene.limits.local > 0).nonzero().squeeze(1)
        return PairSpace(scene.graph.num_nodes, nodes, device=scene.graph.device)

    def _project(self, weight: Tensor, pairs: Tensor, scene: Scene) -> Tensor:
        project = project_nearest if self.projection == "nearest" else project_greedy
        return project(weight, pairs, scene.limits)
