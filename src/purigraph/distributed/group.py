"""The ranks of a run and what they say to each other: a thin layer over `torch.distributed` that counts bytes.

With one rank nothing is sent and no process group is needed, so the same code runs in a plain process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from purigraph.errors import RankLostError


class Group:
    """The ranks of a run, seen from one of them.

    Args:
        rank: The number of this rank, from 0.
        size: The number of ranks. With more than one, `torch.distributed` must be initialised.
        device: The device that exchanged tensors are on.

    Attributes:
        bytes_sent: What this rank has sent to others in `exchange`, without headers.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | str = "cpu") -> None:
        self.rank, self.size, self.device = rank, size, torch.device(device)
        self.bytes_sent = 0

    def exchange(self, out: Tensor, rows: Tensor, out_counts: Sequence[int], counts: Sequence[int]) -> None:
        """Send rows to every rank and receive rows from every rank (alltoall with unequal sizes).

        Args:
            out: (sum of `out_counts`, ...), contiguous: the received rows, by the rank that they come from.
            rows: (sum of `counts`, ...), contiguous: the rows to send, by the rank that they go to.
            out_counts: The number of rows from every rank.
            counts: The number of rows to every rank.
        """
        row_bytes = rows.element_size() * (rows[0].numel() if len(rows) else 0)
        self.bytes_sent += row_bytes * (sum(counts) - counts[self.rank])
        if self.size == 1:
            out.copy_(rows)
            return
        with self._explained():
            dist.all_to_all_single(out, rows, list(out_counts), list(counts))

    def exchange_unknown(self, rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, list[int]]:
        """Send rows like `exchange`, where nobody knows yet how many will come; return them and their counts."""
        if self.size == 1:
            return rows, list(counts)
        mine = torch.tensor(counts, dtype=torch.int64, device=self.device)
        theirs = torch.empty_like(mine)
        with self._explained():
            dist.all_to_all_single(theirs, mine)
        out_counts = theirs.tolist()
        out = rows.new_empty((sum(out_counts), *rows.shape[1:]))
        self.exchange(out, rows, out_counts, counts)
        return out, out_counts

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, in place."""
        if self.size > 1:
            with self._explained():
                dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> Tensor:
        """Return the tensors of all ranks, which have the same shape, as (ranks, ...), on every rank."""
        out = values.new_zeros((self.size, *values.shape))
        out[self.rank] = values
        return self.total(out)

    def gather_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, of which each may have another number, one rank after the other."""
        return self.exchange_unknown(rows.repeat(self.size, *[1] * (rows.dim() - 1)), [len(rows)] * self.size)[0]

    def wait(self) -> None:
        """Wait for all ranks."""
        self.total(torch.zeros(1, device=self.device))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the errors of a broken connection into one that says what happened."""
        try:
            yield
        except (RuntimeError, dist.DistError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise RankLostError(
                f"Rank {self.rank} of {self.size} lost the connection to the others ({reason}): one of them has ended, "
                "or did not answer in time. Start the same command again; it resumes after the last finished step."
            ) from error


@contextmanager
def joined(
    *,
    rank: int | None = None,
    size: int | None = None,
    address: str | None = None,
    timeout: float = 600.0,
) -> Iterator[Group]:
    """Join the process group of a run, and leave it at the end.

    Args:
        rank: The number of this rank. Default: from the environment, as `torchrun` sets it.
        size: The number of ranks. Default: from the environment.
        address: Where rank 0 listens, tcp://host:port. Default: from the environment.
        timeout: The number of seconds after which a rank that does not answer is given up.
    """
    dist.init_process_group(
        "gloo",
        init_method=address or "env://",
        timeout=timedelta(seconds=timeout),
        rank=-1 if rank is None else rank,
        world_size=-1 if size is None else size,
    )
    try:
        yield Group(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
