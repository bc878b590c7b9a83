"""`purigraph demo`: a complete example on the embedded graph."""

from __future__ import annotations

from typing import Annotated

import typer

from purigraph.cli.options import JsonOption, SeedOption
from purigraph.cli.outputs import print_json
from purigraph.tables import Table

NAME = "demo"
HELP = "Train, attack and purify on the embedded graph, in a few minutes and without a download."


def run(
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs of the purifier.")] = 1000,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run the demo and print the accuracy after each attack."""
    from purigraph.demo import run_demo

    def say(text: str) -> None:
        typer.secho(text, err=True, dim=True)

    result = run_demo(
        seed=seed,
        purifier_epochs=epochs,
        progress=False if as_json else None,
        say=(lambda text: None) if as_json else say,
    )
    if as_json:
        print_json(result.to_dict())
        return
    rows: list[list[object]] = [
        ["0 (clean)", 0, _percent(result.clean), _percent(result.protected_clean), _percent(result.protected_clean)]
    ]
    for one in result.budgets:
        accuracies = [one.attacked, one.purified, one.protected_attacked]
        rows.append([f"{one.epsilon:g}", one.flips, *map(_percent, accuracies)])
    Table(
        f"Accuracy of a GCN on {result.test_nodes} unseen nodes (%)",
        ["budget epsilon", "flipped edges", "attacked", "same attack, purified", "attacked through the purifier"],
        rows,
    ).print()
    typer.echo(result.sentence())
    typer.secho(f"Seed {result.seed}, {result.seconds:.0f} seconds.", dim=True)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
