"""Options of the commands that attack: the settings of an attack and its budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast, get_args

from purigraph.cli.inputs import is_file, read_settings
from purigraph.cli.options import DEFAULT_ATTACK
from purigraph.errors import InputError, NoGradientError
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
    """Create the attack given by the options; options that do not apply to it are refused.

    Args:
        name: The name of the attack.
        settings: The settings from `--set`.
        preset: The value of `--preset`: settings that those of `--set` override.
        epochs: The value of `--epochs`; see `Attack.with_epochs`.
        graph: The path or name of the graph.
        through_purifier: Whether the attacked model includes a purifier.
    """
    from purigraph import attacks

    name = canonical(name or DEFAULT_ATTACK)
    base = {} if preset is None else _preset(preset, name, graph, through_purifier)
    given = read_settings(settings, epochs=epochs)
    if epochs is None:
        return attacks.create(name, **{**base, **given})
    if preset is not None:
        raise InputError("--preset also sets the epochs: omit --epochs, or change them with --set epochs=...")
    kind = attacks.registry[name]
    if kind.with_epochs is attacks.Attack.with_epochs:
        raise InputError(
            f"The attack {name} has no epochs, so --epochs does not apply. Settings for "
            f"--set NAME=VALUE: {', '.join(kind.settings_class.model_fields)}."
        )
    del given["epochs"]
    return attacks.create(name).with_epochs(epochs).replace(**given)


@contextmanager
def advice_for_the_command_line(purifier: str | None) -> Iterator[None]:
    """Replace the advice of an attack that finds no gradients, which is for Python, by options of a command.

    Args:
        purifier: The value of `--purifier`.
    """
    try:
        yield
    except NoGradientError:
        first = (
            "The classifier's output does not depend on the edge weights"
            if purifier is None
            else "No gradient flows from the classifier through the purifier to the edges"
        )
        transfer = (
            ""
            if purifier is None
            else "measure it with attacks on the classifier alone, `purigraph evaluate ... --transfer`, or "
        )
        raise NoGradientError(
            f"{first}, so this attack has nothing to follow: {transfer}use --attack evolutionary, which only needs "
            "predictions but takes far longer."
        ) from None


def read_budgets(kind: str, given: Sequence[float] | None, default: Sequence[float]) -> tuple[Kind, Sequence[float]]:
    """Return the kind of the budgets and their sizes, as given or by default; all are checked."""
    from purigraph.graph.budget import Budget, Kind

    name = canonical(kind)
    if name not in get_args(Kind):
        raise InputError(f"--budget-kind must be one of {', '.join(get_args(Kind))}, not {kind!r}.")
    if name == "absolute" and not given:
        raise InputError("--budget-kind absolute needs a number of flips: pass it as --epsilon.")
    chosen, epsilons = cast("Kind", name), given or default
    for epsilon in epsilons:
        Budget(epsilon, chosen)  # raises an error if it is not a valid budget
    return chosen, epsilons


def _preset(preset: str, attack: str, graph: str, through_purifier: bool) -> dict[str, object]:
    from purigraph.paper import attack_settings

    if canonical(preset) not in PRESETS:
        raise InputError(f"There is no preset {preset!r}. Choose from: {', '.join(PRESETS)}.")
    if is_file(graph):
        raise InputError(f"--preset {preset} only has settings for datasets, not for the file {graph}: use --set.")
    return attack_settings(attack, graph, on_gpr_gae=through_purifier)
