"""`purigraph verify`: do a purification again and say whether it matches its receipt."""

from __future__ import annotations

from typing import Annotated

import typer

from purigraph.cli.options import JsonOption
from purigraph.cli.outputs import print_json

NAME = "verify"
HELP = "Check a receipt of `purigraph purify`: compare all files with it, purify again, and compare the result."
SETTINGS_OF = ()


def run(
    receipt: Annotated[str, typer.Argument(metavar="RECEIPT", help="The receipt, a .json file.")],
    as_json: JsonOption = False,
) -> None:
    """Verify; exit with code 2 if anything is not as the receipt says."""
    from purigraph.audit import verify
    from purigraph.errors import MismatchError

    found = verify(receipt)
    if as_json:
        print_json(found.to_dict())
    else:
        for name, fits, detail in found.checks:
            typer.echo(f"{'ok    ' if fits else 'DIFFERS'} {name}: {detail}")
    if not found.matches:
        wrong = [name for name, fits, _ in found.checks if not fits]
        raise MismatchError(f"{receipt} does not match: {', '.join(wrong)} differ from what it says.")
    if not as_json:
        typer.echo("The receipt matches.")
