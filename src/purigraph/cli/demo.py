"""`purigraph demo`: a complete example on the embedded graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purigraph.cli.options import JsonOption, SeedOption
from purigraph.cli.outputs import PAGE, check_output, print_json
from purigraph.tables import Table

if TYPE_CHECKING:
    from purigraph.demo import DemoResult

NAME = "demo"
HELP = "Train, attack, purify, anchor and prove on the embedded graph, in two minutes and without a download."


def run(
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most training epochs of the purifier. Default: 2000, or until it stops improving."
        ),
    ] = None,
    seed: SeedOption = 0,
    report: Annotated[
        Path, typer.Option("--report", help="The HTML page to write, with the evidence of one purification.")
    ] = Path("demo-report.html"),
    as_json: JsonOption = False,
) -> None:
    """Run the demo, print the accuracy after each attack and write a page of evidence."""
    from purigraph.demo import run_demo

    check_output(report, "--report", suffix=".html", kind=PAGE)

    def say(text: str) -> None:
        typer.secho(text, err=True, dim=True)

    result = run_demo(
        seed=seed,
        purifier_epochs=epochs,
        progress=False if as_json else None,
        say=(lambda text: None) if as_json else say,
    )
    if result.audit is not None:
        _write_page(result, report)
    if as_json:
        print_json({**result.to_dict(), "report": None if result.audit is None else str(report)})
        return
    rows: list[list[object]] = [
        ["0 (clean)", 0, *map(_percent, [result.clean, *[result.protected_clean] * 2, result.anchored_clean])]
    ]
    for one in result.budgets:
        accuracies = [one.attacked, one.purified, one.protected_attacked, one.anchored_attacked]
        rows.append([f"{one.epsilon:g}", one.flips, *map(_percent, accuracies)])
    rows.append(["any (proven)", "any", "", "", "", _percent(result.proven)])
    Table(
        f"Accuracy of a GCN on {result.test_nodes} unseen nodes (%)",
        ["budget epsilon", "flips", "GCN", "same attack, purified", "attacked through the purifier", "and the anchor"],
        rows,
    ).print()
    typer.echo(result.sentence())
    if result.audit is not None:
        typer.echo(f"The evidence of purifying the attacked graph is in {report}: open it in a browser.")
    typer.secho(f"Seed {result.seed}, {result.seconds:.0f} seconds.", dim=True)


def _write_page(result: DemoResult, path: Path) -> None:
    from purigraph.files import write_text
    from purigraph.report import page_text

    assert result.audit is not None
    facts = [
        ("graph", "the embedded graph, attacked for a GCN"),
        ("flipped edges", f"{result.main().flips:,} (epsilon {result.main().epsilon:g})"),
        ("result", result.sentence()),
    ]
    write_text(path, page_text(result.audit, title="the demo's attacked graph", facts=facts))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
