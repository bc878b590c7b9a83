"""`purigraph purify`: give every edge of a graph a weight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from purigraph.cli.inputs import graph_file, read_settings
from purigraph.cli.options import (
    AnchorOption,
    DeviceOption,
    FeaturesOption,
    GraphArgument,
    JsonOption,
    SeedOption,
    SetOption,
)
from purigraph.cli.outputs import PAGE, RECEIPT, check_output, output_kind, print_json
from purigraph.cli.ranks import (
    AddressOption,
    EngineOption,
    MachinesOption,
    WorkersOption,
    evidence_over_ranks,
    is_parts,
    purify_parts,
)
from purigraph.devices import check_device

if TYPE_CHECKING:
    from purigraph.audit import FileAudit

NAME = "purify"
HELP = "Purify a graph with a trained purifier and write it in its own format, with weights."
SETTINGS_OF = ("purifier",)


def run(
    graph: GraphArgument,
    purifier: Annotated[
        str, typer.Option("--purifier", "-m", help="The folder of a purifier (`purigraph fit`), or hf://owner/name.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The file to write, of the same format as GRAPH; .npz for a dataset, a folder for a graph in parts.",
        ),
    ],
    features: FeaturesOption = None,
    trusted: Annotated[
        str | None,
        typer.Option("--trusted", help="A trusted snapshot of the graph, a file: only what changed since is judged."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Cut edges below this weight: mark them, or remove them from a .npz."),
    ] = None,
    false_positives: Annotated[
        float | None,
        typer.Option(
            "--false-positives", min=0, max=1, help="Choose the threshold by the share of true edges that it may cost."
        ),
    ] = None,
    min_degree: Annotated[
        int, typer.Option(min=0, help="Never leave a node with fewer edges than this by a cut. 1: orphan nobody.")
    ] = 0,
    max_cut: Annotated[float, typer.Option(min=0, max=1, help="Cut at most this share of all edges.")] = 1.0,
    never_cut: Annotated[
        str | None, typer.Option("--never-cut", help="A file with edges (as GRAPH) that are never cut.")
    ] = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Only score: add `score` (and `would_keep`), and change nothing else.")
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Leave out edges that are cut, instead of marking them.")
    ] = False,
    report: Annotated[Path | None, typer.Option("--report", help="Also write an HTML page with the evidence.")] = None,
    changes: Annotated[
        Path | None, typer.Option("--changes", help="With --trusted: also write all changes to a .csv file.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="Where to write the receipt. Default: OUTPUT.receipt.json.")
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier", "-c", help="For the report: the folder of a classifier, whose answers are compared."
        ),
    ] = None,
    anchor: AnchorOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = None,
    workers: WorkersOption = 2,
    address: AddressOption = None,
    machines: MachinesOption = 1,
    settings: SetOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Purify and write: the graph, its receipt, and what else was asked for; all of them or none."""
    from purigraph.audit import Request, audit_file
    from purigraph.cli.purified_files import write_all
    from purigraph.errors import InputError

    request = Request(
        graph=graph,
        purifier=purifier,
        features=features,
        trusted=trusted,
        threshold=threshold,
        false_positive_rate=false_positives,
        min_degree=min_degree,
        max_cut=max_cut,
        never_cut=never_cut,
        shadow=shadow,
        drop=drop,
        settings=read_settings(settings),
        classifier=classifier,
        anchor=anchor,
        seed=seed,
        device=device,
    )
    ranks = {"engine": engine, "workers": workers, "address": address, "machines": machines}
    if engine is not None and device != "cpu":
        raise InputError(f"--engine runs on CPUs, not on {device}: omit --device, or omit --engine to use one GPU.")
    if is_parts(graph):
        check_output(output, "--output", folder=True, apart_from=[graph, purifier])
        purify_parts(request, output, ranks, as_json=as_json)
        return
    if engine is not None and receipt is not None:
        raise InputError("--receipt is for one process: results of --engine equal it up to rounding, not bit by bit.")
    if changes is not None and trusted is None:
        raise InputError("--changes writes what changed since --trusted: give that too.")
    place = None if engine is not None else _receipt_place(output, receipt)
    suffix, kind = output_kind(graph)
    inputs = [graph_file(graph), features, trusted, never_cut, purifier, classifier, anchor]
    check_output(output, "--output", suffix=suffix, kind=kind, apart_from=inputs)
    check_output(place, "--receipt", suffix=".json", kind=RECEIPT, apart_from=[*inputs, output])
    check_output(report, "--report", suffix=".html", kind=PAGE, apart_from=[*inputs, output, place])
    check_output(changes, "--changes", suffix=".csv", apart_from=[*inputs, output, place, report])
    check_device(device)
    found = audit_file(request, compute=None if engine is None else evidence_over_ranks(output, ranks))
    write_all(found, output, place, report, changes)
    if as_json:
        print_json(_summary(found, output, place, report, changes))
        return
    for note in found.notes:
        typer.secho(note, err=True, dim=True)
    _tell(found)
    typer.echo(f"Written to {output}." if place is None else f"Written to {output}, with its receipt {place}.")
    for more in (report, changes):
        if more is not None:
            typer.echo(f"Written to {more}.")


def _receipt_place(output: Path, receipt: Path | None) -> Path | None:
    """Return where the receipt goes; None for an output that is no file, such as a pipe, unless a place is given."""
    from purigraph.audit.receipt import receipt_path
    from purigraph.files import is_stream

    if receipt is not None:
        return receipt
    return None if is_stream(output) or not output.name else receipt_path(output)


def _summary(
    found: FileAudit, output: Path, receipt: Path | None, report: Path | None, changes: Path | None
) -> dict[str, Any]:
    counts = found.audit.counts()
    paths = {"receipt": receipt, "report": report, "changes_file": changes}
    return {
        "graph": found.request.graph,
        "output": str(output),
        **{name: None if path is None else str(path) for name, path in paths.items()},
        **counts,
        "removed": counts["cut"] if found.audit.rewired is None else _removed(found),
        "threshold": None if found.audit.decision is None else found.audit.suspicious_below,
        "notes": found.notes,
    }


def _removed(found: FileAudit) -> int:
    """How many pairs of its own list a purifier that adds edges has lost to the threshold."""
    purified = found.audit.evidence.purified
    assert found.audit.rewired is not None
    return purified.num_pairs - found.audit.rewired.num_pairs


def _tell(found: FileAudit) -> None:
    audit = found.audit
    if audit.changes is not None:
        typer.echo(audit.changes.sentence())
    below = f"{audit.suspicious_below:.4g}"
    if audit.rewired is not None:
        typer.echo(f"The purifier's own list has {audit.rewired.num_pairs:,} edges{_steps(found)}.")
    elif audit.decision is not None:
        typer.echo(f"Threshold {below}, {audit.chosen_by}{_steps(found)}.")
        would = "In shadow mode, nothing was changed; otherwise: " if found.request.shadow else ""
        typer.echo(f"{would}{audit.decision.sentence()}")
    else:
        number, judged = int(audit.suspicious.sum()), int(audit.judged.sum())
        what = "added edges" if audit.changes is not None else "edges"
        typer.echo(f"{number:,} of {judged:,} {what} got a weight below {below} ({audit.chosen_by}){_steps(found)}.")


def _steps(found: FileAudit) -> str:
    evidence = found.audit.evidence
    if evidence.converged is None:
        return ""
    change = evidence.relative_change[-1] if evidence.relative_change else 0
    ending = "converged" if evidence.converged else "not yet within the tolerance"
    return f"; {len(evidence.relative_change)} steps, {ending} (last relative change {change:.2g})"
