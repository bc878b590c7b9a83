"""A student that sees features only, distilled from a classifier on a trusted graph."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.anchors.distillation import (
    DistillationSettings,
    cross_entropy,
    distil,
    mean_probabilities,
    predict_logits,
    students_logits,
    untrained_students,
)
from purigraph.anchors.margin import Harm, smallest_margin
from purigraph.errors import InputError, NotFittedError
from purigraph.kernels import Features
from purigraph.metrics import gaps
from purigraph.pretrained import Pretrained, SavedComponents
from purigraph.progress import progress as show_progress
from purigraph.settings import setting

# The temperatures that calibration chooses among.
_TEMPERATURES = torch.logspace(-1, 1, 41, base=2.0).tolist()


class AnchorFitSettings(DistillationSettings):
    """How an anchor is distilled and how its margin is chosen."""

    folds: int = setting("Parts of the trusted nodes that are held out in turn.", default=4, ge=2)
    give_up: float = setting(
        "How many points of clean accuracy below the classifier alone are acceptable, in percent.", default=2.0, ge=0
    )
    exposed: float | None = setting(
        "Choose the margin by the share of nodes that may be exposed instead of by `give_up`.", default=None, ge=0, le=1
    )


class Anchor(Pretrained):
    r"""An ensemble of MLPs on node features, distilled from a classifier's soft predictions; it never sees an edge.

    With the classifier's predictions $t_v$ on the trusted graph, every student minimises
    $-\sum_v t_v \cdot \log \mathrm{softmax}(g(x_v))$ over the trusted nodes, as GLNN
    (`Zhang et al. 2022 <https://arxiv.org/abs/2110.08727>`_) does for speed. The answer is the mean of the students'
    probabilities, at one temperature. No labels are used.

    The anchor is sure of a node if the gap between its two largest probabilities is at least `margin`. There its answer
    stands, whatever happens to the edges; see `Certificate`. Temperature and margin come from cross-fitting: every
    trusted node is judged by an ensemble that was distilled without it.
    """

    in_channels: int | None = setting("F, the number of features; None until `fit`.", default=None, ge=1)
    out_channels: int | None = setting("C, the number of classes; None until `fit`.", default=None, ge=1)
    members: int = setting("The number of students.", default=3, ge=1)
    hidden_channels: int = setting("The width of their hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of their layers.", default=2, ge=1)
    dropout: float = setting("The dropout rate before every layer.", default=0.5, ge=0, lt=1)
    temperature: float = setting("Logits are divided by this; chosen by `fit`.", default=1.0, gt=0)
    margin: float = setting(
        "How large the gap between the two largest probabilities must be for the anchor to be sure; chosen by `fit`. "
        "Above 1 it is never sure.",
        default=2.0,
        ge=0,
    )

    trial_settings = MappingProxyType({"members": 1, "hidden_channels": 8})

    def _build(self) -> None:
        self.students = nn.ModuleList()
        if self.in_channels is not None and self.out_channels is not None:
            self.reset(self.in_channels, self.out_channels, seed=0)

    def reset(self, in_channels: int, out_channels: int, *, seed: int) -> None:
        """Make the students anew, with random initial values."""
        self._settings = self._settings.replace(in_channels=in_channels, out_channels=out_channels)
        self.provenance = None
        self.students = self._untrained(seed)

    def _untrained(self, seed: int) -> nn.ModuleList:
        assert self.in_channels is not None  # set by reset
        assert self.out_channels is not None
        shape = {"hidden_channels": self.hidden_channels, "num_layers": self.num_layers, "dropout": self.dropout}
        return untrained_students(self.members, self.in_channels, self.out_channels, seed=seed, **shape)

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has run, here or before it was saved."""
        return self.provenance is not None

    def fit(
        self,
        classifier: nn.Module,
        trusted: Data,
        validation: Data | None = None,
        *,
        seed: int = 0,
        progress: bool | None = None,
        **settings: Any,
    ) -> Anchor:
        """Distil the classifier on a trusted graph and choose temperature and margin.

        Args:
            classifier: A trained classifier, called as `(x, edge_index)` or with `edge_weight` if `trusted` has some.
            trusted: x, edge_index, edge_weight if any: a graph that nobody hostile has edited. Labels are not read.
            validation: A graph with labelled nodes (`y`, `val_mask`) that the classifier was not trained on, on which
                the margin is chosen by accuracy. Default: it is chosen on trusted nodes by the share of changed
                answers, which bounds the loss of accuracy.
            seed: The seed of folds, initial values and dropout.
            progress: Whether to report progress on the error stream. Default: only if it takes long.
            **settings: Those of `AnchorFitSettings`: give_up, exposed, epochs, ...

        Returns:
            Itself; `provenance` records how it went.
        """
        options = AnchorFitSettings(**settings)
        taught = predict_logits(classifier, trusted).softmax(1)
        features = Features(trusted.x)
        fold = torch.randperm(len(taught), generator=torch.Generator().manual_seed(seed)) % options.folds
        self.reset(trusted.x.shape[1], taught.shape[1], seed=seed)
        unseen = taught.new_empty(self.members, *taught.shape)
        with show_progress("Anchor", options.folds + 1, progress) as report:
            for index in range(options.folds):
                held_out = (fold == index).to(taught.device)
                students = self._untrained(seed + 1_000_003 * (index + 1)).to(trusted.x.device, trusted.x.dtype)
                distil(students, features, taught, ~held_out, options, seed + 1_000_003 * (index + 1))
                unseen[:, held_out] = students_logits(students, features)[:, held_out]
                report.update(index + 1)
            self.students.to(trusted.x.device, trusted.x.dtype)
            distil(self.students, features, taught, torch.ones_like(fold, dtype=torch.bool), options, seed)
            report.update(options.folds + 1)
        temperature = min(_TEMPERATURES, key=lambda value: cross_entropy(mean_probabilities(unseen, value), taught))
        self._settings = self._settings.replace(temperature=temperature)
        own = mean_probabilities(unseen, temperature)
        margin, estimate = self._choose(options, classifier, own, taught, validation)
        self._settings = self._settings.replace(margin=margin)
        self.provenance = {
            "settings": options.to_json(),
            "seed": seed,
            "agreement": float((own.argmax(1) == taught.argmax(1)).double().mean()),
            "trusted_nodes": len(taught),
            **estimate,
            "purigraph_version": __version__,
        }
        return self.eval()

    def _choose(
        self, options: AnchorFitSettings, classifier: nn.Module, own: Tensor, taught: Tensor, validation: Data | None
    ) -> tuple[float, dict[str, Any]]:
        """Choose the margin; return it with what is known about what it costs."""
        gap, changed = gaps(own), (own.argmax(1) != taught.argmax(1)).double()
        if options.exposed is not None:
            margin = float(torch.quantile(gap, options.exposed)) if options.exposed < 1 else 2.0
            return margin, {"chosen_by": "exposed"}
        if validation is None:
            return smallest_margin(gap, changed, options.give_up / 100), {"chosen_by": "changed answers"}
        nodes = validation.val_mask.nonzero().squeeze(1)
        if len(nodes) == 0:
            raise InputError("validation.val_mask is empty: give a graph with labelled validation nodes, or none.")
        labels = validation.y[nodes]
        anchored, classified = self(validation.x)[nodes], predict_logits(classifier, validation)[nodes]
        ours, theirs = anchored.argmax(1) == labels, classified.argmax(1) == labels
        # A few labelled nodes can't tell the loss at every margin, but how large it is in all; the many trusted nodes
        # tell how gaps are distributed.
        harm = Harm.fit(gaps(anchored), theirs.double() - ours.double())
        expected = harm(gap)
        margin = smallest_margin(gap, expected, options.give_up / 100)
        paired = theirs.double() - torch.where(gaps(anchored) >= margin, ours, theirs).double()
        return margin, {
            "chosen_by": "validation",
            "harm_at_no_gap": harm.at_no_gap,
            "expected_loss": 100 * float(expected[gap >= margin].sum() / len(gap)),
            "given_up": 100 * float(paired.mean()),
            "standard_error": 100 * float(paired.std(unbiased=False) / len(nodes) ** 0.5),
        }

    def forward(self, x: Tensor | Features) -> Tensor:
        """Return calibrated probabilities (N, C) from features (N, F) alone; always in inference mode."""
        if not self.students:
            raise NotFittedError("This Anchor is not fitted yet: call fit(classifier, trusted), or load one.")
        features = x if isinstance(x, Features) else Features.of(x)
        return mean_probabilities(students_logits(self.students, features), self.temperature)

    def sure(self, probabilities: Tensor) -> Tensor:
        """Return for which nodes, (N,) bool, the anchor's answer stands."""
        return gaps(probabilities) >= self.margin

    def with_margin(self, margin: float) -> Anchor:
        """Return the same anchor with another margin; the members are shared, not copied."""
        other = type(self)(**{**self.settings.values(), "margin": margin, "in_channels": None, "out_channels": None})
        other._settings = self.settings.replace(margin=margin)
        other.students, other.provenance = self.students, self.provenance
        return other

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        record = self.provenance or {}
        cost = ""
        if "given_up" in record:
            given, error = record["given_up"], record["standard_error"]
            cost = f"; on validation nodes that gives up {given:.1f} ± {error:.1f} points of clean accuracy"
        return (
            f"Distilled from {record.get('trusted_nodes', 0)} nodes; on nodes that it has not seen it agrees with the "
            f"classifier in {100 * record.get('agreement', float('nan')):.1f} %. Margin {self.margin:.3g}{cost}."
        )


registry: SavedComponents[Anchor] = SavedComponents("anchor", "purigraph.anchors")
registry.register("distilled")(Anchor)
Anchor.registry = registry
