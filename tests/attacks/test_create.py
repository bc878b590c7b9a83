"""Attacks are values: made by name or class, checked, compared, printed and written as JSON."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from purigraph.attacks import LRBCD, PGD, PRBCD, Attack, RandomFlip, Scene, create, names, registry
from purigraph.errors import InputError, UnknownNameError
from purigraph.graph.perturbation import Perturbation
from purigraph.settings import setting


def test_values_are_checked() -> None:
    assert "epochs=4," in repr(create("prbcd", epochs=np.int64(4)))
    with pytest.raises(InputError, match="LRBCD: projection='far' is not valid: input should be 'nearest' or 'greedy'"):
        create("lrbcd", projection="far")
    with pytest.raises(InputError, match="rounding=1 is not valid"):
        create("pgd", rounding=1)
    with pytest.raises(InputError, match="no setting 'attack'"):
        create("pgd", attack="prbcd")
    with pytest.raises(InputError, match=r"PRBCD has no setting 'epoch'.*'epochs'"):
        create("prbcd", epoch=3)
    with pytest.raises(UnknownNameError, match="Did you mean 'prbcd'"):
        create("prbdc")
    with pytest.raises(UnknownNameError, match="no loss named 'hinge'"):
        create("prbcd", loss="hinge")
    with pytest.raises(InputError, match="already"):
        create(RandomFlip(), loss="margin")


def test_equal_settings_make_equal_attacks() -> None:
    one = PRBCD(epochs=3, loss="elu_margin")
    assert one == PRBCD(epochs=3, loss="elu-margin") == create("PRBCD", epochs=3, loss="elu-margin")
    assert hash(one) == hash(PRBCD(epochs=3, loss="elu-margin"))
    assert one != PRBCD(epochs=4, loss="elu-margin")
    assert PGD(epochs=3) != PRBCD(epochs=3)
    assert PRBCD(learning_factor=50) == PRBCD(learning_factor=50.0)
    assert one.replace(epochs=4) == PRBCD(epochs=4, loss="elu-margin")
    with pytest.raises(AttributeError):
        one.epochs = 5


@pytest.mark.parametrize("name", names())
def test_an_attack_can_be_made_again(name: str) -> None:
    attack = create(name, **registry[name].trial_settings)
    assert type(attack)(**attack.settings.values()) == attack
    assert create(name, **json.loads(json.dumps(attack.settings.to_json()))) == attack
    assert eval(repr(attack), {type(attack).__name__: type(attack)}) == attack
    assert pickle.loads(pickle.dumps(attack)) == copy.deepcopy(attack) == attack


def test_settings_are_declared_once() -> None:
    assert repr(PRBCD()).startswith("PRBCD(loss='tanh-margin', epochs=400, ")
    assert "local (float): The local share lambda" in (LRBCD.__doc__ or "")
    assert PGD().epochs == 200


def test_an_attack_of_another_package_says_what_it_can_do() -> None:
    """Nothing but `_run` is required of it; what it does not say is not assumed."""

    class Idle(Attack):
        """Does nothing."""

        patience: int = setting("For how long.", default=1, ge=1)

        def _run(self, scene: Scene) -> Perturbation:
            return Perturbation(scene.graph.num_nodes)

    assert not any((Idle.needs_gradient, Idle.knows_local_budgets, Idle.imposes_local_budget, Idle.keeps_checkpoints))
    assert create(Idle, patience=2).with_epochs(10) == Idle(patience=2)
    with pytest.raises(InputError, match="patience"):
        Idle(patience=0)


def test_what_the_attacks_can_do() -> None:
    def those(ability: str) -> set[str]:
        own = [name for name in names() if registry[name].__module__.startswith("purigraph.")]
        return {name for name in own if getattr(registry[name], ability)}

    assert those("needs_gradient") == {"prbcd", "lrbcd", "pgd"}
    assert those("knows_local_budgets") == {"lrbcd", "evolutionary", "dice", "random-flip"}
    assert those("imposes_local_budget") == {"lrbcd"}
    assert those("keeps_checkpoints") == {"prbcd", "lrbcd", "pgd", "evolutionary"}
