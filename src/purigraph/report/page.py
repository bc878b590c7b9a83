"""The page of a purification: its figures gathered from an audit, and put into the template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jinja2 import BaseLoader, Environment, StrictUndefined

from purigraph._version import __version__
from purigraph.audit import Audit, FileAudit
from purigraph.report import charts
from purigraph.report.neighbourhoods import SIZE, pictures

_MOST_EDGES, _MOST_NODES, _MOST_CHANGES, _MOST_ANSWERS = 50, 20, 30, 20
_MOST_CLASSES = 12
# What a browser may not show, or shows as something else.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")


def write_page(found: FileAudit, receipt: Mapping[str, Any], path: Path) -> None:
    """Write the page of a purified file to `path` directly (see `files.atomic_path`)."""
    request = found.request
    facts = [("graph", request.graph), ("features", request.features or found.document.layout.kind)]
    if request.trusted is not None:
        facts.append(("trusted snapshot", request.trusted))
    facts += [("purifier", f"{found.purifier}, {request.purifier}"), ("output", receipt["output"]["path"])]
    facts += [("time", f"{receipt['time']} ({found.seconds:.1f} s)"), ("purigraph", __version__)]
    text = page_text(
        found.audit,
        title=Path(request.graph).name,
        facts=facts,
        notes=found.notes,
        receipt=receipt,
        shadow=request.shadow,
    )
    path.write_text(text, encoding="utf-8")


def page_text(
    audit: Audit,
    *,
    title: str,
    facts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    receipt: Mapping[str, Any] | None = None,
    shadow: bool = False,
) -> str:
    """Return an HTML page that shows an audit: one file, without scripts, and without a request to any network.

    Args:
        audit: The audit.
        title: What was purified.
        facts: Names and values that say what was done.
        notes: Sentences on what was done with the contents of the files.
        receipt: The receipt, whose hashes are shown at the end.
        shadow: Whether nothing was changed.
    """
    judged = audit.judged
    score = audit.evidence.score.cpu()
    number = int(judged.sum())
    context = {
        "title": title,
        "version": __version__,
        "facts": list(facts),
        "notes": list(notes),
        "audit": audit,
        "counts": audit.counts(),
        "judged": number,
        "suspicious": int(audit.suspicious.sum()),
        "shadow": shadow,
        "histogram": charts.histogram(score[judged], audit.suspicious_below),
        "steps": _steps(audit),
        "relative_change": audit.evidence.relative_change,
        "edges": _edges(audit),
        "nodes": _nodes(audit),
        "pictures": pictures(audit),
        "changes": _changes(audit),
        "answers": _answers(audit),
        "certificate": _certificate(audit),
        "hashes": [] if receipt is None else _hashes(receipt),
        "chart": charts,
        "size": SIZE,
    }
    text: str = _template().render(context)
    return text


@cache
def _template() -> Any:
    environment = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(name=_name, short=_short, number=lambda value: f"{value:,}", weight=_weight)
    return environment.from_string(files("purigraph.report").joinpath("page.html.jinja").read_text(encoding="utf-8"))


def _name(text: object) -> str:
    """Return a name with a sign in place of every character that can't be seen; the template escapes the rest.

    >>> _name("a\\u202eb")
    'a\\ufffdb'
    """
    return _CONTROL.sub("\ufffd", str(text))


def _short(text: object, most: int = 16) -> str:
    name = _name(text)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _weight(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _steps(audit: Audit) -> charts.Steps | None:
    if len(audit.evidence.weights) < 2:
        return None
    groups = {"suspicious edges": audit.suspicious, "all other judged edges": audit.judged & ~audit.suspicious}
    return charts.steps(audit.evidence.weights, groups)


def _edges(audit: Audit) -> list[dict[str, Any]]:
    """Return the most suspicious judged edges, with all that explains them."""
    order = torch.argsort(torch.where(audit.judged, audit.evidence.score.cpu(), torch.inf), stable=True)
    chosen = order[: min(_MOST_EDGES, int(audit.judged.sum()))]
    rows = audit.explanation.rows(chosen).to_dict()
    keep = audit.keep
    found = []
    for k, edge in enumerate(chosen.tolist()):
        row = {name: values[k] for name, values in rows.items()}
        path = [float(weights[edge]) for weights in audit.evidence.weights]
        suspicious = bool(audit.suspicious[edge])
        outcome = "judged" if keep is None else "kept" if keep[edge] else "cut"
        if outcome == "kept" and suspicious:
            outcome = "spared"
        found.append(
            {**row, "place": k + 1, "path": charts.sparkline(path), "outcome": outcome, "suspicious": suspicious}
        )
    return found


def _nodes(audit: Audit) -> list[dict[str, Any]]:
    """Return the nodes that suspicious edges gather at."""
    pairs = audit.graph.pairs.cpu()
    count = torch.bincount(pairs[:, audit.suspicious].reshape(-1), minlength=audit.graph.num_nodes)
    degree = audit.graph.degree().cpu()
    order = torch.argsort(count, descending=True, stable=True)[:_MOST_NODES]
    fixed = None if audit.certificate is None else audit.certificate.fixed.cpu()
    return [
        {
            "id": audit.ids[node],
            "suspicious": int(count[node]),
            "degree": int(degree[node]),
            "share": int(count[node]) / max(int(degree[node]), 1),
            "fixed": None if fixed is None else bool(fixed[node]),
        }
        for node in order.tolist()
        if count[node] > 0
    ]


def _changes(audit: Audit) -> dict[str, Any] | None:
    changes = audit.changes
    if changes is None:
        return None
    rows = changes.rows(audit.graph, audit.ids)
    table = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return {
        "sentence": changes.sentence(),
        "added": [row for row in table if row["change"] == "added"][:_MOST_CHANGES],
        "removed": [row for row in table if row["change"] == "removed"][:_MOST_CHANGES],
        "new_nodes": [audit.ids[node] for node in changes.new_nodes[:_MOST_CHANGES].tolist()],
        "gone_nodes": changes.gone_nodes[:_MOST_CHANGES],
        "counts": changes.counts(),
    }


def _answers(audit: Audit) -> dict[str, Any] | None:
    answers = audit.answers
    if answers is None:
        return None
    changed = answers.changed
    classes = int(torch.maximum(answers.before.max(), answers.after.max())) + 1
    matrix = None
    if classes <= _MOST_CLASSES:
        code = answers.before * classes + answers.after
        matrix = torch.bincount(code, minlength=classes * classes).reshape(classes, classes).tolist()
    order = torch.argsort(answers.confidence[changed], descending=True)[:_MOST_ANSWERS]
    rows = [
        {
            "id": audit.ids[node],
            "before": int(answers.before[node]),
            "after": int(answers.after[node]),
            "confidence": float(answers.confidence[node]),
        }
        for node in changed[order].tolist()
    ]
    return {
        "changed": len(changed),
        "total": len(answers.before),
        "accuracy": answers.accuracy,
        "matrix": matrix,
        "rows": rows,
    }


def _certificate(audit: Audit) -> dict[str, Any] | None:
    certificate = audit.certificate
    if certificate is None:
        return None
    fixed = certificate.fixed.cpu()
    touched = torch.unique(audit.graph.pairs.cpu()[:, audit.suspicious])
    return {
        "fixed": int(fixed.sum()),
        "total": len(fixed),
        "touched": len(touched),
        "touched_fixed": int(fixed[touched].sum()),
        "accuracy": certificate.accuracy,
    }


def _hashes(receipt: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [(name, entry["path"], entry["sha256"]) for name, entry in receipt["inputs"].items()]
    for name, entry in receipt["models"].items():
        rows.append((name, entry["path"], entry.get("weights_sha256", "on the Hub")))
    return [*rows, ("output", receipt["output"]["path"], receipt["output"]["sha256"])]
