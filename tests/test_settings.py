"""One mechanism for all settings: declared once, checked however the object is made, shown in the same way."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Literal

import numpy as np
import pytest

import purigraph as pg
from purigraph import attacks, classifiers, purifiers, training
from purigraph.errors import InputError, UnknownNameError
from purigraph.losses import LossName
from purigraph.settings import Configured, Settings, describe, setting


class Oven(Settings):
    """How to bake."""

    minutes: int = setting("How long.", default=30, ge=1)
    heat: float = setting("How hot.", default=180.0, gt=0, le=300)
    mode: Literal["air", "grill"] = setting("In which way.", default="air")
    loss: LossName = setting("What is lost.", default="margin")


class Baker(Configured):
    """Bakes."""

    bread: str = setting("What.", kw_only=False)
    oven: Oven = setting("With what.", default=Oven())
    hands: int = setting("With how many.", default=2, ge=0)

    def _build(self) -> None:
        self.ready = f"{self.bread} by {self.hands}"


class Master(Baker):
    """Bakes with more hands."""

    hands: int = setting("With how many.", default=4, ge=0)


def test_defaults_repr_equality_and_json() -> None:
    assert repr(Oven()) == "Oven(minutes=30, heat=180.0, mode='air', loss='margin')"
    assert Oven(minutes=30) == Oven()
    assert Oven().replace(minutes=5) == Oven(minutes=5) != Oven()
    assert Oven().to_json() == {"minutes": 30, "heat": 180.0, "mode": "air", "loss": "margin"}
    assert Oven(**Oven(minutes=7).to_json()) == Oven(minutes=7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"minutes": 0}, "Oven: minutes=0 is not valid: input should be greater than or equal to 1"),
        ({"minutes": 2.5}, "minutes=2.5 is not valid"),
        ({"minutes": True}, "minutes=True is not valid"),
        ({"minutes": "5"}, "minutes='5' is not valid"),
        ({"minutes": 10**30}, "minutes is not valid: a whole number must be below 2\\^63"),
        ({"heat": float("nan")}, "heat=nan is not valid"),
        ({"mode": "steam"}, "mode='steam' is not valid: input should be 'air' or 'grill'"),
        ({"minute": 3}, "Oven has no setting 'minute': did you mean 'minutes'"),
        ({"zzz": 3}, "Oven has no setting 'zzz': it has: minutes, heat, mode, loss"),
        ({"loss": "margn"}, "no loss named 'margn'. Did you mean 'margin'"),
    ],
)
def test_what_is_wrong_is_said_however_it_is_made(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Oven(**values)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        Oven().replace(**values)
    with pytest.raises(InputError, match=message):
        Baker("rye", oven=values)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    assert Oven(minutes=np.int64(4), heat=np.float32(90)) == Oven(minutes=4, heat=90.0)


def test_names_are_kept_in_one_spelling() -> None:
    assert Oven(loss="Tanh_Margin").loss == "tanh-margin"
    assert attacks.create("prbcd", loss="tanh_margin") == attacks.create("PRBCD", loss="tanh-margin")


def test_a_component_is_its_settings() -> None:
    baker = Baker("rye", hands=3)
    assert (baker.bread, baker.hands, baker.ready) == ("rye", 3, "rye by 3")
    assert baker.settings == Baker(bread="rye", hands=3).settings
    assert repr(baker.settings) == f"Baker(bread='rye', oven={Oven()!r}, hands=3)"
    assert baker.replace(bread="wheat").ready == "wheat by 3"
    assert Master("rye").ready == "rye by 4"
    with pytest.raises(AttributeError):
        baker.hands = 7
    for same in (copy.deepcopy(baker), pickle.loads(pickle.dumps(baker))):
        assert same.settings == baker.settings


@pytest.mark.parametrize(
    ("arguments", "values", "message"),
    [
        ((), {}, "Baker: bread is missing"),
        (("rye", 2), {}, "Baker takes 1 positional arguments, not 2"),
        (("rye",), {"bread": "wheat"}, "bread is given twice"),
        (("rye",), {"hands": -1}, "hands=-1 is not valid"),
        (("rye",), {"feet": 2}, "Baker has no setting 'feet'"),
    ],
)
def test_wrong_components_say_so(arguments: tuple[object, ...], values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Baker(*arguments, **values)  # type: ignore[arg-type]


def test_a_setting_needs_a_type() -> None:
    with pytest.raises(TypeError, match="no type annotation"):
        type("Untyped", (Configured,), {"size": setting("How large.", default=1)})


def test_signatures_and_docstrings_tell_the_settings() -> None:
    parameters = inspect.signature(Baker).parameters
    assert list(parameters) == ["bread", "oven", "hands"]
    assert parameters["bread"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert parameters["hands"].default == 2
    assert "hands (int): With how many. Default: 4." in (Master.__doc__ or "")
    assert "mode ('air' | 'grill'): In which way. Default: 'air'." in (Oven.__doc__ or "")


def every_group() -> list[type[Settings]]:
    groups: list[type[Settings]] = [
        registry[name].settings_class
        for registry in (attacks.registry, classifiers.registry, purifiers.registry)
        for name in registry.names()
    ]
    groups += [purifiers.registry[name].fit_settings_class for name in purifiers.names()]
    return groups + [training.registry[name].settings for name in training.names()]


@pytest.mark.parametrize("group", every_group(), ids=lambda group: group.__name__)
def test_every_setting_is_documented(group: type[Settings]) -> None:
    for name, type_name, _, meaning in describe(group):
        assert meaning, f"{group.__name__}.{name} has no meaning"
        assert meaning[-1] == "."
        assert "FieldInfo" not in type_name


def test_what_there_is_not_is_named_with_all_that_there_is() -> None:
    with pytest.raises(UnknownNameError, match="no purifier named 'gpr'.*gpr-gae"):
        purifiers.create("gpr")
    with pytest.raises(InputError, match="already has its settings"):
        attacks.create(attacks.create("dice"), add_share=0.1)
    assert purifiers.create("GPR_GAE", hops=2).settings == pg.GPRGAE(hops=2).settings
