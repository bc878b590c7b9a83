"""`purigraph.distributed.fit`: start ranks, let them train a purifier, wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from purigraph.distributed.engines import engines
from purigraph.distributed.job import Job
from purigraph.distributed.parts import GraphParts
from purigraph.distributed.ranks import Ranks
from purigraph.distributed.subgraphs import BatchSettings
from purigraph.distributed.training import CURVE
from purigraph.distributed.watching import Watcher
from purigraph.errors import InputError
from purigraph.files import read_json
from purigraph.numbers import read_seed
from purigraph.progress import progress as show_progress
from purigraph.purifiers import GPRGAE
from purigraph.purifiers.gpr_gae import FitSettings


def fit(
    parts: str | Path,
    purifier: GPRGAE,
    folder: str | Path,
    *,
    seed: int = 0,
    batches: BatchSettings | None = None,
    progress: bool | None = None,
    settings: FitSettings | None = None,
    **ranks: Any,
) -> GPRGAE:
    """Train a purifier on a trusted graph in parts, over several processes or machines.

    Every epoch is one step of Adam on the mini-batches of all ranks, whose gradients are averaged. The losses don't
    depend on the number of ranks, up to rounding. If a rank is lost, the others stop; called again, it resumes.

    Args:
        parts: The folder of the graph (see `write_parts` and `describe_parts`).
        purifier: A GPR-GAE with the wanted settings; it is not changed.
        folder: The folder of the run: checkpoint, losses (curve.json) and, at the end, purifier/.
        seed: The seed of all randomness.
        batches: The mini-batches. Default: `BatchSettings()`.
        progress: Whether to report progress on the error stream. Default: only if it takes long.
        settings: The settings of the training. Default: `FitSettings()`.
        **ranks: The settings of `Ranks`: engine, workers, address, machines, threads, timeout.

    Returns:
        The trained purifier, which is also in `folder`/purifier.
    """
    chosen, settings = Ranks(**ranks), settings or FitSettings()
    if not isinstance(purifier, GPRGAE):
        raise InputError(f"Only a GPRGAE can be trained over ranks, not a {type(purifier).__name__}.")
    engine, graph, place = engines[chosen.engine], GraphParts.open(parts), Path(folder).resolve()
    arguments = {
        "parts": str(graph.folder.resolve()),
        "purifier": {**purifier.settings.to_json(), "in_channels": None},
        "batches": (batches or BatchSettings()).to_json(),
        "settings": settings.to_json(),
        "seed": read_seed(seed),
    }
    job = Job("fit", str(place), arguments, chosen.threads_per_rank(), chosen.timeout)
    with show_progress("GPR-GAE", settings.epochs, progress) as report:
        engine(job, chosen, Watcher(lambda: _latest(place), report))
    return GPRGAE.from_pretrained(place / "purifier")


def read_curve(folder: str | Path) -> list[float]:
    """Return the loss of every epoch of a training over ranks."""
    document = read_json(Path(folder) / CURVE)
    return [float("nan") if one is None else float(one) for one in document["losses"]]


def _latest(folder: Path) -> tuple[int, dict[str, float]]:
    losses = read_curve(folder) if (folder / CURVE).exists() else []
    return len(losses), {"loss": losses[-1]} if losses else {}
