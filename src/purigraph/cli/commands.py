"""What all commands share: an early status line, interrupts and failures as one line, settings listed in the help."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import typer

from purigraph.cli.setting_lists import settings_help
from purigraph.errors import OutOfMemoryError, OutputError

# What PyTorch says in a RuntimeError when memory can't be allocated on the CPU; for other devices it has a class.
_OUT_OF_MEMORY = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
    "DefaultCPUAllocator",
    "bad_alloc",
    "Storage size calculation overflowed",
)


class Terminated(BaseException):
    """The process was asked to end by a signal. As an exception it lets everything clean up on its way."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def end_on_signals() -> None:
    """Raise `Terminated` on SIGTERM and on SIGHUP (a closed terminal), unless they are handled or ignored already."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    raise Terminated(number)


def add_command(app: typer.Typer, module: ModuleType) -> None:
    """Add the `run` of a module to the app, with its `NAME`, its `HELP` and the settings of its `SETTINGS_OF`."""
    kinds = getattr(module, "SETTINGS_OF", ())
    command = explained(module.run) if kinds == () else explained(announced(module.run))
    command = interruptible(command)
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
    """Wrap a command to exit with code 130 on an interrupt (143 on SIGTERM), with one line that says how to resume.

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
        except Terminated as ended:
            typer.secho(f"purigraph: terminated.{_way_on(options.get('checkpoint'))}", err=True)
            raise typer.Exit(ended.exit_code) from None

    return run


def explained(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command to say what would help if memory runs out, and what was kept if the result can't be written."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except OutputError as error:
            kept = _kept(options.get("checkpoint"))
            if not kept:
                raise
            raise OutputError(f"{error}{kept}") from error
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            device = options.get("device") or "cpu"
            raise OutOfMemoryError(
                f"The memory of the device {device} is not enough for this command and graph. What helps: smaller "
                "settings (--set, for example block_size of an attack or node_channels and edge_channels of a "
                f"purifier), a smaller graph, or a machine with more memory.{_kept(options.get('checkpoint'))}"
            ) from error

    return run


def _is_out_of_memory(error: Exception) -> bool:
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(words in str(error) for words in _OUT_OF_MEMORY)
    )


def _way_on(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return ""
    return _kept(checkpoint) or f" Nothing was saved in {checkpoint} yet: the same command starts again."


def _kept(checkpoint: Path | None) -> str:
    if checkpoint is None or not checkpoint.is_dir() or not any(checkpoint.iterdir()):
        return ""
    return f" The same command resumes from {checkpoint}."
