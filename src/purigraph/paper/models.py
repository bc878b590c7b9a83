"""The models of an experiment: trained once for each configuration, kept in the store, and shared by all cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from purigraph import classifiers, datasets, purifiers, training
from purigraph.anchors import Anchor, Votes
from purigraph.errors import InputError
from purigraph.fingerprint import fingerprint
from purigraph.graph import as_pair_graph
from purigraph.graph.splits import InductiveSplit, inductive_split
from purigraph.paper.specs import AnchorSpec, ClassifierSpec, DefenceSpec, PurifierSpec, Spec
from purigraph.protection import protect
from purigraph.purifiers import Purifier
from purigraph.runs import Context, footprint, protocols
from purigraph.training.to_answers import answers_for_purifiers


@lru_cache(maxsize=4)
def split_of(dataset: str, seed: int) -> InductiveSplit:
    """Return the inductive split of a dataset, drawn with a seed."""
    return inductive_split(datasets.load(dataset, seed=seed))


@lru_cache(maxsize=256)
def split_hash(dataset: str, seed: int) -> str:
    """Return a hash of the graph and of the masks of its split."""
    data = datasets.load(dataset, seed=seed)
    graph = as_pair_graph(data)
    return fingerprint(graph.codes, data.x, data.y, data.train_mask, data.val_mask, data.test_mask)[:16]


@dataclass(frozen=True)
class Scene:
    """A split of a dataset on which models are trained and attacked.

    Attributes:
        dataset: The dataset's name.
        seed: The seed of the split, of the trainings and of the attacks.
        split_hash: The hash of the split that the cell was planned for.
        context: Where models are kept.
    """

    dataset: str
    seed: int
    split_hash: str
    context: Context

    @property
    def split(self) -> InductiveSplit:
        """Return the three graphs."""
        return split_of(self.dataset, self.seed)

    def subject(self, **specs: Spec | None) -> dict[str, Any]:
        """Return the configuration of something made on this split from some specifications."""
        given = {name: spec for name, spec in specs.items() if spec is not None}
        components = [name for spec in given.values() for name in spec.components()]
        return {
            "dataset": self.dataset,
            "seed": self.seed,
            "split": self.split_hash,
            **{name: spec.to_config() for name, spec in given.items()},
            "protocols": protocols(components),
        }


def raised(versions: Mapping[str, int]) -> dict[str, Any]:
    """Return the protocol versions above 1 for the configuration of something that does not name all components."""
    found = {name: version for name, version in versions.items() if version > 1}
    return {"raised": found} if found else {}


@dataclass(frozen=True)
class Defence:
    """A model to attack, and what it took to make it.

    Attributes:
        model: The model.
        costs: Seconds and megabytes of making every part, by its name.
        training: What is known of the trainings, by the part's name.
    """

    model: nn.Module
    costs: dict[str, dict[str, float | None]] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


def make_defence(spec: DefenceSpec, scene: Scene) -> Defence:
    """Return a defence, trained or from the store."""
    if spec.model is not None:
        return Defence(_call(spec.model, scene))
    assert spec.classifier is not None  # checked by `DefenceSpec.resolved`
    costs: dict[str, dict[str, float | None]] = {}
    facts: dict[str, Any] = {}

    def note(part: str, record: Mapping[str, Any]) -> None:
        if record:
            costs[part] = {"seconds": record["seconds"], "megabytes": record["megabytes"]}
            facts[part] = record["training"]

    purifier: Purifier | None = None
    if spec.purifier is not None:
        purifier, record = fitted_purifier(spec.purifier, scene, spec.classifier)
        note("purifier", record)
    classifier, record = trained_classifier(
        spec.classifier, scene, (spec.purifier, purifier) if spec.classifier.purified else None
    )
    note("classifier", record)
    anchor: Anchor | None = None
    if spec.anchor is not None:
        anchor, record = fitted_anchor(spec.anchor, spec.classifier, classifier, scene)
        note("anchor", record)
        if spec.votes:
            votes = Votes().fit(classifier, scene.split.train, anchor, scene.split.validation)
            facts["votes"] = dict(votes.provenance or {})
            return Defence(votes, costs, facts)
    if purifier is None and anchor is None:
        return Defence(classifier, costs, facts)
    # Typed loosely: which overload of `protect` it is depends on the row.
    options: dict[str, Any] = {"threshold": spec.threshold, "straight_through": spec.straight_through}
    put_together: Any = protect
    return Defence(put_together(classifier, purifier, anchor=anchor, **options), costs, facts)


def trained_classifier(
    spec: ClassifierSpec, scene: Scene, through: tuple[PurifierSpec | None, Purifier | None] | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    """Return a trained classifier and the record of its training.

    Args:
        spec: The classifier.
        scene: What it is trained on.
        through: The purifier that its training graphs go through. Default: none.
    """
    if spec.is_trained:
        return cast(nn.Module, classifiers.load(spec.name)), {}
    purifier_spec, purifier = (None, None) if through is None else through
    if through is not None and purifier is None:
        raise InputError(f"The classifier {spec.name} is trained on purified graphs, but there is no purifier.")

    def make(folder: Path, checkpoint: Path) -> Mapping[str, Any]:
        split, before = scene.split, 0.0
        if spec.teacher is not None:
            teacher, its_record = trained_classifier(spec.teacher, scene)
            before = its_record.get("seconds", 0.0)
            split = replace(split, train=training.pseudo_label(teacher, split.train))
        with footprint() as cost:
            result = (
                _all_labels(spec, scene, checkpoint).result()
                if spec.all_labels
                else training.train(
                    spec.name,
                    spec.regime,
                    split,
                    hyper=spec.hyper,
                    settings=spec.training,
                    purifier=purifier,
                    seed=scene.seed if spec.seed is None else spec.seed,
                    checkpoint=checkpoint,
                    progress=scene.context.progress,
                )
            )
        cast(Any, result.model).save_pretrained(folder / "model")
        # The result knows of the time before an interruption.
        seconds = before + max(cost.seconds, result.seconds)
        return {"seconds": seconds, "megabytes": cost.megabytes, "training": result.record()}

    place = scene.context.store.artefact("models", scene.subject(classifier=spec, through=purifier_spec))
    record = place.made(make)
    return cast(nn.Module, classifiers.load(place.folder / "model")), record


def fitted_purifier(
    spec: PurifierSpec, scene: Scene, classifier: ClassifierSpec | None = None
) -> tuple[Purifier, dict[str, Any]]:
    """Return a fitted purifier and the record of its fit.

    Args:
        spec: The purifier.
        scene: What it is fitted on.
        classifier: What is attacked, for a purifier that learns from attacks, or whose answers it compares. Default: a
            GCN.
    """
    if spec.then is not None:
        first, record = fitted_purifier(spec.model_copy(update={"then": None}), scene, classifier)
        then, own = fitted_purifier(spec.then, scene, classifier)
        return purifiers.Chain([first, *(then if isinstance(then, purifiers.Chain) else [then])]), _added(record, own)
    if spec.is_trained:
        return purifiers.load(spec.name), {}
    attacked: ClassifierSpec | None = None
    kind = purifiers.registry[spec.name]
    if kind.learns_from_attacks or kind.learns_from_answers:
        attacked = classifier or ClassifierSpec(name="gcn")
        if attacked.purified:
            raise InputError(f"{spec.name} learns from a classifier, which can't be trained on what it purifies.")

    def make(folder: Path, checkpoint: Path) -> Mapping[str, Any]:
        purifier = purifiers.create(spec.name, **spec.settings)
        options: dict[str, Any] = {"seed": scene.seed, "checkpoint": checkpoint, "progress": scene.context.progress}
        before = 0.0
        if attacked is not None:
            model, _ = trained_classifier(attacked, scene)
            if kind.learns_from_answers:
                options["answers"], before = _answers(spec, attacked, model, scene)
        with footprint() as cost:
            if attacked is not None and kind.learns_from_attacks:
                training.fit_against_attacks(purifier, scene.split, classifier=model, **options, **spec.fit)
            else:
                purifier.fit(scene.split.train, validation=scene.split.validation, **options, **spec.fit)
        purifier.save_pretrained(folder / "model")
        report = getattr(purifier, "report", None)
        seconds = before + max(cost.seconds, getattr(report, "seconds", None) or 0.0)
        facts = None if purifier.provenance is None else dict(purifier.provenance)
        return {"seconds": seconds, "megabytes": cost.megabytes, "training": facts}

    as_fitted = spec.model_copy(update={"afterwards": {}})
    place = scene.context.store.artefact("models", scene.subject(purifier=as_fitted, attacked=attacked))
    record = place.made(make)
    purifier: Any = purifiers.load(place.folder / "model")
    return purifier.with_settings(**spec.afterwards) if spec.afterwards else purifier, record


def _answers(
    purifier: PurifierSpec, classifier_spec: ClassifierSpec, classifier: nn.Module, scene: Scene
) -> tuple[Anchor, float]:
    """Return an anchor of a classifier for a purifier that compares answers, and the seconds that it took."""

    def untrained() -> Anchor:
        return Anchor(**purifier.answers) if purifier.answers else answers_for_purifiers()

    def make(folder: Path, checkpoint: Path) -> Mapping[str, Any]:
        with footprint() as cost:
            options: dict[str, Any] = {"seed": scene.seed, "progress": scene.context.progress}
            anchor = untrained().fit(classifier, scene.split.train, **options)
        anchor.save_pretrained(folder / "model")
        return {"seconds": cost.seconds}

    spec = AnchorSpec(settings=untrained().settings.to_json())
    place = scene.context.store.artefact("models", scene.subject(answers=classifier_spec, anchor=spec))
    record = place.made(make)
    return Anchor.from_pretrained(place.folder / "model"), record["seconds"]


def _added(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of two purifiers that were fitted one after the other."""
    if not first or not then:
        return {}
    sizes = [one["megabytes"] for one in (first, then) if one["megabytes"] is not None]
    return {
        "seconds": first["seconds"] + then["seconds"],
        "megabytes": max(sizes, default=None),
        "training": [first["training"], then["training"]],
    }


def fitted_anchor(
    spec: AnchorSpec, classifier_spec: ClassifierSpec, classifier: nn.Module, scene: Scene
) -> tuple[Anchor, dict[str, Any]]:
    """Return an anchor for a classifier and the record of its fit."""

    def make(folder: Path, checkpoint: Path) -> Mapping[str, Any]:
        with footprint() as cost:
            anchor = Anchor(**spec.settings).fit(
                classifier,
                scene.split.train,
                scene.split.validation,
                taught=_one_hot(scene.split.train.y) if spec.labels else None,
                teacher=None if spec.teacher is None else _all_labels(spec.teacher, scene, checkpoint),
                seed=scene.seed,
                progress=scene.context.progress,
                **spec.fit,
            )
        anchor.save_pretrained(folder / "model")
        return {"seconds": cost.seconds, "megabytes": cost.megabytes, "training": dict(anchor.provenance or {})}

    place = scene.context.store.artefact("models", scene.subject(anchor=spec, classifier=classifier_spec))
    record = place.made(make)
    return Anchor.from_pretrained(place.folder / "model"), record


def _all_labels(spec: ClassifierSpec, scene: Scene, checkpoint: Path) -> training.AllLabels:
    """Return a classifier that learns all labels; it is trained when it is asked."""
    return training.AllLabels(
        spec.name,
        scene.split,
        spec.regime,
        hyper=spec.hyper,
        settings=spec.training,
        seed=scene.seed if spec.seed is None else spec.seed,
        checkpoint=checkpoint,
        progress=scene.context.progress,
    )


def _one_hot(labels: Tensor) -> Tensor:
    return nn.functional.one_hot(labels.long()).float()


def _call(path: str, scene: Scene) -> nn.Module:
    """Return the model that a function of the caller's makes."""
    module, _, name = path.partition(":")
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"The model {path!r} can't be imported as module:function: {error}.") from None
    model = make(scene.split, scene.seed)
    if not isinstance(model, nn.Module):
        raise InputError(f"{path} returned a {type(model).__name__}, not a PyTorch module.")
    return model
