"""How classifiers are trained, as data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from purigraph.settings import Settings


class TrainingSettings(Settings):
    """Training of a classifier; the defaults are those of the paper's text.

    Its code trains with cross-entropy, mostly without weight decay. Which of them to take was asked of validation nodes
    alone: on Cora, the best epoch was chosen on one half of them and the accuracy measured on the other, both ways, for
    GCN, GAT, GPRGNN, APPNP and EvenNet. On average over 5 seeds tanhMargin with a decay of 0.001 is 0.6 ± 0.6 points
    above cross-entropy without decay, and over 7 seeds 0.2 ± 0.6 above cross-entropy with 0.001: no difference that
    would speak against the text. (Accuracy on the very nodes that choose the epoch would flatter tanhMargin by
    another 0.7: it is the loss that comes nearest to accuracy.)
    """

    loss: Literal["tanh_margin", "cross_entropy"] = "tanh_margin"
    learning_rate: float = Field(0.01, gt=0)
    weight_decay: float = Field(0.001, ge=0)
    max_epochs: int = Field(3000, ge=1)
    patience: int = Field(200, ge=1)  # stop after so many epochs without a lower validation loss
    validate_every: int = Field(1, ge=1)


class AttackSettings(Settings):
    """The attack that makes adversarial training graphs; no early stopping, no fine-tuning."""

    name: Literal["prbcd", "lrbcd"] = "prbcd"
    epsilon: float = Field(0.2, ge=0)
    epochs: int = Field(20, ge=1)
    block_size: int = Field(1_000_000, ge=1)
    learning_factor: float | None = Field(None, gt=0)  # 100 for PRBCD, 20 times that for LRBCD when left out
    loss: str = "tanh_margin"
    projection: Literal["greedy", "nearest"] = "greedy"  # of LRBCD


class AdversarialSettings(TrainingSettings):
    """Adversarial training; the defaults are the paper's."""

    clean_epochs: int = Field(10, ge=0)  # these come first, without adversarial graphs
    attack: AttackSettings = AttackSettings()

    def clean(self) -> TrainingSettings:
        """Of the first classifier, which gives the pseudo-labels: without attacks, and with time to converge."""
        shared = ("loss", "learning_rate", "weight_decay", "patience")
        return TrainingSettings(**{name: getattr(self, name) for name in shared})


#: Adversarial training as the paper does it, and for a machine without a GPU.
PROFILES: dict[str, AdversarialSettings] = {
    "paper": AdversarialSettings(),
    "cpu": AdversarialSettings(
        max_epochs=300, validate_every=5, attack=AttackSettings(block_size=50_000, projection="nearest")
    ),
}
