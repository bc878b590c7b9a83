"""`purigraph attack`: find the flips that hurt a model most and save them to a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from purigraph.cli.attacking import advice_for_the_command_line, create_attack, read_budgets
from purigraph.cli.inputs import graph_file
from purigraph.cli.models import load_scene, load_victim
from purigraph.cli.options import (
    AnchorOption,
    AttackEpochsOption,
    AttackOption,
    AttackSeed,
    BudgetKindOption,
    CheckpointOption,
    ClassifierOption,
    DeviceOption,
    FeaturesOption,
    GraphArgument,
    JsonOption,
    PresetOption,
    PurifierOption,
    RestartsOption,
    SetOption,
    SplitOption,
    SplitSeedOption,
)
from purigraph.cli.outputs import FLIPS, GRAPH_FILE, check_output, keep_result, print_json

NAME = "attack"
HELP = "Attack a trained classifier, through a purifier if one is given, and write the flips to a file."
SETTINGS_OF = ("attack",)
DEFAULT_EPSILON = 0.1


def run(
    graph: GraphArgument,
    classifier: ClassifierOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .safetensors file to write the flips to.")],
    features: FeaturesOption = None,
    purifier: PurifierOption = None,
    anchor: AnchorOption = None,
    attack: AttackOption = None,
    epsilon: Annotated[
        float | None,
        typer.Option(min=0, help=f"The size of the budget; see --budget-kind. Default: {DEFAULT_EPSILON}."),
    ] = None,
    budget_kind: BudgetKindOption = "incident",
    epochs: AttackEpochsOption = None,
    restarts: RestartsOption = None,
    start: Annotated[Path | None, typer.Option(help="Flips to start from, e.g. of a transferred attack.")] = None,
    graph_output: Annotated[
        Path | None, typer.Option(help="Also write the attacked graph to a .npz graph file.")
    ] = None,
    checkpoint: CheckpointOption = None,
    preset: PresetOption = None,
    settings: SetOption = None,
    attack_seed: Annotated[int, AttackSeed] = 0,
    seed: SplitSeedOption = None,
    split: SplitOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Attack the test nodes."""
    from purigraph.evaluation import as_attacks_see_it, model_accuracy
    from purigraph.graph.budget import Budget
    from purigraph.graph.npz import save_npz
    from purigraph.graph.perturbation import Perturbation

    inputs = [graph_file(graph), features, start, classifier, purifier]
    check_output(output, "--output", suffix=".safetensors", kind=FLIPS, apart_from=inputs)
    check_output(graph_output, "--graph-output", suffix=".npz", kind=GRAPH_FILE, apart_from=[*inputs, output])
    check_output(checkpoint, "--checkpoint", folder=True, apart_from=[*inputs, output, graph_output])
    kind, (amount,) = read_budgets(budget_kind, None if epsilon is None else [epsilon], [DEFAULT_EPSILON])
    attacker = create_attack(
        attack, settings, preset=preset, epochs=epochs, graph=graph, through_purifier=purifier is not None
    )
    begin = None if start is None else Perturbation.load(start)
    model, inner = load_victim(classifier, purifier, device, anchor)
    data, chosen = load_scene(graph, inner, features=features, seed=seed, split=split, device=device)
    with advice_for_the_command_line(purifier):
        found = attacker(
            model,
            data,
            Budget(amount, kind),
            start=begin,
            seed=attack_seed,
            restarts=restarts or 1,
            checkpoint=checkpoint,
            progress=False if as_json else None,
        )
    facts: dict[str, object] = {
        "graph": graph,
        **chosen,
        "attack": repr(attacker),
        "attack_seed": attack_seed,
        "epsilon": amount,
        "budget_kind": kind,
    }
    header = {name: str(fact) for name, fact in facts.items()}
    keep_result(lambda path: found.save(path, header), output)
    attacked = found.apply(data)
    if graph_output is not None:
        keep_result(partial(save_npz, attacked.cpu()), graph_output)
    clean, left = (model_accuracy(model, as_attacks_see_it(one)) for one in (data, attacked))
    if as_json:
        written = {"output": str(output), "graph_output": None if graph_output is None else str(graph_output)}
        counts = {"added": found.added.shape[1], "removed": found.removed.shape[1]}
        print_json({**written, **facts, "clean": clean, "attacked": left, **counts})
        return
    typer.echo(
        f"{len(found)} flips ({found.added.shape[1]} added, {found.removed.shape[1]} removed): accuracy "
        f"{100 * clean:.1f} % -> {100 * left:.1f} % on {int(data.test_mask.sum())} test nodes."
    )
    typer.echo(f"Written to {output}{'' if graph_output is None else f' and {graph_output}'}.")
