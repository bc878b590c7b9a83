"""Engines: where cells are run. Every engine runs the same cells with the same results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from purigraph.errors import InputError, UnknownNameError
from purigraph.runs.cell import Cell
from purigraph.runs.local import run_locally
from purigraph.runs.store import Store
from purigraph.runs.worker import Event


class Engine(Protocol):
    """The interface of an engine."""

    def __call__(
        self,
        store: Store,
        cells: Sequence[Cell],
        *,
        jobs: int,
        address: str | None,
        on_event: Callable[[Event], None],
    ) -> None:
        """Run the cells that are not finished.

        Args:
            store: Where results are kept.
            cells: The cells.
            jobs: How many to run at a time.
            address: Where a cluster is; None for this machine.
            on_event: Called when a cell starts and ends.
        """


def _on_ray(
    store: Store, cells: Sequence[Cell], *, jobs: int, address: str | None, on_event: Callable[[Event], None]
) -> None:
    from purigraph.runs.on_ray import run_on_ray  # Ray takes seconds to import and is an extra

    run_on_ray(store, cells, jobs=jobs, address=address, on_event=on_event)


ENGINES: Mapping[str, Engine] = {"local": run_locally, "ray": _on_ray}


def run_cells(
    store: Store,
    cells: Sequence[Cell],
    *,
    engine: str = "local",
    jobs: int = 1,
    address: str | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> None:
    """Run the cells that are not finished with an engine; see `Engine`."""
    if engine not in ENGINES:
        raise UnknownNameError(f"There is no engine {engine!r}. Choose one of: {', '.join(ENGINES)}.")
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}.")
    if address is not None and engine == "local":
        raise InputError("An address names a Ray cluster: use --engine ray with it.")
    ENGINES[engine](store, cells, jobs=jobs, address=address, on_event=on_event)
