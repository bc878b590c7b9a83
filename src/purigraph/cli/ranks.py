"""`purigraph purify --engine ...`: the same command over several processes or machines."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from purigraph.cli.outputs import print_json
from purigraph.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from purigraph.distributed import PurifiedParts
    from purigraph.purifiers import Purifier

EngineOption = Annotated[
    str | None,
    typer.Option("--engine", help="Purify over several processes: torchrun or ray. Default: in this process."),
]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="The number of processes, over all machines.")]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="host:port of torchrun's rendezvous, or the address of a Ray cluster."),
]
MachinesOption = Annotated[
    int, typer.Option("--machines", min=1, help="The number of machines on which this command is started (torchrun).")
]


def is_parts(graph: str) -> bool:
    """Whether a graph is a folder of Parquet files (see docs/distributed.md)."""
    return (Path(graph) / "manifest.json").is_file()


def purify_parts(
    graph: str, purifier: Purifier, output: Path, ranks: dict[str, Any], *, threshold: float | None, as_json: bool
) -> None:
    """Purify a graph in parts into a folder of parts, and print how it went."""
    from purigraph import distributed

    if ranks["engine"] is None:
        raise InputError(
            f"{graph} is a graph in parts: choose how its processes are started, --engine torchrun or ray."
        )
    if threshold is not None:
        raise InputError("--threshold removes edges from a .npz file: for a graph in parts, use --set threshold=...")
    result = distributed.purify(graph, _gpr_gae(purifier), output, **ranks)
    summary = {
        "graph": graph,
        "output": str(output),
        "nodes": result.num_nodes,
        "edges": result.num_edges,
        "steps": len(result.relative_change),
        "relative_change": result.relative_change,
        "converged": result.converged,
        "ranks": [vars(one) for one in result.ranks],
    }
    if as_json:
        print_json(summary)
        return
    ending = "converged" if result.converged else "not yet within the tolerance"
    typer.echo(f"{result.num_edges:,} edges; {len(result.relative_change)} steps, {ending}.")
    typer.echo(f"Written to {output}.")


def purify_data_over_ranks(
    purifier: Purifier, data: Data, output: Path, ranks: dict[str, Any]
) -> tuple[Data, PurifiedParts]:
    """Return what `Purifier.purify_data` returns, computed by other processes.

    Their files are in a folder beside the output: after an interruption, the same command resumes from there.
    """
    import torch

    from purigraph import distributed
    from purigraph.graph import pair_codes, read_data

    place = output.with_name(f"{output.name}.ranks")
    graph, entries = read_data(data)
    if not is_parts(str(place / "graph")):
        distributed.write_parts(data.cpu(), place / "graph", parts=ranks["workers"])
    result = distributed.purify(place / "graph", _gpr_gae(purifier), place / "result", **ranks)
    pairs, weight = distributed.read_purified(place / "result")
    purified = torch.zeros(graph.num_pairs)
    purified[graph.find(pair_codes.encode(pairs[0], pairs[1], graph.num_nodes))] = weight
    clean = copy.copy(data)
    clean.edge_weight = entries.spread(purified).to(entries.weight.dtype)
    shutil.rmtree(place)
    return clean, result


def _gpr_gae(purifier: Purifier) -> Any:
    from purigraph.distributed.purification import as_gpr_gae

    return as_gpr_gae(purifier)
