"""The errors and warnings of purigraph.

All errors are also `ValueError`s (or `TypeError`, `RuntimeError`, `OSError` where appropriate), so code that does not
know purigraph can catch them. All derive from `PurigraphError`, so the command line can print them as one sentence
instead of a traceback.
"""

from __future__ import annotations


class PurigraphError(Exception):
    """Base class of all errors that purigraph raises on purpose."""


class InputError(PurigraphError, ValueError):
    """An argument has an invalid value."""


class GraphError(InputError):
    """A graph is malformed: the message says where and how to fix it."""


class BudgetError(InputError):
    """An attack's budget is negative, larger than the graph allows, or was overspent."""


class UnknownNameError(InputError):
    """A name is not registered: the message lists the names that are."""


class DatasetError(PurigraphError, RuntimeError):
    """The files of a dataset are not available or not the expected ones."""


class ModelFileError(PurigraphError, ValueError):
    """A saved model is missing, damaged, of an unknown format, or does not match its configuration."""


class OutputError(PurigraphError, OSError):
    """A file can't be written: the message names it, the reason and what would help. What was there is unchanged."""


class OutOfMemoryError(PurigraphError, RuntimeError):
    """The memory of the machine or of the device is not enough: the message says what would help."""


class RankLostError(PurigraphError, RuntimeError):
    """A process of a distributed run was lost or failed: the message says which, and how to go on."""


class NotFittedError(PurigraphError, RuntimeError):
    """A component is used before `fit` or `from_pretrained`."""


class MismatchError(PurigraphError, ValueError):
    """A purification can't be repeated, or its files are not what its receipt says."""


class UnsupportedModelError(PurigraphError, TypeError):
    """A classifier can't be protected as it is: the message says why and what to do."""


class NoGradientError(UnsupportedModelError):
    """An attack needs gradients, but none flow from the model's output back to the edges."""


class MaskedGradientWarning(UserWarning):
    """An attack had no gradient to follow: the measured robustness may not be real."""


class CheckpointWarning(UserWarning):
    """A checkpoint can't be written: the run goes on, but an interruption would lose its work."""
