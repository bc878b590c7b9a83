"""Models and data of the commands that attack: a saved classifier, with or without a purifier, on its own split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from purigraph.cli.inputs import check_split, is_file, load_graph
from purigraph.devices import check_device
from purigraph.errors import InputError

if TYPE_CHECKING:
    from torch import nn
    from torch_geometric.data import Data

    from purigraph.classifiers import Classifier


def load_victim(
    classifier: str, purifier: str | None, device: str, anchor: str | None = None
) -> tuple[nn.Module, Classifier]:
    """Return the model to attack (the classifier, protected by purifier and anchor if given) and the classifier."""
    from purigraph import anchors, classifiers, purifiers
    from purigraph.protection import protect

    check_device(device)
    model = classifiers.load(classifier).to(device)
    loaded = None if purifier is None else purifiers.load(purifier).to(device)
    if anchor is not None:
        return protect(model, loaded, anchor=anchors.load(anchor).to(device)), model
    return (model if loaded is None else protect(model, loaded)), model


def load_scene(
    graph: str,
    classifier: Classifier,
    *,
    features: str | None = None,
    seed: int | None,
    split: int | None,
    device: str,
) -> tuple[Data, dict[str, int]]:
    """Return the graph with its labels and test nodes, and how its split was selected.

    The split is the one that the classifier was trained with: on another split, it may be tested on its training nodes.
    """
    if is_file(graph):
        if seed is not None:
            raise InputError(
                f"--seed selects the split of a dataset, but {graph} is a file with its own splits: select one with "
                "--split, and seed the attack with --attack-seed."
            )
        chosen = {"split": as_trained("split", split, classifier)}
    else:
        check_split(graph, split)
        chosen = {"seed": as_trained("seed", seed, classifier)}
    data = load_graph(
        graph,
        features=features,
        expected=(classifier.provenance or {}).get("features"),
        seed=chosen.get("seed", 0),
        split=chosen.get("split", 0),
        needs=("y", "test_mask"),
        device=device,
    )
    if not data.test_mask.any():
        raise InputError(
            f"{graph} has no test nodes to attack: its test_mask is False everywhere (see docs/graph-files.md)."
        )
    return data, chosen


def as_trained(option: str, given: int | None, classifier: Classifier) -> int:
    """Return the value of an option, which must be that of the classifier's training if it is known."""
    trained = (classifier.provenance or {}).get(option)
    if not isinstance(trained, int):
        return given or 0
    if given is not None and given != trained:
        raise InputError(
            f"The classifier was trained with --{option} {trained}; on the split of --{option} {given} it may be "
            f"tested on its training nodes. Omit --{option}, or train another classifier with "
            f"--{option} {given}. (The seed of the attack is --attack-seed.)"
        )
    return trained
