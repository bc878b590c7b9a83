"""`purigraph fit --anchor`: distil an anchor from a trained classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from purigraph.cli.inputs import load_graph
from purigraph.cli.models import as_trained
from purigraph.cli.outputs import keep_result, print_json
from purigraph.errors import InputError


def fit_anchor(
    graph: str,
    classifier: str | None,
    output: Path,
    given: dict[str, Any],
    *,
    teacher: str | None,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Distil, choose the margin on the validation nodes if there are some, save and report.

    Args:
        graph: A dataset's name or a graph file. Its test nodes are never seen.
        classifier: The folder of the classifier.
        output: The folder to write to.
        given: Settings of the anchor and of its `fit`.
        teacher: A kind of classifier that is trained on all labels and teaches in the place of the classifier, or None.
        seed: Of the distillation.
        device: Where to compute.
        as_json: Print one JSON value.
    """
    from purigraph import anchors, classifiers
    from purigraph.anchors.anchor import AnchorFitSettings
    from purigraph.cli.inputs import check_names, is_file
    from purigraph.devices import check_device
    from purigraph.graph.splits import MASKS, inductive_split

    if classifier is None:
        raise InputError("--anchor distils a classifier: give its folder as --classifier.")
    shape = [name for name in anchors.Anchor.settings_class.model_fields if name not in ("in_channels", "out_channels")]
    own = {name: value for name, value in given.items() if name in shape}
    rest = {name: value for name, value in given.items() if name not in shape}
    check_names(rest, [*shape, *AnchorFitSettings.model_fields], "Anchor")
    anchor = anchors.Anchor(**own)
    AnchorFitSettings(**rest)  # checked before the data is loaded
    if teacher is not None:
        classifiers.registry[teacher]  # raises if there is none of this name
    model = classifiers.load(classifier).to(check_device(device))
    option = "split" if is_file(graph) else "seed"
    chosen = {option: as_trained(option, None, model)}
    data = load_graph(
        graph, seed=chosen.get("seed", 0), split=chosen.get("split", 0), needs=("y", *MASKS), device=device
    )
    graphs = inductive_split(data)
    progress = False if as_json else None
    if teacher is not None:
        from purigraph.training import AllLabels

        rest["teacher"] = AllLabels(teacher, graphs, seed=seed, progress=progress)
    anchor.fit(model, graphs.train, graphs.validation, seed=seed, progress=progress, **rest)
    keep_result(anchor.save_pretrained, output)
    if as_json:
        print_json({"model": str(output), "margin": anchor.margin, **(anchor.provenance or {})})
        return
    typer.echo(anchor.summary())
    typer.echo(f"Saved to {output} (config.json, model.safetensors).")
