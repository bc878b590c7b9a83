"""`purigraph datasets`: what can be loaded by name."""

from __future__ import annotations

from dataclasses import asdict

from purigraph.cli.common import JsonOption, print_json, print_table

NAME = "datasets"
HELP = "List the datasets that can be loaded by name."


def run(as_json: JsonOption = False) -> None:
    """Print every dataset with its statistics."""
    from purigraph import datasets

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
            "-" if info.homophily is None else f"{info.homophily:.2f}",
            "yes" if info.available else "no",
        ]
        for info in infos
    ]
    print_table("Datasets (edges are undirected)", columns, rows)
