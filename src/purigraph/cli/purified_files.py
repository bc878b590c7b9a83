"""Writing what `purify` has found: several files, each of which is complete before the first takes its place."""

from __future__ import annotations

import csv
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from purigraph.files import atomic_path

if TYPE_CHECKING:
    from purigraph.audit import FileAudit


def write_all(found: FileAudit, output: Path, receipt: Path | None, report: Path | None, changes: Path | None) -> None:
    """Write the graph, its receipt, the page and the changes; if one can't be written, none is.

    Contents are written to temporary files first. Then they take their places one by one, the graph last: whoever sees
    the new graph sees its receipt.
    """
    from purigraph.audit.receipt import make_receipt, receipt_text
    from purigraph.report import write_page

    with ExitStack() as stack:
        graph = stack.enter_context(atomic_path(output))
        found.write(graph)
        folder = (output if receipt is None else receipt).absolute().parent
        document = make_receipt(found, graph, output, folder)
        if changes is not None:
            _write_changes(found, stack.enter_context(atomic_path(changes)))
        if report is not None:
            write_page(found, document, stack.enter_context(atomic_path(report)))
        if receipt is not None:
            stack.enter_context(atomic_path(receipt)).write_text(receipt_text(document), encoding="utf-8")


def _write_changes(found: FileAudit, path: Path) -> None:
    changes = found.audit.changes
    assert changes is not None
    columns = changes.rows(found.audit.graph, found.audit.ids)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
