"""`purigraph fit`: train a purifier on a trusted graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from purigraph.cli.inputs import check_names, check_split, graph_file, load_graph, read_settings
from purigraph.cli.options import (
    CheckpointOption,
    DeviceOption,
    GraphArgument,
    JsonOption,
    ModelFolderOption,
    SeedOption,
    SetOption,
    SplitOption,
)
from purigraph.cli.outputs import check_output, keep_result, print_json

if TYPE_CHECKING:
    from torch_geometric.data import Data

NAME = "fit"
HELP = "Train a purifier on a trusted graph and save it to a folder."
SETTINGS_OF = ("purifier",)


def run(
    graph: GraphArgument,
    output: ModelFolderOption,
    kind: Annotated[str, typer.Option("--kind", "-k", help="Which purifier.")] = "gpr-gae",
    epochs: Annotated[int | None, typer.Option(min=1, help="Training epochs.")] = None,
    inductive: Annotated[
        bool,
        typer.Option(
            "--inductive", help="Hide the test nodes of the split and choose the best epoch on its validation nodes."
        ),
    ] = False,
    checkpoint: CheckpointOption = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    split: SplitOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train and save."""
    from purigraph import purifiers
    from purigraph.errors import InputError
    from purigraph.graph.splits import MASKS, inductive_split

    check_output(output, "--output", folder=True, model="purifier", apart_from=[graph_file(graph)])
    check_output(checkpoint, "--checkpoint", folder=True, apart_from=[graph_file(graph), output])
    if split is not None and not inductive:
        raise InputError("--split selects the test nodes that --inductive hides: pass --inductive too, or omit it.")
    given = read_settings(settings, epochs=epochs)
    if "in_channels" in given:
        raise InputError("in_channels is the number of features of the graph, which fit sets itself: omit it.")
    component = purifiers.registry[kind]
    shape, training = component.settings_class.model_fields, component.fit_settings_class
    own = {name: value for name, value in given.items() if name in shape and name not in training.model_fields}
    rest = {name: value for name, value in given.items() if name not in own}
    check_names(rest, {**shape, **training.model_fields}, component.__name__)
    purifier = component(**own)
    training(**rest)  # checked before the data is loaded: a typo should not cost minutes
    train: Data
    validation: Data | None
    if inductive:
        check_split(graph, split)
        graphs = inductive_split(load_graph(graph, seed=seed, split=split or 0, needs=MASKS, device=device))
        train, validation = graphs.train, graphs.validation
    else:
        train, validation = load_graph(graph, seed=seed, device=device), None
    purifier.fit(
        train, validation=validation, seed=seed, checkpoint=checkpoint, progress=False if as_json else None, **rest
    )
    keep_result(purifier.save_pretrained, output)
    if as_json:
        print_json({"model": str(output), **(purifier.provenance or {})})
        return
    typer.echo(purifier.summary())
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")
