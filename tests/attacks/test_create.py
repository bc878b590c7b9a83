"""Attacks by name: their settings are checked, and kept as they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import BaseModel

from purigraph.attacks import RandomFlip, create
from purigraph.errors import InputError

if TYPE_CHECKING:
    from decimal import Decimal


class _Shape(BaseModel):
    width: int


class _Foreign(RandomFlip):
    """An attack of another package, with annotations that can't be checked here."""

    def __init__(self, *, shape: _Shape | None = None, plain: Any = None) -> None:
        super().__init__()
        self.shape, self.plain = shape, plain


class _Unresolved(RandomFlip):
    def __init__(self, *, share: Decimal | float = 0.5) -> None:
        super().__init__()
        self.share = share


def test_values_are_checked_but_not_changed() -> None:
    assert "learning_factor=50," in repr(create("prbcd", learning_factor=50))
    assert "epochs=4," in repr(create("prbcd", epochs=np.int64(4)))
    with pytest.raises(InputError, match="LRBCD: projection='far' is not valid: input should be 'nearest' or 'greedy'"):
        create("lrbcd", projection="far")
    with pytest.raises(InputError, match="rounding=1 is not valid"):
        create("pgd", rounding=1)
    with pytest.raises(InputError, match=r"no settings \['attack'\]"):
        create("pgd", attack="prbcd")


def test_foreign_attacks_may_be_annotated_as_they_like() -> None:
    shape = _Shape(width=3)
    found = create(_Foreign, shape=shape, plain=object)
    assert isinstance(found, _Foreign)
    assert found.shape is shape
    found = create(_Unresolved, share=0.25)
    assert isinstance(found, _Unresolved)
    assert found.share == 0.25


def test_a_type_with_rules_of_its_own_is_left_to_the_attack() -> None:
    class Strict(RandomFlip):
        def __init__(self, *, shape: _Shape) -> None:
            super().__init__()
            self.shape = shape

    Strict.__init__.__annotations__["shape"] = _Shape
    assert isinstance(create(Strict, shape=_Shape(width=1)), Strict)
