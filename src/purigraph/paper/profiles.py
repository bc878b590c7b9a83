"""Profiles: how long experiments run. `paper` has the paper's lengths; `quick` and `smoke` are shorter and say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from purigraph.errors import UnknownNameError
from purigraph.registry import canonical

#: The embedded graph: no file, no download.
EMBEDDED = "synthetic-citation"


@dataclass(frozen=True)
class Profile:
    """How a profile shortens the work.

    Attributes:
        name: Its name.
        training_share: The share of the training epochs.
        attack_epochs: Epochs and fine-tuning epochs of the block attacks; None for the paper's.
        adversarial: The profile of adversarial training (`purigraph.training.PROFILES`).
        ensemble_epochs: Epochs of the members of an ensemble; None for its own.
        trial: Whether components are as small as their `trial_settings` and the graph is the embedded one.
    """

    name: str
    training_share: float = 1.0
    attack_epochs: tuple[int, int] | None = None
    adversarial: str = "paper"
    ensemble_epochs: int | None = None
    trial: bool = False

    def dataset(self, name: str) -> str:
        """Return the dataset to use in place of another."""
        return EMBEDDED if self.trial else canonical(name)

    def epochs(self, full: int) -> int:
        """Return the number of training epochs for a full number of them."""
        return max(1, round(full * self.training_share))

    def attack(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a block attack; what it does not have (fine-tuning), it does not get."""
        if self.attack_epochs is None or "epochs" not in settings:
            return dict(settings)
        epochs, fine_tuning = self.attack_epochs
        shorter: dict[str, Any] = {"epochs": epochs}
        if settings.get("fine_tune_epochs"):
            shorter["fine_tune_epochs"] = fine_tuning
        if self.trial:
            shorter |= {"block_size": 1000, "final_samples": 2} if "block_size" in settings else {}
        return {**settings, **shorter}


PROFILES: dict[str, Profile] = {
    "paper": Profile("paper"),
    "quick": Profile("quick", 0.25, (100, 25), "cpu", 60),
    "smoke": Profile("smoke", 0.001, (2, 1), "cpu", 1, trial=True),
}


def profile_named(name: str) -> Profile:
    """Return a profile by its name."""
    if name not in PROFILES:
        raise UnknownNameError(f"There is no profile {name!r}. Choose one of: {', '.join(PROFILES)}.")
    return PROFILES[name]
