"""The leaderboard of defences: sorted by the worst case, with what it must be compared with and what it costs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from purigraph.tables import Table

_CONSTANT = ("clean", "certified", "without edges", "distilled MLP")


def leaderboards(lines: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    """Return a table for every column (dataset), from lines of results of `worst-case` cells; smoke is left out.

    Accuracies are means over seeds, in percent. "Strongest attack" is that of the largest budget and the first seed,
    and so is the hash of its perturbation, which is in the store and can be applied to the model by anyone.
    """
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for line in lines:
        if line["profile"] != "smoke" and "worst_case" in line["result"]:
            found.setdefault(line["column"], {}).setdefault(line["row"], []).append(line)
    return {column: _table(column, rows) for column, rows in found.items()}


def _table(column: str, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    longest = {row: _longest(lines) for row, lines in rows.items()}
    budgets = sorted(
        {float(budget) for lines in longest.values() for budget in lines[0]["result"]["worst_case"]["worst"]}
    )
    names = [*_CONSTANT, *(f"eps {budget:g}" for budget in budgets)]
    values = {row: {name: _mean(lines, name) for name in names} for row, lines in longest.items()}
    last = names[-1]
    order = sorted(values, key=lambda row: values[row][last] or 0.0, reverse=True)
    cells = [
        [
            row + _marks(longest[row]),
            *("-" if values[row][name] is None else f"{100 * (values[row][name] or 0.0):.1f}" for name in names),
            *_facts(longest[row][0], budgets[-1]),
            len(longest[row]),
        ]
        for row in order
    ]
    facts = ["strongest attack", "its flips", "training s", "prediction ms", "seeds"]
    return Table(f"Defences on {column}", ["defence", *names, *facts], cells)


def _marks(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return what to say after the name of a defence: a shorter profile, or a judge without focused attacks."""
    unfocused = any(_is_unfocused(line["result"]["worst_case"]) for line in lines)
    return (" (q)" if lines[0]["profile"] == "quick" else "") + (" *" if unfocused else "")


def _is_unfocused(found: Mapping[str, Any]) -> bool:
    """Whether focused attacks might have left less: only others were run, and more than what is certified is left."""
    members = found.get("members", {})
    if not members or any("flips a target" in name for name in members):
        return False
    return any(left > (found.get("certified") or 0.0) + 1e-9 for left in found["worst"].values())


def _longest(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines of the longest profile that was run."""
    best = "paper" if any(line["profile"] == "paper" for line in lines) else "quick"
    return sorted((line for line in lines if line["profile"] == best), key=lambda line: line["seed"])


def _mean(lines: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [line["result"]["values"].get(name) for line in lines]
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def _facts(line: Mapping[str, Any], budget: float) -> list[str]:
    result = line["result"]
    strongest = {float(key): name for key, name in result["worst_case"].get("strongest", {}).items()}
    flips = {float(key): text for key, text in result.get("flips", {}).items()}
    costs = result.get("costs", {})
    training = sum(costs[part]["seconds"] for part in ("classifier", "purifier", "anchor") if part in costs)
    prediction = costs.get("prediction", {}).get("seconds")
    return [
        strongest.get(budget, "-"),
        f"`{(flips.get(budget) or '-')[:12]}`",
        f"{training:,.0f}" if training else "-",
        "-" if prediction is None else f"{1000 * prediction:,.0f}",
    ]
