"""The leaderboard of defences: sorted by the worst case, with what it must be compared with and what it costs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from purigraph.tables import Table

# Words in the names of members that today's ensemble has and earlier ones had not: attacks on the weakest targets alone
# and, where there is a purifier, those with candidates as small weights (which the published form of attacks has too).
_FOCUSED = ("flips a target",)
_SMALL_WEIGHTS = ("small weights", "published form")

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
    """Return what to say after the name of a defence: a shorter profile, or a judge with less than all attacks."""
    spared = any(_is_spared(line) for line in lines)
    return (" (q)" if lines[0]["profile"] == "quick" else "") + (" *" if spared else "")


def _is_spared(line: Mapping[str, Any]) -> bool:
    """Whether attacks of today's ensemble might have left less: it lacked some, and more than is certified is left."""
    found, defence = line["result"]["worst_case"], line["config"].get("defence", {})
    members = found.get("members", {})
    if not members or all(left <= (found.get("certified") or 0.0) + 1e-9 for left in found["worst"].values()):
        return False
    wanted = [_FOCUSED, *([_SMALL_WEIGHTS] if "purifier" in defence else [])]
    return not all(any(word in name for name in members for word in words) for words in wanted)


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
