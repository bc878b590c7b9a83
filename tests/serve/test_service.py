"""The HTTP service, asked in this process; its limits, and what it does with rubbish."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph.errors import InputError, NotFittedError
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.serve import ServeSettings, Service, create_app

TOKEN = "a-token-of-more-than-sixteen-letters"


@pytest.fixture(scope="module")
def served(trained: pg.GPRGAE) -> Service:
    return Service(trained, communities(), ServeSettings(max_body_bytes=20_000, max_pairs=500, max_nodes=100))


@pytest.fixture(scope="module")
def client(served: Service) -> Iterator[TestClient]:
    with TestClient(create_app(served)) as client:
        yield client


def test_scores_are_those_of_the_purifier(client: TestClient, trained: pg.GPRGAE) -> None:
    pairs = [[0, 1], [3, 2], [5, 5], [0, 1]]
    answer = client.post("/score", json={"pairs": pairs})
    assert answer.status_code == 200
    expected = trained.score_edges(communities(), torch.tensor(pairs).t())
    assert answer.json()["scores"] == pytest.approx(expected.tolist(), abs=1e-6)
    assert answer.json()["suspicious_below"] == trained.suggest_threshold(0.01)
    assert client.post("/score", json={"pairs": []}).json()["scores"] == []


def test_a_neighbourhood_is_purified(client: TestClient, trained: pg.GPRGAE) -> None:
    answer = client.post("/neighbourhood", json={"nodes": [3, 8], "hops": 2}).json()
    part = trained.purify_subgraph(communities(), [3, 8], 2)
    once = part.edge_index[0] < part.edge_index[1]
    assert answer["edges"] == part.n_id[part.edge_index][:, once].t().tolist()
    assert answer["weights"] == pytest.approx(part.edge_weight[once].tolist(), abs=1e-6)
    assert answer["touching"] == part.edge_mask[once].tolist()
    assert answer["exact"] is False


def test_a_posted_graph_is_purified(client: TestClient, trained: pg.GPRGAE) -> None:
    data = communities()
    edges = [[0, 1], [1, 2], [0, 3]]
    expected = trained(Data(x=data.x[[7, 9, 11, 2]], edge_index=torch.tensor(edges).t())).edge_weight.tolist()
    by_nodes = client.post("/purify", json={"edges": edges, "nodes": [7, 9, 11, 2]}).json()
    by_features = client.post("/purify", json={"edges": edges, "x": data.x[[7, 9, 11, 2]].tolist()}).json()
    assert by_nodes["weights"] == pytest.approx(expected, abs=1e-6)
    assert by_features["weights"] == pytest.approx(expected, abs=1e-5)
    weighted = {"edges": edges, "nodes": [7, 9, 11, 2], "weights": [1.0, 0.2, 0.0]}
    assert client.post("/purify", json=weighted).status_code == 200


def test_probes_and_figures(client: TestClient) -> None:
    assert client.get("/health").json()["version"] == pg.__version__
    client.post("/score", json={"pairs": [[0, 1]]})
    assert client.get("/ready").json()["ready"] is True
    assert client.get("/ready").json()["nodes"] == 120
    client.get("/somewhere/else/1")
    client.get("/somewhere/else/2")
    text = client.get("/metrics").text
    assert 'purigraph_requests_total{path="/score",status="200"}' in text
    assert 'purigraph_requests_total{path="other",status="404"}' in text
    assert "somewhere" not in text
    assert {"/score", "/purify", "/neighbourhood"} <= client.get("/openapi.json").json()["paths"].keys()


def test_it_is_not_ready_before_the_node_states_are_there(trained: pg.GPRGAE, monkeypatch: pytest.MonkeyPatch) -> None:
    service, go = Service(trained, communities()), threading.Event()
    prepare = service.prepare
    monkeypatch.setattr(service, "prepare", lambda: (go.wait(10), prepare()))
    with TestClient(create_app(service)) as client:
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
        go.set()
        assert client.post("/score", json={"pairs": [[0, 1]]}).status_code == 200
        assert client.get("/ready").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/score", {"pairs": [[0, 120]]}, "120 is not in the served graph"),
        ("/score", {"pairs": [[0, -1]]}, "greater than or equal to 0"),
        ("/score", {"pairs": [[0, 10**30]]}, "less than"),
        ("/score", {"pairs": [[0, 1, 2]]}, "at most 2"),
        ("/score", {"pairs": [["x", 1]]}, "'x' is not in the served graph"),
        ("/score", {"pairs": [[0.5, 1]]}, "integer"),
        ("/score", {"pairs": [[True, 1]]}, "integer"),
        ("/score", {"pairs": None}, "array"),
        ("/score", {"pairs": [], "more": 1}, "not permitted"),
        ("/score", [], "object"),
        ("/score", {}, "required"),
        ("/score", {"pairs": [[0, 1]] * 501}, "501 are too many"),
        ("/neighbourhood", {"nodes": []}, "at least 1"),
        ("/neighbourhood", {"nodes": [500]}, "500 is not in the served graph"),
        ("/neighbourhood", {"nodes": [0], "hops": 11}, "hops: 11 are too many"),
        ("/neighbourhood", {"nodes": [0, 1, 2, 3], "hops": 10}, "ask for fewer nodes or hops"),
        ("/neighbourhood", {"nodes": [0], "hops": 0}, "greater than or equal to 1"),
        ("/purify", {"edges": [[0, 1]]}, "either x"),
        ("/purify", {"edges": [[0, 1]], "nodes": [0, 1], "x": []}, "either x"),
        ("/purify", {"edges": [[0, 2]], "nodes": [0, 1]}, "there are 2 nodes"),
        ("/purify", {"edges": [[0, 1], [0, 1]], "nodes": [0, 1]}, "more than once"),
        ("/purify", {"edges": [[0, 1]], "nodes": [0, 777]}, "777 is not in the served graph"),
        ("/purify", {"edges": [[0, 1]], "x": [[1.0], [2.0]]}, "row 0 has 1 features"),
        ("/purify", {"edges": [[0, 1]], "x": [[1e30] * 24, [0.0] * 24]}, "too large"),
        ("/purify", {"edges": [[0, 1]], "nodes": [0, 1], "weights": []}, "one per edge"),
        ("/purify", {"edges": [[0, 1]], "nodes": [0, 1], "weights": [-1.0]}, "greater than or equal to 0"),
        ("/purify", {"edges": [[0, 1]], "nodes": list(range(101))}, "101 are too many"),
    ],
)
def test_what_is_wrong_is_said(client: TestClient, path: str, body: Any, message: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]
    assert len(answer.json()["error"]) < 500


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 5000, b'{"pairs": [[NaN, 1]]}', b"null", b"\x00" * 100]
)
def test_rubbish_is_refused(client: TestClient, body: bytes) -> None:
    for path in ("/score", "/neighbourhood", "/purify"):
        answer = client.post(path, content=body)
        assert answer.status_code == 422
        assert answer.json()["error"]


def test_other_methods_and_paths_are_refused(client: TestClient) -> None:
    assert client.get("/score").status_code == 405
    assert client.post("/health").status_code == 405
    assert client.get("/docs").status_code == 404
    assert client.get("/../../etc/passwd").status_code == 404


def test_large_bodies_are_refused_announced_or_not(client: TestClient) -> None:
    assert client.post("/score", content=b" " * 20_001).status_code == 413

    def parts() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 1000

    assert client.post("/score", content=parts()).status_code == 413
    assert client.post("/score", content=b" " * 20_000).status_code == 422


def test_without_the_token_nothing_but_the_probes_answers(served: Service) -> None:
    with TestClient(create_app(served, token=TOKEN)) as client:
        body = {"pairs": [[0, 1]]}
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": "Bearer é"}):
            values = {name: value.encode() for name, value in headers.items()}
            answer = client.post("/score", json=body, headers=values)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/metrics").status_code == 401
        assert client.get("/report").status_code == 401
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code in (200, 503)
        assert client.post("/score", json=body, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_what_is_too_much_gets_429_and_what_is_let_in_is_answered(
    trained: pg.GPRGAE, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, go = Service(trained, communities(), ServeSettings(queue=2)), threading.Event()
    score = service.score
    monkeypatch.setattr(service, "score", lambda body: (go.wait(10), score(body))[1])
    answers: list[int] = []
    with TestClient(create_app(service)) as client:

        def ask() -> None:
            answers.append(client.post("/score", json={"pairs": [[0, 1]]}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(answers) < 5:
            assert client.get("/health").status_code == 200  # answered while others wait
        assert answers == [429] * 5
        go.set()
        for thread in threads:
            thread.join(10)
        assert sorted(answers) == [200] * 3 + [429] * 5
        refused = client.get("/metrics").text
        assert 'purigraph_requests_total{path="/score",status="429"} 5.0' in refused
        assert "purigraph_in_flight 0.0" in refused


def test_a_failure_inside_is_not_shown(served: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(served, "score", fail)
    with TestClient(create_app(served), raise_server_exceptions=False) as client:
        answer = client.post("/score", json={"pairs": []})
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_the_report_is_a_page(client: TestClient) -> None:
    answer = client.get("/report")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<html" in answer.text


def test_purifiers_without_a_faster_way_are_served_too() -> None:
    data = communities()
    chain = pg.Chain([pg.Jaccard(similarity="cosine", cosine_threshold=0.0), pg.SVD(rank=6)]).fit(data)
    with TestClient(create_app(Service(chain, data))) as client:
        answer = client.post("/score", json={"pairs": [[0, 1], [5, 9]]}).json()
    expected = chain.score_edges(data, torch.tensor([[0, 5], [1, 9]]))
    assert answer["scores"] == pytest.approx(expected.tolist(), abs=1e-6)


def test_only_what_is_fitted_is_served() -> None:
    with pytest.raises(NotFittedError):
        Service(pg.GPRGAE(in_channels=24), communities())
    with pytest.raises(InputError):
        ServeSettings(port=70_000)


def test_answers_are_strict_json(client: TestClient) -> None:
    text = client.post("/score", json={"pairs": [[0, 1]]}).text
    json.loads(text, parse_constant=lambda name: pytest.fail(name))


def test_nodes_may_be_named_by_the_ids_of_their_file(trained: pg.GPRGAE) -> None:
    data = communities()
    names = [f"account {number}" for number in range(data.num_nodes)]
    with TestClient(create_app(Service(trained, data, ids=NodeIds(names)))) as client:
        by_number = client.post("/score", json={"pairs": [[0, 5], [7, 3]]}).json()["scores"]
        by_name = client.post("/score", json={"pairs": [["account 0", "account 5"], ["account 7", 3]]})
        assert by_name.json()["scores"] == by_number
        around = client.post("/neighbourhood", json={"nodes": ["account 0"], "hops": 1}).json()
        assert all("account 0" in edge for edge, near in zip(around["edges"], around["touching"], strict=True) if near)
        wrong = client.post("/score", json={"pairs": [["nobody", 1]]})
        assert wrong.status_code == 422
        assert "'nobody' is not in the served graph" in wrong.text
