"""What all commands share: an early status line, interrupts as one line, and settings listed in the help."""

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
    """Add the `run` of a module to the app, with its `NAME`, its `HELP` and the settings of its `SETTINGS_OF`."""
    kinds = getattr(module, "SETTINGS_OF", ())
    command = interruptible(module.run) if kinds == () else interruptible(announced(module.run))
    app.command(module.NAME, help=module.HELP, epilog=settings_help(kinds) if kinds else None)(command)


def announced(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command to first say that PyTorch is being loaded, which takes seconds."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        if "torch_geometric" not in sys.modules and not options.get("as_json"):
            typer.secho("Loading PyTorch ...", err=True, dim=True)
        command(**options)

    return run


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command to exit with code 130 on an interrupt, with one line that says how to resume.

    The interrupt is caught here, inside the command, as typer (depending on its version) exits silently or prints
    "Aborted!".
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
        return f" Nothing was saved in {checkpoint} yet: the same command starts again."
    return f" The same command resumes from {checkpoint}."
