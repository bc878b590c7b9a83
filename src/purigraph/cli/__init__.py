"""The command line: parse, call, print. What a command does is written elsewhere in the library."""

from __future__ import annotations

import sys

import typer

from purigraph._version import __version__
from purigraph.cli import attack, bench, datasets, demo, evaluate, fit, purify, train
from purigraph.errors import PurigraphError

app = typer.Typer(
    name="purigraph",
    help="Purify graphs that someone hostile may have edited, before a graph neural network sees them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (demo, fit, purify, train, attack, evaluate, datasets, bench):
    app.command(module.NAME, help=module.HELP)(module.run)


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
    """Run the command line; errors that we raise on purpose are one sentence and exit code 2, no traceback."""
    try:
        app()
    except PurigraphError as error:
        typer.secho(f"purigraph: {error}", err=True, fg="red")
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("purigraph: interrupted.", err=True)
        sys.exit(130)
