"""The Ray engine: cells as tasks of a Ray cluster, an existing one or one on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from purigraph.errors import InputError
from purigraph.runs.cell import Cell
from purigraph.runs.local import threads_each
from purigraph.runs.store import Store, default_store
from purigraph.runs.worker import Event, work

# How often Ray runs a task again whose worker or machine was lost.
_RETRIES = 3


def run_on_ray(
    store: Store,
    cells: Sequence[Cell],
    *,
    jobs: int = 1,
    address: str | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> None:
    """Run the cells as Ray tasks; the records come back and are kept in this machine's store.

    The other machines keep checkpoints and trained models in a store of their own, the one that `PURIGRAPH_RUNS` names
    there. If that is a folder that all of them share, models are trained once for all.

    Args:
        store: Where results are kept.
        cells: The cells.
        jobs: How many to run at a time on a local cluster; each gets an equal part of the threads.
        address: That of an existing cluster, such as "auto" or "ray://head:10001". Default: a local one is started, and
            ended afterwards.
        on_event: Called when a cell ends.
    """
    try:
        import ray
    except ImportError:
        raise InputError("The engine ray needs Ray: pip install 'purigraph[ray]'.") from None
    open_cells = []
    for cell in cells:
        if store.record(cell) is None:
            open_cells.append(cell)
        else:
            on_event(Event(cell, "finished"))
    if not open_cells:
        return
    threads = threads_each(jobs)
    started_here = not ray.is_initialized()
    if started_here:
        _connect(ray, address, jobs * threads)
    try:
        task = ray.remote(num_cpus=threads, max_retries=_RETRIES)(_run_on_worker)
        # On other machines the folder of this store may not exist: they use their own.
        root = str(store.root) if address is None else None
        pending = {task.remote(root, cell, threads): cell for cell in open_cells}
        while pending:
            (done,), _ = ray.wait(list(pending), num_returns=1)
            cell = pending.pop(done)
            on_event(_collect(ray, store, cell, done))
    finally:
        if started_here:
            ray.shutdown()


def _connect(ray: Any, address: str | None, cpus: int) -> None:
    options: dict[str, Any] = {"include_dashboard": False, "num_cpus": cpus} if address is None else {}
    try:
        # Without an address, Ray would join any cluster that the environment names.
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"There is no Ray cluster at {address!r}: {error}") from None


def _collect(ray: Any, store: Store, cell: Cell, done: Any) -> Event:
    """Keep what a task returned."""
    try:
        record, error, seconds = json.loads(ray.get(done))
    except ray.exceptions.RayError as lost:
        record, error, seconds = None, f"{type(lost).__name__} after {_RETRIES} retries: {lost}", 0.0
    if record is None:
        store.fail(cell, error)
        return Event(cell, "failed", seconds, error)
    store.keep(record)
    return Event(cell, "finished", seconds)


def _run_on_worker(root: str | None, cell: Cell, threads: int) -> str:
    """Run one cell in a worker of Ray and return its record, why it failed, and its seconds, as JSON."""
    import torch

    torch.set_num_threads(threads)
    events: list[Event] = []
    store = default_store() if root is None else Store(root)
    records = work(store, [cell], on_event=events.append)
    last = events[-1]
    return json.dumps([records[0] if records else None, last.error, last.seconds])
