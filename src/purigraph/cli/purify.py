"""`purigraph purify`: give every edge of a graph a weight."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from purigraph.cli.common import (
    DeviceOption,
    GraphArgument,
    JsonOption,
    check_device,
    check_output,
    load_graph,
    print_json,
)

NAME = "purify"
HELP = "Purify a graph with a trained purifier and write it as a .npz file."


def run(
    graph: GraphArgument,
    model: Annotated[str, typer.Option("--model", "-m", help="The folder of a trained purifier, or hf://owner/name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")],
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Remove edges below this weight instead of keeping weights.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="At most so many purification steps.")] = None,
    edge_batch: Annotated[int | None, typer.Option(help="Score so many edges at a time, for less memory.")] = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Purify and write."""
    import copy

    import torch

    from purigraph.graph import read_data
    from purigraph.graph.npz import save_npz
    from purigraph.purifiers import GPRGAE

    check_output(output, "--output", suffix=".npz", apart_from=[graph])
    check_device(device)
    purifier = GPRGAE.from_pretrained(model).to(device)
    data = load_graph(graph, device=device)
    pairs, entries = read_data(data)
    with torch.no_grad():
        result = purifier.trace(data.x, pairs, max_steps=max_steps, edge_batch=edge_batch)
    weight = entries.spread(result.graph.weight)
    purified = copy.copy(data)
    purified.edge_weight = weight
    kept = int((result.graph.weight >= (threshold if threshold is not None else 0.5)).sum())
    if threshold is not None:
        purified.edge_index = data.edge_index[:, weight >= threshold]
        del purified.edge_weight
    save_npz(purified.cpu(), output)
    summary = {
        "graph": graph,
        "output": str(output),
        "nodes": pairs.num_nodes,
        "edges": pairs.num_pairs,
        "edges_below": pairs.num_pairs - kept,
        "threshold": threshold if threshold is not None else 0.5,
        "mean_weight": float(result.graph.weight.mean()) if pairs.num_pairs else None,
        "steps": len(result.relative_change),
        "relative_change": result.relative_change,
        "converged": result.converged,
    }
    if as_json:
        print_json(summary)
        return
    ending = "converged" if result.converged else "not yet within the tolerance"
    what = "removed" if threshold is not None else "got a weight"
    typer.echo(
        f"{summary['edges_below']:,} of {pairs.num_pairs:,} edges {what} below {summary['threshold']}; "
        f"{summary['steps']} steps, {ending} (last relative change "
        f"{result.relative_change[-1] if result.relative_change else 0:.2g})."
    )
    typer.echo(f"Written to {output}.")
