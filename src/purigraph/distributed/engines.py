"""The engines that start the ranks of a job: PyTorch's `torchrun`, and actors of Ray."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from purigraph.distributed.job import Job
from purigraph.distributed.ranks import Ranks
from purigraph.errors import InputError
from purigraph.registry import Registry

#: What is called again and again while a job runs, e.g. to show its progress.
Watch = Callable[[], None]
Engine = Callable[[Job, Ranks, Watch], None]

engines: Registry[Engine] = Registry("engine", "purigraph.engines")

_SECONDS_BETWEEN = 0.2
_SECONDS_FOR_THE_CAUSE = 10.0


@engines.register("torchrun")
def run_torchrun(job: Job, ranks: Ranks, watch: Watch) -> None:
    """Start the ranks of a job with `torchrun`, and wait for them.

    On several machines, the same call is made on each, with the same `address`.
    """
    if ranks.workers % ranks.machines:
        raise InputError(f"{ranks.workers} workers can't be spread evenly over {ranks.machines} machines.")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks.per_machine)]
    if ranks.address is None:
        command += ["--standalone"]
    else:
        command += ["--nnodes", str(ranks.machines), "--rdzv-backend", "c10d", "--rdzv-endpoint", ranks.address]
        command += ["--rdzv-id", "purigraph"]
    command += ["--max-restarts", "0", "-m", "purigraph.distributed.worker", str(job.save())]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    process.wait(_SECONDS_BETWEEN)
                    break
                except subprocess.TimeoutExpired:
                    watch()
        except BaseException:
            # torchrun passes the signal on to the ranks and ends after them.
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
        if process.returncode:
            log.seek(0)
            raise job.failure(_root_cause(log.read()))
    job.clear()


def _root_cause(log: str) -> str:
    """Return the sentence about the rank that failed, according to the summary of `torchrun`."""
    found = re.findall(r"rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", log, flags=re.DOTALL)
    codes = [(rank, int(code)) for rank, code in found]
    # Those that lost their connection to it exit on their own, and torchrun ends the rest by SIGTERM.
    killed = [one for one in codes if one[1] < 0 and one[1] != -signal.SIGTERM]
    for rank, code in killed or codes:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"Rank {rank} was lost: its process was ended {how}."
    last = [line for line in log.splitlines() if line.strip()][-1:]
    return f"torchrun could not run the ranks ({last[0].strip() if last else 'it said nothing'})."


@engines.register("ray")
def run_ray(job: Job, ranks: Ranks, watch: Watch) -> None:
    """Start the ranks of a job as actors of Ray, one per rank, and wait for them.

    Without an address, a Ray of its own is started on this machine, and stopped at the end; a Ray that the caller has
    initialised is used as it is.
    """
    ray = _import_ray()
    started = not ray.is_initialized()
    if started:
        _start(ray, ranks)
    actor = ray.remote(num_cpus=ranks.threads_per_rank() if ranks.address else 1, max_restarts=0)(_Rank)
    actors: list[Any] = []
    try:
        job.save()
        actors += [actor.remote() for _ in range(ranks.workers)]
        address = ray.get(actors[0].free_address.remote(), timeout=ranks.timeout)
        running = {one.run.remote(str(job.path), rank, ranks.workers, address): rank for rank, one in enumerate(actors)}
        _wait(ray, running, job, watch)
    except ray.exceptions.GetTimeoutError:
        raise InputError(
            f"Ray could not start {ranks.workers} ranks within {ranks.timeout:.0f} s: it has too few free CPUs."
        ) from None
    finally:
        for one in actors:
            ray.kill(one)
        if started:
            ray.shutdown()
    job.clear()


def _wait(ray: Any, running: dict[Any, int], job: Job, watch: Watch) -> None:
    """Wait for all ranks, or raise the error of the first that fails.

    When an actor dies, the others notice it by their connections, often before Ray does: wait a little for the cause.
    """
    deaths: list[str] = []
    failures: list[str] = []
    deadline = float("inf")
    while running and not deaths and time.monotonic() < deadline:
        done, _ = ray.wait(list(running), num_returns=1, timeout=_SECONDS_BETWEEN)
        for one in done:
            rank = running.pop(one)
            try:
                said = ray.get(one)
            except ray.exceptions.RayError as error:
                deaths.append(f"Rank {rank} was lost: its actor has died ({type(error).__name__}).")
            else:
                failures += [] if said is None else [f"Rank {rank} failed: {said}"]
        if failures and deadline == float("inf"):
            deadline = time.monotonic() + _SECONDS_FOR_THE_CAUSE
        watch()
    if deaths or failures:
        raise job.failure((deaths or failures)[0])


def _start(ray: Any, ranks: Ranks) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    if ranks.address is not None:
        ray.init(address=ranks.address, **options)
        return
    # The ranks exchange through torch.distributed: the object store of Ray holds nothing.
    ray.init(address="local", num_cpus=ranks.workers, object_store_memory=100 << 20, **options)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("The engine ray needs Ray: pip install 'purigraph[ray]', or use torchrun.") from None
    return ray


class _Rank:
    """One rank as an actor: a process of its own, on any machine of the cluster."""

    def free_address(self) -> str:
        """Return an address on this machine where rank 0 can listen."""
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            return f"tcp://{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def run(self, job: str, rank: int, size: int, address: str) -> str | None:
        """Do the rank's share; return None, or what went wrong."""
        from purigraph.distributed.worker import run_rank

        try:
            run_rank(Job.load(job), rank, size, address)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None
