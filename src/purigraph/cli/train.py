"""`purigraph train`: train a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from purigraph.cli.common import (
    DeviceOption,
    GraphArgument,
    JsonOption,
    SeedOption,
    SetOption,
    load_graph,
    print_json,
    read_settings,
)

NAME = "train"
HELP = "Train a classifier on the labelled nodes of a graph and save it to a folder."


def run(
    graph: GraphArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write the classifier to.")],
    classifier: Annotated[str, typer.Option("--classifier", "-c", help="gcn, gat, gprgnn, appnp, ...")] = "gcn",
    regime: Annotated[str, typer.Option(help="vanilla, self or adversarial.")] = "vanilla",
    profile: Annotated[str, typer.Option(help="Of adversarial training: paper or cpu.")] = "cpu",
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder to keep the run's state in; an interrupted run goes on from it.")
    ] = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train inductively and report the accuracy on the validation and the test nodes."""
    from purigraph.classifiers import paper_hyper_parameters
    from purigraph.errors import InputError
    from purigraph.evaluation import model_accuracy
    from purigraph.graph.splits import inductive_split
    from purigraph.pretrained import Pretrained
    from purigraph.training import PROFILES, train

    if profile not in PROFILES:
        raise InputError(f"There is no profile {profile!r}. Choose one of: {', '.join(PROFILES)}.")
    given = read_settings(settings)
    hyper = paper_hyper_parameters(classifier, graph)
    hyper |= {name: given.pop(name) for name in list(given) if name in hyper}
    split = inductive_split(load_graph(graph, seed=seed, device=device))
    result = train(
        classifier,
        regime,
        split,
        hyper=hyper,
        settings=PROFILES[profile].replace(**given) if regime == "adversarial" else given,
        seed=seed,
        checkpoint=checkpoint,
        progress=not as_json,
    )
    assert isinstance(result.model, Pretrained)  # every classifier that is built by name is
    result.model.save_pretrained(output)
    test = model_accuracy(result.model, split.test)
    if as_json:
        print_json({"model": str(output), "classifier": classifier, "test_accuracy": test, **result.record()})
        return
    typer.echo(
        f"{classifier}, {regime}: {result.epochs} epochs in {result.seconds:.0f} s, best epoch {result.best_epoch}; "
        f"accuracy {100 * result.validation_accuracy:.1f} % on validation nodes, {100 * test:.1f} % on test nodes."
    )
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")
