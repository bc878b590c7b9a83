"""The convergent multi-step update over ranks; `purigraph.purifiers.gpr_gae.purification` is that of one process."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from purigraph.distributed.group import Group
from purigraph.distributed.links import RowLinks, embed
from purigraph.distributed.loading import LoadedRows, load_rows
from purigraph.distributed.parts import GraphParts, Part
from purigraph.distributed.row_block import RowBlock
from purigraph.distributed.run_folder import FinishedStep, RunFolder
from purigraph.errors import InputError
from purigraph.memory import forget_memory_peak, memory_now, memory_peak
from purigraph.purifiers import GPRGAE, Purifier
from purigraph.purifiers import load as load_purifier
from purigraph.purifiers.base import require_fitted
from purigraph.purifiers.cut import cut

#: The columns that are exchanged at a time, if nothing else is said.
CHUNK = 64


@dataclass(frozen=True)
class RankReport:
    """What one rank held and did.

    Attributes:
        nodes: The own nodes.
        entries: The own entries; an edge has two, on one rank or on two.
        halo: The nodes of other ranks that own edges lead to.
        sent_rows: The own nodes that other ranks need, counted once per rank.
        cut_entries: The own entries that lead to other ranks.
        step_bytes: What was sent to others per step.
        memory_mb: The peak memory that the work added to the process, loading included; 0 where it isn't known.
        process_mb: The peak memory of the whole process, with its libraries.
        load_seconds: The time to read and distribute the graph.
        step_seconds: The mean time of a step.
    """

    nodes: int
    entries: int
    halo: int
    sent_rows: int
    cut_entries: int
    step_bytes: int
    memory_mb: float
    process_mb: float
    load_seconds: float
    step_seconds: float


def purify_rank(
    parts: str | Path, purifier: GPRGAE, output: str | Path, group: Group, *, chunk: int = CHUNK
) -> list[RankReport]:
    """Purify a graph in parts; all ranks call this together, e.g. in a program started by `torchrun`.

    A run that was interrupted goes on after its last finished step, with any number of ranks.

    Args:
        parts: The folder of the graph (see `parts`).
        purifier: The purifier, the same on all ranks.
        output: The folder of the run (see `run_folder`), in which `RunFolder.begin` was called.
        group: The ranks (see `joined`).
        chunk: The columns that are exchanged at a time: more are faster, fewer take less memory.

    Returns:
        The reports of all ranks.
    """
    earlier_peak = _memory(memory_peak)
    forget_memory_peak()
    resting = _memory(memory_now)
    begun = time.perf_counter()
    run = RunFolder(output)
    graph = GraphParts.open(parts)
    assert purifier.links is not None, "a fitted purifier has parameters"
    links = purifier.links.frozen()
    rows = load_rows(graph, group)
    h, names = embed(links, graph, rows.block)
    step = RowLinks(links, rows.block, h, group, chunk=chunk)
    load_seconds = time.perf_counter() - begun
    settings, upper = purifier.settings, rows.block.upper()

    changes = [one.relative_change for one in run.steps()]
    weight = rows.weight.to(h.dtype) if not changes else _resumed(run, rows, upper, group, h.dtype)
    earlier, seconds = len(changes), 0.0
    sent = group.bytes_sent
    while rows.num_pairs and len(changes) < settings.max_steps and not (changes and changes[-1] <= settings.tolerance):
        begun = time.perf_counter()
        predicted = step.predict(weight)
        changes.append(_relative_change(predicted, weight, group))
        weight = predicted if settings.alpha == 1 else weight.add_(predicted.sub_(weight), alpha=settings.alpha)
        seconds += time.perf_counter() - begun
        run.save_weights(len(changes), group.rank, weight.index_select(0, upper).cpu())
        group.wait()
        if group.rank == 0:
            run.finish_step(FinishedStep(changes[-1], rows.upper))
    taken = max(len(changes) - earlier, 1)
    sent = (group.bytes_sent - sent) // taken
    del step, h
    if settings.threshold is not None:
        weight = cut(weight, settings.threshold)
    part = run.save_part(group.rank, _result(rows.block, upper, weight, names, group))
    report = RankReport(
        rows.block.num_own,
        rows.block.num_entries,
        len(rows.block.halo),
        len(rows.block.sent),
        len(rows.block.cut),
        sent,
        max(_memory(memory_peak) - resting, 0.0),
        max(_memory(memory_peak), earlier_peak),
        load_seconds,
        seconds / taken,
    )
    reports = _gathered(report, group)
    _finish(run, graph, part, reports, changes, settings.tolerance, group)
    return reports


def as_gpr_gae(purifier: GPRGAE | Purifier | str | Path) -> GPRGAE:
    """Return a purifier that can run over ranks, given itself or its folder."""
    loaded = load_purifier(str(purifier)) if isinstance(purifier, str | Path) else purifier
    if not isinstance(loaded, GPRGAE):
        raise InputError(
            f"Only a GPRGAE can be run over ranks, not a {type(loaded).__name__}: purify in one process instead."
        )
    require_fitted(loaded)
    return loaded


def _resumed(run: RunFolder, rows: LoadedRows, upper: Tensor, group: Group, dtype: torch.dtype) -> Tensor:
    """Return the weights of the own entries after the last finished step: half of them from the files."""
    first = sum(rows.upper[: group.rank])
    known = torch.full((rows.block.num_entries,), -1.0, dtype=dtype)
    known[upper] = run.load_weights(first, first + rows.upper[group.rank]).to(dtype)
    mirrored = rows.block.mirrored(known, group)
    return torch.where(known < 0, mirrored, known)


def _relative_change(predicted: Tensor, weight: Tensor, group: Group) -> float:
    """Return the norm of the change over that of the weights, both of the whole graph; every pair counts twice."""
    sums = torch.zeros(2, dtype=torch.float64)
    for new, old in zip(predicted.split(1 << 20), weight.split(1 << 20), strict=True):
        sums += torch.stack([(new - old).double().square().sum(), old.double().square().sum()])
    change, size = (float(one) for one in group.total(sums.to(group.device)).sqrt())
    if size > 0:
        return change / size
    return float("inf") if change > 0 else 0.0


def _result(block: RowBlock, upper: Tensor, weight: Tensor, names: Tensor | None, group: Group) -> dict[str, Tensor]:
    """Return the pairs that this rank owns by their lower ends, by the names of the nodes, and their weights."""
    if names is None:
        own, halo = torch.arange(block.start, block.start + block.num_own), block.halo
    else:
        every = torch.empty(block.num_columns, 1, dtype=torch.int64)
        block.gather(names.unsqueeze(1), every, group)
        own, halo = names, every[block.num_own :, 0]
    return {
        "source": block.rows(own)[upper],
        "target": block.columns(own, halo)[upper],
        "weight": weight[upper].float(),
    }


def _finish(
    run: RunFolder,
    graph: GraphParts,
    part: Part,
    reports: list[RankReport],
    changes: list[float],
    tolerance: float,
    group: Group,
) -> None:
    sizes = group.gather(torch.tensor([part.rows, part.bytes])).tolist()
    if group.rank == 0:
        files = [{"file": f"edges/part-{rank:05}.parquet", "rows": n, "bytes": b} for rank, (n, b) in enumerate(sizes)]
        run.finish(
            {
                "num_nodes": graph.num_nodes,
                "num_edges": sum(rows for rows, _ in sizes),
                "edges": files,
                "relative_change": changes,
                "converged": not changes or changes[-1] <= tolerance,
                "ranks": [asdict(one) for one in reports],
            }
        )
    group.wait()


def _gathered(report: RankReport, group: Group) -> list[RankReport]:
    kinds = {name: type(value) for name, value in asdict(report).items()}
    rows = group.gather(torch.tensor(list(asdict(report).values()), dtype=torch.float64)).tolist()
    typed = [{name: kinds[name](value) for name, value in zip(kinds, row, strict=True)} for row in rows]
    return [RankReport(**one) for one in typed]


def _memory(measure: Any) -> float:
    try:
        return float(measure())
    except InputError:  # only Linux tells
        return 0.0
