"""`purigraph evaluate`: measure the accuracy of a model under attack."""

from __future__ import annotations

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
    ReportFileOption,
    RestartsOption,
    SetOption,
    SplitOption,
    SplitSeedOption,
)
from purigraph.cli.outputs import check_output, keep_result, print_json, report

NAME = "evaluate"
HELP = "Measure the accuracy of a classifier under an adaptive attack, a transferred one or the worst of an ensemble."
SETTINGS_OF = ("attack",)
DEFAULT_EPSILONS = (0.1, 0.25, 0.5)


def run(
    graph: GraphArgument,
    classifier: ClassifierOption,
    features: FeaturesOption = None,
    purifier: PurifierOption = None,
    anchor: AnchorOption = None,
    attack: AttackOption = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="A budget; may be repeated. Default: 0.1, 0.25 and 0.5.")
    ] = None,
    budget_kind: BudgetKindOption = "incident",
    transfer: Annotated[bool, typer.Option("--transfer", help="Attack the classifier without its purifier.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="Report the worst case of an ensemble of attacks.")] = False,
    ensemble: Annotated[
        str | None, typer.Option(help="The ensemble of --worst: focused, hour or thorough. Default: focused.")
    ] = None,
    epochs: AttackEpochsOption = None,
    restarts: RestartsOption = None,
    checkpoint: CheckpointOption = None,
    output: ReportFileOption = None,
    preset: PresetOption = None,
    settings: SetOption = None,
    attack_seed: Annotated[list[int] | None, AttackSeed] = None,
    seed: SplitSeedOption = None,
    split: SplitOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Evaluate on the test nodes."""
    from purigraph.anchored import Anchored
    from purigraph.errors import InputError
    from purigraph.evaluation import Evaluation, WorstCase, evaluate, worst_case
    from purigraph.files import write_json
    from purigraph.protection import Protected

    inputs = [graph_file(graph), features, classifier, purifier]
    written = report(NAME, "graph", "attack_seeds", "budget_kind")
    check_output(output, "--output", kind=written, apart_from=[*inputs, checkpoint])
    check_output(checkpoint, "--checkpoint", folder=True, apart_from=inputs)
    kind, epsilons = read_budgets(budget_kind, epsilon, DEFAULT_EPSILONS)
    if worst:
        given = {"--attack": attack, "--transfer": transfer, "--restarts": restarts, "--preset": preset}
        unused = [option for option, value in {**given, "--set": settings}.items() if value]
        if unused:
            raise InputError(
                f"--worst uses a fixed ensemble of attacks, so {', '.join(unused)} does not apply: omit it. "
                "--epochs makes all of its attacks shorter or longer."
            )
    elif ensemble is not None:
        raise InputError("--ensemble names the attacks of --worst: pass --worst too.")
    elif transfer and purifier is None:
        raise InputError("--transfer compares a protected model with its classifier: pass --purifier too.")
    adaptive = purifier is not None and not transfer
    attacker = None
    if not worst:
        attacker = create_attack(attack, settings, preset=preset, epochs=epochs, graph=graph, through_purifier=adaptive)
    model, inner = load_victim(classifier, purifier, device, anchor)
    data, chosen = load_scene(graph, inner, features=features, seed=seed, split=split, device=device)
    seeds = attack_seed or [0]
    result: Evaluation | WorstCase
    if attacker is None:
        result = worst_case(
            model,
            data,
            epsilons=epsilons,
            epochs=epochs,
            ensemble=ensemble or "focused",
            seeds=seeds,
            budget_kind=kind,
            checkpoint=checkpoint,
            progress=False if as_json else None,
        )
    else:
        with advice_for_the_command_line(None if transfer else purifier):
            result = evaluate(
                model,
                data,
                attack=attacker,
                epsilons=epsilons,
                transfer_from=model.unprotected() if transfer and isinstance(model, Protected | Anchored) else None,
                seeds=seeds,
                budget_kind=kind,
                restarts=restarts or 1,
                checkpoint=checkpoint,
                progress=False if as_json else None,
            )
    document = {"graph": graph, **chosen, "attack_seeds": seeds, "budget_kind": kind, **result.to_dict()}
    certificate = model.certificate(data) if isinstance(model, Anchored) else None
    if certificate is not None:
        document |= {"exposed": certificate.exposed}
    if output is not None:
        keep_result(lambda path: write_json(path, document), output)
    if as_json:
        print_json(document)
        return
    result.table().print()
    if certificate is not None:
        typer.echo(str(certificate))
