"""`purigraph purify --engine ...`: the same command over several processes or machines."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from purigraph.cli.outputs import print_json
from purigraph.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from purigraph.audit.file_audit import Request
    from purigraph.graph import PairGraph
    from purigraph.purifiers import Purifier
    from purigraph.purifiers.evidence import Evidence

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


def purify_parts(request: Request, output: Path, ranks: dict[str, Any], *, as_json: bool) -> None:
    """Purify a graph in parts into a folder of parts, and print how it went."""
    from purigraph import distributed
    from purigraph.audit.file_audit import Request, load_purifier

    graph = request.graph
    if ranks["engine"] is None:
        raise InputError(
            f"{graph} is a graph in parts: choose how its processes are started, --engine torchrun or ray."
        )
    if request.threshold is not None:
        raise InputError("--threshold is for graph files: for a graph in parts, use --set threshold=...")
    known = Request(graph=graph, purifier=request.purifier, settings=request.settings, device=request.device)
    if request != known:
        raise InputError("Of a graph in parts only the weights are written: options for graph files do not apply.")
    result = distributed.purify(graph, _gpr_gae(load_purifier(request)), output, **ranks)
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


def evidence_over_ranks(output: Path, ranks: dict[str, Any]) -> Callable[[Purifier, Tensor, PairGraph], Evidence]:
    """Return what computes `Purifier.evidence` by other processes: the weights before and after, not step by step.

    Their files are in a folder beside the output: after an interruption, the same command resumes from there.
    """

    def compute(purifier: Purifier, x: Tensor, graph: PairGraph) -> Evidence:
        from torch_geometric.data import Data

        from purigraph import distributed
        from purigraph.graph import pair_codes
        from purigraph.purifiers.evidence import Evidence

        place = output.with_name(f"{output.name}.ranks")
        if not is_parts(str(place / "graph")):
            edge_index, edge_weight = graph.to("cpu").edge_index()
            data = Data(x=x.cpu(), edge_index=edge_index, edge_weight=edge_weight)
            distributed.write_parts(data, place / "graph", parts=ranks["workers"])
        result = distributed.purify(place / "graph", _gpr_gae(purifier), place / "result", **ranks)
        pairs, weight = distributed.read_purified(place / "result")
        purified = graph.weight.new_zeros(graph.num_pairs)
        position = graph.find(pair_codes.encode(pairs[0], pairs[1], graph.num_nodes).to(graph.device))
        purified[position] = weight.to(purified)
        shutil.rmtree(place)
        return Evidence(
            graph.with_weight(purified),
            [graph.weight, purified],
            relative_change=list(result.relative_change),
            converged=result.converged,
        )

    return compute


def _gpr_gae(purifier: Purifier) -> Any:
    from purigraph.distributed.purification import as_gpr_gae

    return as_gpr_gae(purifier)
