"""Numbers that callers pass, read and checked in one place."""

from __future__ import annotations

import numbers
import operator
from typing import Any

from purigraph.errors import InputError

#: PyTorch's seeds end at 2^63; what is derived from a seed (one for every restart, say) must not exceed that.
LARGEST_SEED = 2**62


def read_integer(
    value: Any, *, name: str, least: int = 0, most: int | None = None, error: type[InputError] = InputError
) -> int:
    """Return a whole number as a Python integer.

    Args:
        value: An integer of Python, NumPy or PyTorch. True and False are none.
        name: The name of the argument, for messages.
        least: The smallest possible value. Default: 0.
        most: The largest possible value. Default: any.
        error: The class of the error. Default: `InputError`.

    >>> read_integer(-1, name="seed", most=9)
    Traceback (most recent call last):
        ...
    purigraph.errors.InputError: seed must be a whole number from 0 to 9, not -1.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be a whole number {bounds}, not {value!r}.")
    return number


def is_real(value: object) -> bool:
    """Whether a value is a real number of Python or NumPy; True and False are none.

    >>> is_real(0.5), is_real(2), is_real("2"), is_real(True)
    (True, True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def read_seed(seed: Any, *, name: str = "seed") -> int:
    """Return a seed, a whole number from 0 to 2^62, as a Python integer."""
    return read_integer(seed, name=name, most=LARGEST_SEED)
