"""`purigraph.distributed.purify`: start ranks, let them purify a graph, wait for the result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from purigraph._version import __version__
from purigraph.distributed.engines import engines
from purigraph.distributed.job import Job
from purigraph.distributed.parts import GraphParts
from purigraph.distributed.purification import CHUNK, RankReport, as_gpr_gae
from purigraph.distributed.ranks import Ranks
from purigraph.distributed.run_folder import RunFolder, read_change
from purigraph.distributed.watching import Watcher
from purigraph.errors import InputError, RankLostError
from purigraph.fingerprint import fingerprint
from purigraph.progress import progress as show_progress
from purigraph.purifiers import GPRGAE


@dataclass(frozen=True)
class PurifiedParts:
    """A purified graph in parts, and how its purification went.

    Attributes:
        folder: Where it is; `read_purified` reads it into memory.
        num_nodes: N.
        num_edges: E.
        relative_change: For every step, the norm of its direction over the norm of the weights before it.
        converged: Whether the last change was within the tolerance.
        ranks: What every rank held and did; after an interruption, in the last part of the run.
    """

    folder: Path
    num_nodes: int
    num_edges: int
    relative_change: list[float]
    converged: bool
    ranks: list[RankReport]


def purify(
    parts: str | Path,
    purifier: GPRGAE | str | Path,
    output: str | Path,
    *,
    chunk: int = CHUNK,
    progress: bool | None = None,
    **ranks: Any,
) -> PurifiedParts:
    """Purify a graph in parts over several processes or machines; the result equals that of one process.

    If a rank is lost, the others stop; called again, it resumes after the last finished step.

    Args:
        parts: The folder of the graph (see `write_parts` and `describe_parts`).
        purifier: A fitted GPR-GAE, or its folder.
        output: The folder of the result. On a cluster, all machines must see both folders.
        chunk: The columns that are exchanged at a time: more are faster, fewer take less memory.
        progress: Whether to report progress on the error stream. Default: only if it takes long.
        **ranks: The settings of `Ranks`: engine, workers, address, machines, threads, timeout.

    Raises:
        RankLostError: If a process was lost.
        InputError: If `output` holds something else, or the purifier can't run over ranks.
    """
    chosen = Ranks(**ranks)
    engine = engines[chosen.engine]
    graph, model = GraphParts.open(parts), as_gpr_gae(purifier)
    if chunk < 1:
        raise InputError(f"chunk must be at least 1, not {chunk}.")
    run = RunFolder(output)
    if not run.begin(_identity(graph, model)):
        model.save_pretrained(run.folder / "purifier")
        arguments = {"parts": str(graph.folder.resolve()), "purifier": str(run.folder.resolve() / "purifier")}
        job = Job(
            "purify",
            str(run.folder.resolve()),
            {**arguments, "chunk": chunk},
            chosen.threads_per_rank(),
            chosen.timeout,
        )
        with show_progress("Purification", model.max_steps, progress) as report:
            engine(job, chosen, Watcher(lambda: _latest(run), report))
    return _result(run)


def _identity(graph: GraphParts, model: GPRGAE) -> str:
    """Return a hash of everything that the result depends on, but not of how it is computed."""
    state = model.state_dict()
    described = json.dumps([graph.record(), model.settings.to_json(), sorted(state), __version__], sort_keys=True)
    return fingerprint(described, *(state[name] for name in sorted(state)))


def _latest(run: RunFolder) -> tuple[int, dict[str, float]]:
    steps = run.steps()
    return len(steps), {"change": steps[-1].relative_change} if steps else {}


def _result(run: RunFolder) -> PurifiedParts:
    document = run.result()
    if document is None:
        raise RankLostError(f"The run in {run.folder} has ended without a result: start it again.")
    return PurifiedParts(
        run.folder,
        document["num_nodes"],
        document["num_edges"],
        [read_change(one) for one in document["relative_change"]],
        document["converged"],
        [RankReport(**one) for one in document["ranks"]],
    )
