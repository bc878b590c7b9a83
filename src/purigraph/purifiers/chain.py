"""Several purifiers, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.errors import InputError, ModelFileError
from purigraph.graph import LowRankAdjacency, PairGraph
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.recipe import Recipe
from purigraph.settings import Settings, setting


class ChainFitSettings(Settings):
    """What the parts of a chain are fitted with."""

    by_part: dict[str, dict[str, Any]] = setting(
        'Settings of the parts\' own fits, by the parts\' names: {"gpr-gae": {"epochs": 100}}.', default={}
    )


def _recipes(parts: object) -> tuple[Recipe, ...]:
    if isinstance(parts, str | Mapping) or not isinstance(parts, Sequence):
        raise InputError(f"A chain is made of a list of purifiers, not of a {type(parts).__name__}.")
    if not parts:
        raise InputError("A chain needs at least one purifier.")
    return tuple(Recipe.read(part) for part in parts)


@registry.register("chain")
class Chain(Purifier):
    """Applies several purifiers in order, each to what the one before left.

    What one of them removes (a weight of 0) is not there for the next, and stays removed. It is saved as one model, its
    parts' settings and parameters included. `chain[k]` is part k.

    >>> import purigraph as pg
    >>> data = pg.datasets.load("synthetic-citation")
    >>> chain = pg.Chain([pg.Jaccard(), pg.SVD(rank=20)]).fit(data)
    >>> [type(part).__name__ for part in chain]
    ['Jaccard', 'SVD']
    """

    parts: Annotated[tuple[Recipe, ...], BeforeValidator(_recipes)] = setting(
        "The purifiers, fitted or not. In place of one its name will do, or a mapping with its name and settings: "
        '{"purifier": "jaccard", "settings": {"threshold": 0.05}}.',
        kw_only=False,
    )

    fit_settings_class = ChainFitSettings
    trial_settings = MappingProxyType(
        {
            "parts": (
                {"purifier": "jaccard", "settings": {"similarity": "cosine", "cosine_threshold": 0.0}},
                {"purifier": "gpr-gae", "settings": {"hops": 3, "node_channels": 8, "edge_channels": 16}},
            )
        }
    )
    trial_fit = MappingProxyType({"by_part": {"gpr-gae": {"epochs": 15}}})

    def __init__(self, parts: Sequence[Purifier | Recipe | Mapping[str, Any] | str]) -> None:
        recipes = _recipes(parts)
        self._own_record: dict[str, Any] = {}
        super().__init__(parts=recipes)
        made = [
            part if isinstance(part, Purifier) else recipe.make() for part, recipe in zip(parts, recipes, strict=True)
        ]
        if any(part.factored for part in made[:-1]):
            raise InputError("Only the last part of a chain can return factors: the next one needs a graph.")
        self.purifiers = nn.ModuleList(made)

    @property
    def settings(self) -> Any:
        """The settings; those of the parts as they are now, as `fit` may add to them."""
        return self.settings_class(parts=tuple(Recipe.of(part) for part in self))

    def __iter__(self) -> Iterator[Purifier]:
        for part in self.purifiers:
            assert isinstance(part, Purifier)
            yield part

    def __len__(self) -> int:
        return len(self.purifiers)

    def __getitem__(self, position: int) -> Purifier:
        return list(self)[position]

    @property
    def adds_edges(self) -> bool:
        """Whether any part adds edges."""
        return any(part.adds_edges for part in self)

    @property
    def factored(self) -> bool:
        """Whether the last part returns factors."""
        return self[-1].factored

    @property
    def is_fitted(self) -> bool:
        """Whether all parts are."""
        return all(part.is_fitted for part in self)

    @property
    def receptive_field(self) -> int | None:
        """What the parts see, one after the other; None if a part sees the whole graph."""
        fields = [part.receptive_field for part in self]
        return None if any(field is None for field in fields) else 1 + sum(field - 1 for field in fields if field)

    @property
    def provenance(self) -> Mapping[str, Any] | None:
        """Where the parts' weights come from: `parts` holds a record or null for each; None if none is known."""
        records = [None if part.provenance is None else dict(part.provenance) for part in self]
        if not any(record is not None for record in records):
            return None
        return {**self._own_record, "parts": records}

    @provenance.setter
    def provenance(self, record: Mapping[str, Any] | None) -> None:
        records = [None] * len(self) if record is None else record.get("parts")
        if not isinstance(records, list) or len(records) != len(self):
            raise ModelFileError(
                f"The record of a chain of {len(self)} purifiers must hold one entry for each of them."
            )
        for part, own in zip(self, records, strict=True):
            part.provenance = own
        self._own_record = {} if record is None else {name: record[name] for name in record if name != "parts"}

    @property
    def feature_record(self) -> Any:
        """What is kept about the features that it was fitted to: the first part's, as all have the same."""
        return self[0].feature_record

    @feature_record.setter
    def feature_record(self, record: Mapping[str, Any]) -> None:
        for part in self:
            part.feature_record = record

    def _learn(
        self,
        data: Data,
        validation: Data | None,
        settings: ChainFitSettings,
        *,
        seed: int,
        checkpoint: str | Path | None,
        progress: bool | None,
    ) -> None:
        """Fit the parts in order, each on the trusted graph as it is."""
        names = [recipe.purifier for recipe in self.parts]
        unknown = [name for name in settings.by_part if name not in names]
        if unknown:
            raise InputError(f"This chain has no part named {unknown[0]!r}; its parts are {', '.join(names)}.")
        for position, (name, part) in enumerate(zip(names, self, strict=True)):
            folder = None if checkpoint is None else Path(checkpoint) / f"{position}-{name}"
            own = settings.by_part.get(name, {})
            part.fit(data, validation=validation, seed=seed, checkpoint=folder, progress=progress, **own)

    def summary(self) -> str:
        """Return a sentence for every part."""
        return " ".join(part.summary() for part in self)

    def variants(self) -> Mapping[str, Purifier]:
        """Return the chains in which all parts that have a variant of some name are replaced by it."""
        own = [part.variants() for part in self]
        names = dict.fromkeys(name for variants in own for name in variants)
        return {
            name: Chain([variants.get(name, part) for variants, part in zip(own, self, strict=True)]) for name in names
        }

    def save_pretrained(self, folder: str | Path) -> None:
        """Write one `config.json` and one `model.safetensors` for all parts (see `Pretrained`)."""
        foreign = [type(part).__name__ for part in self if registry.name_of(type(part)) is None]
        if foreign:
            raise InputError(
                f"A chain is loaded by the names of its parts, and {foreign[0]} has none: register it with "
                "purigraph.purifiers.register(name) first."
            )
        super().save_pretrained(folder)

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return what all parts leave (see `Purifier`)."""
        return self._run_parts(list(self), x, graph, None)[0]

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Return the weights that whole pairs would have (see `Purifier`)."""
        return self._run_parts(list(self), x, graph, presence)[0]

    def factors(self, x: Tensor, graph: PairGraph, presence: Tensor | None = None) -> LowRankAdjacency:
        """Return the factors of what the parts before the last leave (see `GraphTransform`)."""
        *before, last = self
        return last.factors(x, *self._run_parts(before, x, graph, presence))

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        if not self.factored:
            return super()._pair_scores(x, graph)
        # What the parts before remove has an entry in the reconstruction like any other pair.
        *before, last = self
        return last._pair_scores(x, self._run_parts(before, x, graph, None)[0])

    @staticmethod
    def _run_parts(
        parts: Sequence[Purifier], x: Tensor, graph: PairGraph, presence: Tensor | None
    ) -> tuple[PairGraph, Tensor | None]:
        """Return what some parts leave, with the weights of whole pairs, and to what share the pairs are there."""
        removed: Tensor | None = None
        for part in parts:
            there = _there(graph, presence, removed)
            graph = part.purify(x, graph) if there is None else part.whole_weights(x, graph, there)
            if part.adds_edges:  # the result is complete, on pairs of its own
                presence, removed = None, None
            now = graph.weight.detach() <= 0
            removed = now if removed is None else removed | now
        left = graph if removed is None else graph.with_weight(graph.weight.masked_fill(removed, 0.0))
        return left, presence


def _there(graph: PairGraph, presence: Tensor | None, removed: Tensor | None) -> Tensor | None:
    """(E,) to what share the next part finds the pairs; None for a graph that is wholly there."""
    if removed is None or not bool(removed.any()):
        return presence
    kept = (~removed).to(graph.weight.dtype)
    return kept if presence is None else presence * kept
