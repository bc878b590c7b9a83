"""Ranks as threads of this process: what they compute and exchange is real, only the network is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from purigraph.distributed import Group

T = TypeVar("T")


class _Table:
    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=60)
        self.slots: list[Any] = [None] * size


class ThreadGroup(Group):
    """A group whose ranks hand each other tensors through memory."""

    def __init__(self, rank: int, size: int, table: _Table) -> None:
        super().__init__(rank, size)
        self._table = table

    def _swap(self, value: Any) -> list[Any]:
        self._table.slots[self.rank] = value
        self._table.barrier.wait()
        everything = list(self._table.slots)
        self._table.barrier.wait()
        return everything

    def exchange(self, out: Tensor, rows: Tensor, out_counts: Sequence[int], counts: Sequence[int]) -> None:
        row_bytes = rows.element_size() * (rows[0].numel() if len(rows) else 0)
        self.bytes_sent += row_bytes * (sum(counts) - counts[self.rank])
        sent = self._swap(list(rows.clone().split(list(counts))))
        received = [parts[self.rank] for parts in sent]
        assert [len(part) for part in received] == list(out_counts), "what was sent is not what was expected"
        out.copy_(torch.cat(received))

    def exchange_unknown(self, rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, list[int]]:
        theirs = [one[self.rank] for one in self._swap(list(counts))]
        out = rows.new_empty((sum(theirs), *rows.shape[1:]))
        self.exchange(out, rows, theirs, counts)
        return out, theirs

    def total(self, values: Tensor) -> Tensor:
        return values.copy_(torch.stack(self._swap(values.clone())).sum(0))


def on_ranks(size: int, work: Callable[[Group], T]) -> list[T]:
    """Return what the work returns on every rank; the first error of any rank is raised."""
    table = _Table(size)
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadGroup(rank, size, table))
        except threading.BrokenBarrierError:
            pass  # another rank has failed
        except BaseException as error:
            errors.append(error)
            table.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
