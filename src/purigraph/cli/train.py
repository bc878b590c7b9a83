"""`purigraph train`: train a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    is_file,
    load_graph,
    print_json,
    read_settings,
)

NAME = "train"
HELP = "Train a classifier on the labelled nodes of a graph and save it to a folder."
DEFAULT_PROFILE = "cpu"


def run(
    graph: GraphArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write the classifier to.")],
    classifier: Annotated[str, typer.Option("--classifier", "-c", help="gcn, gat, gprgnn, appnp, ...")] = "gcn",
    regime: Annotated[str, typer.Option(help="vanilla, self or adversarial.")] = "vanilla",
    profile: Annotated[
        str | None,
        typer.Option(help=f"Of adversarial training: paper or cpu; {DEFAULT_PROFILE} when left out."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder to keep the run's state in; an interrupted run goes on from it.")
    ] = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    split: SplitOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train inductively and report the accuracy on the validation and the test nodes."""
    from purigraph.classifiers import paper_hyper_parameters
    from purigraph.evaluation import model_accuracy
    from purigraph.graph.splits import MASKS, inductive_split
    from purigraph.pretrained import Pretrained
    from purigraph.registry import canonical
    from purigraph.training import train

    check_output(output, "--output", folder=True)
    check_output(checkpoint, "--checkpoint", folder=True)
    classifier, regime = canonical(classifier), canonical(regime)
    given = read_settings(settings)
    hyper = paper_hyper_parameters(classifier, graph)
    hyper |= {name: given.pop(name) for name in list(given) if name in hyper}
    chosen = _settings(regime, profile, given)
    check_split(graph, split)
    graphs = inductive_split(load_graph(graph, seed=seed, split=split or 0, needs=("y", *MASKS), device=device))
    result = train(
        classifier,
        regime,
        graphs,
        hyper=hyper,
        settings=chosen,
        seed=seed,
        checkpoint=checkpoint,
        progress=not as_json,
    )
    assert isinstance(result.model, Pretrained)  # every classifier that is built by name is
    if is_file(graph):
        # What attacks the classifier later must find the same test nodes; for a dataset the seed says which they are.
        result.model.provenance = {**(result.model.provenance or {}), "split": split or 0}
    result.model.save_pretrained(output)
    test = model_accuracy(result.model, graphs.test) if graphs.test.test_mask.any() else None
    if as_json:
        print_json({"model": str(output), "classifier": classifier, "test_accuracy": test, **result.record()})
        return
    tested = "there are no test nodes" if test is None else f"{100 * test:.1f} % on test nodes"
    typer.echo(
        f"{classifier}, {regime}: {result.epochs} epochs in {result.seconds:.0f} s, best epoch {result.best_epoch}; "
        f"accuracy {100 * result.validation_accuracy:.1f} % on validation nodes, {tested}."
    )
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")


def _settings(regime: str, profile: str | None, given: dict[str, Any]) -> Any:
    """The settings of a regime, checked before the data is loaded: a typing error should not cost minutes."""
    from purigraph.errors import InputError
    from purigraph.training import PROFILES, regimes

    kind = regimes[regime].settings
    if profile is not None and profile not in PROFILES:
        raise InputError(f"There is no profile {profile!r}. Choose one of: {', '.join(PROFILES)}.")
    if regime == "adversarial":
        return PROFILES[profile or DEFAULT_PROFILE].replace(**given)
    if profile is not None:
        raise InputError(f"--profile is of adversarial training; the regime {regime} has none: leave it out.")
    return kind.read(given, regime)
