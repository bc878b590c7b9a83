"""How many ranks a run has and how they are started."""

from __future__ import annotations

import os

from purigraph.settings import Settings, setting


class Ranks(Settings):
    """The ranks of a run: how many, where, and how they are started."""

    engine: str = setting('The engine that starts the ranks: "torchrun" or "ray".', default="torchrun")
    workers: int = setting("The number of ranks.", default=2, ge=1)
    address: str | None = setting(
        "Where the cluster is. For torchrun, host:port of the rendezvous, the same on all machines; for Ray, the "
        'address of the cluster, or "auto". None runs everything on this machine.',
        default=None,
    )
    machines: int = setting(
        "The number of machines on which the same call is made (torchrun); each starts its share of the ranks.",
        default=1,
        ge=1,
    )
    threads: int | None = setting(
        "The number of threads of every rank. None: the cores of the machine over its ranks.", default=None, ge=1
    )
    timeout: float = setting(
        "The number of seconds after which a rank that does not answer is given up.", default=600.0, gt=0
    )

    @property
    def per_machine(self) -> int:
        """Return the number of ranks on every machine, if they are started by machine."""
        return max(self.workers // self.machines, 1)

    def threads_per_rank(self) -> int:
        """Return the number of threads of every rank."""
        return self.threads or max((os.cpu_count() or 1) // self.per_machine, 1)
