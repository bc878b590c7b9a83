"""`python -m purigraph.distributed.worker JOB`: one rank of a run, as `torchrun` starts it."""

from __future__ import annotations

import contextlib
import os
import sys

import torch

from purigraph.distributed.group import Group, joined
from purigraph.distributed.job import Job
from purigraph.distributed.purification import as_gpr_gae, purify_rank
from purigraph.distributed.rehearsal import rehearse
from purigraph.distributed.subgraphs import BatchSettings
from purigraph.distributed.training import fit_rank
from purigraph.errors import InputError, PurigraphError
from purigraph.purifiers import GPRGAE
from purigraph.purifiers.gpr_gae import FitSettings

FAILED = 3
_MMAP_THRESHOLD = -3  # of mallopt(3): from this size on, memory is mapped, and unmapped when it is freed
_ARENA_MAX = -8  # how many pools threads have for smaller pieces


def run_rank(job: Job, rank: int, size: int, address: str | None = None) -> None:
    """Join the others and do one rank's share of a job; a failure is recorded in the job's folder.

    Args:
        job: The job.
        rank: The number of this rank.
        size: The number of ranks.
        address: Where rank 0 listens, tcp://host:port. Default: from the environment.
    """
    torch.set_num_threads(job.threads)
    _return_memory()
    try:
        if size == 1:
            _do(job, Group())
            return
        with joined(rank=rank, size=size, address=address, timeout=job.timeout) as group:
            _do(job, group)
    except BaseException as error:
        job.record_failure(rank, error)
        raise


def _do(job: Job, group: Group) -> None:
    if job.task not in TASKS:
        raise InputError(f"There is no task {job.task!r}: there are {', '.join(TASKS)}.")
    TASKS[job.task](job, group)


def _purify(job: Job, group: Group) -> None:
    arguments = dict(job.arguments)
    purifier = as_gpr_gae(arguments.pop("purifier"))
    rehearse(purifier, group)
    purify_rank(arguments.pop("parts"), purifier, job.folder, group, **arguments)


def _fit(job: Job, group: Group) -> None:
    arguments = dict(job.arguments)
    purifier = GPRGAE(**arguments.pop("purifier"))
    batches = BatchSettings(**arguments.pop("batches"))
    settings = FitSettings(**arguments.pop("settings"))
    fit_rank(arguments.pop("parts"), purifier, job.folder, group, batches, settings, **arguments)


TASKS = {"purify": _purify, "fit": _fit}


def _return_memory() -> None:
    """Give memory back as soon as it is free: Arrow's own pools and the C library keep it for the next time."""
    import ctypes

    import pyarrow
    import pyarrow.parquet

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    with contextlib.suppress(OSError, AttributeError):  # only glibc has this
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 17)
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def main() -> None:
    """Run the rank that the environment names."""
    job = Job.load(sys.argv[1])
    try:
        run_rank(job, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    except PurigraphError:
        sys.exit(FAILED)  # it is recorded; torchrun stops the others


if __name__ == "__main__":
    main()
