"""The command line. Commands only parse options, call the library and print results."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from purigraph._version import __version__
from purigraph.cli import (
    attack,
    bench,
    check,
    datasets,
    demo,
    evaluate,
    fit,
    paper,
    purify,
    serve,
    settings,
    train,
    verify,
)
from purigraph.cli.commands import Terminated, add_command, end_on_signals
from purigraph.errors import PurigraphError

app = typer.Typer(
    name="purigraph",
    help="Purify graphs that may have been attacked, before a graph neural network sees them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (demo, fit, purify, verify, check, serve, train, attack, evaluate, datasets, settings, bench):
    add_command(app, module)
app.add_typer(paper.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"purigraph {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; expected errors print one sentence without a traceback and exit with code 2."""
    end_on_signals()
    try:
        app()
    except Terminated as ended:  # outside a command, while modules are imported
        sys.exit(ended.exit_code)
    except PurigraphError as error:
        _fail(str(error))
    except OSError as error:  # for example, the disk is full or a folder was removed
        _fail(f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error))


def _fail(message: str) -> NoReturn:
    typer.secho(f"purigraph: {message}", err=True, fg="red")
    sys.exit(2)
