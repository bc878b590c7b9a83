"""Ctrl-C: one line on the error stream, which says how to go on where that is possible."""

from __future__ import annotations

import functools
import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

# Options under which a command keeps the state of its work.
KEEPERS = ("checkpoint", "folder")


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """The same command; an interrupt ends it with one line and exit code 130.

    It is caught here, inside the command: typer makes of it, depending on its version, a silent exit or "Aborted!".
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except KeyboardInterrupt:
            typer.secho(f"purigraph: interrupted.{_way_on(options)}", err=True)
            raise typer.Exit(130) from None

    return run


def _way_on(options: dict[str, Any]) -> str:
    kept = next((options[name] for name in KEEPERS if options.get(name) is not None), None)
    if kept is None:
        return ""
    if not _is_there(kept):
        return f" Nothing was kept in {kept} yet: the same command begins anew."
    return f" The same command goes on from {kept}."


def _is_there(kept: Path) -> bool:
    """Whether something was written; the second run of an attack and those after it number their files."""
    if kept.is_dir():
        return any(kept.iterdir())
    return kept.exists() or any(kept.parent.glob(f"{glob.escape(kept.name)}.[0-9]*"))
