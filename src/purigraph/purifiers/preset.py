"""Presets: a shape and a training that go together, under a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """Settings of a purifier and of its `fit` that were chosen together.

    Attributes:
        meaning: A sentence that says what it is for.
        shape: Settings of the purifier.
        training: Settings of its `fit`.
    """

    meaning: str
    shape: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
