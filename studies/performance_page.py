"""Write docs/performance.md from results/bench.json: `python studies/performance_page.py`."""

from __future__ import annotations

from typing import Any

from common import RESULTS, ROOT

from purigraph.files import read_json, write_text

HEAD = """# Performance

Measured with `purigraph bench -o results/bench.json`, purigraph {version}, PyTorch {torch}, {threads} threads of a
{machine} machine, on the embedded graph at Cora's, Pubmed's and arXiv's size. All times of a row come from one run, taken
in turns; peak memory is what the work adds to a process of its own, inputs included. Absolute times differ from machine
to machine: the ratios are what counts. Try it on yours; `--quick` takes two minutes. The table
comes from several calls on a quiet machine (`--only` names rows). F differs between them (0.028 to 0.040 s at Cora's size),
so compare within a row. The
rows `purify` and `train_epoch` and the growth by shape predate the huge pages; the others have them.

**Reference** is the paper's printed equations in PyTorch: one node encoding per step, the edge product per directed edge,
plain autograd, frozen parameters where nothing is trained; for `prbcd_vs_pyg` it is PyG's `PRBCDAttack` around the same
GCN. **Floor** is the time of the matrix products that can't be avoided, F = one (N x 1024) . (1024 x 1024) product in
the same run: 5 F for a purification of 5 steps, 10 F for its gradient, 15 F where the steps are recomputed
(`arxiv_attack_epoch`), 3 F for a training epoch, whose validation comes on top.
"""

NAMES = {
    "purify": "purify, 5 steps",
    "gradient": "gradient through 5 steps, with a block of candidates",
    "train_epoch": "training epoch with a third of a validation",
    "prbcd_vs_pyg": "PRBCD on a GCN, one epoch, block 10,000",
    "arxiv_purify": "purify, 5 steps",
    "arxiv_attack_epoch": "adaptive PRBCD epoch through 5 steps, block 1,000,000",
}


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> None:
    found: dict[str, Any] = read_json(RESULTS / "bench.json")
    parts = [
        HEAD.format(
            version=found["purigraph_version"],
            torch=found["torch_version"],
            threads=found["threads"],
            machine=found["machine"],
        )
    ]
    head = ["work", "size", "ours s", "reference s", "times faster", "times the floor", "ours MB", "reference MB"]
    rows = [
        [
            f"`{row['name']}`: {NAMES[row['name']]}",
            row["size"],
            number(row["ours_s"]),
            number(row["reference_s"]),
            number(row["ratio"]),
            number(row["floor_multiple"]),
            number(row["ours_mb"]),
            number(row["reference_mb"]),
        ]
        for row in found["rows"]
    ]
    parts.append(table(head, rows))
    parts.append("\n## One purification step, by size and by shape\n")
    growth = [
        [
            f"{one['num_nodes']:,}",
            f"{one['num_edges']:,}",
            str(one["hops"]),
            str(one["node_channels"]),
            str(one["edge_channels"]),
            number(one["seconds"]),
            number(one["ns_per_edge"]),
            number(one["floor_multiple"]),
            number(one["mb"]),
        ]
        for one in found["growth"]
    ]
    parts.append(table(["nodes", "edges", "K", "Z1", "Z2", "s", "ns per edge", "times the floor", "MB"], growth))
    notes = ROOT / "studies" / "performance_notes.md"
    parts.append("\n" + notes.read_text(encoding="utf-8").rstrip())
    write_text(ROOT / "docs" / "performance.md", "\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
