"""LRBCD: block coordinate descent with a local budget for every node."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from torch import Tensor

from purigraph.attacks.base import registry
from purigraph.attacks.projections import project_greedy, project_nearest
from purigraph.attacks.random_block_ascent import RandomBlockAscent
from purigraph.attacks.scene import Scene
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.pair_graph import PairGraph
from purigraph.settings import setting


@registry.register("lrbcd")
class LRBCD(RandomBlockAscent):
    r"""Block coordinate descent that keeps a local budget $\Delta_v = \lfloor \lambda d_v \rfloor$ at every node.

    From `Adversarial Training for Graph Neural Networks <https://arxiv.org/abs/2306.15427>`_ (Gosch et al. 2023).
    Only pairs whose nodes both have a budget are considered, and weights are projected onto all local budgets and the
    global one. See `BlockAscent` for the rest.
    """

    local: float = setting("The local share lambda, used if the budget does not set one.", default=0.5, ge=0)
    projection: Literal["nearest", "greedy"] = setting(
        '"nearest", or "greedy", the paper\'s form, which takes entries from the largest down as far as the local and '
        "global budgets allow, settles early and needs far larger blocks.",
        default="nearest",
    )

    knows_local_budgets = True
    imposes_local_budget = True

    def limits(self, budget: Budget, graph: PairGraph, targets: Tensor) -> Limits:
        """Return the limits of a budget on a graph, with this attack's local share if the budget does not set one."""
        if budget.local is None:
            budget = replace(budget, local=self.local)
        return super().limits(budget, graph, targets)

    def _nodes(self, scene: Scene) -> Tensor:
        assert scene.limits.local is not None  # set by `limits`
        return (scene.limits.local > 0).nonzero().squeeze(1)

    def _project(self, weight: Tensor, pairs: Tensor, scene: Scene) -> Tensor:
        project = project_nearest if self.projection == "nearest" else project_greedy
        return project(weight, pairs, scene.limits)
