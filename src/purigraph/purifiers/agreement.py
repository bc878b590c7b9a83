"""A purifier that no edge can deceive: it asks whether the features of two nodes speak for the same answer."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import PairGraph, read_data
from purigraph.memo import Memo
from purigraph.pretrained import ComponentRecord
from purigraph.purifiers.answers import built_answers, taken_answers
from purigraph.purifiers.base import registry
from purigraph.purifiers.similarity import Similarities, SimilarityPurifier
from purigraph.settings import Settings, setting


class AgreementFitSettings(Settings):
    """How the threshold is chosen."""

    cut: float = setting(
        "The share of the trusted graph's own edges that are cut altogether.", default=0.02, ge=0, lt=1
    )


@registry.register("agreement")
class Agreement(SimilarityPurifier):
    r"""Weighs an edge by how far the features of its two ends speak for the same answer.

    With the answers $p_i$ of a model that sees a node's own features only, such as a `purigraph.Anchor`, the weight of
    an edge is multiplied by
    $$s_{ij}^\gamma \text{ if } s_{ij} \geq t, \text{ else by } 0, \quad
      s_{ij} = \frac{\langle p_i, p_j \rangle}{\|p_i\| \|p_j\|}.$$
    `fit` chooses t so that it cuts a given share of the trusted graph's own edges. Other edges have no say in what an
    edge is worth: an attacker can't talk this purifier into anything, only choose among the pairs that it trusts, most
    of which are harmless. It makes up for what a purifier that looks at the structure, such as `GPRGAE`, can be
    deceived about, and that one for what it lets pass. Chain them with this one last, so that nothing restores what it
    has taken: `pg.Chain([purifier, agreement])`.

    Without a model (`fit(data)` alone) the features themselves are compared, which is much weaker.

    Shapes:
        `purifier(data)`: a `Data` with x (N, F), edge_index (2, M), and edge_weight (M,) if any -> a new `Data`.
        `purifier(x, edge_index, edge_weight=None)`: -> (M,), differentiable in edge_weight.
    """

    answers_record: ComponentRecord | None = setting(
        "The model whose answers are compared, as `fit` was given it.", default=None
    )
    threshold: float | None = setting("t; None until `fit` has chosen it.", default=None, ge=-1, le=1)
    sharpness: float = setting("gamma; 0 leaves the weights of edges that stay as they are.", default=1.5, ge=0)

    fit_settings_class = AgreementFitSettings
    learns_from_answers = True
    trial_settings = MappingProxyType({})

    def _build(self) -> None:
        self.answers = built_answers(self.answers_record)
        super()._build()

    @property
    def is_fitted(self) -> bool:
        """Whether there is a threshold."""
        return self.threshold is not None

    def fit(
        self,
        data: Data,
        *,
        answers: nn.Module | None = None,
        validation: Data | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        **settings: Any,
    ) -> Agreement:
        """Choose the threshold. Labels and masks are never read.

        Args:
            data: x, edge_index, edge_weight if any: a graph that nobody hostile has edited.
            answers: A fitted `Anchor`, or another registered component that maps x (N, F) to (N, C); copied. Default:
                none, which compares the features.
            validation: The larger graph of an inductive split: the threshold is chosen on the edges of its additional
                nodes, which `answers` has not seen. Default: on `data`, where answers agree more than on new nodes.
            seed: Not used: nothing is random.
            checkpoint: Not used: it takes no time.
            progress: Not used.
            **settings: See `AgreementFitSettings`.

        Returns:
            Itself.
        """
        chosen = AgreementFitSettings(**settings)
        record, self.answers = taken_answers(answers)
        self._prepared = Memo()
        judged = data if validation is None else validation
        if data.x is None or judged.x is None:
            raise InputError("data.x is missing: a purifier needs node features.")
        graph, _ = read_data(judged)
        pairs = graph.pairs if validation is None else graph.pairs[:, _new_pairs(graph, data, validation)]
        if pairs.shape[1] == 0:
            raise InputError("There are no edges to choose the threshold by: give a graph with edges.")
        similarity = self._prepare(judged.x).of(pairs)
        # Edges at the threshold stay.
        ordered = similarity.sort().values
        threshold = float(ordered[int(chosen.cut * len(ordered))])
        self._settings = self._settings.replace(answers_record=record, threshold=max(-1.0, min(threshold, 1.0)))
        self.provenance = {
            "settings": chosen.to_json(),
            "judged_edges": len(ordered),
            "cut": float((similarity < threshold).double().mean()),
            "purigraph_version": __version__,
        }
        self._keep_statistics(data)
        return self

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        record = self.provenance or {}
        return (
            f"Cuts edges whose ends agree less than {self.suspicious_below:.3g}: "
            f"{100 * record.get('cut', float('nan')):.1f} % of {record.get('judged_edges', 0):,} trusted edges."
        )

    def compared(self, x: Tensor) -> Similarities:
        """Return the answers, or the features if there is no model."""
        return Similarities(x if self.answers is None else self.answers(x), "cosine")

    def worth(self, similarity: Tensor) -> Tensor:
        """Return the factors of the weights, (E,) in [0, 1]."""
        stays = super().worth(similarity)
        # The clamp is for rounding: a weight must not grow.
        return stays * similarity.clamp(0, 1) ** self.sharpness if self.sharpness else stays

    @property
    def suspicious_below(self) -> float:
        """The threshold."""
        if self.threshold is None:
            raise NotFittedError("This Agreement is not fitted yet: call fit(data, answers=anchor), or load one.")
        return self.threshold

    def with_settings(self, **changes: Any) -> Agreement:
        """Return the same purifier with another threshold or sharpness; the model is shared."""
        fixed = changes.keys() - {"threshold", "sharpness"}
        if fixed:
            raise InputError(f"{', '.join(sorted(fixed))} can't be changed after `fit`; threshold and sharpness can.")
        other = type(self)()
        other._settings = self.settings.replace(**changes)
        other.answers, other.provenance = self.answers, self.provenance
        return other


def _new_pairs(graph: PairGraph, data: Data, validation: Data) -> Tensor:
    """Return for which pairs, (E,) bool, an end is a node that `data` does not have."""
    if "n_id" not in data or "n_id" not in validation:
        raise InputError("data and validation need n_id, which says which nodes they share: see inductive_split.")
    new = ~torch.isin(validation.n_id, data.n_id)
    return new[graph.pairs].any(0)
