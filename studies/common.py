"""What the studies share: pieces of work that are kept as small JSON files, and trained models that are kept apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import purigraph as pg
from purigraph.files import read_json, write_json
from purigraph.graph.splits import InductiveSplit, inductive_split
from purigraph.training import train

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
MODELS = ROOT / ".cache" / "studies"  # not under version control: they can be made again


def piece(study: str, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a piece of work: read if it is there, else worked out and kept."""
    path = RESULTS / study / f"{name}.json"
    if path.exists():
        found: dict[str, Any] = read_json(path)
        return found
    started = time.monotonic()
    result = work()
    stamp = {
        "piece": name,
        "purigraph_version": pg.__version__,
        "torch_version": torch.__version__,
        "threads": torch.get_num_threads(),
        "seconds": round(time.monotonic() - started, 1),
    }
    write_json(path, {**stamp, **result})
    print(f"{study}/{name}: {stamp['seconds']} s", flush=True)
    return {**stamp, **result}


def split_of(dataset: str, seed: int) -> InductiveSplit:
    """The inductive split of a dataset."""
    return inductive_split(pg.datasets.load(dataset, seed=seed))


def purifier_for(dataset: str, seed: int, **settings: Any) -> pg.GPRGAE:
    """A purifier with the paper's settings, trained on the split's training graph; kept between runs."""
    name = "-".join([dataset, str(seed), *(f"{key}={value}" for key, value in settings.items())])
    folder = MODELS / f"purifier-{name}"
    if not (folder / "config.json").exists():
        split = split_of(dataset, seed)
        state = MODELS / f"purifier-{name}.checkpoint"
        purifier = pg.GPRGAE().fit(
            split.train, validation=split.validation, seed=seed, checkpoint=state, progress=True, **settings
        )
        purifier.save_pretrained(folder)
    return pg.GPRGAE.from_pretrained(folder)


def classifier_for(
    dataset: str, name: str, seed: int, regime: str = "vanilla", settings: Any = None
) -> torch.nn.Module:
    """A trained classifier, kept between runs."""
    folder = MODELS / f"{name}-{regime}-{dataset}-{seed}"
    if not (folder / "config.json").exists():
        result = train(name, regime, split_of(dataset, seed), seed=seed, settings=settings, checkpoint=folder / "state")
        result.model.save_pretrained(folder)  # type: ignore[operator]
    return pg.classifiers.load(folder)
