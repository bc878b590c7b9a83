"""`purigraph fit`: train a purifier on a trusted graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from purigraph.cli.fit_anchor import fit_anchor
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

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from purigraph.classifiers import Classifier
    from purigraph.purifiers import Purifier

NAME = "fit"
HELP = "Train a purifier on a trusted graph and save it to a folder."
SETTINGS_OF = ("purifier", "fit", "anchor")


def run(
    graph: GraphArgument,
    output: ModelFolderOption,
    features: FeaturesOption = None,
    kind: Annotated[str, typer.Option("--kind", "-k", help="Which purifier.")] = "gpr-gae",
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier",
            "-c",
            help="For --anchor, and for purifiers that learn from a classifier (good-at, agreement): its folder.",
        ),
    ] = None,
    anchor: Annotated[
        bool,
        typer.Option(
            "--anchor", help="Distil an anchor from --classifier instead: answers that no edit of the edges can change."
        ),
    ] = False,
    teacher: Annotated[
        str | None,
        typer.Option(
            "--teacher",
            help="With --anchor: a kind of classifier, such as appnp, that is trained on the labels of the validation "
            "nodes, too, and teaches the anchor in the place of --classifier.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="gpr-gae: paper (its shape and training) or fast (a small one, trained in minutes); --set overrides "
            "it. Default: by the size of the graph.",
        ),
    ] = None,
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

    apart_from = [graph_file(graph), features, classifier]
    check_output(output, "--output", folder=True, model="anchor" if anchor else "purifier", apart_from=apart_from)
    check_output(checkpoint, "--checkpoint", folder=True, apart_from=[graph_file(graph), output])
    if split is not None and not inductive:
        raise InputError("--split selects the test nodes that --inductive hides: pass --inductive too, or omit it.")
    given = read_settings(settings, epochs=epochs)
    if anchor and preset is not None:
        raise InputError("--preset belongs to purifiers: omit it with --anchor.")
    if anchor:
        if features is not None:
            raise InputError("--features is for purifiers: an anchor needs a graph with features and labels.")
        fit_anchor(graph, classifier, output, given, teacher=teacher, seed=seed, device=device, as_json=as_json)
        return
    if teacher is not None:
        raise InputError("--teacher teaches an anchor: give it with --anchor.")
    if "in_channels" in given:
        raise InputError("in_channels is the number of features of the graph, which fit sets itself: omit it.")
    component = purifiers.registry[kind]
    _check_classifier(component, classifier)
    shape, training = component.settings_class.model_fields, component.fit_settings_class
    own = {name: value for name, value in given.items() if name in shape and name not in training.model_fields}
    rest = {name: value for name, value in given.items() if name not in own}
    check_names(rest, {**shape, **training.model_fields}, component.__name__)
    # Checked before the data is loaded: a typo should not cost minutes.
    component(**own) if preset is None else component.preset(preset, **own)
    training(**rest)
    attacked = None if classifier is None else _load_classifier(classifier, device)
    train: Data
    validation: Data | None
    if inductive:
        check_split(graph, split)
        _check_seed(attacked, graph, seed, split or 0)
        loaded, document = load_document(
            graph, features=features, seed=seed, split=split or 0, needs=MASKS, device=device
        )
        graphs = inductive_split(loaded)
        train, validation = graphs.train, graphs.validation
    else:
        loaded, document = load_document(graph, features=features, seed=seed, device=device)
        train, validation = loaded, None
    if document is not None and not as_json:
        for note in document.notes:
            typer.secho(note, err=True, dim=True)
    purifier = _make(component, preset, own, train, quiet=as_json)
    shared: dict[str, Any] = {"seed": seed, "checkpoint": checkpoint, "progress": False if as_json else None, **rest}
    if attacked is None:
        purifier.fit(train, validation=validation, **shared)
    elif component.learns_from_answers:
        from purigraph.training import fit_to_answers

        fit_to_answers(purifier, train, validation, classifier=attacked, **shared)
    else:
        from purigraph.training import fit_against_attacks

        fit_against_attacks(purifier, train, classifier=attacked, **shared)
    if document is not None:
        # Later graphs must have the same features, in the same order.
        purifier.feature_record = document.layout.record()
    keep_result(purifier.save_pretrained, output)
    if as_json:
        print_json({"model": str(output), **(purifier.provenance or {})})
        return
    typer.echo(purifier.summary())
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")


def _make(component: type[Purifier], preset: str | None, own: dict[str, Any], train: Data, *, quiet: bool) -> Purifier:
    """Return the purifier to train: by the given preset, or by the one that suits the size of the graph."""
    from purigraph.graph import as_pair_graph

    if preset is not None:
        return component.preset(preset, **own)
    graph = as_pair_graph(train)
    suitable = component.preset_for(graph)
    if suitable is None:
        return component(**own)
    if not quiet:
        others = ", ".join(f"--preset {name}" for name in component.presets if name != suitable)
        typer.echo(
            f"Preset {suitable}, by the size of the graph ({graph.num_nodes:,} nodes, {graph.num_pairs:,} edges): "
            f"{component.presets[suitable].meaning} Also: {others}.",
            err=True,
        )
    return component.preset(suitable, **own)


def _check_classifier(component: type[Purifier], classifier: str | None) -> None:
    """Refuse a classifier that would be ignored, and the lack of one that is needed."""
    from purigraph.errors import InputError

    if component.learns_from_attacks and classifier is None:
        raise InputError(
            f"{component.__name__} learns from attacks on a classifier: train one (`purigraph train`) and give its "
            "folder as --classifier."
        )
    if not (component.learns_from_attacks or component.learns_from_answers) and classifier is not None:
        raise InputError(f"{component.__name__} learns without a classifier: leave --classifier out.")


def _load_classifier(classifier: str, device: str) -> Classifier:
    from purigraph import classifiers

    check_device(device)
    return classifiers.load(classifier).to(device)


def _check_seed(classifier: Classifier | None, graph: str, seed: int, split: int) -> None:
    """Refuse a classifier that has seen nodes which --inductive is to hide."""
    from purigraph.errors import InputError

    option, chosen = ("split", split) if is_file(graph) else ("seed", seed)
    trained = None if classifier is None else (classifier.provenance or {}).get(option)
    if isinstance(trained, int) and trained != chosen:
        raise InputError(
            f"The classifier was trained with --{option} {trained}: it may have seen nodes that --inductive hides with "
            f"--{option} {chosen}. Give --{option} {trained}, or another classifier."
        )
