"""Everything purigraph raises on purpose, and what it warns of.

All are `ValueError`s (or `TypeError`/`RuntimeError` where that is what they are), so that code which knows
nothing of purigraph can still catch them; all share `PurigraphError`, so that the command line can print
them as one sentence instead of a traceback.
"""

from __future__ import annotations


class PurigraphError(Exception):
    """Base of all errors that purigraph raises on purpose."""


class InputError(PurigraphError, ValueError):
    """An argument has a value that can't be used."""


class GraphError(InputError):
    """A graph is malformed: the message names the rows and the way out."""


class BudgetError(InputError):
    """An attack's budget is negative, larger than the graph allows, or was overspent."""


class UnknownNameError(InputError):
    """A name is not registered: the message lists the names that are."""


class DatasetError(PurigraphError, RuntimeError):
    """A dataset's files can't be had, or are not the files that they should be."""


class ModelFileError(PurigraphError, ValueError):
    """A saved model is missing, damaged, foreign or does not match its configuration."""


class NotFittedError(PurigraphError, RuntimeError):
    """A component is used before `fit` or `from_pretrained`."""


class UnsupportedModelError(PurigraphError, TypeError):
    """A classifier can't be protected as it is: the message says why and what to do."""


class MaskedGradientWarning(UserWarning):
    """An attack had no gradient to follow: the robustness that it shows may not be there."""
