"""Values derived from tensors, kept as long as the tensors are alive and unchanged."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


class Memo(Generic[T]):
    """Remembers what was derived from the tensors seen last.

    A tensor is recognised by being the same object, not written to since; nothing is compared and nothing is kept
    alive. Copies and pickles of a memo are empty.

    Args:
        size: How many values are kept.

    >>> import torch
    >>> memo, x = Memo[str](), torch.ones(2)
    >>> memo.put(x, "ones")
    >>> memo.get(x), memo.get(x.clone()), memo.get(x.zero_())
    ('ones', None, None)
    """

    def __init__(self, size: int = 1) -> None:
        self._size = size
        self._entries: list[tuple[weakref.ref[Tensor], Any, T]] = []

    def get(self, tensor: Tensor, *context: object) -> T | None:
        """Return what was put for this tensor, and the same context, or None."""
        for reference, state, value in self._entries:
            if reference() is tensor and state == _state(tensor, context):
                return value
        return None

    def put(self, tensor: Tensor, value: T, *context: object) -> None:
        """Keep a value for a tensor; `context` is whatever else it depends on, compared by equality."""
        if tensor.is_inference():
            return  # no writes to it are counted, so that it could not be told from what it was
        entry = (weakref.ref(tensor, self._forget), _state(tensor, context), value)
        # One assignment, so that another thread sees the entries before or after it.
        self._entries = [*self._entries, entry][-self._size :]

    def _forget(self, gone: weakref.ref[Tensor]) -> None:
        self._entries = [entry for entry in self._entries if entry[0] is not gone]

    def __deepcopy__(self, memo: object) -> Memo[T]:
        return Memo(self._size)

    def __reduce__(self) -> tuple[type[Memo[T]], tuple[int]]:
        return Memo, (self._size,)


def _state(tensor: Tensor, context: tuple[object, ...]) -> object:
    return tensor._version, tensor.device, tensor.dtype, context
