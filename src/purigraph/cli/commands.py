"""What all commands share: an early word on what is going on, interrupts as one line, settings listed in the help."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from purigraph.cli.setting_lists import settings_help


def add_command(app: typer.Typer, module: ModuleType) -> None:
    """Add a module's `run` to the app, under its `NAME`, with its `HELP` and the settings of its `SETTINGS_OF`."""
    kinds = getattr(module, "SETTINGS_OF", ())
    command = interruptible(module.run) if kinds == () else interruptible(announced(module.run))
    app.command(module.NAME, help=module.HELP, epilog=settings_help(kinds) if kinds else None)(command)


def announced(command: Callable[..., None]) -> Callable[..., None]:
    """Return the same command, which first says that PyTorch is being loaded: that alone takes seconds."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        if "torch_geometric" not in sys.modules and not options.get("as_json"):
            typer.secho("Loading PyTorch ...", err=True, dim=True)
        command(**options)

    return run


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Return the same command; an interrupt ends it with one line, which says how to resume, and exit code 130.

    It is caught here, inside the command: typer makes of it, depending on its version, a silent exit or "Aborted!".
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except KeyboardInterrupt:
            typer.secho(f"purigraph: interrupted.{_way_on(options.get('checkpoint'))}", err=True)
            raise typer.Exit(130) from None

    return run


def _way_on(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return ""
    if not (checkpoint.is_dir() and any(checkpoint.iterdir())):
        return f" Nothing was kept in {checkpoint} yet: the same command starts again."
    return f" The same command resumes from {checkpoint}."
