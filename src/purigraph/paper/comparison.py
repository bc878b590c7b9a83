"""Ours beside the published numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from purigraph.paper.experiments import Experiment, Published
from purigraph.tables import Table

#: A difference counts if it is larger than this many points and than two pooled standard errors.
POINTS = 2.0
#: The paper does not say how many seeds it ran.
PUBLISHED_SEEDS = 5
#: The profiles, the most trustworthy first; smoke results are shown only if they are asked for.
PROFILES = ("paper", "quick")


@dataclass(frozen=True)
class Comparison:
    """One number of a table.

    Attributes:
        row: The row.
        column: The column, with the measure if a cell has several.
        form: The form of the attack, if there is one.
        profile: The profile that ours was measured with.
        values: Ours, one for every seed, in the experiment's unit.
        seeds: The seeds.
        published: The published number.
        unit_is_percent: Whether differences are points of percent, to which the rule about differences applies.
        num_targets: The number of nodes that an accuracy is over, if it is one.
    """

    row: str
    column: str
    form: str | None
    profile: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    published: Published | None
    unit_is_percent: bool = True
    num_targets: int | None = None

    @property
    def ours(self) -> float:
        """Return the mean."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Return the standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Return ours minus the published number."""
        return None if self.published is None else self.ours - self.published.mean

    @property
    def differs(self) -> bool:
        """Return whether the difference counts: more than 2 points and two pooled standard errors.

        A side without a spread is given the other's. Where neither has one, it is that of a share of the test nodes.
        The exact form of an attack is meant to differ, so it never counts.
        """
        if self.difference is None or self.published is None or not self.unit_is_percent or self.form == "exact":
            return False
        spreads = [value for value in (self.std, self.published.std) if value is not None]
        ours = self.std if self.std is not None else spreads[0] if spreads else self._spread_of_a_share()
        theirs = self.published.std if self.published.std is not None else ours
        error = math.sqrt(ours**2 / len(self.values) + theirs**2 / PUBLISHED_SEEDS)
        return abs(self.difference) > max(POINTS, 2 * error)

    def _spread_of_a_share(self) -> float:
        """Return the standard deviation, in percent, of a share of as many nodes."""
        if not self.num_targets:
            return 0.0
        share = min(max(self.ours / 100, 0.0), 1.0)
        return 100 * math.sqrt(share * (1 - share) / self.num_targets)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "row": self.row,
            "column": self.column,
            "form": self.form,
            "ours": self.ours,
            "std": self.std,
            "seeds": list(self.seeds),
            "profile": self.profile,
            "published": None if self.published is None else self.published.mean,
            "published_std": None if self.published is None else self.published.std,
            "difference": self.difference,
            "differs": self.differs,
        }


def compare(
    experiment: Experiment, lines: Iterable[Mapping[str, Any]], *, profile: str | None = None
) -> list[Comparison]:
    """Return the measured numbers of an experiment in the order of its rows and columns.

    Args:
        experiment: The experiment.
        lines: Lines of its file of results.
        profile: The profile to show. Default: for every number the longest one that was run, without smoke.
    """
    groups: dict[tuple[str, str, str | None, str], dict[int, float]] = {}
    targets: dict[tuple[str, str, str | None, str], int | None] = {}
    for line in lines:
        for measure, value in line["result"]["values"].items():
            if value is not None and not isinstance(value, list):
                column = f"{line['column']} {measure}".strip()
                key = (line["row"], column, line["form"], line["profile"])
                groups.setdefault(key, {})[line["seed"]] = experiment.scale * value
                targets[key] = line["result"].get("num_targets")
    wanted = PROFILES if profile is None else (profile,)
    found: dict[tuple[str, str, str | None], Comparison] = {}
    for name in reversed(wanted):  # the most trustworthy comes last and stays
        for (row, column, form, used), by_seed in groups.items():
            if used == name:
                seeds = tuple(sorted(by_seed))
                found[row, column, form] = Comparison(
                    row,
                    column,
                    form,
                    used,
                    tuple(by_seed[seed] for seed in seeds),
                    seeds,
                    # On the embedded graph there is nothing to compare with.
                    None if used == "smoke" else experiment.published_number(row, column),
                    experiment.scale == 100,
                    targets.get((row, column, form, used)),
                )
    return sorted(found.values(), key=lambda one: _place(experiment, one))


def comparison_table(experiment: Experiment, found: Sequence[Comparison]) -> Table:
    """Return the numbers as a table for the terminal, one a line."""
    digits = experiment.digits
    rows = [
        [
            one.row,
            one.column,
            one.form or "",
            f"{one.ours:.{digits}f}" + ("" if one.std is None else f" ± {one.std:.{digits}f}"),
            len(one.seeds),
            one.profile,
            "" if one.published is None else published_text(one.published, digits),
            "" if one.difference is None else f"{one.difference:+.{digits}f}" + (" !" if one.differs else ""),
        ]
        for one in found
    ]
    return Table(
        f"{experiment.title}: {experiment.unit}",
        ["row", "column", "form", "ours", "seeds", "profile", "published", "difference"],
        rows,
        notes=[*remarks(found), *experiment.notes],
        text_columns=3,
        strong=[index for index, one in enumerate(found) if one.differs],
    )


def remarks(found: Sequence[Comparison]) -> list[str]:
    """Return what to say about the differences."""
    compared = [one for one in found if one.published is not None and one.unit_is_percent and one.form != "exact"]
    if not compared:
        return []
    differing = [one for one in compared if one.differs]
    rule = f"more than {POINTS:g} points and two pooled standard errors"
    if not differing:
        return [f"None of the {len(compared)} published numbers differs from ours by {rule}."]
    return [f"! {len(differing)} of {len(compared)} published numbers differ from ours by {rule}."]


def published_text(number: Published, digits: int) -> str:
    """Return a published number as it was printed."""
    return f"{number.mean:.{digits}f}" + ("" if number.std is None else f" ± {number.std:.{digits}f}")


def _place(experiment: Experiment, one: Comparison) -> tuple[int, int, str]:
    """Return where a number stands: rows and columns in the order of the experiment, its unknown ones last."""
    rows, columns = list(experiment.rows), list(experiment.columns)
    row = rows.index(one.row) if one.row in rows else len(rows)
    # The longest name that the column starts with, as a measure follows it.
    starts = [number for number, name in enumerate(columns) if one.column.startswith(name)]
    best = max(starts, key=lambda number: len(columns[number]), default=len(columns))
    return row, best, one.form or ""
