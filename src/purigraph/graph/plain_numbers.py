"""What counts as a number in arguments: Python's and NumPy's numbers do, booleans and texts do not."""

from __future__ import annotations

import numbers


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
