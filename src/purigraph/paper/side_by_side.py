"""One attack in its two forms beside the worst of many: how much a single number may flatter a defence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from purigraph.paper.comparison import PROFILES
from purigraph.paper.experiments import Experiment
from purigraph.tables import Table

# What does not depend on an attack, as the leaderboard calls it.
_CONSTANT = ("without edges", "distilled MLP")
_FORMS = ("published", "exact")


def side_by_side(
    experiment: Experiment, lines: Sequence[Mapping[str, Any]], worst: Sequence[Mapping[str, Any]]
) -> dict[str, Table]:
    """Return a table for every dataset, from the first seed: the forms of the attack, and the worst case.

    Args:
        experiment: Its columns are called after the dataset and the budget, or after the dataset and "clean".
        lines: Its lines of results.
        worst: Lines of worst cases. Rows of the same name belong together.
    """
    seed = min((line["seed"] for line in lines), default=0)
    attacked = {_place(line): line for line in _longest_last(lines, seed)}
    judged = {(line["column"], line["row"].casefold()): line for line in _longest_last(worst, seed)}
    budgets = sorted({budget for _, _, _, budget in attacked if budget is not None})
    tables = {}
    for dataset in dict.fromkeys(_dataset(column) for column in experiment.columns):
        measured = {row for where, row, _, _ in attacked if where == dataset}
        cells = []
        for row in (row for row in experiment.rows if row in measured):
            verdict = judged.get((dataset, row.casefold()))
            forms = [[attacked.get((dataset, row, form, budget)) for budget in budgets] for form in _FORMS]
            cells.append(
                [
                    row,
                    _number(attacked.get((dataset, row, None, None)), ""),
                    *(_numbers((line, "") for line in form) for form in forms),
                    _numbers((verdict, f"eps {budget:g}") for budget in budgets),
                    *(_number(verdict, name) for name in _CONSTANT),
                ]
            )
        amounts = " / ".join(f"{budget:g}" for budget in budgets)
        columns = ["", "clean", *(f"{name}, {amounts}" for name in (*_FORMS, "worst case")), *_CONSTANT]
        if cells:
            tables[dataset] = Table(f"{dataset}: one attack in two forms, and the worst case", columns, cells)
    return tables


def _longest_last(lines: Iterable[Mapping[str, Any]], seed: int) -> list[Mapping[str, Any]]:
    """Return the lines of a seed, with those of the longest profile last; smoke is left out."""
    there = [line for line in lines if line["seed"] == seed and line["profile"] in PROFILES]
    return sorted(there, key=lambda line: PROFILES.index(line["profile"]), reverse=True)


def _place(line: Mapping[str, Any]) -> tuple[str, str, str | None, float | None]:
    """Return dataset, row, form and budget."""
    attack = line["config"].get("attack")
    return _dataset(line["column"]), line["row"], line["form"], None if attack is None else float(attack["epsilon"])


def _dataset(column: str) -> str:
    return column.rpartition(" ")[0]


def _numbers(found: Iterable[tuple[Mapping[str, Any] | None, str]]) -> str:
    """Return numbers at several budgets, or a dash if there are none at all."""
    parts = [_number(line, name) for line, name in found]
    return "-" if set(parts) == {"-"} else " / ".join(parts)


def _number(line: Mapping[str, Any] | None, name: str) -> str:
    """Return one of a line's values in percent, with the mark of a short profile."""
    value = None if line is None else line["result"]["values"].get(name)
    if line is None or value is None:
        return "-"
    return f"{100 * value:.1f}" + ("q" if line["profile"] == "quick" else "")
