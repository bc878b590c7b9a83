"""The page: whatever ids hold, it is one HTML file that shows them as text and asks for nothing."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph.audit import Audit, audit
from purigraph.graph import as_pair_graph
from purigraph.report import charts, page_text
from purigraph.report.neighbourhoods import SIZE, layout, pictures

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'\"&<>",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "</title><script>",
    "</style><b>",
    "javascript:alert(1)",
    "\u202eevil",
    "a\x00b",
    "line\nbreak",
    "x" * 500,
    "--><!--",
    "]]>",
    "&lt;b&gt;",
]


#: All that the page is made of.
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "section",
    "div",
    "h1",
    "h2",
    "h3",
    "p",
    "b",
}
TAGS |= {"span", "strong", "ul", "li", "table", "tr", "th", "td", "bdi", "code", "figure", "figcaption"}
TAGS |= {"svg", "line", "rect", "polygon", "polyline", "circle", "text"}


class Tags(HTMLParser):
    """Collects all tags and attributes, and holds them to being closed in order."""

    VOID = ("meta", "line", "rect", "polygon", "polyline", "circle")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.texts += [value or "" for name, value in attrs if name == "title"]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


@pytest.fixture(scope="module")
def data() -> Data:
    return communities(60)


@pytest.fixture(scope="module")
def purifier(data: Data) -> pg.GPRGAE:
    return pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(data, epochs=3)


def hostile_audit(purifier: pg.GPRGAE, data: Data) -> Audit:
    names = [f"{HOSTILE[k % len(HOSTILE)]}{k}" for k in range(60)]
    graph = as_pair_graph(data)
    trusted = Data(edge_index=graph.pairs[:, 10:], num_nodes=70)
    return audit(purifier, data, ids=names, threshold=0.9, min_degree=1, trusted=trusted)


def test_hostile_names_are_only_text(purifier: pg.GPRGAE, data: Data) -> None:
    found = hostile_audit(purifier, data)
    text = page_text(
        found,
        title=HOSTILE[1],
        facts=[(HOSTILE[0], HOSTILE[0])],
        notes=HOSTILE,
        receipt={
            "inputs": {"graph": {"path": HOSTILE[5], "sha256": HOSTILE[0]}},
            "models": {},
            "output": {"path": HOSTILE[1], "sha256": "0"},
        },
    )
    tags = read(text)
    assert tags.tags <= TAGS
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert not {"href", "src", "srcdoc", "action"} & tags.attributes
    assert "<script" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert any("<script>alert(1)</script>" in shown for shown in tags.texts)
    assert "49" not in {shown.strip() for shown in tags.texts if "{{" in shown}


def test_the_page_asks_for_nothing(purifier: pg.GPRGAE, data: Data) -> None:
    text = page_text(audit(purifier, data), title="a graph")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert '<meta name="generator" content="purigraph' in text[:4096]


def test_the_figures_are_those_of_the_audit(purifier: pg.GPRGAE, data: Data) -> None:
    found = audit(purifier, data, threshold=0.9, min_degree=1)
    assert found.decision is not None
    text = page_text(found, title="a graph")
    assert f"<b>{found.graph.num_pairs:,}</b><span>edges</span>" in text
    assert f'<b class="bad">{int(found.suspicious.sum()):,}</b>' in text
    assert found.decision.sentence() in text
    worst = found.explanation.worst(1)
    assert f"{float(worst['weight'][0]):.3f}" in text
    assert text.count('class="tag spared"') <= found.decision.by_degree


def test_a_page_of_almost_nothing(purifier: pg.GPRGAE, data: Data) -> None:
    lonely = Data(x=data.x[:2], edge_index=torch.zeros(2, 0, dtype=torch.int64))
    for found in (
        audit(purifier, lonely),
        audit(purifier, Data(x=data.x[:2], edge_index=torch.tensor([[0], [1]])), threshold=0.0),
        audit(purifier, data, trusted=data),
        audit(pg.Jaccard(), data),
    ):
        read(page_text(found, title=""))


def test_histograms_count_everything() -> None:
    weight = torch.tensor([0.0, 0.01, 0.5, 0.999, 1.0, 0.2])
    found = charts.histogram(weight, 0.25)
    assert sum(bar.count for bar in found.bars) == 6
    assert sum(bar.count for bar in found.bars if bar.suspicious) == 3
    assert all(charts.TOP - 1 <= bar.y <= charts.HEIGHT - charts.BOTTOM for bar in found.bars)
    assert charts.histogram(torch.zeros(0), 0.5).bars[0].count == 0


def test_pictures_show_the_worst_edges(purifier: pg.GPRGAE, data: Data) -> None:
    found = audit(purifier, data, threshold=0.9)
    drawn = pictures(found, most=3)
    worst = found.explanation.worst(1)
    assert {drawn[0].source, drawn[0].target} == {worst["source"][0], worst["target"][0]}
    assert sum(edge.main for edge in drawn[0].edges) == 1
    assert all(0 <= node.x <= SIZE and 0 <= node.y <= SIZE for picture in drawn for node in picture.nodes)


def test_layouts_are_apart_and_always_the_same() -> None:
    links = [(0, 1), (1, 2), (0, 3)]
    first = layout(6, links)
    assert np.array_equal(first, layout(6, links))
    distance = np.linalg.norm(first[:, None] - first[None], axis=2) + 1e9 * np.eye(6)
    assert distance.min() > 15
    assert layout(1, []).shape == (1, 2)
