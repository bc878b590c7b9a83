"""The base class of all purifiers: maps from a graph to the same graph with trustworthy weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import InputError, NotFittedError, UnknownNameError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.memo import Identity, Memo
from purigraph.pretrained import SavedComponents
from purigraph.purifiers.calibration import USUAL_RATE, Calibration, calibrate
from purigraph.purifiers.check import GraphCheck, compare
from purigraph.purifiers.edge_scorer import EdgeScorer, PairScores, weights_as_scores
from purigraph.purifiers.evidence import Evidence
from purigraph.purifiers.explanation import Explanation, explain_edges
from purigraph.purifiers.graph_transform import GraphTransform, num_rows
from purigraph.purifiers.preset import Preset
from purigraph.purifiers.statistics import GraphStatistics
from purigraph.settings import Settings

Self = TypeVar("Self", bound="Purifier")

# Where a model's record has the statistics of its training graph.
_STATISTICS = "statistics"


class NoSettings(Settings):
    """The settings of a `fit` without settings."""


class Purifier(GraphTransform):
    """Base class of all purifiers, which give every edge of a graph a weight in [0, 1].

    A subclass implements `purify`, and `_learn` if there is something to learn. How it is called is said in
    `GraphTransform`; this class has what is learned (`fit`), and what a purifier can tell about edges: scores,
    statistics, explanations and thresholds.
    """

    #: The settings that `fit` takes.
    fit_settings_class: ClassVar[type[Settings]] = NoSettings
    #: Settings of `fit` that make it short, for trials and tests (see `Configured.trial_settings`).
    trial_fit: ClassVar[Mapping[str, Any]] = {}
    #: Settings of the purifier and of its `fit` that go together, by name (see `preset`).
    presets: ClassVar[Mapping[str, Preset]] = {}

    # What `fit` starts from: the training of the preset that the purifier was made by, if any.
    _preset_training: Mapping[str, Any] = MappingProxyType({})

    #: Whether `fit` learns from graphs under attack and takes `classifier` and `attack` for it; without them it may do
    #: less (`purigraph.training.fit_against_attacks` makes the attack).
    learns_from_attacks: ClassVar[bool] = False
    #: Whether `fit` takes `answers`, a model that sees features only (such as an anchor); without, it does less.
    learns_from_answers: ClassVar[bool] = False

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._scorers: Memo[EdgeScorer] = Memo()

    @classmethod
    def preset(cls: type[Self], name: str, **settings: Any) -> Self:
        """Return a new purifier with the shape of a preset; its `fit` starts from the training of that preset.

        Args:
            name: One of `presets`.
            **settings: Settings of the purifier that differ from the preset's.

        >>> import purigraph as pg
        >>> pg.GPRGAE.preset("paper").node_channels, pg.GPRGAE.preset("fast", node_channels=48).node_channels
        (128, 48)
        """
        if name not in cls.presets:
            known = f"it has: {', '.join(cls.presets)}" if cls.presets else "it has none"
            raise UnknownNameError(f"{cls.__name__} has no preset named {name!r}: {known}.")
        chosen = cls.presets[name]
        purifier = cls(**{**chosen.shape, **settings})
        purifier._preset_training = dict(chosen.training)
        return purifier

    @classmethod
    def preset_for(cls, graph: PairGraph) -> str | None:
        """Return the name of the preset that suits a graph of this size; None if there are no presets."""
        return None

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
        """Learn what the edges of a trusted graph look like. Labels and masks are not used.

        Args:
            data: A trusted graph that was not attacked: x, edge_index and, optionally, edge_weight.
            validation: The larger graph of an inductive split; its additional nodes (by `n_id`) are used for model
                selection.
            seed: The seed of all randomness; results are bit-identical for the same seed.
            checkpoint: The folder for the state of the run; an interrupted run resumes from it, bit-identically.
            progress: Whether to report progress on the error stream. Default: only if it takes long.
            **settings: The settings of `fit_settings_class`. Default: those of the preset, if it was made by one.

        Returns:
            The purifier itself.
        """
        chosen = self.fit_settings_class(**{**self._preset_training, **settings})
        # Learning takes gradients, also if it is called where they are switched off.
        with torch.inference_mode(False), torch.enable_grad():
            self._learn(data, validation, chosen, seed=seed, checkpoint=checkpoint, progress=progress)
        self._keep_statistics(data)
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
        """Do the work of `fit`; by default, there is nothing to learn."""

    @property
    def is_fitted(self) -> bool:
        """Whether the purifier is ready for use: fitted, or without anything to learn."""
        return True

    def summary(self) -> str:
        """Return a sentence that summarises the last `fit`."""
        return f"{type(self).__name__} has nothing to learn."

    def variants(self) -> Mapping[str, Purifier]:
        """Return variants of this purifier, by name, that may be easier to attack; none by default.

        The ensemble of `purigraph.worst_case` also attacks these and transfers the perturbations it finds.
        """
        return {}

    def scorer(self, data: Data) -> EdgeScorer:
        """Return an object that scores node pairs against a graph, with everything computed that pairs don't change.

        Args:
            data: The current graph: x, edge_index and, optionally, edge_weight.
        """
        if not isinstance(data, Data):
            raise InputError(f"A scorer needs a PyG Data with x and edge_index, not a {type(data).__name__}.")
        graph = self._read(data)[0]
        with torch.no_grad():
            return EdgeScorer(graph.num_nodes, self._pair_scores(data.x, graph))

    @overload
    def score_edges(self, x: Data, graph: Tensor) -> Tensor: ...

    @overload
    def score_edges(self, x: Tensor, graph: Any, edge_index: Tensor) -> Tensor: ...

    def score_edges(self, x: Data | Tensor, graph: Any, edge_index: Tensor | None = None) -> Tensor:
        """Score node pairs, edges or not: `score_edges(data, pairs)`, or `score_edges(x, graph, pairs)`.

        The first form keeps the scorer (see `scorer`) of the last graph, so more pairs against the same `Data` take
        milliseconds. A new one is made when tensors of the `Data` or of the purifier are replaced or written to.

        Args:
            x: A `Data` with x, edge_index and, optionally, edge_weight; or the node features (N, F).
            graph: The pairs (2, M); or, after features, a `PairGraph` or anything that can be converted to one.
            edge_index: The pairs (2, M) of the second form.

        Returns:
            (M,), higher for pairs that the purifier trusts more; both directions of a pair have the same score, and a
            node paired with itself has score 1. What the values mean is up to the purifier.
        """
        if isinstance(x, Data):
            if edge_index is not None:
                raise InputError("Call score_edges(data, pairs) or score_edges(x, graph, pairs).")
            return self._kept_scorer(x).score(graph)
        if edge_index is None:
            raise InputError("Call score_edges(data, pairs) or score_edges(x, graph, pairs).")
        graph = as_pair_graph(graph)
        if num_rows(x) != graph.num_nodes:
            raise InputError(f"x has {len(x)} rows, but the graph has {graph.num_nodes} nodes.")
        with torch.no_grad():
            return EdgeScorer(graph.num_nodes, self._pair_scores(x, graph)).score(edge_index)

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """Return the scores of pairs against a graph; by default, the weights that they would get in it."""
        return weights_as_scores(self, x, graph)

    def _kept_scorer(self, data: Data) -> EdgeScorer:
        tensors = [data.x, data.edge_weight if "edge_weight" in data else None, *self.parameters(), *self.buffers()]
        context = [Identity(tensor) for tensor in tensors if isinstance(tensor, Tensor)]
        edge_index = data.edge_index
        known = self._scorers.get(edge_index, context, self.settings) if isinstance(edge_index, Tensor) else None
        if known is not None:
            return known
        made = self.scorer(data)
        self._scorers.put(edge_index, made, context, self.settings)
        return made

    @property
    def suspicious_below(self) -> float:
        """The score below which an edge counts as suspicious in statistics and reports.

        As `fit` measured it, 1 % of true edges lie below (see `suggest_threshold`); 0.5 if it did not.
        """
        return 0.5 if self.calibration is None else self.calibration.threshold(USUAL_RATE)

    @property
    def training_statistics(self) -> GraphStatistics | None:
        """The statistics of the graph that `fit` was given; None if the model was saved without them."""
        record = None if self.provenance is None else self.provenance.get(_STATISTICS)
        return None if record is None else GraphStatistics.of_record(record)

    def statistics(self, data: Data) -> GraphStatistics:
        """Return the statistics of a graph, among them those of the scores of its edges."""
        graph = self._read(data)[0]
        scores = self.scorer(data).score(graph.pairs)
        # Of a trusted graph hardly an edge lies below a calibrated threshold: too few to compare graphs by.
        below = self.suspicious_below if self.calibration is None else 0.5
        return GraphStatistics.of(data.x, graph, scores, below)

    def check(self, data: Data) -> GraphCheck:
        """Compare a graph with the one that `fit` was given: degrees, features and scores.

        A purifier knows only the kind of graph that it was trained on; on others, its weights mean little.

        Raises:
            NotFittedError: If the statistics of the training graph are not known.
        """
        known = self.training_statistics
        if known is None:
            raise NotFittedError(
                f"This {type(self).__name__} does not know the statistics of the graph that it was trained on (older "
                "models were saved without them): fit it again, or call "
                "compare(purifier.statistics(trusted), purifier.statistics(data)) of purigraph.purifiers.check."
            )
        return compare(known, self.statistics(data))

    def _keep_statistics(self, data: Data) -> None:
        """Keep the statistics of the training graph with the model."""
        if isinstance(data, Data) and data.x is not None and self.is_fitted:
            self.provenance = {**(self.provenance or {}), _STATISTICS: self.statistics(data).record()}

    def evidence(self, x: Tensor, graph: PairGraph) -> Evidence:
        """Return the purified graph with all that led to it, step by step; by default, the weights before and after."""
        return Evidence.of(graph, self.purify(x, graph))

    def explain(self, data: Data, ids: Sequence[object] | None = None) -> Explanation:
        """Purify a graph and return why every edge got its weight: a table with a row per edge.

        Per edge: the weight at each step, the scores of both directions (where the purifier has them), its rank, the
        similarity of the two nodes' features, their common neighbours and degrees.

        Args:
            data: x, edge_index and, optionally, edge_weight.
            ids: N names of the nodes. Default: their numbers.
        """
        graph = self._read(data)[0]
        if ids is not None and len(ids) != graph.num_nodes:
            raise InputError(f"ids has {len(ids)} entries, but the graph has {graph.num_nodes} nodes.")
        with torch.no_grad():
            evidence = self.evidence(data.x, graph)
        return explain_edges(data.x, graph, evidence, (lambda node: node) if ids is None else ids.__getitem__)

    @property
    def feature_record(self) -> Any:
        """What is kept about the features that it was fitted to (see `FeatureLayout`); None if nothing."""
        return (self.provenance or {}).get("features")

    @feature_record.setter
    def feature_record(self, record: Mapping[str, Any]) -> None:
        self.provenance = {**(self.provenance or {}), "features": record}

    @property
    def calibration(self) -> Calibration | None:
        """Return the thresholds by false-positive rate that `fit` measured on held-out edges; None if it did not."""
        return Calibration.of_record((self.provenance or {}).get("calibration"))

    def suggest_threshold(self, false_positive_rate: float = 0.01, data: Data | None = None, *, seed: int = 0) -> float:
        """Return the weight below which at most this share of true edges should lie.

        Args:
            false_positive_rate: The share of true edges that may be lost.
            data: A trusted graph to measure on (see `calibration.calibrate`). Default: what `fit` measured on the
                held-out edges of its validation sets.
            seed: The seed of the edges that are injected into `data`.
        """
        found = self.calibration if data is None else calibrate(self, data, seed=seed)
        if found is None:
            raise InputError(
                f"This {type(self).__name__} has no calibration of its own: pass a trusted graph as data to measure a "
                "threshold on."
            )
        return found.threshold(false_positive_rate)


def require_fitted(purifier: object) -> Purifier:
    """Return a purifier that can be relied on; raise an error that says what to do otherwise."""
    if not isinstance(purifier, Purifier):
        raise InputError(
            f"The purifier is a {type(purifier).__name__}: pass a fitted one, e.g. purigraph.purifiers.load(folder)."
        )
    if not purifier.is_fitted:
        raise NotFittedError(
            f"This {type(purifier).__name__} has not been fitted, so it protects nothing: call fit(data) on a trusted "
            "graph, or load a fitted one with purigraph.purifiers.load(folder)."
        )
    return purifier


registry: SavedComponents[Purifier] = SavedComponents("purifier", "purigraph.purifiers")
Purifier.registry = registry
