"""The local engine: one process, or several that share the threads of the machine."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import Any

from purigraph.errors import InputError
from purigraph.runs.cell import Cell
from purigraph.runs.store import Store
from purigraph.runs.worker import Event, work

# A cell that ends its process so often (mostly for want of memory) is given up.
_MOST_DEATHS = 2
_SECONDS_BETWEEN_LOOKS = 0.5


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


class _Pool:
    """Processes that each go through all cells and take those that are free."""

    def __init__(self, store: Store, cells: Sequence[Cell], jobs: int, on_event: Callable[[Event], None]) -> None:
        self._store, self._cells, self._on_event = store, cells, on_event
        self._context = multiprocessing.get_context("spawn")  # forked, PyTorch's threads would be lost
        self._events: Any = self._context.Queue()
        self._threads = threads_each(jobs)
        self._running: dict[int, Cell | None] = {}
        self._deaths: Counter[str] = Counter()
        self._told: set[str] = set()
        self._given_up: set[str] = set()
        self._processes = [self._start() for _ in range(min(jobs, len(cells)))]

    def run(self) -> None:
        try:
            while self._processes:
                self._listen()
                for process in [process for process in self._processes if not process.is_alive()]:
                    self._listen(wait=False)
                    self._processes.remove(process)
                    if process.exitcode != 0:
                        self._replace(process)
        finally:
            for process in self._processes:
                process.terminate()
            for process in self._processes:
                process.join()

    def _start(self) -> BaseProcess:
        open_cells = [cell for cell in self._cells if cell.key not in self._given_up]
        process = self._context.Process(
            target=_run_worker, args=(str(self._store.root), open_cells, self._threads, self._events), daemon=True
        )
        process.start()
        assert process.pid is not None
        self._running[process.pid] = None
        return process

    def _listen(self, wait: bool = True) -> None:
        """Pass on what the processes report, once for every cell."""
        with suppress(queue.Empty):
            while True:
                pid, event = self._events.get(timeout=_SECONDS_BETWEEN_LOOKS if wait else 0.1)
                wait = False
                self._running[pid] = event.cell if event.kind == "started" else None
                if event.kind != "started":
                    if event.cell.key in self._told:
                        continue
                    self._told.add(event.cell.key)
                self._on_event(event)

    def _replace(self, process: BaseProcess) -> None:
        """Start another process for one that died; the cell that it was running is tried again, or given up."""
        cell = self._running.pop(process.pid or 0, None)
        if cell is None:
            raise InputError(f"A worker ended with code {process.exitcode} before it ran a cell; see the error above.")
        self._deaths[cell.key] += 1
        if self._deaths[cell.key] >= _MOST_DEATHS:
            self._given_up.add(cell.key)
            reason = (
                f"Its process ended with code {process.exitcode}, {_MOST_DEATHS} times. If memory was short, use "
                "fewer --jobs."
            )
            self._store.fail(cell, reason)
            self._told.add(cell.key)
            self._on_event(Event(cell, "failed", error=reason))
        if any(self._store.record(one) is None for one in self._cells if one.key not in self._given_up):
            self._processes.append(self._start())


def _run_worker(root: str, cells: Sequence[Cell], threads: int, events: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers on an interrupt
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    pid = os.getpid()
    work(Store(root), cells, on_event=lambda event: events.put((pid, event)))
