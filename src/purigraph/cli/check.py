"""`purigraph check`: is a graph like the one that a purifier was trained on?"""

from __future__ import annotations

from typing import Annotated

import typer

from purigraph.cli.inputs import load_graph
from purigraph.cli.options import DeviceOption, FeaturesOption, GraphArgument, JsonOption
from purigraph.cli.outputs import print_json
from purigraph.devices import check_device
from purigraph.errors import NotFittedError

NAME = "check"
HELP = "Compare a graph with the one that a purifier was trained on, and warn if they are unlike."


def run(
    graph: GraphArgument,
    purifier: Annotated[
        str, typer.Option("--purifier", "-m", help="The folder of a purifier (`purigraph fit`), or hf://owner/name.")
    ],
    features: FeaturesOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if the graph is unlike.")] = False,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Print one line per figure and a sentence per warning."""
    from purigraph import purifiers

    check_device(device)
    model = purifiers.load(purifier).to(device)
    if model.training_statistics is None:
        raise NotFittedError(
            f"The model in {purifier} was saved without the statistics of its training graph, as older versions did: "
            "train it again with `purigraph fit`, and check against that."
        )
    result = model.check(load_graph(graph, features=features, expected=model.feature_record, device=device))
    if as_json:
        print_json({"graph": graph, "model": purifier, **result.to_dict()})
    else:
        result.table().print()
        if result.alike:
            typer.echo("The graph is like the one that the purifier was trained on.")
        else:
            typer.echo(f"Warning: the graph is unlike the training graph in {len(result.warnings)} of these figures.")
    if strict and not result.alike:
        raise typer.Exit(1)
