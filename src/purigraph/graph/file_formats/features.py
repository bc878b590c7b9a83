"""What the features of a file are, so that those of another file can be put into the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: The features were made from the edges, as there were none (see `structural_features`).
STRUCTURAL = "structural"
#: Columns with names: of a table, of (node, feature, value) triples, or attributes of nodes.
NAMED = ("wide", "long", "attributes")
#: A matrix without names.
MATRIX = "matrix"

# A model's `config.json` has at most 10 MB; longer lists of names are not kept, and only the number is compared.
_MOST_CHARACTERS = 4_000_000


@dataclass(frozen=True)
class FeatureLayout:
    """What the features are.

    Attributes:
        kind: "wide", "long", "attributes", "matrix" or "structural".
        names: The names of the columns, in order; None if they have none.
    """

    kind: str
    names: Sequence[str] | None = None

    def record(self) -> dict[str, Any]:
        """Return what is kept with a model that was fitted to such features, as JSON values."""
        short = self.names is not None and sum(map(len, self.names)) <= _MOST_CHARACTERS
        return {"kind": self.kind, "names": list(self.names) if short and self.names is not None else None}

    @classmethod
    def of_record(cls, record: object) -> FeatureLayout | None:
        """Return the layout of a record; None if it is none, for example of an older model."""
        if not isinstance(record, Mapping) or not isinstance(record.get("kind"), str):
            return None
        names = record.get("names")
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            return None
        return cls(record["kind"], names)
