"""What a command writes: places are checked before the work, JSON is printed in one way."""

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
    """Refuse a place that could not be written to in the end, or that had better not be overwritten.

    Called first: the work may take hours, and nobody wants to lose it to a name.

    Args:
        path: As it was given; None, for an option that was not, is fine.
        option: Its name, for the message.
        folder: Whether a folder is written there, not a file.
        suffix: What a file's name must end in.
        apart_from: What the command reads, or writes elsewhere.
    """
    if path is None:
        return
    if suffix is not None and path.suffix != suffix:
        raise InputError(f"{option} {path}: give a name that ends in {suffix}, as that is what is written.")
    if folder and path.exists() and not path.is_dir():
        raise InputError(f"{option} {path} is a file: give a folder.")
    if not folder and path.is_dir():
        raise InputError(f"{option} {path} is a folder: give the name of a file.")
    for other in apart_from:
        if other is not None and Path(other).resolve() == path.resolve():
            raise InputError(f"{option} {path} is also another argument of this command: give another name.")
    place = path if folder else path.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{option} {path} can't be written: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path} can't be written: there is no permission to write in {place}.")


def print_json(value: object) -> None:
    """Print for programs."""
    typer.echo(json_text(value))
