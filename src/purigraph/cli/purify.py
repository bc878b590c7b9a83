"""`purigraph purify`: give every edge of a graph a weight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from purigraph.cli.inputs import check_device, graph_file, is_file, load_graph, read_settings
from purigraph.cli.options import DeviceOption, GraphArgument, JsonOption, SetOption
from purigraph.cli.outputs import GRAPH_FILE, check_output, print_json
from purigraph.cli.ranks import (
    AddressOption,
    EngineOption,
    MachinesOption,
    WorkersOption,
    is_parts,
    purify_data_over_ranks,
    purify_parts,
)
from purigraph.errors import InputError, NotFittedError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from purigraph.purifiers import Purifier

NAME = "purify"
HELP = "Purify a graph with a trained purifier and write it as a .npz file."
SETTINGS_OF = ("purifier",)

# Without a threshold, edges below this weight are reported as not trusted by the purifier.
DOUBTFUL = 0.5


def run(
    graph: GraphArgument,
    purifier: Annotated[
        str, typer.Option("--purifier", "-m", help="The folder of a purifier (`purigraph fit`), or hf://owner/name.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .npz file to write; a folder for a graph in parts.")
    ],
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Remove edges below this weight instead of writing weights.")
    ] = None,
    engine: EngineOption = None,
    workers: WorkersOption = 2,
    address: AddressOption = None,
    machines: MachinesOption = 1,
    settings: SetOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Purify and write: a graph file is copied with new weights, or without the edges below the threshold."""
    import torch

    from purigraph.graph import read_data
    from purigraph.graph.npz import GraphFile, save_npz

    ranks = {"engine": engine, "workers": workers, "address": address, "machines": machines}
    if engine is not None and device != "cpu":
        raise InputError(f"--engine runs on CPUs, not on {device}: omit --device, or omit --engine to use one GPU.")
    if is_parts(graph):
        check_output(output, "--output", folder=True, apart_from=[graph, purifier])
        purify_parts(
            graph, _load(purifier, read_settings(settings)), output, ranks, threshold=threshold, as_json=as_json
        )
        return
    check_output(output, "--output", suffix=".npz", kind=GRAPH_FILE, apart_from=[graph_file(graph), purifier])
    check_device(device)
    purify = _load(purifier, read_settings(settings)).to(device)
    file = GraphFile(graph) if is_file(graph) else None
    data = load_graph(graph, device=device) if file is None else file.data().to(device)
    before = read_data(data)[0]

    if engine is None:
        with torch.no_grad():
            purified, trace = purify.purify_data(data)
    else:
        purified, trace = purify_data_over_ranks(purify, data, output, ranks)
    after, entries = read_data(purified)
    below = after.weight < (DOUBTFUL if threshold is None else threshold)
    removed = 0 if threshold is None else int(below.sum())
    result, keep = purified, None
    if threshold is not None:
        keep = (entries.pair < 0) | (purified.edge_weight >= threshold)  # purifiers ignore self-loops: keep them
        result = _unweighted(purified, keep)

    if file is None:
        save_npz(result.cpu(), output)
    elif purify.adds_edges:
        file.save_rewired(output, result.cpu())
    elif keep is None:
        file.save_weighted(output, purified.edge_weight)
    else:
        file.save_kept(output, keep)

    summary = {
        "graph": graph,
        "output": str(output),
        "nodes": before.num_nodes,
        "edges": before.num_pairs,
        "added": int((before.find(after.codes) < 0).sum()),
        "removed": removed,
        "threshold": threshold,
        "mean_weight": float(after.weight.mean()) if after.num_pairs else None,
        "steps": None if trace is None else len(trace.relative_change),
        "relative_change": None if trace is None else trace.relative_change,
        "converged": None if trace is None else trace.converged,
    }
    if as_json:
        print_json(summary)
        return
    what = f"got a weight below {DOUBTFUL}" if threshold is None else f"with a weight below {threshold} removed"
    typer.echo(f"{int(below.sum()):,} of {after.num_pairs:,} edges {what}{_steps(trace)}.")
    typer.echo(f"Written to {output}.")


def _load(folder: str, changes: dict[str, Any]) -> Purifier:
    from purigraph import purifiers

    purifier = purifiers.load(folder)
    if not purifier.is_fitted:
        raise NotFittedError(f"The purifier in {folder} is not trained: train one with `purigraph fit`.")
    if not changes:
        return purifier
    # Only purifiers with settings that can be changed after training have `with_settings`.
    with_settings = getattr(purifier, "with_settings", None)
    if with_settings is None:
        raise InputError(f"The settings of a trained {type(purifier).__name__} can't be changed: omit --set.")
    changed: Purifier = with_settings(**changes)
    return changed


def _unweighted(data: Data, keep: Any) -> Data:
    """Return the graph with only the edges of the mask `keep` (M,), without weights."""
    import copy

    result = copy.copy(data)
    result.edge_index = data.edge_index[:, keep]
    del result.edge_weight
    return result


def _steps(trace: Any) -> str:
    if trace is None:
        return ""
    change = trace.relative_change[-1] if trace.relative_change else 0
    ending = "converged" if trace.converged else "not yet within the tolerance"
    return f"; {len(trace.relative_change)} steps, {ending} (last relative change {change:.2g})"
