"""Results as JSON Lines: one line a cell, sorted, for version control."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from purigraph.errors import ModelFileError
from purigraph.files import locked, write_text


def read_results(path: str | Path) -> list[dict[str, Any]]:
    """Return the lines of a file of results; none if there is no such file."""
    path = Path(path)
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise ModelFileError(f"{path}, line {number} is not JSON ({error}): restore or delete the line.") from None
        if not isinstance(line, dict):
            raise ModelFileError(f"{path}, line {number} is not a JSON object: restore or delete the line.")
        lines.append(line)
    return lines


def write_results(path: str | Path, lines: Sequence[Mapping[str, Any]], *, place: Sequence[str]) -> None:
    """Merge lines into a file of results, sorted by their place.

    A line replaces one at the same place. Results of cells that were not run again stay, and two processes may write at
    the same time. The same lines give the same bytes.

    Args:
        path: The file.
        lines: The new lines.
        place: The keys that say where in the experiment a line belongs.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)

    def where(line: Mapping[str, Any]) -> str:
        return json.dumps([line.get(key) for key in place])

    with locked(path.parent):
        merged = {where(line): line for line in [*read_results(path), *lines]}
        ordered = sorted(merged.values(), key=lambda line: [_sortable(line.get(key)) for key in place])
        write_text(path, "".join(_text(line) + "\n" for line in ordered))


def _text(line: Mapping[str, Any]) -> str:
    """Return a line as JSON, without spaces: there are thousands of lines, and they are kept for good."""
    return json.dumps(line, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sortable(value: Any) -> tuple[int, float, str]:
    """Order numbers by size and the rest as text."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, "" if value is None else str(value))
