import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import purifiers
from purigraph.errors import InputError, ModelFileError, NotFittedError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.purifiers import Purifier


class Halve(Purifier):
    """Halves all weights."""

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        return graph.with_weight(graph.weight / 2)

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        return self.purify(x, graph)


def likeness() -> pg.Jaccard:
    return pg.Jaccard(similarity="cosine", cosine_threshold=0.1)


def test_each_part_gets_what_the_one_before_left(trained: pg.GPRGAE, data: Data) -> None:
    chain = pg.Chain([likeness(), trained])
    weight = chain(data.x, data.edge_index)
    kept = likeness()(data.x, data.edge_index) > 0
    assert 0 < int(kept.sum()) < len(kept)
    # What was cut stays cut, although the second part gives every edge that it sees a weight.
    assert (weight[~kept] == 0).all()
    torch.testing.assert_close(weight[kept], trained(data.x, data.edge_index[:, kept]))
    assert (trained(data.x, data.edge_index, kept.float())[~kept] > 0).all()


def test_one_part_is_the_part_itself(trained: pg.GPRGAE, data: Data) -> None:
    assert torch.equal(pg.Chain([trained])(data).edge_weight, trained(data).edge_weight)
    nested = pg.Chain([pg.Chain([likeness(), trained])])
    assert torch.equal(nested(data).edge_weight, pg.Chain([likeness(), trained])(data).edge_weight)


@pytest.mark.parametrize("order", ["cut first", "cut last", "cut between", "adds first", "adds last"])
def test_gradients_of_presences_equal_finite_differences(order: str) -> None:
    gae = pg.GPRGAE(in_channels=24, hops=2, node_channels=4, edge_channels=6, tolerance=0.0).double()
    svd, dense = pg.SVD(rank=4), pg.SVD(rank=4, reconstruction="dense", cutoff=0.0)
    chain = pg.Chain(
        {
            "cut first": [likeness(), gae, svd],
            "cut last": [gae.with_settings(alpha=0.5), likeness()],
            "cut between": [svd, likeness(), gae],
            "adds first": [dense, gae],
            "adds last": [gae, likeness(), dense],
        }[order]
    )
    assert chain.adds_edges == order.startswith("adds")
    data = communities(num_nodes=40)
    graph, x = as_pair_graph(data), data.x.double()
    graph = graph.with_weight(graph.weight.double())
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(40, 40, dtype=torch.float64, generator=generator)
    presence = 0.2 + 0.7 * torch.rand(graph.num_pairs, dtype=torch.float64, generator=generator)

    def total(presence: Tensor) -> Tensor:
        purified = chain.purify_parts(x, graph, presence)
        return (purified.weight * direction[purified.pairs[0], purified.pairs[1]]).sum()

    (gradient,) = torch.autograd.grad(total(presence.requires_grad_()), presence)
    for entry in range(0, graph.num_pairs, 9):
        step = torch.zeros_like(presence)
        step[entry] = 1e-5
        with torch.no_grad():
            slope = (total(presence + step) - total(presence - step)) / 2e-5
        assert float(gradient[entry]) == pytest.approx(float(slope), rel=1e-4, abs=1e-8)


def test_small_presences_keep_their_gradients_in_single_precision(trained: pg.GPRGAE, data: Data) -> None:
    """Dividing weights by presences would lose them: the reason for `whole_weights`."""
    graph = as_pair_graph(data)
    chain = pg.Chain([trained, Halve()])
    presence = torch.full((graph.num_pairs,), 1e-7)
    presence[::2] = 1
    gradients = []
    for purifier, dtype in ((chain, torch.float32), (chain.double(), torch.float64)):
        part = presence.to(dtype).requires_grad_()
        weight = purifier.purify_parts(data.x.to(dtype), graph.with_weight(graph.weight.to(dtype)), part).weight
        gradients.append(torch.autograd.grad(weight.sum(), part)[0].double())
    chain.float()
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_what_is_absent_stays_absent(trained: pg.GPRGAE, data: Data) -> None:
    chain = pg.Chain([trained, pg.SVD(rank=5), trained, likeness()])
    absent = data.edge_index.sum(0) % 4 == 0
    presence = (~absent).float()
    found = chain.relaxed(data.x, data.edge_index, torch.ones_like(presence), presence)
    assert (found[absent] == 0).all()
    torch.testing.assert_close(found[~absent], chain(data.x, data.edge_index[:, ~absent]))


def test_it_fits_its_parts_in_order_each_with_its_settings(data: Data, tmp_path: Path) -> None:
    recipe = {"purifier": "gpr-gae", "settings": {"hops": 2, "node_channels": 4, "edge_channels": 4}}
    chain = pg.Chain(["jaccard", recipe])
    assert not chain.is_fitted
    with pytest.raises(NotFittedError, match="Chain has not been fitted"):
        pg.protect(torch.nn.Identity(), chain)
    chain.fit(data, seed=3, checkpoint=tmp_path, by_part={"gpr-gae": {"epochs": 4}})
    assert chain.is_fitted
    alone = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(data, seed=3, epochs=4)
    assert torch.equal(chain[1](data).edge_weight, alone(data).edge_weight)
    assert chain.summary().startswith("Jaccard has nothing to learn. Trained 4 epochs")
    assert (tmp_path / "1-gpr-gae").is_dir()
    with pytest.raises(InputError, match="no part named 'svd'; its parts are jaccard, gpr-gae"):
        chain.fit(data, by_part={"svd": {}})
    with pytest.raises(InputError, match="no setting 'epochs'"):
        chain.fit(data, epochs=3)


def test_it_is_saved_as_one_model(trained: pg.GPRGAE, data: Data, tmp_path: Path) -> None:
    inner = pg.Chain([pg.Jaccard(threshold=0.2), trained])
    chain = pg.Chain([likeness(), inner])
    chain.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    loaded = purifiers.load(tmp_path)
    assert isinstance(loaded, pg.Chain)
    assert loaded.settings == chain.settings
    assert loaded.is_fitted
    assert torch.equal(loaded(data).edge_weight, chain(data).edge_weight)
    assert loaded.provenance == chain.provenance
    document = json.loads((tmp_path / "config.json").read_text())
    document["training"] = {"parts": []}
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="one entry for each"):
        purifiers.load(tmp_path)


def test_a_part_without_a_name_can_be_used_but_not_saved(data: Data, tmp_path: Path) -> None:
    chain = pg.Chain([Halve(), Halve()])
    assert chain(data).edge_weight.unique().tolist() == [0.25]
    with pytest.raises(InputError, match="Halve has none: register it"):
        chain.save_pretrained(tmp_path)


def test_variants_replace_the_parts_that_have_them(trained: pg.GPRGAE) -> None:
    variants = pg.Chain([likeness(), trained, pg.SVD(rank=3)]).variants()
    assert list(variants) == ["fewer-steps", "more-steps", "straight-through"]
    fewer = variants["fewer-steps"]
    assert isinstance(fewer, pg.Chain)
    assert fewer[1].max_steps == 2  # type: ignore[attr-defined]
    assert [type(part) for part in fewer] == [pg.Jaccard, pg.GPRGAE, pg.SVD]
    assert len(fewer) == 3


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "at least one"),
        ("jaccard", "made of a list"),
        ([3], "A int is no purifier"),
        (["jacard"], "Did you mean 'jaccard'"),
        ([{"settings": {}}], "purifier is missing"),
        ([{"purifier": "jaccard", "settings": {"threshold": 2.0}}], "threshold=2.0 is not valid"),
    ],
)
def test_what_is_no_chain_is_refused(parts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pg.Chain(parts)  # type: ignore[arg-type]
