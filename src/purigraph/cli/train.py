"""`purigraph train`: train a classifier."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from purigraph.cli.inputs import (
    check_names,
    check_split,
    graph_file,
    is_file,
    load_document,
    read_settings,
)
from purigraph.cli.options import (
    CheckpointOption,
    DeviceOption,
    FeaturesOption,
    GraphArgument,
    JsonOption,
    ModelFolderOption,
    SeedOption,
    SetOption,
    SplitOption,
)
from purigraph.cli.outputs import check_output, keep_result, print_json
from purigraph.devices import check_device

NAME = "train"
HELP = "Train a classifier on the labelled nodes of a graph and save it to a folder."
SETTINGS_OF = ("classifier", "regime")
DEFAULT_PROFILE = "cpu"


def run(
    graph: GraphArgument,
    output: ModelFolderOption,
    features: FeaturesOption = None,
    kind: Annotated[str, typer.Option("--kind", "-k", help="Which classifier: gcn, gat, gprgnn, appnp, ...")] = "gcn",
    regime: Annotated[str, typer.Option("--regime", help="vanilla, self or adversarial.")] = "vanilla",
    profile: Annotated[
        str | None,
        typer.Option("--profile", help=f"For adversarial training: paper or cpu. Default: {DEFAULT_PROFILE}."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="The maximum number of epochs.")] = None,
    purifier: Annotated[
        str | None,
        typer.Option(
            "--purifier", "-m", help="Train and test on purified graphs: the folder of a purifier, or hf://owner/name."
        ),
    ] = None,
    checkpoint: CheckpointOption = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    split: SplitOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train inductively and report the accuracy on the validation and the test nodes."""
    from purigraph import classifiers, purifiers
    from purigraph.evaluation import model_accuracy
    from purigraph.graph.nodes import read_targets
    from purigraph.graph.splits import MASKS, inductive_split
    from purigraph.paper import classifier_settings
    from purigraph.pretrained import Pretrained
    from purigraph.protection import protect
    from purigraph.registry import canonical
    from purigraph.training import registry, train

    check_output(output, "--output", folder=True, model="classifier", apart_from=[graph_file(graph), features])
    check_output(checkpoint, "--checkpoint", folder=True, apart_from=[graph_file(graph), output])
    kind, regime = canonical(kind), canonical(regime)
    given = read_settings(settings, epochs=epochs)
    component = classifiers.registry[kind]
    shape = [name for name in component.settings_class.model_fields if name not in ("in_channels", "out_channels")]
    hyper = {
        **classifier_settings(kind, graph),
        **{name: value for name, value in given.items() if name in shape},
    }
    rest = {name: value for name, value in given.items() if name not in shape}
    check_names(rest, [*shape, *registry[regime].settings.model_fields], f"{kind}, {regime},")
    component(1, 1, **hyper)  # checked before the data is loaded: a typo should not cost minutes
    chosen = _settings(regime, profile, rest)
    loaded = None if purifier is None else purifiers.load(purifier).to(check_device(device))
    check_split(graph, split)
    data, document = load_document(
        graph, features=features, seed=seed, split=split or 0, needs=("y", *MASKS), device=device
    )
    graphs = inductive_split(data)
    if graphs.test.test_mask.any():
        read_targets(graphs.test, None, None, graphs.test.num_nodes)  # a missing label should not cost the training
    result = train(
        kind,
        regime,
        graphs,
        hyper=hyper,
        settings=chosen,
        purifier=loaded,
        seed=seed,
        checkpoint=checkpoint,
        progress=False if as_json else None,
    )
    assert isinstance(result.model, Pretrained)  # true for all classifiers created by name
    if is_file(graph):
        # Later attacks on the classifier must use the same test nodes (for a dataset, they depend on the seed), and
        # features in the same order.
        record = {"split": split or 0, "features": None if document is None else document.layout.record()}
        result.model.provenance = {**(result.model.provenance or {}), **record}
    keep_result(result.model.save_pretrained, output)
    model = result.model if loaded is None else protect(result.model, loaded)
    test = model_accuracy(model, graphs.test) if graphs.test.test_mask.any() else None
    if as_json:
        facts = {"model": str(output), "classifier": kind, "test_accuracy": test, "seconds": result.seconds}
        print_json({**facts, **result.record()})
        return
    tested = "there are no test nodes" if test is None else f"{100 * test:.1f} % on test nodes"
    through = "" if loaded is None else f" on graphs purified by {type(loaded).__name__}"
    typer.echo(
        f"{kind}, {regime}{through}: {result.epochs_run} epochs in {result.seconds:.0f} s, best epoch "
        f"{result.best_epoch}; accuracy {100 * result.validation_accuracy:.1f} % on validation nodes, {tested}."
    )
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")


def _settings(regime: str, profile: str | None, given: dict[str, Any]) -> Any:
    """Return the settings of a regime, checked before the data is loaded: a typo should not cost minutes."""
    from purigraph.errors import InputError
    from purigraph.training import PROFILES, registry

    if profile is not None and profile not in PROFILES:
        raise InputError(f"There is no profile {profile!r}. Choose one of: {', '.join(PROFILES)}.")
    if regime == "adversarial":
        return PROFILES[profile or DEFAULT_PROFILE].replace(**given)
    if profile is not None:
        raise InputError(f"--profile only applies to adversarial training, not to the regime {regime}: omit it.")
    return registry[regime].settings(**given)
