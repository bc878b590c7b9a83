"""Outputs of commands: paths are checked before the work, and JSON is always printed in the same format."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import typer

from purigraph.errors import InputError
from purigraph.files import json_text


def check_output(
    path: Path | None,
    option: str,
    *,
    folder: bool = False,
    suffix: str | None = None,
    apart_from: Iterable[str | Path | None] = (),
) -> None:
    """Raise `InputError` for a path that can't be written or should not be overwritten.

    Commands call this first: their work may take hours and should not be lost because of a path.

    Args:
        path: The path as given; None if the option was not given.
        option: The name of the option, for the message.
        folder: Whether a folder is written, not a file.
        suffix: The required ending of a file name.
        apart_from: Other paths that the command reads or writes.
    """
    if path is None:
        return
    if suffix is not None and path.suffix != suffix:
        raise InputError(f"{option} {path}: the name must end in {suffix}, the format that is written.")
    if folder and path.exists() and not path.is_dir():
        raise InputError(f"{option} {path} is a file: pass a folder.")
    if not folder and path.is_dir():
        raise InputError(f"{option} {path} is a folder: pass the name of a file.")
    for other in apart_from:
        if other is not None and Path(other).resolve() == path.resolve():
            raise InputError(f"{option} {path} is also another argument of this command: pass another name.")
    place = path if folder else path.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{option} {path} can't be written: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path} can't be written: there is no permission to write in {place}.")


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json_text(value))
