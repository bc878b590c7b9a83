"""The good files: tiny graphs, models trained for a moment, flips, and the checkpoints of unfinished runs."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import networkx
import numpy as np
import pyarrow
import torch
from pyarrow import parquet
from scipy import sparse
from torch_geometric.data import Data

import purigraph as pg
from fuzz.harness import command
from helpers import communities
from purigraph import checkpoints, classifiers
from purigraph.graph import as_pair_graph, inductive_split
from purigraph.graph.npz import save_npz
from purigraph.training import train

NODES, FEATURES_OF_DATA, CLASSES = 24, 6, 2

GRAPH, SPARSE, WEIGHTED = "graph.npz", "sparse.npz", "weighted.npz"
PURIFIER, FLIPS = "purifier", "flips.safetensors"
#: Files of a user: edge lists with their features, other formats, and the receipt of a purification.
EDGES, NUMBERED, FEATURES = "edges.csv", "numbered.csv", "features.csv"
OWN_GRAPHS = (EDGES, "edges.tsv", "edges.parquet", "own.graphml", "own.gexf", "own.pt")
OWN_FEATURES = (FEATURES, "long.csv", "features.parquet", "features.npy", "features.npz")
RECEIPT = "purified.csv.receipt.json"
CLASSIFIERS = ("gcn", "gat", "gprgnn", "mlp", "soft-median")

SMALL_PURIFIER = [f"--set={text}" for text in ("hops=2", "node_channels=4", "edge_channels=4", "validation_sets=1")]

#: Commands, by the folder of the checkpoint that an interruption of them left.
LONG_RUNS = {
    "fit-state": ["fit", GRAPH, "--epochs", "3", *SMALL_PURIFIER],
    "train-state": ["train", GRAPH, "--epochs", "4", "--set", "hidden_channels=4"],
    "attack-state": ["attack", GRAPH, "-c", "gcn", "--epochs", "4", "--epsilon", "0.3"],
    "evaluate-state": ["evaluate", GRAPH, "-c", "gcn", "--epochs", "2", "--epsilon", "0.1", "--epsilon", "0.3"],
}
#: What each of them writes when nothing interrupts it.
RESULTS = {
    "fit-state": "fit-result",
    "train-state": "train-result",
    "attack-state": "attack-result.safetensors",
    "evaluate-state": "evaluate-result.json",
}


def good_data() -> Data:
    """A graph with labels and a split."""
    data, role = communities(NODES, FEATURES_OF_DATA), torch.arange(NODES) % 8
    data.train_mask, data.val_mask, data.test_mask = role < 2, (role == 2) | (role == 3), (role == 4) | (role == 5)
    return data


def build(folder: Path) -> None:
    """Write all good files to a folder."""
    data = good_data()
    save_npz(data, folder / GRAPH)
    data.edge_weight = torch.full((data.edge_index.shape[1],), 0.5)
    save_npz(data, folder / WEIGHTED)
    del data.edge_weight
    data.x = (data.x * (data.x > 0)).to_sparse_csr()
    save_npz(data, folder / SPARSE)
    data = good_data()
    purifier = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(data, epochs=1, validation_sets=1)
    purifier.save_pretrained(folder / PURIFIER)
    split = inductive_split(data)
    for name in CLASSIFIERS:
        result = train(name, "vanilla", split, hyper={"hidden_channels": 4}, settings={"epochs": 2})
        assert isinstance(result.model, classifiers.Classifier)
        result.model.save_pretrained(folder / name)
    attack = pg.attacks.create("random-flip")
    attack(classifiers.load(folder / "gcn"), data, 3).save(folder / FLIPS)
    (folder / "foreign.txt").write_text("not ours\n")
    _build_own(folder, good_data())
    before = Path.cwd()
    os.chdir(folder)
    try:
        for state in LONG_RUNS:
            _leave_unfinished(state)
    finally:
        os.chdir(before)


def _build_own(folder: Path, data: Data) -> None:
    """Write the same graph in the formats of other programs."""
    names = [f"node {k}" for k in range(NODES)]
    pairs = as_pair_graph(data).pairs.t().tolist()
    rows = [[names[a], names[b], "1", f"note {k}"] for k, (a, b) in enumerate(pairs)]
    features = [[name, *map(str, row)] for name, row in zip(names, data.x.tolist(), strict=True)]
    columns = [f"f{k}" for k in range(FEATURES_OF_DATA)]
    _table(folder / EDGES, [["source", "target", "weight", "note"], *rows])
    _table(folder / "edges.tsv", [["source", "target", "weight", "note"], *rows], "\t")
    _table(folder / NUMBERED, [list(map(str, pair)) for pair in pairs])
    _table(folder / FEATURES, [["node", *columns], *features])
    long = [[row[0], name, cell] for row in features for name, cell in zip(columns, row[1:], strict=True)]
    _table(folder / "long.csv", [["node", "feature", "value"], *long])
    edges = {name: [row[k] for row in rows] for k, name in enumerate(("source", "target"))}
    parquet.write_table(pyarrow.table({**edges, "weight": [1.0] * len(rows)}), folder / "edges.parquet")
    own = {name: data.x[:, k].tolist() for k, name in enumerate(columns)}
    parquet.write_table(pyarrow.table({"node": names, **own}), folder / "features.parquet")
    np.save(folder / "features.npy", data.x.numpy())
    sparse.save_npz(folder / "features.npz", sparse.csr_array(data.x.numpy()))
    network = networkx.Graph()
    for name, row in zip(names, data.x.tolist(), strict=True):
        network.add_node(name, **dict(zip(columns, row, strict=True)))
    network.add_edges_from((row[0], row[1], {"weight": 1.0}) for row in rows)
    networkx.write_graphml_xml(network, folder / "own.graphml")
    networkx.write_gexf(network, folder / "own.gexf")
    torch.save(data, folder / "own.pt")
    before = Path.cwd()
    os.chdir(folder)
    try:
        command("purify", EDGES, "--features", FEATURES, "-m", PURIFIER, "-o", "purified.csv", "--threshold", 0.4)()
    finally:
        os.chdir(before)


def _table(path: Path, rows: list[list[str]], delimiter: str = ",") -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def timeless(document: object) -> object:
    """A JSON document without the times that it tells."""
    if isinstance(document, dict):
        return {key: timeless(one) for key, one in document.items() if "seconds" not in key}
    return [timeless(one) for one in document] if isinstance(document, list) else document


def _leave_unfinished(state: str) -> None:
    """Write, in this folder, the checkpoint of a long run that was interrupted, and the result of one that was not."""
    run = command(*LONG_RUNS[state], "-o", RESULTS[state], "--checkpoint", state)
    with mock.patch.object(checkpoints, "SECONDS_BETWEEN", 0.0):
        _interrupt(run)
        shutil.copytree(state, "kept")
        run()
    shutil.rmtree(state, ignore_errors=True)
    Path("kept").rename(state)


def _interrupt(run: Callable[[], object]) -> None:
    """Run until the second checkpoint is written."""

    class Interrupted(BaseException):
        pass

    saved = []
    save = checkpoints.Checkpointer.save

    def counted(self: checkpoints.Checkpointer, state: checkpoints.State) -> None:
        save(self, state)
        if self.path is not None:
            saved.append(self.path)
            if len(saved) == 2:
                raise Interrupted

    with mock.patch.object(checkpoints.Checkpointer, "save", counted):
        try:
            run()
        except Interrupted:
            return
    raise AssertionError("the run ended before its second checkpoint")
