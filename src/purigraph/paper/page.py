"""The page of all results: a section for every experiment that was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from purigraph.paper.comparison import POINTS, PUBLISHED_SEEDS, Comparison, remarks
from purigraph.paper.experiments import Experiment, load, names
from purigraph.paper.figures import draw
from purigraph.paper.findings import Findings, read_everything
from purigraph.paper.leaderboard import leaderboards
from purigraph.tables import Table

#: The order of the sections: the paper's, then ours.
ORDER = (
    "datasets",
    "table1",
    "table2",
    "table3",
    "fig-multistep",
    "fig-adaptive",
    "fig-coefficients",
    "fig-losses",
    "grid-attack",
    "fig-ablation",
    "fig-structure",
    "defences",
    "robustness",
)

#: A column that holds what one member of an ensemble leaves at a budget.
MEMBER = re.compile(r"(.*eps [\d.]+), (.+)")

_HEAD = f"""# Results

Everything that was measured so far, written by `purigraph paper report` from `results/*.jsonl`; every line there has
its command, configuration, seed, profile and versions. `purigraph paper run NAME --again` measures a section again,
`purigraph paper show NAME` prints it with all digits.

- **Numbers** are means over seeds, ± the standard deviation; each seed draws its own split. Those in brackets are
  published (Lee & Park, ICML 2025).
- **Forms** of an attack: *published* is the paper's, candidates handed to a purifier as small weights, no gradual
  rounding, greedy projection: it is what published numbers are compared with. *Exact* is this library's default, with
  the same epochs, block and loss. A cell with two numbers has both: published / exact.
- **Profiles**: `paper` has the paper's lengths; `quick`, marked with q, a quarter of the training epochs and 100 + 25
  attack epochs.
- **!** marks a difference from the published number of more than {POINTS:g} points and two pooled standard errors. The
  paper does not say how many seeds it ran; {PUBLISHED_SEEDS} are assumed, and where a side has no spread, the other's.
"""


def write_report(results: str | Path, page: str | Path, images: str | Path) -> list[Path]:
    """Write the page and the figures; return all paths.

    Args:
        results: The folder of the files of results.
        page: The Markdown file.
        images: The folder for the figures.
    """
    from purigraph.files import write_text

    parts, written = [_HEAD], []
    everything = read_everything(results)
    for name in sorted(names(), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)):
        findings = Findings.of(load(name), everything)
        if findings.numbers:
            figures = draw(findings.experiment, findings.numbers, images)
            written += figures
            parts.append(section(findings, figures, Path(page).parent))
    write_text(page, "\n".join(parts))
    return [*written, Path(page)]


def section(findings: Findings, figures: Sequence[Path] = (), folder: Path = Path()) -> str:
    """Return the section of one experiment as Markdown.

    Args:
        findings: What was measured.
        figures: Its figures, if any.
        folder: Where the page will be; figures are named from there.
    """
    experiment, lines = findings.experiment, findings.lines
    source = f" ({experiment.source})" if experiment.source else ""
    parts = [f"## {experiment.name}: {experiment.title}{source}\n"]
    if figures:
        parts.append(f"![{experiment.title}]({_relative(figures[0], folder)})\n")
    boards = leaderboards(lines) if experiment.cell == "worst-case" else {}
    for name, board in boards.items():
        parts.append(f"### {name}\n\n{board.markdown()}\n")
    members = [one for one in findings.numbers if MEMBER.fullmatch(one.column)]
    found = [one for one in findings.numbers if one not in members]
    if experiment.table and not boards:
        parts.append(f"{experiment.unit[:1].upper()}{experiment.unit[1:]}.\n")
        parts.append(wide_table(experiment, found).markdown() + "\n")
    for dataset, table in findings.beside.items():
        parts.append(f"### {dataset}, the forms of the attack and the worst case (seed 0)\n\n{table.markdown()}\n")
    for row, table in member_tables(members).items():
        parts.append(f"### {row}, member by member\n\n{table.markdown()}\n")
    if experiment.costs and not boards:
        parts.append(cost_table(lines).markdown() + "\n")
    notes = [*experiment.notes, *_row_notes(experiment, found), *remarks(found), *findings.notes]
    parts.append("\n".join(f"- {note}" for note in [_origin(found, lines), *notes]) + "\n")
    return "\n".join(parts)


def wide_table(experiment: Experiment, found: Sequence[Comparison]) -> Table:
    """Return rows and columns as the paper has them."""
    columns = list(dict.fromkeys(one.column for one in found))
    rows = list(dict.fromkeys(one.row for one in found))
    by_place: dict[tuple[str, str], list[Comparison]] = {}
    for one in found:
        by_place.setdefault((one.row, one.column), []).append(one)
    cells = [[row, *(_cell(experiment, by_place.get((row, column), [])) for column in columns)] for row in rows]
    return Table(experiment.title, ["", *(column or experiment.unit for column in columns)], cells)


def member_tables(members: Sequence[Comparison]) -> dict[str, Table]:
    """Return what every member of an ensemble leaves, a table for every row of the experiment."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in members:
        match = MEMBER.fullmatch(one.column)
        assert match is not None
        found.setdefault(one.row, {}).setdefault(match[2], {})[match[1]] = one.ours
    tables = {}
    for row, by_member in found.items():
        budgets = list(dict.fromkeys(budget for values in by_member.values() for budget in values))
        cells = [
            [name, *(f"{values[budget]:.1f}" if budget in values else "-" for budget in budgets)]
            for name, values in by_member.items()
        ]
        tables[row] = Table(row, ["member", *budgets], cells)
    return tables


def cost_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Return what making and running each row takes, as far as it was measured."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        if "costs" in line["result"] and line["profile"] != "smoke":
            key = (line["row"], line["config"].get("dataset", ""))
            found.setdefault(key, []).append(line["result"]["costs"])
    rows = []
    for (row, dataset), costs in found.items():
        parts = [part for part in ("classifier", "purifier", "anchor") if part in costs[0]]
        training = sum(costs[0][part]["seconds"] for part in parts)
        memory = [costs[0][part]["megabytes"] for part in parts if costs[0][part]["megabytes"] is not None]
        prediction = costs[0].get("prediction", {})
        rows.append(
            [
                row,
                dataset,
                f"{training:,.0f}",
                f"{max(memory):,.0f}" if memory else "-",
                f"{1000 * prediction['seconds']:,.0f}" if prediction else "-",
                _megabytes(prediction.get("megabytes")),
            ]
        )
    columns = ["", "dataset", "training s", "training MB", "prediction ms", "prediction MB"]
    return Table("Time and memory", columns, rows, text_columns=2)


def _cell(experiment: Experiment, found: Sequence[Comparison]) -> str:
    """Return one entry: published form / exact form (published number)."""
    if not found:
        return "-"
    order: list[str | None] = ["published", "exact", None]
    parts = [_number(experiment, one) for one in sorted(found, key=lambda one: order.index(one.form))]
    published = found[0].published
    if published is None:
        return " / ".join(parts)
    return f"{' / '.join(parts)} ({published.mean:,.{_digits(experiment, published.mean)}f})"


def _number(experiment: Experiment, one: Comparison) -> str:
    digits = _digits(experiment, one.ours)
    spread = "" if one.std is None else f" ± {one.std:.{digits}f}"
    marks = ("q" if one.profile == "quick" else "") + ("!" if one.differs else "")
    return f"{one.ours:,.{digits}f}{spread}{marks}"


def _digits(experiment: Experiment, value: float) -> int:
    """Return how many decimals to print: none for counts."""
    return 0 if experiment.scale == 1 and float(value).is_integer() else experiment.digits


def _origin(found: Sequence[Comparison], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return how many seeds, which profiles and which versions the numbers come from."""
    counts = sorted({len(one.seeds) for one in found})
    profiles = sorted({one.profile for one in found})
    versions = sorted({line["stamp"]["purigraph_version"] for line in lines if line["profile"] in profiles})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{seeds} seed{'' if counts == [1] else 's'}, profile {' and '.join(profiles)}, measured with purigraph "
        f"{' and '.join(versions)}."
    )


def _row_notes(experiment: Experiment, found: Sequence[Comparison]) -> list[str]:
    rows = dict.fromkeys(one.row for one in found)
    parts = {row: experiment.rows[row].note for row in rows if row in experiment.rows}
    return [f"{row}: {note}" for row, note in parts.items() if note]


def _megabytes(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _relative(path: Path, folder: Path) -> str:
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.as_posix()
