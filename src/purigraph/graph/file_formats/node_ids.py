"""The names that a file gives to its nodes, beside the numbers 0 to N-1 that they have in tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


class NodeIds:
    """The ids of N nodes, as text; node k has the k-th.

    Args:
        names: The ids, each once; or N, if the nodes have no other names than their numbers.

    >>> ids = NodeIds(["alice", "bob"])
    >>> ids[1], ids.positions(["bob", "carol"]).tolist(), NodeIds(3)[2]
    ('bob', [1, -1], '2')
    """

    def __init__(self, names: Sequence[str] | int) -> None:
        self._names = names
        self._position: dict[str, int] | None = None

    def __len__(self) -> int:
        return self._names if isinstance(self._names, int) else len(self._names)

    def __getitem__(self, position: int) -> str:
        return str(position) if isinstance(self._names, int) else self._names[position]

    @property
    def numbered(self) -> bool:
        """Whether the ids are only the numbers 0 to N-1."""
        return isinstance(self._names, int)

    def names(self) -> list[str]:
        """Return all ids, in order."""
        return [self[position] for position in range(len(self))]

    def positions(self, names: Iterable[str]) -> Positions:
        """Return the numbers of the nodes of these names, (M,); -1 where there is no such node."""
        if isinstance(self._names, int):
            return np.array([_number(name, self._names) for name in names], dtype=np.int64)
        if self._position is None:
            self._position = {name: position for position, name in enumerate(self._names)}
        return np.array([self._position.get(name, -1) for name in names], dtype=np.int64)


def _number(name: str, count: int) -> int:
    """Return the number that a text is, or -1 if it is none from 0 to count - 1.

    >>> _number("7", 8), _number("8", 8), _number("x", 8), _number("-0", 8)
    (7, -1, -1, -1)
    """
    if not (name.isascii() and name.isdigit() and len(name) < 19):
        return -1
    return int(name) if int(name) < count else -1
