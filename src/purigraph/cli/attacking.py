"""What the attacking commands attack with: an attack's settings and its budget, from options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, get_args

from purigraph.cli.inputs import is_file, read_settings
from purigraph.cli.options import DEFAULT_ATTACK
from purigraph.errors import InputError
from purigraph.registry import canonical

if TYPE_CHECKING:
    from purigraph.attacks import Attack
    from purigraph.graph.budget import Kind

PRESETS = ("paper",)


def create_attack(
    name: str | None,
    settings: list[str] | None,
    *,
    preset: str | None = None,
    epochs: int | None = None,
    graph: str,
    through_purifier: bool,
) -> Attack:
    """Create the attack that the options describe; whatever it can't use is refused.

    Args:
        name: The attack's.
        settings: From `--set`.
        preset: From `--preset`: settings that `--set` goes on top of.
        epochs: From `--epochs`: as many, and a quarter of them to fine-tune in attacks that do.
        graph: The graph's path or name.
        through_purifier: Whether the attack sees a purifier.
    """
    from purigraph import attacks

    name = canonical(name or DEFAULT_ATTACK)
    base = {} if preset is None else _preset(preset, name, graph, through_purifier)
    given = read_settings(settings, epochs=epochs)
    if epochs is not None:
        if preset is not None:
            raise InputError("--preset names the epochs too: leave --epochs out, or change them with --set epochs=...")
        known = attacks.registry[name].settings_class.model_fields
        if "epochs" not in known:
            raise InputError(
                f"The attack {name} has no epochs, so --epochs does not apply. What can be changed with "
                f"--set NAME=VALUE: {', '.join(known)}."
            )
        if "fine_tune_epochs" in known:
            given.setdefault("fine_tune_epochs", max(epochs // 4, 1))
    return attacks.create(name, **{**base, **given})


def read_budgets(kind: str, given: Sequence[float] | None, default: Sequence[float]) -> tuple[Kind, Sequence[float]]:
    """Return the kind of the budgets, and how large they are: as given, or else by default. All of them are checked."""
    from purigraph.graph.budget import Budget, Kind

    name = canonical(kind)
    if name not in get_args(Kind):
        raise InputError(f"--budget-kind is one of {', '.join(get_args(Kind))}, not {kind!r}.")
    if name == "absolute" and not given:
        raise InputError("--budget-kind absolute needs a number of flips: give it as --epsilon.")
    chosen, epsilons = cast("Kind", name), given or default
    for epsilon in epsilons:
        Budget(epsilon, chosen)  # refuses what is no budget
    return chosen, epsilons


def _preset(preset: str, attack: str, graph: str, through_purifier: bool) -> dict[str, object]:
    from purigraph import attacks

    if canonical(preset) not in PRESETS:
        raise InputError(f"There is no preset {preset!r}. Choose from: {', '.join(PRESETS)}.")
    if is_file(graph):
        raise InputError(f"--preset {preset} has settings for datasets, not for the file {graph}: use --set.")
    return attacks.paper_settings(attack, graph, on_gpr_gae=through_purifier)
