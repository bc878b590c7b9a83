"""`purigraph fit`: train a purifier on a trusted graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purigraph.cli.common import (
    DeviceOption,
    GraphArgument,
    JsonOption,
    SeedOption,
    SetOption,
    SplitOption,
    check_output,
    check_split,
    load_graph,
    print_json,
    read_settings,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

NAME = "fit"
HELP = "Train a purifier on a trusted graph and save it to a folder."


def run(
    graph: GraphArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write the purifier to.")],
    epochs: Annotated[int | None, typer.Option(help="Training epochs (2000).")] = None,
    inductive: Annotated[
        bool,
        typer.Option(
            "--inductive", help="Hide the split's test nodes and choose the best epoch on its validation nodes."
        ),
    ] = False,
    batch_ratio: Annotated[
        float | None, typer.Option(help="The share of pairs in every epoch's loss, for large graphs.")
    ] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without a better score.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file to keep the run's state in; an interrupted run goes on from it.")
    ] = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    split: SplitOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train and save."""
    from purigraph.errors import InputError
    from purigraph.graph.splits import MASKS, inductive_split
    from purigraph.purifiers.gpr_gae import GPRGAE, FitSettings, GPRGAEConfig

    check_output(output, "--output", folder=True)
    check_output(checkpoint, "--checkpoint", apart_from=[graph, output])
    if split is not None and not inductive:
        raise InputError("--split says which test nodes --inductive hides: give --inductive too, or leave it out.")
    given = read_settings(settings, epochs=epochs, batch_ratio=batch_ratio, patience=patience)
    if "in_channels" in given:
        raise InputError("in_channels is the number of the graph's features, which fit finds itself: leave it out.")
    shape = {name: given.pop(name) for name in list(given) if name in GPRGAEConfig.model_fields}
    purifier = GPRGAE(**shape)
    FitSettings.read(given, "fit")  # before the data is loaded: a typing error should not cost minutes
    train: Data
    validation: Data | None
    if inductive:
        check_split(graph, split)
        graphs = inductive_split(load_graph(graph, seed=seed, split=split or 0, needs=MASKS, device=device))
        train, validation = graphs.train, graphs.validation
    else:
        train, validation = load_graph(graph, seed=seed, device=device), None
    purifier.fit(train, validation=validation, seed=seed, checkpoint=checkpoint, progress=not as_json, **given)
    purifier.save_pretrained(output)
    if as_json:
        print_json({"model": str(output), **purifier.report.record()})
        return
    report = purifier.report
    typer.echo(
        f"Trained {report.epochs_run} epochs in {report.seconds:.0f} s; best epoch {report.best_epoch}: "
        f"AUC {report.auc:.4f}, AP {report.ap:.4f} for true against injected edges of unseen nodes."
    )
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")
