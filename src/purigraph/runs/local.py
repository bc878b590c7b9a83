"""The local engine: one process, or several that share the threads of the machine."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from purigraph.errors import InputError
from purigraph.runs.cell import Cell
from purigraph.runs.store import Store
from purigraph.runs.worker import Event, work

# A cell that ends its process so often (mostly for want of memory) is given up.
_MOST_DEATHS = 2


def run_locally(
    store: Store,
    cells: Sequence[Cell],
    *,
    jobs: int = 1,
    address: str | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> None:
    """Run the cells in this process, or in `jobs` processes with an equal part of the threads each."""
    if jobs == 1 or len(cells) < 2:
        work(store, cells, on_event=on_event, progress=None)
        return
    _Pool(store, cells, jobs, on_event).run()


def threads_each(jobs: int) -> int:
    """Return the number of threads for each of several processes."""
    named = os.environ.get("OMP_NUM_THREADS", "")
    try:
        here = len(os.sched_getaffinity(0))
    except AttributeError:  # pragma: no cover - not on Linux
        here = os.cpu_count() or 1
    return max(1, (min(int(named), here) if named.isdecimal() and int(named) > 0 else here) // jobs)


@dataclass
class _Worker:
    """A process that goes through all cells and takes those that are free.

    Attributes:
        process: The process.
        events: Where it reports; a pipe of its own, as a process that is killed may leave a shared one locked.
        cell: What it is running.
    """

    process: BaseProcess
    events: Connection
    cell: Cell | None = None


class _Pool:
    """Several workers; one that dies is replaced."""

    def __init__(self, store: Store, cells: Sequence[Cell], jobs: int, on_event: Callable[[Event], None]) -> None:
        self._store, self._cells, self._on_event = store, cells, on_event
        self._threads = threads_each(jobs)
        self._attempt = secrets.token_hex(8)
        self._deaths: Counter[str] = Counter()
        self._told: set[str] = set()
        self._given_up: set[str] = set()
        self._workers = [self._start() for _ in range(min(jobs, len(cells)))]

    def run(self) -> None:
        """Pass on what the workers report until all of them have ended."""
        try:
            while self._workers:
                ready = wait([worker.events for worker in self._workers])
                for worker in [worker for worker in self._workers if worker.events in ready]:
                    try:
                        self._tell(worker, worker.events.recv())
                    except EOFError:  # noqa: PERF203 (it has ended, one way or the other)
                        worker.process.join()
                        self._workers.remove(worker)
                        if worker.process.exitcode != 0:
                            self._replace(worker)
        finally:
            for worker in self._workers:
                worker.process.terminate()
            for worker in self._workers:
                worker.process.join()

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")  # forked, PyTorch's threads would be lost
        receiver, sender = context.Pipe(duplex=False)
        cells = [cell for cell in self._cells if cell.key not in self._given_up]
        process = context.Process(
            target=_run_worker, args=(str(self._store.root), cells, self._threads, self._attempt, sender), daemon=True
        )
        process.start()
        sender.close()  # so that the end of the worker is the end of the pipe
        return _Worker(process, receiver)

    def _tell(self, worker: _Worker, event: Event) -> None:
        """Pass an event on, once for every cell: every worker reports that it has found a cell finished."""
        worker.cell = event.cell if event.kind == "started" else None
        if event.kind != "started":
            if event.cell.key in self._told:
                return
            self._told.add(event.cell.key)
        self._on_event(event)

    def _replace(self, worker: _Worker) -> None:
        """Start another worker for one that died; the cell that it was running is tried again, or given up."""
        code, cell = worker.process.exitcode, worker.cell
        if cell is None:
            raise InputError(f"A worker ended with code {code} before it ran a cell; see the error above.")
        self._deaths[cell.key] += 1
        if self._deaths[cell.key] >= _MOST_DEATHS and cell.key not in self._given_up:
            self._given_up.add(cell.key)
            reason = f"Its process ended with code {code}, {_MOST_DEATHS} times. If memory was short, use fewer --jobs."
            self._store.fail(cell, reason, self._attempt)
            self._told.add(cell.key)
            self._on_event(Event(cell, "failed", error=reason))
        if any(self._store.record(one) is None for one in self._cells if one.key not in self._given_up):
            self._workers.append(self._start())


def _run_worker(root: str, cells: Sequence[Cell], threads: int, attempt: str, events: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers on an interrupt
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    work(Store(root), cells, attempt=attempt, on_event=events.send)
