"""Values derived from tensors, cached as long as the tensors are alive and unchanged."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


class Memo(Generic[T]):
    """A cache of values derived from the most recent tensors.

    A tensor is recognised if it is the same object and has not been written to since; contents are not compared, and
    tensors are not kept alive. Copies and pickles of a memo are empty.

    Args:
        size: The number of cached values.

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
        """Return the value cached for this tensor and context, or None."""
        for reference, state, value in self._entries:
            if reference() is tensor and state == _state(tensor, context):
                return value
        return None

    def put(self, tensor: Tensor, value: T, *context: object) -> None:
        """Cache a value for a tensor; `context` is what else it depends on, compared by equality."""
        if tensor.is_inference():
            return  # writes to it are not counted, so changes would go unnoticed
        entry = (weakref.ref(tensor, self._forget), _state(tensor, context), value)
        # A single assignment, so other threads see the entries either before or after it.
        self._entries = [*self._entries, entry][-self._size :]

    def _forget(self, gone: weakref.ref[Tensor]) -> None:
        self._entries = [entry for entry in self._entries if entry[0] is not gone]

    def __deepcopy__(self, memo: object) -> Memo[T]:
        return Memo(self._size)

    def __reduce__(self) -> tuple[type[Memo[T]], tuple[int]]:
        return Memo, (self._size,)


class Identity:
    """Equal to another one of the same tensor, if that is alive and has not been written to in between.

    As a memo's context it makes a value depend on a second tensor, which is not kept alive either.

    >>> import torch
    >>> x = torch.ones(2)
    >>> before = Identity(x)
    >>> before == Identity(x), before == Identity(x.clone()), before == Identity(x.zero_())
    (True, False, False)
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = weakref.ref(tensor)
        # Writes to tensors of the inference mode are not counted: nothing is known to equal them.
        self._state = None if tensor.is_inference() else _state(tensor, ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity) or self._state is None:
            return False
        tensor = self._tensor()
        return tensor is not None and tensor is other._tensor() and self._state == other._state

    __hash__ = None  # type: ignore[assignment]


def _state(tensor: Tensor, context: tuple[object, ...]) -> object:
    return tensor._version, tensor.device, tensor.dtype, context
