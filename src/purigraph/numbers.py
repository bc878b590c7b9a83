"""Numbers in arguments: Python's and NumPy's numbers count as such, booleans and texts do not."""

from __future__ import annotations

import numbers
import operator
from typing import Any

from purigraph.errors import InputError

#: PyTorch's seeds end at 2^63; what is derived from a seed (one for every restart, say) must not exceed that.
LARGEST_SEED = 2**62


def is_number(value: object) -> bool:
    """Return whether a value is a real number.

    >>> is_number(0.5), is_number(True), is_number("0.5")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole_number(value: object) -> bool:
    """Return whether a value is an integer.

    >>> is_whole_number(3), is_whole_number(3.0), is_whole_number(False)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def read_seed(seed: Any, *, name: str = "seed") -> int:
    """Return a random seed as a Python integer.

    Args:
        seed: A whole number from 0 to 2^62, of Python, NumPy or PyTorch.
        name: The name of the argument, for messages.

    Raises:
        InputError: If it is not such a number.

    >>> read_seed(-1)
    Traceback (most recent call last):
        ...
    purigraph.errors.InputError: seed must be a whole number from 0 to 2^62, not -1.
    """
    try:
        number = None if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        number = None
    if number is None or not 0 <= number <= LARGEST_SEED:
        raise InputError(f"{name} must be a whole number from 0 to 2^62, not {seed!r}.")
    return number
