"""`purigraph bench`: measure time and memory on this machine."""

from __future__ import annotations

import platform
from typing import Annotated, Any

import typer

from purigraph._version import __version__
from purigraph.cli.options import JsonOption, ReportFileOption
from purigraph.cli.outputs import check_output, print_json, report
from purigraph.tables import Table

NAME = "bench"
HELP = "Measure time and memory against the equations as printed, PyG and the unavoidable matrix products."


def run(
    quick: Annotated[bool, typer.Option("--quick", help="Only Cora's size: one minute instead of many.")] = False,
    growth: Annotated[
        bool, typer.Option("--growth/--no-growth", help="Also measure the scaling with edges and purifier dimensions.")
    ] = True,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure only this row; may be repeated. Implies --no-growth.")
    ] = None,
    output: ReportFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure and print."""
    import torch

    from purigraph import bench
    from purigraph.bench.workloads import WORKLOADS
    from purigraph.errors import InputError
    from purigraph.files import write_json

    check_output(output, "--output", kind=report(NAME, "purigraph_version", "machine", "rows"))
    if only:
        known = sorted(WORKLOADS)
        unknown = [name for name in only if name not in known]
        if unknown:
            raise InputError(f"There is no row {unknown[0]!r}. Choose from: {', '.join(known)}.")
        growth = False
    rows: list[bench.Row] = []
    edges: list[bench.Growth] = []
    shapes: list[bench.Growth] = []

    def result() -> dict[str, Any]:
        return {
            "purigraph_version": __version__,
            "torch_version": torch.__version__,
            "threads": torch.get_num_threads(),
            "machine": platform.machine(),
            "quick": quick,
            "rows": [row.to_dict() for row in rows],
            "growth": [one.to_dict() for one in [*edges, *shapes]],
        }

    def keep() -> None:
        """Write the results so far, as a run of many minutes may be interrupted."""
        if output is not None:
            write_json(output, result())

    for row in bench.run(quick=quick, only=only):
        rows.append(row)
        keep()
        if not as_json:
            typer.echo(f"{row.name} ({row.size}): {row.ours_s:.4g} s", err=True)
    if growth:
        for one in bench.growth_with_edges((10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000)):
            edges.append(one)
            keep()
        if not quick:
            shapes = list(bench.growth_with_shape())
    keep()
    if as_json:
        print_json(result())
        return
    columns = ["work", "size", "s", "ref s", "ratio", "floor s", "x floor", "MB", "ref MB"]
    Table(
        f"Time and memory of ours and the reference ({torch.get_num_threads()} threads)",
        columns,
        [
            [
                row.name,
                row.size,
                _number(row.ours_s),
                _number(row.reference_s),
                _number(row.ratio),
                _number(row.floor_s),
                _number(row.floor_multiple),
                _number(row.ours_mb),
                _number(row.reference_mb),
            ]
            for row in rows
        ],
    ).print()
    if edges or shapes:
        Table(
            "One purification step",
            ["nodes", "edges", "K", "Z1", "Z2", "s", "ns/edge", "x floor", "MB"],
            [
                [
                    f"{one.num_nodes:,}",
                    f"{one.num_edges:,}",
                    one.hops,
                    one.node_channels,
                    one.edge_channels,
                    _number(one.seconds),
                    _number(one.ns_per_edge),
                    _number(one.floor_multiple),
                    _number(one.mb),
                ]
                for one in [*edges, *shapes]
            ],
        ).print()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
