"""Working through cells: what one process does, alone or beside others."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from purigraph._version import __version__
from purigraph.errors import PurigraphError
from purigraph.runs.cell import Cell
from purigraph.runs.store import Context, Store

# How long to wait before looking again whether cells that others run are finished.
_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Event:
    """Something that happened to a cell.

    Attributes:
        cell: The cell.
        kind: "started", "finished", or "failed".
        seconds: How long it ran; 0 if another process did.
        error: Why it failed.
    """

    cell: Cell
    kind: Literal["started", "finished", "failed"]
    seconds: float = 0.0
    error: str = ""


def work(
    store: Store,
    cells: Sequence[Cell],
    *,
    attempt: str = "",
    on_event: Callable[[Event], None] = lambda event: None,
    progress: bool | None = False,
) -> list[dict[str, Any]]:
    """Run all cells that are not finished; return the records of those that are, in the order given.

    Cells that another process runs are waited for, and taken over if it ends without finishing them. A cell that
    failed in an earlier call is tried once more, by one of the processes of an attempt.

    Args:
        store: Where results are kept.
        cells: The cells.
        attempt: What the processes that work together have in common. Default: this process works alone.
        on_event: Called when a cell starts and ends, also for cells that another process has run.
        progress: Whether cells report their own progress; see `purigraph.progress`.
    """
    left, attempt = list(cells), attempt or secrets.token_hex(8)
    while left:
        waiting = [cell for cell in left if not _settle(store, cell, attempt, on_event, progress)]
        if len(waiting) == len(left):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        left = waiting
    return [record for cell in cells if (record := store.record(cell)) is not None]


def _settle(store: Store, cell: Cell, attempt: str, on_event: Callable[[Event], None], progress: bool | None) -> bool:
    """Run a cell unless it is finished; return False if another process is running it."""
    with store.claim(cell) as mine:
        # Looked at under the claim: it may have been finished just before.
        if store.record(cell) is not None:
            on_event(Event(cell, "finished"))
            return True
        if mine and store.failure(cell, attempt) is None:
            on_event(Event(cell, "started"))
            on_event(run_cell(store, cell, attempt=attempt, progress=progress))
        return mine


def run_cell(store: Store, cell: Cell, *, attempt: str = "", progress: bool | None = False) -> Event:
    """Run one cell that this process has claimed, and keep its result or why it failed."""
    import torch

    started = time.monotonic()
    context = Context(store, store.folder(cell), progress)
    try:
        result = cell.work()(cell.config, context)
    except (PurigraphError, ArithmeticError, LookupError, RuntimeError, MemoryError, TypeError) as error:
        # One bad cell must not end a run of hundreds. Interrupts are no such errors and end it.
        sentence = str(error) if isinstance(error, PurigraphError) else f"{type(error).__name__}: {error}"
        store.fail(cell, sentence, attempt)
        return Event(cell, "failed", time.monotonic() - started, sentence)
    seconds = round(time.monotonic() - started, 1)
    stamp = {
        "purigraph_version": __version__,
        "torch_version": torch.__version__,
        "threads": torch.get_num_threads(),
        "seconds": seconds,
    }
    store.finish(cell, result, stamp)
    return Event(cell, "finished", seconds)
