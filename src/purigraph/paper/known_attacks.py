"""What is known of one defence from all experiments: an attack counts wherever it was run.

The leaderboard runs an ensemble; other experiments attack the same trained models in other ways. A defence holds no
more than the strongest of all these attacks leaves of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from purigraph.paper.specs import DefenceSpec
from purigraph.runs.cell import digest

#: A line of a file of results, and the files by experiment.
Line = Mapping[str, Any]
Everything = Mapping[str, Sequence[Line]]

# The experiment whose worst cases are compared with single attacks elsewhere.
_LEADERBOARD = "defences"
# Accuracies are shares of some hundred nodes: anything smaller than this is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Left:
    """What one attack left of a defence.

    Attributes:
        accuracy: The accuracy that it left.
        by: The attack and the experiment.
        flips: The hash of its perturbation, if it was kept.
    """

    accuracy: float
    by: str
    flips: str | None


def lowered(lines: Sequence[Line], everything: Everything) -> tuple[list[Line], list[str]]:
    """Lower worst cases to what attacks of other experiments left of the same trained model.

    Args:
        lines: Lines of an experiment; those that are not worst cases stay as they are.
        everything: The lines of all experiments.

    Returns:
        The lines, with these attacks among the members of their ensembles, and a remark for every number that was
        lowered.
    """
    attacks = _left_by_attacks(everything)
    found: list[Line] = []
    notes: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        worst = line["result"].get("worst_case", {}).get("worst", {})
        for budget, value in worst.items():
            known = attacks.get(_subject(line) or "", {}).get(float(budget), [])
            line = _with_members(line, [left.by for left in known])
            left = min(known, key=lambda one: one.accuracy, default=None)
            if left is not None and left.accuracy < value - _ROUNDING:
                line = _replaced(line, budget, left)
                text = f"eps {budget}: {100 * left.accuracy:.1f} by {left.by}, the ensemble {100 * value:.1f}"
                notes.setdefault((line["row"], line["column"]), []).append(text)
        found.append(line)
    return found, [
        f"{row}, {column}: an attack elsewhere in the results left less than the ensemble: {'; '.join(texts)}."
        for (row, column), texts in notes.items()
    ]


def worst_below(lines: Sequence[Line], everything: Everything) -> list[str]:
    """Return where the worst case of the leaderboard is below what adaptive attacks of an experiment left.

    Args:
        lines: Lines of the experiment; only seeds that the leaderboard has too are compared.
        everything: The lines of all experiments.
    """
    worst = {(subject, float(budget)): value for _, subject, budget, value in _judged(everything.get(_LEADERBOARD, ()))}
    pairs: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line, subject, epsilon in _attacked(lines):
        if "transfer_from" not in line["config"] and (subject, epsilon) in worst:
            place = line["column"] + (f" ({line['form']})" if line["form"] else "")
            values = line["result"]["values"][""], worst[subject, epsilon]
            pairs.setdefault(line["row"], {}).setdefault(place, []).append(values)
    notes = []
    for row, places in pairs.items():
        means = {
            place: [100 * statistics.fmean(side) for side in zip(*values, strict=True)]
            for place, values in places.items()
        }
        below = [
            f"{place} {ours:.1f}, worst {least:.1f}"
            for place, (ours, least) in means.items()
            if least < ours - _ROUNDING
        ]
        if below:
            notes.append(
                f"{row}: the worst case of the ensemble is below what the attack here left: {'; '.join(below)}."
            )
    return notes


def _left_by_attacks(everything: Everything) -> dict[str, dict[float, list[Left]]]:
    """Return what single attacks and whole ensembles left of every trained model, by budget."""
    found: dict[str, dict[float, list[Left]]] = {}

    def add(subject: str, epsilon: float, left: Left) -> None:
        found.setdefault(subject, {}).setdefault(epsilon, []).append(left)

    for name, lines in everything.items():
        for line, subject, epsilon in _attacked(lines):
            form = f", {line['form']} form" if line["form"] else ""
            how = ", transferred" if "transfer_from" in line["config"] else form
            by = f"{line['config']['attack']['name']}{how} ({name})"
            add(subject, epsilon, Left(line["result"]["values"][""], by, line["result"].get("flips")))
        for line, subject, budget, value in _judged(lines):
            result = line["result"]
            by = f"{result['worst_case'].get('strongest', {}).get(budget, 'an ensemble')} ({name})"
            add(subject, float(budget), Left(value, by, result.get("flips", {}).get(budget)))
    return found


def _attacked(lines: Sequence[Line]) -> Iterator[tuple[Line, str, float]]:
    """Yield the lines of single attacks on test nodes, what they attack, and the budget."""
    for line in lines:
        attack, subject = line["config"].get("attack"), _subject(line)
        if attack and subject is not None and line.get("kind") == "accuracy":
            yield line, subject, float(attack["epsilon"])


def _judged(lines: Sequence[Line]) -> Iterator[tuple[Line, str, str, float]]:
    """Yield the lines of worst cases, what they attack, every budget as it is written there, and what is left."""
    for line in lines:
        subject = _subject(line)
        if subject is not None:
            for budget, value in line["result"].get("worst_case", {}).get("worst", {}).items():
                yield line, subject, budget, value


def _subject(line: Line) -> str | None:
    """Return what identifies the trained model and its test nodes; None where there is none to compare."""
    config = line["config"]
    if "defence" not in config or line["profile"] == "smoke":
        return None
    components = set(DefenceSpec(**config["defence"]).components())
    versions = {name: version for name, version in config.get("protocols", {}).items() if name in components}
    return digest([config["defence"], config["dataset"], config.get("split"), config.get("seed", 0), versions])


def _with_members(line: Line, names: Sequence[str]) -> Line:
    """Return a line of a worst case with further attacks among its members."""
    if not names:
        return line
    document = line["result"]["worst_case"]
    members = {**{name: {} for name in names}, **document.get("members", {})}
    return {**line, "result": {**line["result"], "worst_case": {**document, "members": members}}}


def _replaced(line: Line, budget: str, left: Left) -> Line:
    """Return a line of a worst case with another strongest attack at a budget."""
    result = line["result"]
    document = result["worst_case"]
    return {
        **line,
        "result": {
            **result,
            "values": {**result["values"], f"eps {float(budget):g}": left.accuracy},
            "flips": {**result.get("flips", {}), budget: left.flips},
            "worst_case": {
                **document,
                "worst": {**document["worst"], budget: left.accuracy},
                "strongest": {**document.get("strongest", {}), budget: left.by},
            },
        },
    }
