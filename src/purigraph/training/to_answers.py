"""Purifiers that compare answers: an anchor is distilled for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from torch import nn
from torch_geometric.data import Data

from purigraph.anchors import Anchor
from purigraph.errors import InputError
from purigraph.purifiers import Purifier

P = TypeVar("P", bound=Purifier)


def answers_for_purifiers() -> Anchor:
    """Return the anchor whose answers purifiers compare, to be fitted.

    On validation nodes of Cora, MLPs cost a purified GCN a point of clean accuracy less than the regression that other
    anchors are by default, which holds one to three points more under attack.
    """
    return Anchor(student="mlp")


def fit_to_answers(
    purifier: P,
    data: Data,
    validation: Data | None = None,
    *,
    classifier: nn.Module,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> P:
    """Fit a purifier that `learns_from_answers`, such as `Agreement`, to those of an anchor of the classifier.

    Args:
        purifier: It is fitted in place.
        data: A trusted graph, on which the anchor is distilled.
        validation: The larger graph of an inductive split. Default: none.
        classifier: A trained classifier.
        seed: Of the distillation.
        checkpoint: A folder to keep the state in, for purifiers that take long.
        progress: Report on the error stream. Default: only if it takes long.
        **settings: Those of the purifier's `fit`.

    Raises:
        InputError: If the purifier asks for no answers.
    """
    if not purifier.learns_from_answers:
        raise InputError(f"{type(purifier).__name__} learns from no answers: call its fit(data).")
    purifier.fit_settings_class(**settings)  # a typing error should not cost a distillation
    answers = answers_for_purifiers().fit(classifier, data, seed=seed, progress=progress)
    options: dict[str, Any] = {"seed": seed, "checkpoint": checkpoint, "progress": progress, **settings}
    return purifier.fit(data, validation=validation, answers=answers, **options)
