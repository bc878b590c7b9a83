"""`purigraph paper`: run the experiments of the paper, and show their results beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purigraph.cli.commands import Terminated, announced, explained, interruptible
from purigraph.cli.options import LARGEST_SEED, JsonOption
from purigraph.cli.outputs import print_json
from purigraph.errors import InputError

if TYPE_CHECKING:
    from purigraph.paper import Planned
    from purigraph.runs import Event, Store

NAME = "paper"
HELP = "Run the tables and figures of the paper, and show their results beside the published numbers."

app = typer.Typer(name=NAME, help=HELP, no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="An experiment; `purigraph paper list` has them.")]
ResultsOption = Annotated[
    Path | None,
    typer.Option(
        "--results",
        help="The folder of the results, one JSON Lines file per experiment. Default: ./results, or the store's own if "
        "there is no such folder.",
    ),
]
ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile",
        help="paper: the paper's lengths. quick: a quarter of the training, 100 + 25 attack epochs. smoke: seconds, on "
        "the embedded graph.",
    ),
]


def list_experiments(as_json: JsonOption = False) -> None:
    """List the experiments."""
    from purigraph import paper
    from purigraph.tables import Table

    found = [paper.load(name) for name in paper.names()]
    if as_json:
        keys = ("name", "title", "source", "unit")
        print_json(
            [
                {**{key: getattr(one, key) for key in keys}, "rows": list(one.rows), "columns": list(one.columns)}
                for one in found
            ]
        )
        return
    rows = [[one.name, one.title, one.source or "ours", len(one.rows), len(one.columns)] for one in found]
    Table("Experiments", ["name", "what", "where", "rows", "columns"], rows, text_columns=3).print()


def run(
    name: NameArgument,
    profile: ProfileOption = "paper",
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Seeds, such as 0,1,2 or 0-4. Default: those of the experiment."),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", "--only", help='Run only rows of this name, such as "GCN*"; may be repeated.'),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="Run only columns of this name; may be repeated.")
    ] = None,
    form: Annotated[
        list[str] | None, typer.Option("--form", help="published or exact; default: all that the experiment has.")
    ] = None,
    defence: Annotated[
        list[Path] | None, typer.Option("--defence", help="A YAML file with a row of your own; may be repeated.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local, or ray for a Ray cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="The address of a Ray cluster. Default: one is started here.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Cells to run at a time; they share threads.")] = 1,
    results: ResultsOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also run cells whose results are in the folder of the results.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and their states; run nothing.")] = False,
) -> None:
    """Run an experiment; finished cells are not run again, and an interrupted run resumes."""
    from purigraph import paper
    from purigraph.paper.experiments import add_row
    from purigraph.runs import default_store, run_cells

    experiment = paper.load(name)
    for path in defence or ():
        experiment = add_row(experiment, path)
    planned = paper.plan(
        experiment, profile=profile, seeds=_read_seeds(seeds), rows=rows or (), columns=columns or (), forms=form or ()
    )
    store = default_store()
    # Smoke results say nothing about the paper: they stay out of the repository.
    folder = store.root / "results" / "smoke" if profile == "smoke" and results is None else _folder(results, store)
    # Other machines' work: what the store here does not know may be finished all the same.
    there = [] if again else paper.exported(experiment, planned, folder)
    if dry_run:
        for one in planned:
            state = "skipped" if one.cell is None else "finished" if one in there else store.state(one.cell)
            typer.echo(f"{one.label}: {state}")
        return
    for reason in dict.fromkeys(one.skipped for one in planned if one.skipped):
        number = sum(one.skipped == reason for one in planned)
        typer.echo(f"{number} cells are skipped: {reason}", err=True)
    if there:
        typer.echo(f"{len(there)} cells are finished in {folder}: they are not run again (--again does).", err=True)
    runnable: dict[str, list[Planned]] = {}
    for one in planned:
        if one.cell is not None and one not in there:  # two rows of a shorter profile may come to the same cell
            runnable.setdefault(one.cell.key, []).append(one)
    reporter = _Reporter(experiment.name, runnable, jobs)

    def on_event(event: Event) -> None:
        reporter.tell(event)
        if event.kind == "finished":
            paper.export(experiment, runnable[event.cell.key], store, folder)

    cells = [cell for first, *_ in runnable.values() if (cell := first.cell) is not None]
    try:
        run_cells(store, cells, engine=engine, jobs=jobs, address=address, on_event=on_event)
    except (KeyboardInterrupt, Terminated):
        typer.echo(f"{reporter.finished} cells are finished and kept; the same command resumes.", err=True)
        raise
    typer.echo(f"{reporter.finished} of {len(runnable)} cells are finished; see {folder / experiment.name}.jsonl.")
    if reporter.failed:
        raise typer.Exit(1)


def show(
    name: NameArgument,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Show only this one. Default: the longest that was run.")
    ] = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was measured beside the published numbers."""
    from purigraph import paper
    from purigraph.paper.comparison import comparison_table
    from purigraph.paper.findings import Findings, read_everything
    from purigraph.runs import default_store

    experiment, store = paper.load(name), default_store()
    folder = store.root / "results" / "smoke" if profile == "smoke" and results is None else _folder(results, store)
    findings = Findings.of(experiment, read_everything(folder), profile=profile)
    if as_json:
        print_json([one.to_dict() for one in findings.numbers])
        return
    if not findings.numbers:
        typer.echo(f"Nothing of {experiment.name} was measured yet: purigraph paper run {experiment.name}")
        return
    comparison_table(experiment, findings.numbers).print()
    for table in findings.beside.values():
        table.print()
    for note in findings.notes:
        typer.echo(f"! {note}")


def report(
    results: ResultsOption = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("docs/results.md"),
    images: Annotated[Path, typer.Option("--images", help="The folder for the figures.")] = Path("docs/images"),
) -> None:
    """Write figures (PNG and SVG) and a page with everything that was measured so far."""
    from purigraph import paper
    from purigraph.runs import default_store

    for path in paper.write_report(_folder(results, default_store()), output, images):
        typer.echo(str(path))


class _Reporter:
    """Prints a line for every cell that ends, with the time that is left."""

    def __init__(self, name: str, planned: dict[str, list[Planned]], jobs: int) -> None:
        self._name, self._planned, self._jobs = name, planned, jobs
        self._seconds: list[float] = []
        self.finished = self.failed = 0

    def tell(self, event: Event) -> None:
        if event.kind == "started":
            return
        self.finished += event.kind == "finished"
        self.failed += event.kind == "failed"
        if event.kind == "finished" and event.seconds == 0:
            return  # it was finished before
        self._seconds.append(event.seconds)
        done, total = self.finished + self.failed, len(self._planned)
        left = sum(self._seconds) / len(self._seconds) * (total - done) / self._jobs
        what = f"failed: {event.error}" if event.kind == "failed" else f"{event.seconds:.0f} s"
        typer.echo(
            f"{self._name} {done}/{total}: {event.cell.label}: {what}; about {_duration(left)} left",
            err=True,
        )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _read_seeds(text: str | None) -> list[int] | None:
    """Read "0,1,4-6"."""
    if text is None:
        return None
    seeds: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) > LARGEST_SEED:
            raise InputError(f"--seeds {text!r} is not a list of seeds: write 0,1,2 or 0-4.")
        seeds += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(seeds))


def _folder(given: Path | None, store: Store) -> Path:
    if given is not None:
        return given
    here = Path("results")
    return here if here.is_dir() else store.root / "results"


for _name, _command in (("list", list_experiments), ("run", run), ("show", show), ("report", report)):
    _wrapped = announced(_command) if _name == "run" else _command
    app.command(_name)(interruptible(explained(_wrapped)))
