"""What was measured of one experiment, seen together with everything else that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from purigraph.paper.comparison import Comparison, compare
from purigraph.paper.experiments import Experiment, names
from purigraph.paper.known_attacks import Everything, lowered, worst_below
from purigraph.paper.side_by_side import side_by_side
from purigraph.runs import read_results
from purigraph.tables import Table


@dataclass(frozen=True)
class Findings:
    """The results of an experiment, as `purigraph paper show` and the page of results tell them.

    Attributes:
        experiment: The experiment.
        lines: Its lines of results; worst cases are as low as any attack in the results left them.
        numbers: Its numbers beside the published ones.
        beside: Its attacks beside the worst cases of another experiment, by dataset, if it has that.
        notes: What the other experiments say about it.
    """

    experiment: Experiment
    lines: Sequence[Mapping[str, Any]]
    numbers: Sequence[Comparison]
    beside: Mapping[str, Table]
    notes: Sequence[str]

    @classmethod
    def of(cls, experiment: Experiment, everything: Everything, *, profile: str | None = None) -> Findings:
        """Return the findings of one experiment; see `read_everything` and, for the profile, `compare`."""
        lines, notes = lowered(everything.get(experiment.name, ()), everything)
        beside: Mapping[str, Table] = {}
        if experiment.beside is None:
            notes += worst_below(lines, everything)
        else:
            worst, _ = lowered(everything.get(experiment.beside, ()), everything)
            beside = side_by_side(experiment, lines, worst)
        return cls(experiment, lines, compare(experiment, lines, profile=profile), beside, notes)


def read_everything(folder: str | Path) -> Everything:
    """Return the lines of results in a folder, by experiment."""
    return {name: read_results(Path(folder) / f"{name}.jsonl") for name in names()}
