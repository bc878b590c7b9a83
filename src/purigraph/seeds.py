"""Seeds as callers give them, read and checked in one place."""

from __future__ import annotations

import operator
from typing import Any

from purigraph.errors import InputError

#: PyTorch's seeds end at 2^63; what is drawn from a seed (one for every restart, say) must not be beyond that.
LARGEST = 2**62


def read_seed(seed: Any, *, name: str = "seed") -> int:
    """Return a seed as a Python integer.

    Args:
        seed: A whole number from 0 to 2^62, of Python, NumPy or PyTorch.
        name: What the caller calls the argument, for messages.

    Raises:
        InputError: If it is no such number.

    >>> read_seed(3)
    3
    >>> read_seed(-1)
    Traceback (most recent call last):
        ...
    purigraph.errors.InputError: seed must be a whole number from 0 to 2^62, not -1.
    """
    try:
        number = None if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        number = None
    if number is None or not 0 <= number <= LARGEST:
        raise InputError(f"{name} must be a whole number from 0 to 2^62, not {seed!r}.")
    return number
