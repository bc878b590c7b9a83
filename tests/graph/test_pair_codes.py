import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import pair_graphs
from purigraph.graph import PairGraph, pair_codes


@given(pair_graphs(), st.integers(0, 100))
def test_codes_do_not_depend_on_the_order_of_the_ends(graph: PairGraph, seed: int) -> None:
    swapped = torch.rand(graph.num_pairs, generator=torch.Generator().manual_seed(seed)) < 0.5
    i, j = torch.where(swapped, graph.pairs.flip(0), graph.pairs)
    codes = pair_codes.encode(i, j, graph.num_nodes)
    assert torch.equal(codes, graph.codes)
    assert torch.equal(pair_codes.decode(codes, graph.num_nodes), graph.pairs)
    arrays = pair_codes.encode(i.numpy(), j.numpy(), graph.num_nodes)
    assert np.array_equal(arrays, codes.numpy())
    assert np.array_equal(pair_codes.decode(arrays, graph.num_nodes), graph.pairs.numpy())


def test_small_integers_do_not_overflow() -> None:
    i, j = torch.tensor([60_000], dtype=torch.int32), torch.tensor([70_000], dtype=torch.int32)
    expected = 60_000 * 100_000 + 70_000
    assert pair_codes.encode(i, j, 100_000).tolist() == [expected]
    assert pair_codes.encode(i.numpy(), j.numpy(), 100_000).tolist() == [expected]


def test_no_nodes_have_no_codes() -> None:
    assert pair_codes.decode(torch.empty(0, dtype=torch.int64), 0).shape == (2, 0)
