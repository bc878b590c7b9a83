"""What the state in a checkpoint must look like, checked before a run resumes from it.

The hash in a checkpoint shows that a file is complete, not that its contents are a state: with a wrong shape, a run
would fail hours later, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

#: Whether a JSON value is valid.
ValueCheck: TypeAlias = Callable[[Any], bool]


class Entry:
    """The dtype and the shape of a tensor.

    Args:
        dtype: The dtype.
        sizes: The shape. A text is a size that is not known before, but the same wherever it has that name.
    """

    def __init__(self, dtype: torch.dtype, *sizes: int | str) -> None:
        self.dtype, self.sizes = dtype, sizes

    @classmethod
    def like(cls, tensor: Tensor) -> Entry:
        """Return the entry of tensors with the dtype and shape of this one."""
        return cls(tensor.dtype, *tensor.shape)

    def fits(self, tensor: Tensor, known: dict[str, int]) -> bool:
        """Whether a tensor has this dtype and shape; sizes with names are read from or added to `known`."""
        if tensor.dtype != self.dtype or tensor.dim() != len(self.sizes):
            return False
        return all(
            found == (known.setdefault(size, found) if isinstance(size, str) else size)
            for size, found in zip(self.sizes, tensor.shape, strict=True)
        )


@dataclass(frozen=True)
class Layout:
    """The tensors and values of a state.

    Attributes:
        tensors: Those that it must have, by name.
        values: Checks of its values, by name.
        optional: Groups of tensors, of which each is either complete or absent.
    """

    tensors: Mapping[str, Entry]
    values: Mapping[str, ValueCheck]
    optional: Sequence[Mapping[str, Entry]] = field(default_factory=tuple)

    def check(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Raise `ValueError` for the first thing that is missing, unexpected or of the wrong kind."""
        expected = dict(self.tensors)
        for group in self.optional:
            if group.keys() & tensors.keys():
                expected.update(group)
        _same_names("tensor", expected.keys(), tensors.keys())
        known: dict[str, int] = {}
        for name, entry in expected.items():
            if not entry.fits(tensors[name], known):
                found = tensors[name]
                raise ValueError(f"the tensor {name!r} can't be {found.dtype} of shape {tuple(found.shape)}")
        _same_names("value", self.values.keys(), values.keys())
        for name, valid in self.values.items():
            if not valid(values[name]):
                raise ValueError(f"the value {name!r} can't be {str(values[name])[:40]}")


def entries(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Entry]:
    """Return the entries of tensors that are saved as `prefix/name`."""
    return {f"{prefix}/{name}": Entry.like(tensor) for name, tensor in tensors.items()}


def adam_entries(optimizer: torch.optim.Optimizer) -> list[dict[str, Entry]]:
    """Return the entries of Adam's state, one group for each parameter: one without a gradient has no state yet."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    # Adam counts its steps in the default precision, and in single precision if it is fused.
    double = torch.get_default_dtype() == torch.float64 and not optimizer.defaults.get("fused")
    count = Entry(torch.float64 if double else torch.float32)
    return [
        {
            f"optimizer/{index}/step": count,
            f"optimizer/{index}/exp_avg": Entry.like(parameter),
            f"optimizer/{index}/exp_avg_sq": Entry.like(parameter),
        }
        for index, parameter in enumerate(parameters)
    ]


def is_count(value: Any) -> bool:
    """Whether a value is an integer of at least 0."""
    return type(value) is int and value >= 0


def is_number(value: Any) -> bool:
    """Whether a value is a number; also NaN, which stands for a score that is not known yet."""
    return type(value) in (int, float)


def is_numbers(value: Any) -> bool:
    """Whether a value is a list of numbers."""
    return isinstance(value, list) and all(is_number(one) for one in value)


def is_finite_pair(value: Any) -> bool:
    """Whether a value is a list of two finite numbers."""
    return is_numbers(value) and len(value) == 2 and all(math.isfinite(one) for one in value)


def _same_names(what: str, expected: Any, found: Any) -> None:
    for name in sorted(expected - found):
        raise ValueError(f"the {what} {name!r} is missing")
    for name in sorted(found - expected):
        raise ValueError(f"the {what} {name!r} is not expected")
