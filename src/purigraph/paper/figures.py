"""The figures of the experiments, in one style that stays readable in grey.

Lines differ in marker and dash, bars in hatching, so that nothing depends on colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purigraph.errors import InputError, UnknownNameError
from purigraph.files import atomic_path
from purigraph.paper.comparison import Comparison
from purigraph.paper.experiments import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From dark to light in grey too.
_COLOURS = ("#1b4f72", "#b03a2e", "#2e8b57", "#d68910", "#7d5ba6", "#5d6d7e", "#17a2b8", "#a0a0a0")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":", "-.")
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.hashsalt": "purigraph",  # the same figure gives the same file
    "hatch.linewidth": 0.6,
}
_FORMS: Mapping[str | None, str] = {
    "published": "published attack",
    "exact": "exact attack",
    None: "",
}

# A coefficient of this size is black.
_DARK = 1.8


def draw(experiment: Experiment, found: Sequence[Comparison], folder: str | Path) -> list[Path]:
    """Draw an experiment as PNG and SVG; return the paths, none if it has no figure or no numbers.

    Args:
        experiment: The experiment.
        found: Its numbers.
        folder: Where the files are written, with the experiment's name.
    """
    if experiment.figure is None or not found:
        return []
    try:
        import matplotlib as mpl
    except ImportError:
        raise InputError("Figures need matplotlib: pip install 'purigraph[paper]'.") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    if experiment.figure.kind not in KINDS:
        raise UnknownNameError(f"There is no figure {experiment.figure.kind!r}. Choose from: {', '.join(KINDS)}.")
    paths = [Path(folder) / f"{experiment.name}.{suffix}" for suffix in ("png", "svg")]
    style: Any = _STYLE
    with mpl.rc_context(style):
        figure = KINDS[experiment.figure.kind](experiment, found, **experiment.figure.options)
        for path in paths:
            with atomic_path(path) as temporary:
                metadata = {"Date": None} if path.suffix == ".svg" else None
                figure.savefig(temporary, format=path.suffix[1:], dpi=160, bbox_inches="tight", metadata=metadata)
        plt.close(figure)
    return paths


def _steps(experiment: Experiment, found: Sequence[Comparison]) -> Figure:
    """Accuracy against purification steps: a panel for every budget and form, a line for every step size."""
    columns = [column for column in experiment.columns if any(one.column.startswith(f"{column} ") for one in found)]
    forms = _forms(found)
    figure, panels = _panels(len(forms), len(columns), 2.5, 2.2)
    for form, line in zip(forms, panels, strict=True):
        for column, axes in zip(columns, line, strict=True):
            for number, row in enumerate(experiment.rows):
                points = sorted(
                    (int(match[1]), one.ours)
                    for one in found
                    if one.row == row
                    and one.form == form
                    and (match := re.fullmatch(rf"{re.escape(column)} step (\d+)", one.column))
                )
                if points:
                    x, y = zip(*points, strict=True)
                    _line(axes, number, x, y, row.replace("alpha", r"$\alpha$ ="))
            axes.set_title(_title(column.replace("eps", "$\\epsilon$ ="), form))
            axes.xaxis.get_major_locator().set_params(integer=True)
    _label_outside(panels, "purification step", experiment.unit)
    _legend(figure, panels[0][0], 4)
    return figure


def _coefficients(experiment: Experiment, found: Sequence[Comparison]) -> Figure:
    """The coefficients of every filter and hop, as shades with their values."""
    import numpy as np

    rows = [row for row in experiment.rows if any(one.row == row for one in found)]
    figure, panels = _panels(-(-len(rows) // 3), min(3, len(rows)), 2.7, 2.5, share=False)
    flat = [axes for line in panels for axes in line]
    for row, axes in zip(rows, flat, strict=False):
        values = {tuple(map(int, one.column.split(","))): one.ours for one in found if one.row == row}
        size = max(k for k, _ in values)
        grid = np.full((size, size + 1), np.nan)
        for (k, m), value in values.items():
            grid[k - 1, m] = value
            label, ink = f"{value:+.2f}".replace("0.", "."), "white" if abs(value) > _DARK / 2 else "black"
            axes.text(m, k - 1, label, ha="center", va="center", fontsize=5.5, color=ink)
        axes.imshow(np.abs(grid), cmap="Greys", vmin=0, vmax=_DARK, aspect="auto")
        axes.set_xticks(range(size + 1))
        axes.set_yticks(range(size), [str(k + 1) for k in range(size)])
        axes.grid(False)
        axes.set_title(row)
        axes.set_xlabel("hop m")
        axes.set_ylabel("filter k")
    for axes in flat[len(rows) :]:
        axes.set_visible(False)
    figure.tight_layout()
    return figure


def _budgets(experiment: Experiment, found: Sequence[Comparison]) -> Figure:
    """Accuracy against budget: a panel for every dataset and form, colour by method and marker by classifier."""
    spots = {name: (_dataset(experiment, name), _epsilon(experiment, name)) for name in experiment.columns}
    budgets = sorted({epsilon for _, epsilon in spots.values()})
    datasets = list(dict.fromkeys(spots[one.column][0] for one in found))
    forms = _attack_forms(found)
    rows = [row for row in experiment.rows if any(one.row == row for one in found)]
    methods = list(dict.fromkeys(map(_method, experiment.rows)))
    classifiers = list(dict.fromkeys(map(_classifier, experiment.rows)))
    figure, panels = _panels(len(forms), len(datasets), 2.6, 2.3)
    for form, line in zip(forms, panels, strict=True):
        for dataset, axes in zip(datasets, line, strict=True):
            for row in rows:
                points = sorted(
                    (spots[one.column][1], one.ours)
                    for one in found
                    # Clean accuracies have no form: they belong to both.
                    if one.row == row and one.form in (form, None) and spots[one.column][0] == dataset
                )
                if points:
                    x, y = zip(*points, strict=True)
                    method = methods.index(_method(row))
                    marker = _MARKERS[classifiers.index(_classifier(row)) % len(_MARKERS)]
                    axes.plot(x, y, _DASHES[method % 4], color=_COLOURS[method], marker=marker, label=row)
            axes.set_title(_title(dataset, form))
            axes.set_ylim(0, 100)
            axes.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    _label_outside(panels, "budget $\\epsilon$", experiment.unit)
    _legend(figure, panels[0][0], 3)
    return figure


def _worst(experiment: Experiment, found: Sequence[Comparison], rows: Sequence[str]) -> Figure:
    """The worst case against the budget, a panel for every dataset; what is proven stands at the right, for any budget.

    Args:
        experiment: The experiment.
        found: Its numbers.
        rows: The rows to show, of all that there are; if none of them is there, all are shown.
    """
    values = {(one.row, one.column): one.ours for one in found}
    measured = list(dict.fromkeys(one.row for one in found))
    rows = [row for row in rows if row in measured] or measured
    datasets = [name for name in experiment.columns if any(column.startswith(f"{name} ") for _, column in values)]
    budgets = sorted({float(column.rpartition(" ")[2]) for _, column in values if " eps " in column})
    columns = ["clean", *(f"eps {budget:g}" for budget in budgets), "certified"]
    figure, panels = _panels(1, len(datasets), 3.6, 2.8)
    for dataset, axes in zip(datasets, panels[0], strict=True):
        for number, row in enumerate(rows):
            points = [(place, values.get((row, f"{dataset} {name}"))) for place, name in enumerate(columns)]
            known = [(place, value) for place, value in points if value is not None]
            if known:
                x, y = zip(*known, strict=True)
                _line(axes, number, x, y, row)
        axes.set_title(dataset)
        axes.set_ylim(0, 100)
        axes.set_xticks(range(len(columns)), ["0", *(f"{budget:g}" for budget in budgets), "any,\nproven"])
    _label_outside(panels, "edges flipped, relative to those at the test nodes", experiment.unit)
    _legend(figure, panels[0][0], 2)
    return figure


def _losses(experiment: Experiment, found: Sequence[Comparison]) -> Figure:
    """Accuracy by loss: a panel for every model and form, a marker for every column; the lowest is the strongest."""
    models = list(dict.fromkeys(row.rpartition(", ")[0] for row in experiment.rows))
    models = [model for model in models if any(one.row.rpartition(", ")[0] == model for one in found)]
    losses = list(dict.fromkeys(row.rpartition(", ")[2] for row in experiment.rows))
    forms = _attack_forms(found)
    figure, panels = _panels(len(forms), len(models), 3.2, 2.4)
    for form, line in zip(forms, panels, strict=True):
        for model, axes in zip(models, line, strict=True):
            for number, column in enumerate(experiment.columns):
                values = {
                    one.row.rpartition(", ")[2]: one.ours
                    for one in found
                    if one.row.startswith(f"{model}, ") and one.column == column and one.form in (form, None)
                }
                if len(values) == 1 and len(losses) > 1 and column == "clean":
                    axes.axhline(*values.values(), color="#404040", linestyle="-.", linewidth=1, label=column)
                elif values:
                    there = [loss for loss in losses if loss in values]
                    # Losses have no order, so no line joins them; columns stand beside each other.
                    shift = 0.12 * (number - (len(experiment.columns) - 1) / 2)
                    places = [losses.index(loss) + shift for loss in there]
                    style: dict[str, Any] = {"color": _COLOURS[number % 8], "marker": _MARKERS[number % 8]}
                    axes.plot(places, [values[loss] for loss in there], label=column, linestyle="none", **style)
            axes.set_xticks(range(len(losses)), [_short(loss) for loss in losses], rotation=50, ha="right")
            axes.set_title(_title(model, form))
    _label_outside(panels, "", experiment.unit)
    _legend(figure, panels[0][0], 4)
    return figure


def _bars(experiment: Experiment, found: Sequence[Comparison], lowest: float = 0.0) -> Figure:
    """A panel for every column, a bar for every row, with its value."""
    rows = [row for row in experiment.rows if any(one.row == row for one in found)]
    columns = list(dict.fromkeys(one.column for one in found))
    figure, panels = _panels(1, len(columns), 2.4, 1.1 + 0.26 * len(rows))
    highest = max(one.ours for one in found)
    for number, (column, axes) in enumerate(zip(columns, panels[0], strict=True)):
        values = {one.row: one for one in found if one.column == column}
        heights = [values[row].ours if row in values else 0.0 for row in rows]
        axes.barh(
            range(len(rows)),
            heights,
            color="#d9e2ec",
            edgecolor="#1b4f72",
            hatch=_HATCHES[number % len(_HATCHES)],
            linewidth=0.8,
        )
        for place, (row, height) in enumerate(zip(rows, heights, strict=True)):
            if row in values:
                axes.text(height, place, f" {height:.{experiment.digits}f}", va="center", fontsize=7.5)
        axes.set_yticks(range(len(rows)), rows)
        if number == 0:
            axes.invert_yaxis()
        axes.set_xlim(lowest, lowest + 1.25 * (highest - lowest))
        axes.set_title(column)
        axes.grid(False, axis="y")
        axes.set_xlabel(experiment.unit)
    figure.tight_layout()
    return figure


KINDS: dict[str, Callable[..., Figure]] = {
    "bars": _bars,
    "budgets": _budgets,
    "coefficients": _coefficients,
    "losses": _losses,
    "steps": _steps,
    "worst": _worst,
}


def _panels(rows: int, columns: int, width: float, height: float, *, share: bool = True) -> tuple[Figure, list[Any]]:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, sharex=share, sharey=share
    )
    return figure, [list(line) for line in panels]


def _line(axes: Axes, number: int, x: Sequence[float], y: Sequence[float], label: str) -> None:
    style = _DASHES[number % len(_DASHES)]
    axes.plot(x, y, style, color=_COLOURS[number % 8], marker=_MARKERS[number % 8], label=label)


def _label_outside(panels: Sequence[Sequence[Axes]], x: str, y: str) -> None:
    for axes in panels[-1]:
        axes.set_xlabel(x)
    for line in panels:
        line[0].set_ylabel(y)


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Put one legend for all panels below them, with every label that any panel has."""
    handles: dict[str, Any] = {}
    for each in figure.axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.tight_layout()
    figure.legend(
        handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=min(columns, len(handles))
    )


def _forms(found: Sequence[Comparison]) -> list[str | None]:
    return sorted({one.form for one in found}, key=lambda form: list(_FORMS).index(form))


def _attack_forms(found: Sequence[Comparison]) -> list[str | None]:
    """Return the forms of the attacks; clean accuracies have none and belong to each."""
    return [form for form in _forms(found) if form is not None] or [None]


def _title(name: str, form: str | None) -> str:
    return f"{name}, {_FORMS[form]}" if form else name


def _dataset(experiment: Experiment, column: str) -> str:
    named = experiment.columns[column].config.get("dataset") or experiment.config.get("dataset", "")
    return column.partition(" ")[0] if experiment.columns[column].config.get("dataset") else str(named)


def _epsilon(experiment: Experiment, column: str) -> float:
    attack = experiment.columns[column].config.get("attack") or {}
    return float(attack.get("epsilon", 0.0))


def _method(row: str) -> str:
    """Return how a classifier is defended."""
    if " + " in row:
        return row.partition(" + ")[0]
    return row.partition(", ")[2] or "vanilla"


def _classifier(row: str) -> str:
    return row.rpartition(" + ")[2].partition(",")[0]


def _short(loss: str) -> str:
    """Return the name of a loss as short as the literature has it."""
    names = {"cross-entropy": "CE", "masked-cross-entropy": "MCE", "negative-class-cross-entropy": "NCE"}
    return names.get(loss, loss)
