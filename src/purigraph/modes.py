"""Whether modules are being trained or used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own mode afterwards.

    `module.train(was_training)` would not do: a wrapper is made in training mode whatever is inside it, so that a
    classifier in evaluation mode would be left with its dropout on.

    >>> inside = nn.Dropout().eval()
    >>> wrapper = nn.Sequential(inside)
    >>> with evaluation_mode(wrapper):
    ...     wrapper.training
    False
    >>> wrapper.training, inside.training
    (True, False)
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
