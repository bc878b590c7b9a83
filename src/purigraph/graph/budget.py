"""Attack budgets: the number of flips allowed in total and at every node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from purigraph.errors import BudgetError
from purigraph.graph.nodes import read_nodes
from purigraph.graph.pair_graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.numbers import is_real
from purigraph.registry import canonical

# More than the pairs of any graph; a longer number makes an unreadable message.
_LARGEST_AMOUNT = 1e19

Kind = Literal["incident", "half-degree", "absolute"]


@dataclass(frozen=True)
class Limits:
    """A budget resolved for one graph.

    Attributes:
        total: The total number of undirected flips.
        local: (N,) int64, the number of flips at every node; None if there is no local budget.
    """

    total: int
    local: Tensor | None = None

    def check(self, perturbation: Perturbation) -> None:
        """Raise `BudgetError` if the perturbation exceeds this budget."""
        if len(perturbation) > self.total:
            raise BudgetError(f"{len(perturbation)} flips were made; the budget allows {self.total}.")
        if self.local is None:
            return
        spent = perturbation.degree()
        over = spent > self.local.cpu()
        if over.any():
            node = int(over.nonzero()[0])
            raise BudgetError(
                f"{int(spent[node])} flips were made at node {node}; its local budget allows "
                f"{int(self.local[node])} ({int(over.sum())} nodes exceed theirs)."
            )


@dataclass(frozen=True)
class Budget:
    r"""How much of a graph an attacker may change, independent of any particular graph.

    With targets $T$, edges $E$ and degrees $d$, the number of undirected flips is
    $\Delta = \mathrm{round}(\epsilon \cdot |\{e \in E : e \cap T \neq \emptyset\}|)$ (`incident`),
    $\Delta = \mathrm{round}(\epsilon \cdot \sum_{v \in T} d_v / 2)$ (`half-degree`), or the amount itself
    (`absolute`). `half-degree` is the definition printed in the paper; `incident` is the one its results were computed
    with. The latter counts an edge between a target and another node in full, so it is about twice as large. A local
    budget allows $\lfloor \lambda d_v \rfloor$ flips at every node $v$
    (`Gosch et al. 2023 <https://arxiv.org/abs/2306.15427>`_).

    Args:
        amount: $\epsilon$, or the number of flips if `kind` is `absolute`.
        kind: `incident`, `half-degree` (`half_degree` is also accepted) or `absolute`.
        local: $\lambda$, the number of flips allowed at a node as a share of its degree; None for no local budget.

    >>> from purigraph.graph import PairGraph
    >>> path = PairGraph(4, torch.tensor([[0, 1, 2], [1, 2, 3]]))
    >>> target = torch.tensor([1])
    >>> Budget(1.0).resolve(path, target), Budget(1.0, "half-degree").resolve(path, target)
    (2, 1)
    """

    amount: float
    kind: Kind = "incident"
    local: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", canonical(self.kind))  # one spelling, as the `repr` is used as a key
        if self.kind not in get_args(Kind):
            raise BudgetError(f"A budget's kind must be one of {', '.join(get_args(Kind))}, not {self.kind!r}.")
        if not _is_size(self.amount):
            shown = repr(self.amount)
            raise BudgetError(
                "A budget must be a number, finite and not negative, and at most "
                f"{_LARGEST_AMOUNT:g}, not {shown if len(shown) < 40 else f'{shown[:37]}...'}."
            )
        if self.kind == "absolute" and self.amount != int(self.amount):
            raise BudgetError(f"An absolute budget must be a whole number of flips, not {self.amount}.")
        if self.local is not None and not (is_real(self.local) and math.isfinite(self.local) and self.local >= 0):
            raise BudgetError(f"A local budget must be a number, finite and not negative, not {self.local!r}.")

    @classmethod
    def of(cls, value: Budget | int) -> Budget:
        """Return a budget unchanged, and a whole number as an absolute budget."""
        if isinstance(value, Budget):
            return value
        if is_real(value) and not isinstance(value, float):
            return cls(int(value), "absolute")
        raise BudgetError(
            f"A budget must be a whole number of flips or a Budget, not {value!r}: "
            "for a share of the edges, use for example Budget(0.1)."
        )

    def resolve(self, graph: PairGraph, targets: Tensor) -> int:
        """Return the number of undirected flips for `targets` (M,) in `graph`, rounded to the nearest integer.

        Raises:
            BudgetError: If it exceeds the number of node pairs of the graph.
        """
        nodes = read_nodes(targets, graph.num_nodes, name="targets").to(graph.device)
        possible = graph.num_nodes * (graph.num_nodes - 1) // 2
        if self.kind == "absolute":
            flips = int(self.amount)
        elif self.kind == "incident":
            flips = round(self.amount * int(graph.touching(nodes).sum()))
        else:
            flips = round(self.amount * int(graph.degree()[nodes].sum()) / 2)
        if flips > possible:
            raise BudgetError(f"A budget of {flips} flips exceeds the {possible} pairs of {graph.num_nodes} nodes.")
        return flips

    def limits(self, graph: PairGraph, targets: Tensor) -> Limits:
        """Return the budget for one graph: the flips in total and at every node."""
        total = self.resolve(graph, targets)
        if self.local is None:
            return Limits(total)
        # The small term keeps products such as 0.29 * 100 from being rounded down to the next integer.
        allowed = torch.floor(self.local * graph.degree().double() + 1e-9)
        return Limits(total, allowed.clamp(max=float(graph.num_nodes)).long())  # no node has more pairs to flip


def _is_size(value: float) -> bool:
    # Compared first: a Python integer may be too large to become a float.
    return is_real(value) and 0 <= value <= _LARGEST_AMOUNT and math.isfinite(value)
