"""Settings as data: checked when they are made, one clear sentence when they are wrong."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from purigraph.errors import InputError

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """Base of all groups of settings: immutable, every field typed and bounded, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def read(cls: type[S], values: Mapping[str, Any], owner: str | None = None) -> S:
        """Build from keyword arguments.

        Raises:
            InputError: naming the setting, what it was and what it can be.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise InputError(_explain(cls, error, owner or cls.__name__)) from None

    def replace(self: S, **changes: Any) -> S:
        """The same settings with some changed, checked again."""
        return type(self).read({**self.model_dump(), **changes})


def what_was_meant(name: str, known: Sequence[str]) -> str:
    """The end of a sentence about a name that there is not: the one that was probably meant, or all that there are."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"it knows {', '.join(known)}."


def _explain(cls: type[Settings], error: ValidationError, owner: str) -> str:
    sentences = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"]) or "value"
        if problem["type"] == "extra_forbidden":
            sentences.append(f"{owner} has no setting {name!r}: {what_was_meant(name, list(cls.model_fields))}")
        else:
            sentences.append(f"{owner}: {name}={problem['input']!r} is not valid: {problem['msg'].lower()}.")
    return " ".join(sentences)
