"""Cases of users' own files: edge lists, features, GraphML, GEXF and PyG files, receipts, and pages."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from pyarrow import parquet

from fuzz import workshop
from fuzz.harness import Case, WrongResult, command
from fuzz.mutations import FLOATS, INTEGERS, TEXTS, damage_bytes, damage_json, damage_place, value
from purigraph import purifiers
from purigraph.audit import audit
from purigraph.files import atomic_path
from purigraph.graph.file_formats import RowVerdict, read_feature_file, read_graph_file
from purigraph.report import page_text

CELLS = (*TEXTS, *map(str, INTEGERS), *map(str, FLOATS), '"', 'a"b', '"open', "a,b", "\t", ";", "#", "\x00", "\r", "１")
CELLS += ("<script>alert(1)</script>", "=1+1", "NULL", "None", "NaN", "1,5", "0x10", "1_000", " padded ", "node 1")
HEADERS = ("source", "target", "weight", "from", "to", "id", "node", "feature", "value", "keep", "score", "", "source")
DELIMITERS = (",", ",", ",", "\t", ";", "|", " ", ":")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")
COLUMNS: tuple[Callable[[int], pyarrow.Array], ...] = (
    lambda n: pyarrow.array([None] * n, pyarrow.string()),
    lambda n: pyarrow.nulls(n),
    lambda n: pyarrow.array([float("nan")] * n),
    lambda n: pyarrow.array([1.5] * n),
    lambda n: pyarrow.array([[1, 2]] * n),
    lambda n: pyarrow.array([{"a": 1}] * n),
    lambda n: pyarrow.array([b"\xff"] * n),
    lambda n: pyarrow.array([True] * n),
    lambda n: pyarrow.array(range(n), pyarrow.uint64()),
    lambda n: pyarrow.array(range(n), pyarrow.timestamp("ns")),
    lambda n: pyarrow.array(["x"] * n).dictionary_encode(),
    lambda n: pyarrow.array([2**62] * n),
)


def own_file(rng: random.Random, place: Path) -> Case:
    """A broken graph file of a user, read by a function or a command."""
    name = rng.choice((*workshop.OWN_GRAPHS, workshop.EDGES, workshop.EDGES))
    path = place / name
    how = _damage(rng, path)
    needs = path.suffix in (".csv", ".tsv", ".parquet")
    features = place / workshop.FEATURES if needs and rng.random() < 0.7 else None
    description, case = _reader(rng, path, features)
    case.description = f"{description} of {name} with {how}"
    return case


def feature_file(rng: random.Random, place: Path) -> Case:
    """A broken feature file."""
    name = rng.choice(workshop.OWN_FEATURES)
    path = place / name
    how = _damage(rng, path)
    if rng.random() < 0.4:
        return Case(f"read_feature_file of {name} with {how}", lambda: _sane_features(path))
    edges = place / (workshop.NUMBERED if path.suffix in (".npy", ".npz") else workshop.EDGES)
    description, case = _reader(rng, edges, path)
    case.description = f"{description} with features {name} with {how}"
    return case


def receipt(rng: random.Random, place: Path) -> Case:
    """A broken receipt, or one whose files have changed."""
    path = place / workshop.RECEIPT
    way = rng.randrange(8)
    if way == 0:
        how = damage_place(rng, path)
    elif way == 1:
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
        how = "damaged bytes"
    elif way < 6:
        path.write_text(damage_json(rng, path.read_text()))
        how = "another value"
    else:
        other = place / rng.choice(
            (workshop.EDGES, workshop.FEATURES, "purified.csv", f"{workshop.PURIFIER}/config.json")
        )
        how = f"{other.name}: {_damage(rng, other)}"
    words = ["verify", workshop.RECEIPT, *rng.choice(([], ["--json"]))]
    return Case(f"verify with {how}", command(*words))


def page(rng: random.Random, place: Path) -> Case:
    """A page of a graph whose nodes have hostile names."""
    data = workshop.good_data()
    names = [f"{rng.choice(CELLS)}{rng.choice(CELLS)}{k}" for k in range(workshop.NODES)]
    title = rng.choice(CELLS)
    options: dict[str, Any] = rng.choice(({}, {"threshold": 0.9}, {"false_positive_rate": 0.5, "min_degree": 1}))
    if rng.random() < 0.3:
        options = {**options, "trusted": data}

    def act() -> None:
        purifier = purifiers.load(place / workshop.PURIFIER)
        text = page_text(audit(purifier, data, ids=names, **options), title=title, notes=names[:3])
        text.encode("utf-8")
        tags = _Tags()
        tags.feed(text)
        tags.close()
        if tags.open or tags.unknown:
            raise WrongResult(f"markup came of names: {tags.unknown} {tags.open}")

    return Case(f"page_text, {title!r}, {options}, {names[0]!r}", act)


class _Tags(HTMLParser):
    """Notes what no page has of itself: scripts, links, and tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.unknown: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "a", "iframe", "link") or any(name.startswith("on") for name, _ in attrs):
            self.unknown.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unknown.append(f"/{tag}")


def _damage(rng: random.Random, path: Path) -> str:
    way = rng.randrange(10)
    if way == 0:
        return damage_place(rng, path)
    if way < 3:
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
        return "damaged bytes"
    if way == 3:
        return "nothing"
    if path.suffix in (".csv", ".tsv"):
        return _damage_text(rng, path)
    if path.suffix == ".parquet":
        return _damage_parquet(rng, path)
    if path.suffix == ".pt":
        return _damage_pt(rng, path)
    if path.suffix == ".npy":
        return _damage_npy(rng, path)
    if path.suffix in (".graphml", ".gexf"):
        return _damage_xml(rng, path)
    path.write_bytes(damage_bytes(rng, path.read_bytes()))
    return "damaged bytes"


def _damage_text(rng: random.Random, path: Path) -> str:
    rows = list(csv.reader(io.StringIO(path.read_text()), delimiter="\t" if path.suffix == ".tsv" else ","))
    told = []
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        way, at = rng.randrange(9), rng.randrange(len(rows)) if rows else 0
        if not rows:
            break
        if way < 3 and rows[at]:
            rows[at][rng.randrange(len(rows[at]))] = cell = rng.choice(CELLS)
            told.append(f"{cell!r:.30} in row {at}")
        elif way == 3:
            rows[at] = rows[at][: rng.randrange(len(rows[at]) + 1)]
            told.append(f"row {at} cut")
        elif way == 4:
            rows[at] = [*rows[at], rng.choice(CELLS)]
            told.append(f"row {at} longer")
        elif way == 5:
            rows.insert(at, list(rows[at]))
            told.append(f"row {at} twice")
        elif way == 6 and rows[0]:
            rows[0][rng.randrange(len(rows[0]))] = name = rng.choice((*HEADERS, *CELLS))
            told.append(f"a column {name!r:.30}")
        elif way == 7:
            del rows[rng.choice((0, at)) :: rng.choice((1, 1000))]
            told.append("rows gone")
        else:
            column = rng.randrange(max(map(len, rows), default=0) + 1)
            rows = [[cell for k, cell in enumerate(row) if k != column] for row in rows]
            told.append(f"column {column} gone")
    buffer = io.StringIO()
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONE))
    delimiter = rng.choice(DELIMITERS) if rng.random() < 0.3 else "\t" if path.suffix == ".tsv" else ","
    end = rng.choice(("\n", "\n", "\r\n", "\r", "\n\n"))
    csv.writer(buffer, delimiter=delimiter, quoting=quoting, escapechar="\\", lineterminator=end).writerows(rows)
    encoding = rng.choice(ENCODINGS)
    path.write_bytes(buffer.getvalue().encode(encoding, errors="replace"))
    return f"{', '.join(told) or 'no change'}, {delimiter!r} {end!r} {encoding}"


def _damage_parquet(rng: random.Random, path: Path) -> str:
    table = parquet.read_table(path)
    at = rng.randrange(table.num_columns)
    way = rng.randrange(4)
    if way == 0:
        table = table.remove_column(at)
    elif way == 1:
        table = table.rename_columns([rng.choice(HEADERS) or f"c{k}" for k in range(table.num_columns)])
    elif way == 2:
        table = table.slice(0, rng.choice((0, 1, 3)))
    else:
        table = table.set_column(at, table.column_names[at], rng.choice(COLUMNS)(table.num_rows))
    try:
        parquet.write_table(table, path)
    except (pyarrow.ArrowException, ValueError, OSError):
        path.write_bytes(b"PAR1")
    return f"column {at}, way {way}"


def _damage_pt(rng: random.Random, path: Path) -> str:
    data = torch.load(path, weights_only=False)
    contents: Any = data.to_dict()
    odd = (
        torch.zeros(0),
        torch.full((2, 3), 10**12),
        torch.tensor([[0, -1], [1, 2]]),
        torch.ones(2, 3),
        torch.zeros(1, dtype=torch.long).expand(2, 10**8) if rng.random() < 0.5 else torch.eye(3).to_sparse(),
        torch.full((24, 6), float("nan")),
        torch.zeros(24, 6, dtype=torch.complex64),
        torch.ones(3, dtype=torch.bool),
        torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8),
        "text",
        None,
        3,
        [1, 2],
        {"a": torch.ones(2)},
    )
    name = rng.choice((*contents, "edge_weight", "train_mask", "num_nodes"))
    contents[name] = rng.choice((*odd, value(rng)))
    if rng.random() < 0.2:
        del contents[name]
    whole = rng.choice(
        (contents, contents, type(data)(**contents) if rng.random() < 0.9 else [contents], contents.get("x"))
    )
    torch.save(whole, path)
    return f"{name} = {contents.get(name)!r:.60}"


def _damage_npy(rng: random.Random, path: Path) -> str:
    array = np.load(path)
    way = rng.randrange(5)
    with np.errstate(all="ignore"):
        changed: Any = (
            array[: rng.choice((0, 1, 5))],
            array.astype(rng.choice(("f2", "f8", "i8", "c8", "U3", "?", "M8[s]"))),
            array.reshape(-1),
            np.where(np.arange(array.size).reshape(array.shape) == 7, rng.choice((np.nan, np.inf, 1e30, -1e30)), array),
            np.array([None, {}], dtype=object),
        )[way]
    np.save(path, changed, allow_pickle=True)
    return f"way {way}"


def _damage_xml(rng: random.Random, path: Path) -> str:
    text = path.read_text()
    old = rng.choice(
        ("double", "edge", "node", "id=", "source=", "key=", "</graph>", "for=", "0.", "graphml", "value=")
    )
    new = rng.choice(("", "edge", "nodes", "id=", "&#0;", "&b;", "1e999", "nan", "long", "boolean", "<a/>", "-5"))
    text = text.replace(old, new, rng.choice((1, 1, 3, -1)))
    if rng.random() < 0.1:
        text = '<!DOCTYPE a [<!ENTITY b "' + "c" * 100 + '">]>' + text
    path.write_bytes(text.encode(rng.choice(("utf-8", "utf-8", "utf-16", "latin-1")), errors="replace"))
    return f"{old!r} as {new!r}"


def _reader(rng: random.Random, path: Path, features: Path | None) -> tuple[str, Case]:
    place = path.parent
    given = [] if features is None else ["--features", features]
    way = rng.randrange(8)
    if way < 4:
        return "read_graph_file", Case("", lambda: _sane(path, features), outputs=[place / f"again{path.suffix}"])
    if way < 7:
        target = place / f"out{path.suffix}"
        options = rng.choice(([], ["--threshold", "0.5"], ["--shadow"], ["--threshold", "0.9", "--drop"]))
        outputs = [target, Path(f"{target}.receipt.json")]
        if rng.random() < 0.3:
            options = [*options, "--report", "out.html"]
            outputs.append(place / "out.html")
        if rng.random() < 0.3:
            options = [*options, "--trusted", rng.choice((workshop.EDGES, path.name)), "--changes", "changes.csv"]
            outputs.append(place / "changes.csv")
        if rng.random() < 0.2:
            options = [*options, "--never-cut", path.name]
        arguments = ["purify", path, *given, "-m", place / workshop.PURIFIER, "-o", target, *options]
        return f"purify {' '.join(map(str, options))}", Case(
            "", _and_read(command(*arguments), target), outputs=outputs
        )
    target = place / "out"
    arguments = ["fit", path, *given, "-o", target, "--epochs", 1, *workshop.SMALL_PURIFIER]
    return "fit", Case("", command(*arguments), outputs=[target])


def _sane(path: Path, features: Path | None) -> None:
    """Read, write again, and read that."""
    found = read_graph_file(path, features)
    weight = found.row_weights(torch.full((found.graph.num_pairs,), 0.5))
    if found.x.shape[0] != len(found.ids) or found.graph.num_nodes != len(found.ids):
        raise WrongResult("features, names and nodes do not fit")
    target = path.with_name(f"again{path.suffix}")
    with atomic_path(target) as temporary:
        if found.always_drops:
            found.save(temporary, RowVerdict(weight))
        else:
            found.save(temporary, RowVerdict(weight, weight >= 0))
    try:
        again = read_graph_file(target, features)
    except Exception as error:
        raise WrongResult(f"it was written, but can't be read: {error}") from error
    if again.num_rows != found.num_rows or again.graph.num_pairs != found.graph.num_pairs:
        raise WrongResult("other rows came back")


def _sane_features(path: Path) -> None:
    found = read_feature_file(path)
    values = found.x.values() if found.x.layout == torch.sparse_csr else found.x
    if not bool(torch.isfinite(values).all()) or len(found.ids) != found.x.shape[0]:
        raise WrongResult("features that are none")


def _and_read(run: Callable[[], object], target: Path) -> Callable[[], object]:
    def act() -> None:
        run()
        document = json.loads(Path(f"{target}.receipt.json").read_text())
        if document["output"]["bytes"] != target.stat().st_size:
            raise WrongResult("the receipt is not that of the output")

    return act
