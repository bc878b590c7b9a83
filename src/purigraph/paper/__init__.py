"""Every table and figure of the paper, and some of our own, as experiments that one command runs.

An experiment is a YAML file of this package: rows, columns, settings and the published numbers. `plan` turns it into
cells (`purigraph.runs`), whose functions are in `purigraph.paper.cells`; `purigraph paper run NAME` runs them.

>>> from purigraph import paper
>>> "table1" in paper.names()
True
>>> experiment = paper.load("table1")
>>> experiment.published_number("GCN", "PRBCD 0.5")
Published(mean=29.3, std=2.3)
"""

from purigraph.paper.comparison import Comparison, compare
from purigraph.paper.experiments import Experiment, Published, load, names
from purigraph.paper.page import write_report
from purigraph.paper.planning import Planned, export, exported, plan
from purigraph.paper.published_settings import attack_settings, classifier_settings

__all__ = [
    "Comparison",
    "Experiment",
    "Planned",
    "Published",
    "attack_settings",
    "classifier_settings",
    "compare",
    "export",
    "exported",
    "load",
    "names",
    "plan",
    "write_report",
]
