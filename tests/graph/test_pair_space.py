from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from purigraph.graph.pair_space import PairSpace


@pytest.mark.parametrize("num_nodes", [2, 3, 10, 31])
def test_numbers_and_codes_are_one_another_s_inverse(num_nodes: int) -> None:
    space = PairSpace(num_nodes)
    i, j = torch.triu_indices(num_nodes, num_nodes, 1)
    assert space.size == len(i)
    codes = space.codes(torch.arange(space.size))
    assert torch.equal(codes, i * num_nodes + j)
    assert torch.equal(space.numbers(codes), torch.arange(space.size))


def test_a_large_triangle_is_exact() -> None:
    num_nodes = 3_000_000
    space = PairSpace(num_nodes)
    last = torch.tensor([0, num_nodes - 2, num_nodes - 1, space.size - 2, space.size - 1])
    codes = space.codes(last)
    pairs = torch.stack([codes // num_nodes, codes % num_nodes]).t().tolist()
    n = num_nodes
    assert pairs == [[0, 1], [0, n - 1], [1, 2], [n - 3, n - 1], [n - 2, n - 1]]
    assert torch.equal(space.numbers(codes), last)


@given(st.integers(2, 12), st.data())
def test_samples_are_sorted_distinct_and_free(num_nodes: int, data: st.DataObject) -> None:
    nodes = torch.tensor(sorted(data.draw(st.sets(st.integers(0, num_nodes - 1), min_size=2))))
    space = PairSpace(num_nodes, nodes)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 100)))
    taken = space.sample(data.draw(st.integers(0, space.size)), generator)
    count = data.draw(st.integers(0, space.size + 3))

    drawn = space.sample(count, generator, taken=taken)

    assert len(drawn) == min(count, space.size - len(taken))
    assert (drawn.diff() > 0).all()
    assert not torch.isin(drawn, taken).any()
    i, j = drawn // num_nodes, drawn % num_nodes
    assert (i < j).all()
    assert torch.isin(torch.cat([i, j]), nodes).all()


def test_samples_are_uniform() -> None:
    space = PairSpace(5)
    generator = torch.Generator().manual_seed(0)
    taken = space.codes(torch.tensor([2, 7]))
    counts = torch.zeros(25)
    for _ in range(4000):
        counts[space.sample(2, generator, taken=taken)] += 1
    seen = counts[counts > 0]
    # Eight free pairs, 8000 draws: 1000 each, standard deviation 27.
    assert len(seen) == 8
    assert (seen - 1000).abs().max() < 130
