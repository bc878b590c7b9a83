"""What every purifier is: a map from a graph to the same graph with trustworthy weights."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph import PairGraph, read_data, read_edge_index
from purigraph.pretrained import Pretrained, SavedComponents
from purigraph.settings import Settings

Self = TypeVar("Self", bound="Purifier")


class NoSettings(Settings):
    """The settings of a `fit` that takes none."""


class Purifier(Pretrained):
    """A purifier gives every edge of a graph a weight in [0, 1].

    A subclass writes `purify`, and `fit` if there is something to learn. The two public faces come from here:

    - called on a PyG `Data` it is a transform: a new `Data` with `edge_weight`, the input untouched, so that it can
      stand in `T.Compose([..., purifier])`;
    - called on `(x, edge_index, edge_weight=None)` it returns the edge weights in the caller's own order, so that it
      can stand in front of any model.

    A purifier is always in inference mode when it purifies: `train()` on a model around it changes nothing.
    """

    #: The settings that `fit` takes.
    fit_settings_class: ClassVar[type[Settings]] = NoSettings
    #: Settings of `fit` that make it short, for trials and tests (see `Configured.trial_settings`).
    trial_fit: ClassVar[Mapping[str, Any]] = {}

    #: Whether `fit` learns from graphs under attack and takes `classifier` and `attack` for it; without them it may do
    #: less (`purigraph.training.fit_against_attacks` makes the attack).
    learns_from_attacks: ClassVar[bool] = False

    @property
    def adds_edges(self) -> bool:
        """Whether the result can hold edges that the input has not. Such a purifier returns graphs, not weights."""
        return False

    @abstractmethod
    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the graph with purified weights. Shapes: x (N, F); differentiable in the weights where it can be."""

    def fit(
        self: Self,
        data: Data,
        *,
        validation: Data | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        **settings: Any,
    ) -> Self:
        """Learn what the edges of a trusted graph look like. Labels and masks are never read.

        Args:
            data: x, edge_index, edge_weight if any: a graph that nobody hostile has edited.
            validation: The larger graph of an inductive split, on whose further nodes (by `n_id`) choices are made.
            seed: Of everything random: the same seed gives the same bits.
            checkpoint: A folder to keep the run's state in; an interrupted run resumes from it, bit-identically.
            progress: Report on the error stream. Default: only if it takes long.
            **settings: Those of `fit_settings_class`.

        Returns:
            Itself.
        """
        self._learn(
            data, validation, self.fit_settings_class(**settings), seed=seed, checkpoint=checkpoint, progress=progress
        )
        return self

    def _learn(
        self,
        data: Data,
        validation: Data | None,
        settings: Any,
        *,
        seed: int,
        checkpoint: str | Path | None,
        progress: bool | None,
    ) -> None:
        """Do the work of `fit`; by default there is nothing to learn."""

    @property
    def is_fitted(self) -> bool:
        """Whether it has learned what it has to, and can be trusted to purify."""
        return True

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        return f"{type(self).__name__} has nothing to learn."

    def variants(self) -> Mapping[str, Purifier]:
        """Return versions of this purifier that an attack may be easier to find on, by name; none by default.

        The ensemble of `purigraph.worst_case` also attacks through these and transfers what it finds.
        """
        return {}

    @overload
    def forward(self, x: Data) -> Data: ...

    @overload
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor: ...

    def forward(
        self, x: Data | Tensor, edge_index: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Data | Tensor:
        """Purify a `Data`, or an edge list."""
        if isinstance(x, Data):
            if edge_index is not None:
                raise InputError("Call a purifier with a Data alone, or with (x, edge_index, edge_weight).")
            return self._transform(x)
        if edge_index is None:
            raise InputError("Call a purifier with a Data alone, or with (x, edge_index, edge_weight).")
        if self.adds_edges:
            raise InputError(
                f"{type(self).__name__} can add edges, so weights for the given edge_index are not its whole result: "
                "call it on a Data, or use purify_edges(x, edge_index)."
            )
        return self.purify_edges(x, edge_index, edge_weight)[1]

    def purify_edges(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, presence: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Purify an edge list: the edges (2, M') and their weights (M',), differentiable.

        Where no edges can be added, the edges are the given ones in the given order.

        Args:
            x: (N, F).
            edge_index: (2, M).
            edge_weight: (M,). Default: ones.
            presence: (M,) in [0, 1], to what share each edge is there; see `relaxed`. Default: all of it.
        """
        graph, entries = read_edge_index(edge_index, edge_weight, x.shape[0])
        if presence is None:
            purified = self.purify(x, graph)
        else:
            purified = self.purify_parts(x, graph, entries.collect(presence, graph.num_pairs))
        if self.adds_edges:
            loops = entries.pair < 0
            edges, weight = purified.edge_index()
            return (
                torch.cat([edges, edge_index[:, loops]], dim=1),
                torch.cat([weight, entries.weight[loops].to(weight.dtype)]).to(entries.weight.dtype),
            )
        return edge_index, entries.spread(purified.weight).to(entries.weight.dtype)

    def purify_parts(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Purify a graph whose pairs are there to the shares `presence` (E,); `graph` has their full weights.

        A purifier that replaces the given weights by its own overrides this: what is absent must stay absent at every
        step, and not only at the last.
        """
        purified = self.purify(x, graph.with_weight(graph.weight * presence))
        # What adds edges works with the adjacency matrix, in which a weight of 0 is an absent edge.
        return purified if self.adds_edges else purified.with_weight(purified.weight * presence)

    def relaxed(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor) -> Tensor:
        r"""Return purified weights where edges are there only in part: what a gradient-based attack differentiates.

        An attacker flips edges by halves, $\pi \in [0, 1]$, before it settles on whole flips. A purifier's answer must
        then lie between its answers with and without the edge. Handed over as a small weight, an absent edge would
        get its weight back, and the attack would climb a hill that has little to do with the model. With $\pi$ of 0
        and 1 this is `forward` on the edges that are there, exactly, and 0 for the others.

        Shapes: x (N, F), edge_index (2, M), edge_weight (M,), presence (M,) give (M,); differentiable in `presence`.
        """
        if self.adds_edges:
            raise InputError(f"{type(self).__name__} can add edges: use purify_edges(..., presence=...).")
        return self.purify_edges(x, edge_index, edge_weight, presence)[1]

    def _transform(self, data: Data) -> Data:
        if data.x is None:
            raise InputError("data.x is missing: a purifier needs node features.")
        weight = data.edge_weight if "edge_weight" in data else None
        read_data(data)  # names what is missing
        edge_index, edge_weight = self.purify_edges(data.x, data.edge_index, weight)
        result = copy.copy(data)
        if self.adds_edges:
            for key in [key for key in data.keys() if data.is_edge_attr(key)]:  # noqa: SIM118 (not a mapping)
                del result[key]  # nobody knows the new edges' values
            result.edge_index = edge_index
        result.edge_weight = edge_weight
        return result


registry: SavedComponents[Purifier] = SavedComponents("purifier", "purigraph.purifiers")
Purifier.registry = registry
