"""A student that sees features only, distilled from a classifier on a trusted graph."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.anchors.distillation import DistillationSettings, cross_entropy, mean_probabilities, predict_logits
from purigraph.anchors.lessons import Lessons, labelled_nodes
from purigraph.anchors.margin import Harm, class_weights, smallest_margin
from purigraph.anchors.students import MLPStudents, Student
from purigraph.anchors.teachers import Teacher, parts_of
from purigraph.anchors.topic_regression import TopicRegression
from purigraph.errors import NotFittedError
from purigraph.kernels import Features
from purigraph.memo import Memo
from purigraph.metrics import gaps
from purigraph.pretrained import Pretrained, SavedComponents
from purigraph.progress import progress as show_progress
from purigraph.settings import setting

# How many nodes, if there are as many, tell which student is the better one.
_ENOUGH_NODES = 1000
# The temperatures that calibration chooses among.
_TEMPERATURES = torch.logspace(-7, 1, 161, base=2.0).tolist()


class AnchorFitSettings(DistillationSettings):
    """How an anchor is distilled and how its margin is chosen."""

    folds: int = setting("Parts of the trusted nodes that are held out in turn.", default=4, ge=2)
    give_up: float = setting(
        "How many points of clean accuracy below the classifier alone are acceptable, in percent.", default=2.0, ge=0
    )
    exposed: float | None = setting(
        "Choose the margin by the share of nodes that may be exposed instead of by `give_up`.", default=None, ge=0, le=1
    )
    learn_labels: bool = setting(
        "Learn from the labels of the validation nodes, too: correct the classifier's answers around them, and learn "
        "on the validation graph, which must hold the trusted one.",
        default=False,
    )
    class_shares: bool = setting(
        "Weigh validation nodes by how frequent their classes are among the trusted nodes, by the answers to learn. "
        "For validation nodes that were drawn class by class: rare classes count too much among them.",
        default=False,
    )


class Anchor(Pretrained):
    r"""A student of a classifier that answers from a node's own features; it never sees an edge that can be edited.

    It learns the classifier's soft predictions on the trusted graph, without labels, unless it is asked to learn those
    of validation nodes, too (`learn_labels`, see `corrected`). It is a `TopicRegression`, which
    learns from the edges of the trusted graph which words belong together, or, where neighbours are not alike, an
    ensemble of MLPs, as GLNN (`Zhang et al. 2022 <https://arxiv.org/abs/2110.08727>`_) distils one for speed. The
    answer is the softmax of its scores, at one temperature.

    The anchor is sure of a node if the gap between its two largest probabilities is at least `margin`. There its answer
    stands, whatever happens to the edges; see `Certificate`. Temperature and margin come from cross-fitting: every
    trusted node is judged by an ensemble that was distilled without it.
    """

    in_channels: int | None = setting("F, the number of features; None until `fit`.", default=None, ge=1)
    out_channels: int | None = setting("C, the number of classes; None until `fit`.", default=None, ge=1)
    student: Literal["auto", "topics", "mlp"] = setting(
        "topics, a regression on words and topics, or mlp; auto is replaced by `fit`: topics, unless MLPs agree with "
        "the classifier significantly more often at nodes that neither has seen.",
        default="auto",
    )
    topics: int = setting("Topics of the regression; `fit` takes no more than there are features.", default=64, ge=1)
    landmarks: int = setting(
        "Landmarks of the regression; `fit` takes no more than a quarter of the nodes.", default=256, ge=1
    )
    members: int = setting("The number of MLPs.", default=3, ge=1)
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

    trial_settings = MappingProxyType({"topics": 4, "landmarks": 8})

    def _build(self) -> None:
        self.answering: Student | None = None
        self._answers: Memo[Tensor] = Memo()
        if self.in_channels is not None and self.out_channels is not None:
            self.answering = self._untrained(self.student, DistillationSettings(), seed=0)

    def _untrained(self, kind: str, options: DistillationSettings, *, seed: int) -> Student:
        assert self.in_channels is not None  # set by fit, or by whoever loads it
        assert self.out_channels is not None
        if kind != "mlp":
            sizes = {"topics": self.topics, "landmarks": self.landmarks}
            return TopicRegression(self.in_channels, self.out_channels, **sizes)
        shape = {"hidden_channels": self.hidden_channels, "num_layers": self.num_layers, "dropout": self.dropout}
        return MLPStudents(self.in_channels, self.out_channels, self.members, options, seed=seed, **shape)

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
        taught: Tensor | None = None,
        teacher: Teacher | None = None,
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
            taught: (N, C) what to learn about the trusted nodes, rows that sum to 1, for whoever knows better than the
                classifier. Default: the classifier's own probabilities.
            teacher: Who learns the labels of the validation nodes, too, and teaches the students in the classifier's
                place, such as `purigraph.training.AllLabels`. The margin is chosen by students of teachers who have
                not heard the label of the node that they are judged by.
            seed: The seed of folds, initial values and dropout.
            progress: Whether to report progress on the error stream. Default: only if it takes long.
            **settings: Those of `AnchorFitSettings`: give_up, exposed, epochs, ...

        Returns:
            Itself; `provenance` records how it went.
        """
        options = AnchorFitSettings(**settings)
        # An exposed share is chosen without labels.
        labelled = None if validation is None or options.exposed is not None else labelled_nodes(validation)
        lessons = Lessons.of(
            classifier, trusted, validation, taught=taught, teacher=teacher, learn_labels=options.learn_labels
        )
        given = taught is not None
        taught = lessons.whole()
        fold = lessons.folds(options.folds, seed)
        self._settings = self._settings.replace(
            in_channels=trusted.x.shape[1],
            out_channels=taught.shape[1],
            topics=min(self.topics, trusted.x.shape[1]),
            landmarks=max(min(self.landmarks, len(taught) // 4), 1),
        )
        self.provenance, self.answering, self._answers = None, None, Memo()
        if self.student == "auto":
            self._settings = self._settings.replace(student=self._better_student(lessons, options, fold, seed))
        unseen = self._cross_fit(lessons, options, fold, seed, progress)
        temperature = min(_TEMPERATURES, key=lambda value: cross_entropy(mean_probabilities(unseen, value), taught))
        self._settings = self._settings.replace(temperature=temperature)
        own = mean_probabilities(unseen, temperature)
        if labelled is None or validation is None:
            margin, estimate = self._choose(options, own, taught)
        else:
            if lessons.labels_are_learned:
                anchored = self._without_their_labels(lessons, options, labelled, seed)
            else:
                anchored = self(validation.x)[labelled]
            classified = predict_logits(classifier, validation)[labelled]
            margin, estimate = self._choose(options, own, taught, (anchored, classified, validation.y[labelled]))
        self._settings = self._settings.replace(margin=margin)
        self.provenance = {
            "settings": options.to_json(),
            "seed": seed,
            "student": self.student,
            "teacher": ("given answers" if given else "the classifier") if teacher is None else _name(teacher),
            "agreement": float((own.argmax(1) == taught.argmax(1)).double().mean()),
            "trusted_nodes": len(taught),
            **estimate,
            "purigraph_version": __version__,
        }
        return self.eval()

    def _learned(
        self, lessons: Lessons, options: AnchorFitSettings, seen: Tensor, seed: int, kind: str | None = None
    ) -> Student:
        """Return a student that has learned about the nodes that are seen, (N,) bool, and heard of no other."""
        x = lessons.trusted.x
        student = self._untrained(kind or self.student, options, seed=seed).to(x.device, x.dtype)
        student.learn(lessons.trusted, lessons.without(~seen), seen, seed=seed)
        return student

    def _better_student(self, lessons: Lessons, options: AnchorFitSettings, fold: Tensor, seed: int) -> str:
        """Return the kind of student that knows more about nodes that it has not seen; MLPs only if it is certain."""
        features, taught = Features.of(lessons.trusted.x), lessons.whole()
        # As many folds as it takes to compare enough nodes.
        compared = range(min(math.ceil(_ENOUGH_NODES * options.folds / len(lessons)), options.folds))

        def unseen_answers(kind: str) -> Tensor:
            scores = [
                self._learned(lessons, options, fold != index, seed, kind)(features)[:, fold == index]
                for index in compared
            ]
            return mean_probabilities(torch.cat(scores, dim=1)).argmax(1)

        wanted = torch.cat([taught[fold == index].argmax(1) for index in compared])
        return "mlp" if _agrees_more(unseen_answers("mlp"), unseen_answers("topics"), wanted) else "topics"

    def _cross_fit(
        self, lessons: Lessons, options: AnchorFitSettings, fold: Tensor, seed: int, progress: bool | None
    ) -> Tensor:
        """Let the student learn all nodes; return the scores (S, N, C) of others, at nodes that they have not seen."""
        features, parts = Features.of(lessons.trusted.x), []
        with show_progress("Anchor", options.folds + 1, progress) as report:
            for index in range(options.folds):
                student = self._learned(lessons, options, fold != index, _fold_seed(seed, index))
                parts.append(student(features)[:, fold == index])
                report.update(index + 1)
            self.answering = self._learned(lessons, options, torch.ones_like(fold, dtype=torch.bool), seed)
            report.update(options.folds + 1)
        # The parts are in the order of the folds.
        return torch.cat(parts, dim=1)[:, torch.argsort(torch.argsort(fold, stable=True))]

    def _without_their_labels(self, lessons: Lessons, options: AnchorFitSettings, nodes: Tensor, seed: int) -> Tensor:
        """Return probabilities (M, C) at labelled nodes (M,), by students that have not learned their labels."""
        features = Features.of(lessons.trusted.x)
        found: Tensor = self(lessons.trusted.x)[nodes]
        for index in range(options.folds):
            part = parts_of(len(nodes), options.folds) == index
            seen = torch.ones(len(lessons), dtype=torch.bool)
            seen[nodes[part].cpu()] = False
            scores = self._learned(lessons, options, seen, _fold_seed(seed, index))(features)[:, nodes[part]]
            found[part] = mean_probabilities(scores, self.temperature)
        return found

    def _choose(
        self,
        options: AnchorFitSettings,
        own: Tensor,
        taught: Tensor,
        judged: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> tuple[float, dict[str, Any]]:
        """Choose the margin; return it with what is known about what it costs.

        Args:
            options: What may be given up.
            own: (N, C) answers to nodes that were held out.
            taught: (N, C) what was to be learned about them.
            judged: Answers of the anchor and of the classifier, (M, C) each, to nodes with labels, (M,).
        """
        gap, changed = gaps(own), (own.argmax(1) != taught.argmax(1)).double()
        if options.exposed is not None:
            margin = float(torch.quantile(gap, options.exposed)) if options.exposed < 1 else 2.0
            return margin, {"chosen_by": "exposed"}
        if judged is None:
            return smallest_margin(gap, changed, options.give_up / 100), {"chosen_by": "changed answers"}
        anchored, classified, labels = judged
        ours, theirs = anchored.argmax(1) == labels, classified.argmax(1) == labels
        weight = class_weights(labels, taught) if options.class_shares else torch.ones(len(labels)).to(own)
        # A few labelled nodes can't tell the loss at every margin, but how large it is in all; the many trusted nodes
        # tell how gaps are distributed.
        harm = Harm.fit(gaps(anchored), theirs.double() - ours.double(), weight)
        expected = harm(gap)
        margin = smallest_margin(gap, expected, options.give_up / 100)
        paired = theirs.double() - torch.where(gaps(anchored) >= margin, ours, theirs).double()
        return margin, {
            "chosen_by": "validation",
            "harm_at_no_gap": harm.at_no_gap,
            "expected_loss": 100 * float(expected[gap >= margin].sum() / len(gap)),
            **_weighted_mean(paired, weight),
        }

    def forward(self, x: Tensor | Features) -> Tensor:
        """Return calibrated probabilities (N, C) from features (N, F) alone; always in inference mode."""
        if self.answering is None:
            raise NotFittedError("This Anchor is not fitted yet: call fit(classifier, trusted), or load one.")
        if isinstance(x, Features):
            return self._softened(x)
        # The edges change far more often than the features do.
        known = self._answers.get(x, self.temperature)
        if known is None:
            known = self._softened(Features.of(x))
            self._answers.put(x, known, self.temperature)
        return known

    def _softened(self, features: Features) -> Tensor:
        assert self.answering is not None  # checked by forward
        with torch.no_grad():
            return mean_probabilities(self.answering(features), self.temperature)

    def differentiable(self, x: Tensor) -> Tensor:
        """Return the same probabilities (N, C) for dense x (N, F), with gradients with respect to it."""
        if self.answering is None:
            raise NotFittedError("This Anchor is not fitted yet: call fit(classifier, trusted), or load one.")
        return mean_probabilities(self.answering.differentiable(x), self.temperature)

    def sure(self, probabilities: Tensor) -> Tensor:
        """Return for which nodes, (N,) bool, the anchor's answer stands."""
        return gaps(probabilities) >= self.margin

    def with_margin(self, margin: float) -> Anchor:
        """Return the same anchor with another margin; the student is shared, not copied."""
        other = type(self)(**{**self.settings.values(), "margin": margin, "in_channels": None, "out_channels": None})
        other._settings = self.settings.replace(margin=margin)
        other.answering, other.provenance = self.answering, self.provenance
        other._answers = self._answers
        return other

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        record = self.provenance or {}
        cost = ""
        if "given_up" in record:
            given, error = record["given_up"], record["standard_error"]
            cost = f"; on validation nodes that gives up {given:.1f} ± {error:.1f} points of clean accuracy"
        teacher, agreement = record.get("teacher", "the classifier"), 100 * record.get("agreement", float("nan"))
        return (
            f"Distilled from {record.get('trusted_nodes', 0)} nodes; on nodes that it has not seen it agrees with "
            f"{teacher} in {agreement:.1f} %. Margin {self.margin:.3g}{cost}."
        )


def _weighted_mean(paired: Tensor, weight: Tensor) -> dict[str, float]:
    """Return the weighted mean of differences (M,), in percent, and its standard error."""
    share = weight.double() / weight.double().sum()
    mean = (share * paired).sum()
    error = (share * (paired - mean)).square().sum().sqrt()
    return {"given_up": 100 * float(mean), "standard_error": 100 * float(error)}


def _name(teacher: Teacher) -> str:
    """Return a name for the record: what the teacher calls itself, if it does."""
    named = type(teacher).__str__ is not object.__str__
    return str(teacher) if named else type(teacher).__name__


def _fold_seed(seed: int, index: int) -> int:
    return seed + 1_000_003 * (index + 1)


def _agrees_more(first: Tensor, second: Tensor, wanted: Tensor) -> bool:
    """Return whether answers (M,) are those wanted more often than others are, by more than two standard errors."""
    difference = (first == wanted).double() - (second == wanted).double()
    return float(difference.mean()) > 2 * float(difference.std(unbiased=False)) / math.sqrt(max(len(wanted), 1))


registry: SavedComponents[Anchor] = SavedComponents("anchor", "purigraph.anchors")
registry.register("distilled")(Anchor)
Anchor.registry = registry
