"""Reading the lists of numbers that evaluations take; a single number is a list of one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from purigraph.errors import InputError
from purigraph.numbers import is_number, is_whole_number, read_seed


def read_numbers(values: Any, *, name: str) -> tuple[float, ...]:
    """Return finite numbers as a tuple of floats.

    >>> read_numbers(0.1, name="epsilons"), read_numbers([0, 0.5], name="epsilons")
    ((0.1,), (0, 0.5))
    """
    found = tuple(_plain(value) for value in _each(values, name, "a number or a list of numbers"))
    for value in found:
        if not is_number(value) or not math.isfinite(value):
            raise InputError(f"{name} must be a number or a list of numbers; {value!r} is not a finite number.")
    return found


def read_seeds(values: Any, *, name: str = "seeds") -> tuple[int, ...]:
    """Return whole numbers as a tuple of integers.

    >>> read_seeds(0), read_seeds(range(2))
    ((0,), (0, 1))
    """
    found = tuple(_plain(value) for value in _each(values, name, "a whole number or a list of whole numbers"))
    for value in found:
        if not is_whole_number(value):
            raise InputError(f"{name} must be a whole number or a list of whole numbers; {value!r} is not one.")
    return tuple(read_seed(value, name=name) for value in found)


def _each(values: Any, name: str, expected: str) -> Iterable[Any]:
    if is_number(values) or getattr(values, "ndim", None) == 0:
        return (values,)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be {expected}, not {values!r}.")
    return values


def _plain(value: Any) -> Any:
    """Return the number in a NumPy or PyTorch scalar."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
