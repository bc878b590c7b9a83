"""How classifiers are trained, as data."""

from __future__ import annotations

from typing import Literal

from purigraph.losses import LossName
from purigraph.settings import Settings, setting


class TrainingSettings(Settings):
    """Training of a classifier; the defaults are those of the paper's text.

    Its code trains with cross-entropy, mostly without weight decay. Which of them to take was asked of validation nodes
    alone: on Cora, the best epoch was chosen on one half of them and the accuracy measured on the other, both ways, for
    GCN, GAT, GPRGNN, APPNP and EvenNet. On average over 5 seeds tanhMargin with a decay of 0.001 is 0.6 ± 0.6 points
    above cross-entropy without decay, and over 7 seeds 0.2 ± 0.6 above cross-entropy with 0.001: no difference that
    would speak against the text. (Accuracy on the very nodes that choose the epoch would flatter tanhMargin by
    another 0.7: it is the loss that comes nearest to accuracy.)
    """

    loss: LossName = setting("What is minimised, one of `purigraph.losses.names()`.", default="tanh-margin")
    learning_rate: float = setting("Of Adam.", default=0.01, gt=0, le=1000)
    weight_decay: float = setting("Of Adam, on all parameters.", default=0.001, ge=0, le=1000)
    epochs: int = setting("Training stops after so many epochs at the latest.", default=3000, ge=1)
    patience: int = setting("Stop after so many epochs without a lower validation loss.", default=200, ge=1)
    validate_every: int = setting("Validate every so many epochs.", default=1, ge=1)


class AttackSettings(Settings):
    """The attack that makes adversarial training graphs; no early stopping, no fine-tuning."""

    name: Literal["prbcd", "lrbcd"] = setting("Which attack.", default="prbcd")
    epsilon: float = setting("The budget, as a share of the edges at the attacked nodes.", default=0.2, ge=0)
    epochs: int = setting("Steps of the attack.", default=20, ge=1)
    block_size: int = setting("Pairs that the attack looks at.", default=1_000_000, ge=1)
    learning_factor: float | None = setting(
        "Of the attack's learning rate. None: 100 for PRBCD, 20 times that for LRBCD.", default=None, gt=0, le=1e9
    )
    loss: LossName = setting("What the attack maximises.", default="tanh-margin")
    projection: Literal["greedy", "nearest"] = setting("Of LRBCD.", default="greedy")


class AdversarialSettings(TrainingSettings):
    """Adversarial training; the defaults are the paper's."""

    clean_epochs: int = setting("Epochs on the clean graph, before the first attack.", default=10, ge=0)
    attack: AttackSettings = setting("The attack.", default=AttackSettings())

    def clean(self) -> TrainingSettings:
        """Of the first classifier, which gives the pseudo-labels: without attacks, and with time to converge."""
        shared = ("loss", "learning_rate", "weight_decay", "patience")
        return TrainingSettings(**{name: getattr(self, name) for name in shared})


#: Adversarial training as the paper does it, and for a machine without a GPU.
PROFILES: dict[str, AdversarialSettings] = {
    "paper": AdversarialSettings(),
    "cpu": AdversarialSettings(
        epochs=300, validate_every=5, attack=AttackSettings(block_size=50_000, projection="nearest")
    ),
}
