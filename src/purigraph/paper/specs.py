"""The models and attacks of an experiment as plain values: what rows and columns say, and what cells are hashed by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from purigraph.errors import InputError
from purigraph.paper.profiles import Profile
from purigraph.paper.published_settings import classifier_settings
from purigraph.registry import canonical


class Spec(BaseModel):
    """Base class of all of them. Only what differs from the defaults is part of a hash."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_config(self) -> dict[str, Any]:
        """Return the given values for a configuration."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def components(self) -> Iterator[str]:
        """Yield the names of the components whose protocol versions matter."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Spec):
                yield from value.components()


class Named(Spec):
    """A component by its name; a name alone will do where one is read."""

    name: str

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def components(self) -> Iterator[str]:
        """Yield its name, and what its parts need."""
        yield self.name
        yield from super().components()


class ClassifierSpec(Named):
    """A classifier and how it is trained.

    Attributes:
        name: One of `purigraph.classifiers.names()`; or a trained one, `hf://owner/name` or a folder.
        regime: One of `purigraph.training.names()`.
        hyper: Its hyper-parameters. Those of the paper on the dataset are added.
        training: The settings of the training.
        teacher: Another classifier, whose answers label the unlabelled training nodes. Default: none, or, in regimes
            that need labels, a first classifier of the same kind.
        all_labels: Train it on the labels of the validation nodes, too, for as many epochs as they choose
            (`purigraph.training.AllLabels`).
        purified: Train it on the graphs as the purifier of the same row leaves them, as DeepRobust does.
        seed: The seed of its training, if it is not that of the split.
    """

    regime: str = "vanilla"
    hyper: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    teacher: ClassifierSpec | None = None
    all_labels: bool = False
    purified: bool = False
    seed: int | None = None

    @property
    def is_trained(self) -> bool:
        """Return whether the name is that of a trained model."""
        return "/" in self.name

    def components(self) -> Iterator[str]:
        """Yield the classifier, its regime and the trainer; those of its teacher too."""
        yield from (self.name, f"regime {self.regime}", "training")
        if self.all_labels:
            yield "all labels"
        if self.teacher is not None:
            yield from self.teacher.components()

    def check_teaches(self) -> None:
        """Raise an error if it can't be trained by `purigraph.training.AllLabels`, which trains it as it is."""
        if self.is_trained or self.purified or self.teacher is not None:
            raise InputError(
                f"{self.name} is to learn all labels: give the name of a kind of classifier, without `purified` and "
                "`teacher`."
            )

    def resolved(self, profile: Profile, dataset: str) -> ClassifierSpec:
        """Return it with the hyper-parameters of the dataset and the lengths of the profile; everything is checked."""
        from purigraph import classifiers, training

        if self.all_labels:
            self.check_teaches()
        if self.is_trained:
            return self
        regime = training.registry[self.regime]
        hyper = {**classifier_settings(self.name, dataset), **self.hyper}
        classifiers.registry[self.name].settings_class(in_channels=1, out_channels=2, **hyper)
        settings = dict(self.training)
        if self.regime == "adversarial":
            # Cells are named by these values, so a setting that came later is among them only if it is given.
            chosen = training.PROFILES[profile.adversarial].to_json()
            del chosen["choose_from"]
            attack = {**chosen["attack"], **settings.pop("attack", {})}
            settings = {**chosen, **settings, "attack": attack}
        if profile.training_share != 1 and not (self.regime == "adversarial" and not profile.trial):
            settings["epochs"] = profile.epochs(regime.settings(**settings).values()["epochs"])
        if profile.trial and self.regime == "adversarial":
            settings |= {"clean_epochs": 1, "epochs": 2, "validate_every": 1}
            settings["attack"] = {**settings["attack"], "epochs": 2, "block_size": 1000}
        regime.settings(**settings)
        teacher = None if self.teacher is None else self.teacher.resolved(profile, dataset)
        found = {"name": canonical(self.name), "hyper": hyper, "training": settings, "teacher": teacher}
        return self.model_copy(update=found)


class PurifierSpec(Named):
    """A purifier and how it is fitted.

    Attributes:
        name: One of `purigraph.purifiers.names()`; or a fitted one, `hf://owner/name` or a folder.
        preset: One of its presets (`Purifier.presets`), which `settings` and `fit` add to.
        settings: Its settings.
        fit: The settings of `fit`.
        answers: For a purifier that compares answers, the settings of the anchor that gives them. Default: those of
            `purigraph.training.answers_for_purifiers`.
        afterwards: Settings that are changed after it was fitted (`with_settings`): variants share one training.
        then: Another purifier, which goes on with what this one leaves.
    """

    preset: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    answers: dict[str, Any] = Field(default_factory=dict)
    afterwards: dict[str, Any] = Field(default_factory=dict)
    then: PurifierSpec | None = None

    @property
    def is_trained(self) -> bool:
        """Return whether the name is that of a fitted purifier."""
        return "/" in self.name

    def components(self) -> Iterator[str]:
        """Yield the purifier, and the parts of a chain."""
        yield self.name
        for part in self.settings.get("parts", ()):
            yield part if isinstance(part, str) else part["purifier"]
        if self.then is not None:
            yield from self.then.components()

    def resolved(self, profile: Profile, dataset: str) -> PurifierSpec:
        """Return it with the lengths of the profile; everything is checked."""
        from purigraph import purifiers
        from purigraph.anchors import Anchor

        then = None if self.then is None else self.then.resolved(profile, dataset)
        if self.is_trained:
            return self.model_copy(update={"then": then})
        kind = purifiers.registry[self.name]
        settings, fit = dict(self.settings), dict(self.fit)
        if self.preset is not None:
            if canonical(self.preset) not in kind.presets:
                raise InputError(f"{self.name} has no preset {self.preset!r}: it has {', '.join(kind.presets)}.")
            preset = kind.presets[canonical(self.preset)]
            settings, fit = {**preset.shape, **settings}, {**preset.training, **fit}
        if profile.trial:
            settings, fit = {**kind.trial_settings, **settings}, {**fit, **kind.trial_fit}
        fields = kind.fit_settings_class.model_fields
        for name in ("epochs", "attack_epochs"):
            if name in fields and profile.training_share != 1:
                fit[name] = profile.epochs(fit.get(name, fields[name].default))
        if profile.trial and "attack_pairs" in fields:
            fit["attack_pairs"] = 3000
        kind(**{**settings, **self.afterwards})
        kind.fit_settings_class(**fit)
        if self.answers and not kind.learns_from_answers:
            raise InputError(f"{self.name} compares no answers: leave out `answers`.")
        Anchor(**self.answers)
        # The preset is named no more: what is hashed is what it says today.
        found = {"name": canonical(self.name), "preset": None, "settings": settings, "fit": fit, "then": then}
        return self.model_copy(update=found)


class AnchorSpec(Spec):
    """An anchor beside the classifier.

    Attributes:
        settings: Its settings.
        fit: The settings of `fit`.
        labels: Learn the labels of all trusted nodes, which no defender has, in place of the classifier's answers: a
            bound on what a better teacher could bring.
        teacher: A classifier that learns the labels of the validation nodes, too (`purigraph.training.AllLabels`), and
            teaches in the place of the one that is protected. Default: none.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    labels: bool = False
    teacher: ClassifierSpec | None = None

    def components(self) -> Iterator[str]:
        """Yield the anchor, and its teacher."""
        yield "anchor"
        if self.teacher is not None:
            yield "all labels"
            yield from self.teacher.components()

    def resolved(self, profile: Profile, dataset: str) -> AnchorSpec:
        """Return it with the lengths of the profile; everything is checked."""
        from purigraph.anchors import Anchor
        from purigraph.anchors.anchor import AnchorFitSettings

        fit = dict(self.fit)
        if profile.training_share != 1:
            fit["epochs"] = profile.epochs(AnchorFitSettings(**fit).values()["epochs"])
        Anchor(**self.settings)
        AnchorFitSettings(**fit)
        teacher = None
        if self.teacher is not None:
            if self.labels:
                raise InputError("An anchor learns from its teacher or from all labels there are: give one of them.")
            self.teacher.check_teaches()
            teacher = self.teacher.resolved(profile, dataset)
        return self.model_copy(update={"fit": fit, "teacher": teacher})


class AttackSpec(Named):
    """An attack at one budget.

    Attributes:
        name: One of `purigraph.attacks.names()`.
        epsilon: The budget.
        settings: Settings that differ from those of the form (`purigraph.paper.forms`).
    """

    epsilon: float
    settings: dict[str, Any] = Field(default_factory=dict)


class DefenceSpec(Spec):
    """A model to attack: a classifier, perhaps with a purifier in front of it or an anchor beside it.

    Attributes:
        model: A function of your own, `module:name`, called with the inductive split and a seed: it returns a module.
            In place of everything else.
        classifier: The classifier.
        purifier: The purifier.
        anchor: The anchor.
        votes: Let nodes of which the anchor is not sure be answered by bounded votes (`purigraph.Votes`), not by
            the classifier.
        threshold: Cut the edges whose purified weight is below this; see `purigraph.protect`.
        straight_through: Let gradients pass that cut.
    """

    model: str | None = None
    classifier: ClassifierSpec | None = None
    purifier: PurifierSpec | None = None
    anchor: AnchorSpec | None = None
    votes: bool = False
    threshold: float | None = None
    straight_through: bool = False

    def components(self) -> Iterator[str]:
        """Yield what its parts need."""
        yield from super().components()
        if self.model is not None:
            yield self.model
        if self.votes:
            yield "votes"

    def resolved(self, profile: Profile, dataset: str) -> DefenceSpec:
        """Return it with the lengths of the profile; everything is checked."""
        if (self.model is None) == (self.classifier is None):
            raise InputError("A defence is a classifier with what protects it, or a model of your own: give one.")
        if self.anchor is not None and self.classifier is not None and self.classifier.all_labels:
            raise InputError("An anchor's margin is chosen on validation nodes, which all_labels would have taught.")
        if self.votes and (self.anchor is None or self.purifier is not None):
            raise InputError("Votes need an anchor, and no purifier: their messages depend on no edge.")
        parts = {name: getattr(self, name) for name in ("classifier", "purifier", "anchor")}
        resolved = {name: part.resolved(profile, dataset) for name, part in parts.items() if part is not None}
        return self.model_copy(update=resolved)


def merged(*fragments: Mapping[str, Any]) -> dict[str, Any]:
    """Merge fragments of a configuration; later ones win, mappings are merged in turn.

    >>> merged({"attack": {"name": "prbcd"}}, {"attack": {"epsilon": 0.5}})
    {'attack': {'name': 'prbcd', 'epsilon': 0.5}}
    """
    result: dict[str, Any] = {}
    for fragment in fragments:
        for key, value in fragment.items():
            old = result.get(key)
            if isinstance(old, Mapping) and isinstance(value, Mapping):
                result[key] = merged(old, value)
            elif isinstance(old, str) and isinstance(value, Mapping) and "name" not in value:
                result[key] = {"name": old, **value}  # a component by its name alone, and more about it
            else:
                result[key] = value
    return result
