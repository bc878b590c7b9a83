"""`purigraph evaluate`: what attacks leave of a model's accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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
from purigraph.cli.victims import ClassifierOption, PurifierOption, load_victim

NAME = "evaluate"
HELP = "Measure a classifier's accuracy under attack, adaptive, transferred or the worst of an ensemble."


def run(
    graph: GraphArgument,
    classifier: ClassifierOption,
    purifier: PurifierOption = None,
    attack: Annotated[str, typer.Option("--attack", "-a", help="prbcd, lrbcd, pgd, evolutionary, ...")] = "prbcd",
    epsilon: Annotated[list[float] | None, typer.Option(help="A budget; may be repeated (0.1, 0.25, 0.5).")] = None,
    transfer: Annotated[bool, typer.Option("--transfer", help="Find the attack on the classifier alone.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="The worst case of an ensemble of attacks.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Attack epochs; a quarter as many follow to fine-tune.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep every perturbation there; an interrupted run goes on from them.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the JSON to a file.")] = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Evaluate on the test nodes."""
    from purigraph.errors import InputError
    from purigraph.evaluation import Evaluation, WorstCase, default_ensemble, evaluate, worst_case
    from purigraph.files import write_json
    from purigraph.protection import Protected

    model = load_victim(classifier, purifier, device)
    if transfer and not isinstance(model, Protected):
        raise InputError("--transfer compares a protected model with the classifier inside: give --purifier too.")
    data = load_graph(graph, seed=seed, device=device)
    epsilons = epsilon or [0.1, 0.25, 0.5]
    result: Evaluation | WorstCase
    if worst:
        if settings:
            raise InputError("--worst has an ensemble of its own: --set does not apply; use --epochs.")
        ensemble = default_ensemble() if epochs is None else default_ensemble(epochs, max(epochs // 4, 1))
        result = worst_case(
            model, data, epsilons=epsilons, ensemble=ensemble, seeds=(seed,), folder=folder, progress=not as_json
        )
    else:
        given = read_settings(settings)
        if epochs is not None and attack in {"prbcd", "lrbcd", "pgd"}:
            given["epochs"] = epochs
            if attack == "prbcd":
                given["fine_tune_epochs"] = max(epochs // 4, 1)
        result = evaluate(
            model,
            data,
            attack=attack,
            epsilons=epsilons,
            transfer_from=model.unprotected() if transfer and isinstance(model, Protected) else None,
            seeds=(seed,),
            folder=folder,
            progress=not as_json,
            **given,
        )
    document = {"graph": graph, "seed": seed, **result.to_dict()}
    if output is not None:
        write_json(output, document)
    if as_json:
        print_json(document)
        return
    Console().print(result)
