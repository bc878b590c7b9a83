"""`purigraph attack`: find the flips that hurt a model most, and keep them as a file."""

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
from purigraph.cli.victims import ClassifierOption, PurifierOption, load_victim

NAME = "attack"
HELP = "Attack a trained classifier, through a purifier if one is given, and write the flips to a file."


def run(
    graph: GraphArgument,
    classifier: ClassifierOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .safetensors file to write the flips to.")],
    purifier: PurifierOption = None,
    attack: Annotated[str, typer.Option("--attack", "-a", help="prbcd, lrbcd, pgd, evolutionary, ...")] = "prbcd",
    epsilon: Annotated[float, typer.Option(min=0, help="The budget relative to the edges at the test nodes.")] = 0.1,
    start: Annotated[Path | None, typer.Option(help="A file of flips to begin from, say a transferred attack.")] = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Attack the test nodes."""
    from purigraph import attacks
    from purigraph.evaluation import model_accuracy
    from purigraph.graph.budget import Budget
    from purigraph.graph.perturbation import Perturbation

    attacker = attacks.create(attack, **read_settings(settings))
    model = load_victim(classifier, purifier, device)
    data = load_graph(graph, seed=seed, device=device)
    begin = None if start is None else Perturbation.load(start)
    targets = data.test_mask.nonzero().squeeze(1)
    found = attacker(model, data, None, targets, Budget(epsilon), seed=seed, start=begin, progress=not as_json)
    found.save(output, {"attack": repr(attacker), "epsilon": str(epsilon), "seed": str(seed)})
    clean, left = model_accuracy(model, data), model_accuracy(model, found.apply(data))
    if as_json:
        counts = {"added": found.added.shape[1], "removed": found.removed.shape[1]}
        print_json({"output": str(output), "epsilon": epsilon, "clean": clean, "attacked": left, **counts})
        return
    typer.echo(
        f"{len(found)} flips ({found.added.shape[1]} added, {found.removed.shape[1]} removed): accuracy "
        f"{100 * clean:.1f} % -> {100 * left:.1f} % on {len(targets)} test nodes."
    )
    typer.echo(f"Written to {output}.")
