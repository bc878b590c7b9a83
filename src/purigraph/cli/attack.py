"""`purigraph attack`: find the flips that hurt a model most, and keep them as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from purigraph.cli.attackers import (
    AttackOption,
    AttackSeed,
    BudgetOption,
    PresetOption,
    RestartsOption,
    build_attack,
    read_budgets,
)
from purigraph.cli.common import (
    DeviceOption,
    GraphArgument,
    JsonOption,
    SetOption,
    SplitOption,
    check_output,
    print_json,
)
from purigraph.cli.victims import ClassifierOption, PurifierOption, SplitSeedOption, load_scene, load_victim

NAME = "attack"
HELP = "Attack a trained classifier, through a purifier if one is given, and write the flips to a file."
DEFAULT_EPSILON = 0.1


def run(
    graph: GraphArgument,
    classifier: ClassifierOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .safetensors file to write the flips to.")],
    purifier: PurifierOption = None,
    attack: AttackOption = None,
    epsilon: Annotated[
        float | None, typer.Option(min=0, help=f"The size of the budget ({DEFAULT_EPSILON}); see --budget.")
    ] = None,
    budget: BudgetOption = "incident",
    restarts: RestartsOption = None,
    start: Annotated[Path | None, typer.Option(help="A file of flips to begin from, say a transferred attack.")] = None,
    graph_output: Annotated[
        Path | None, typer.Option(help="Also write the attacked graph, to a .npz graph file.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder to keep the attack's state in; an interrupted attack resumes from it.")
    ] = None,
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

    check_output(output, "--output", suffix=".safetensors", apart_from=[start])
    check_output(graph_output, "--graph-output", suffix=".npz", apart_from=[graph])
    check_output(checkpoint, "--checkpoint", folder=True, apart_from=[graph, start, output, graph_output])
    kind, (amount,) = read_budgets(budget, None if epsilon is None else [epsilon], [DEFAULT_EPSILON])
    attacker = build_attack(attack, settings, preset=preset, graph=graph, through_purifier=purifier is not None)
    begin = None if start is None else Perturbation.load(start)
    model, inner = load_victim(classifier, purifier, device)
    data, chosen = load_scene(graph, inner, seed=seed, split=split, device=device)
    targets = data.test_mask.nonzero().squeeze(1)
    found = attacker(
        model,
        data,
        Budget(amount, kind),
        targets=targets,
        seed=attack_seed,
        start=begin,
        restarts=restarts or 1,
        checkpoint=checkpoint,
        progress=not as_json,
    )
    facts: dict[str, object] = {
        "graph": graph,
        **chosen,
        "attack": repr(attacker),
        "attack_seed": attack_seed,
        "epsilon": amount,
        "budget": kind,
    }
    found.save(output, {name: str(fact) for name, fact in facts.items()})
    attacked = found.apply(data)
    if graph_output is not None:
        save_npz(attacked.cpu(), graph_output)
    clean, left = (model_accuracy(model, as_attacks_see_it(one)) for one in (data, attacked))
    if as_json:
        written = {"output": str(output), "graph_output": None if graph_output is None else str(graph_output)}
        counts = {"added": found.added.shape[1], "removed": found.removed.shape[1]}
        print_json({**written, **facts, "clean": clean, "attacked": left, **counts})
        return
    typer.echo(
        f"{len(found)} flips ({found.added.shape[1]} added, {found.removed.shape[1]} removed): accuracy "
        f"{100 * clean:.1f} % -> {100 * left:.1f} % on {len(targets)} test nodes."
    )
    typer.echo(f"Written to {output}{'' if graph_output is None else f' and {graph_output}'}.")
