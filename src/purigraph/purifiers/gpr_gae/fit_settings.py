"""How a GPR-GAE is trained, and how that went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from purigraph._version import __version__
from purigraph.settings import Settings, setting


class FitSettings(Settings):
    """Training settings of GPR-GAE, with the paper's symbols in brackets."""

    epochs: int = setting("The number of epochs.", default=2000, ge=1)
    injection: float = setting("[p] The number of injected edges per edge, both undirected.", default=1.5, gt=0)
    adversarial: float = setting(
        "The share of injected edges that the model itself scores highest among ten times as many random ones.",
        default=0.0,
        ge=0,
        le=1,
    )
    masking: float = setting("[q] The share of masked edges.", default=0.2, ge=0, lt=1)
    reweighting: float = setting("[eta] Weights are sampled from [1/eta, 1]; 1 disables it.", default=3.0, ge=1)
    symmetry: float = setting("[delta] The weight of the symmetry loss.", default=0.2, ge=0)
    symmetry_passes: Literal[1, 2] = setting(
        "The number of forward passes. With 2, each direction has its own dropout mask.", default=1
    )
    learning_rate: float = setting("The learning rate of Adam.", default=0.01, gt=0, le=1000)
    weight_decay: float = setting("The weight decay of Adam.", default=1e-4, ge=0, le=1000)
    batch_ratio: float | None = setting(
        "The share of pairs in the loss of every epoch, for large graphs. None uses all.", default=None, gt=0, le=1
    )
    validation_sets: int = setting("The number of perturbed graphs that the best epoch is chosen on.", default=10, ge=1)
    validation_injection: float = setting(
        "The share of injected pairs in validation set i is i times this.", default=0.3, gt=0
    )
    validate_every: int = setting("The number of epochs between validations.", default=3, ge=1)
    holdout: float = setting("The share of nodes held out if there is no validation graph.", default=0.1, gt=0, lt=1)
    patience: int | None = setting(
        "Stop after this many epochs without a better validation score. None disables early stopping.",
        default=None,
        ge=1,
    )


class FitOptions(TypedDict, total=False):
    """The settings of `FitSettings` as keyword arguments, for editors and type checkers."""

    epochs: int
    injection: float
    adversarial: float
    masking: float
    reweighting: float
    symmetry: float
    symmetry_passes: Literal[1, 2]
    learning_rate: float
    weight_decay: float
    batch_ratio: float | None
    validation_sets: int
    validation_injection: float
    validate_every: int
    holdout: float
    patience: int | None


@dataclass(frozen=True)
class FitReport:
    """The report of a training; `score` is mean AUC + mean AP over the validation sets at the best epoch.

    `seconds` is the time of the whole run, including the time before an interruption; None for a loaded purifier.
    """

    best_epoch: int
    auc: float
    ap: float
    epochs_run: int
    seed: int
    settings: FitSettings
    seconds: float | None = None

    @property
    def score(self) -> float:
        """Return the score that the best epoch was chosen by."""
        return self.auc + self.ap

    def record(self) -> dict[str, Any]:
        """Return the record that is saved with the model, which documents its origin."""
        values = {name: getattr(self, name) for name in ("best_epoch", "auc", "ap", "epochs_run", "seed")}
        return {**values, "settings": self.settings.to_json(), "purigraph_version": __version__}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> FitReport | None:
        """Return the report that a record was made from, or None if it is not such a record."""
        names = ("best_epoch", "auc", "ap", "epochs_run", "seed")
        if not isinstance(record.get("settings"), dict) or not all(name in record for name in names):
            return None
        known = {name: value for name, value in record["settings"].items() if name in FitSettings.model_fields}
        return cls(**{name: record[name] for name in names}, settings=FitSettings(**known))
