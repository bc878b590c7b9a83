"""`purigraph datasets`: list the datasets that can be loaded by name."""

from __future__ import annotations

from dataclasses import asdict

from purigraph.cli.options import JsonOption
from purigraph.cli.outputs import print_json

NAME = "datasets"
HELP = "List the datasets that can be loaded by name."


def run(as_json: JsonOption = False) -> None:
    """Print every dataset with its statistics."""
    from purigraph import datasets
    from purigraph.tables import Table

    infos = [datasets.info(name) for name in datasets.names()]
    if as_json:
        print_json([asdict(info) for info in infos])
        return
    columns = ["name", "nodes", "edges", "features", "classes", "homophily", "here"]
    rows = [
        [
            info.name,
            f"{info.nodes:,}",
            f"{info.edges:,}",
            f"{info.features:,}",
            info.classes,
            f"{info.homophily:.2f}",
            "yes" if info.available else "no",
        ]
        for info in infos
    ]
    Table("Datasets (edges are undirected)", columns, rows).print()
