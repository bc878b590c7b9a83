import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import pair_graphs
from purigraph.graph import PairGraph
from purigraph.kernels import Pattern, SymmetricPattern, compiled
from purigraph.kernels.csr import counting_order


@given(st.lists(st.integers(0, 6), max_size=40), st.booleans())
def test_counting_order_is_a_stable_sort(values: list[int], available: bool) -> None:
    index = torch.tensor(values, dtype=torch.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", available)
        pointer, order = counting_order(index, 7)
    assert torch.equal(order, torch.argsort(index, stable=True))
    assert pointer.diff().tolist() == [values.count(value) for value in range(7)]


@given(pair_graphs())
def test_symmetric_patterns_are_the_same_without_the_compiler(graph: PairGraph) -> None:
    fast = SymmetricPattern(graph.pairs, graph.num_nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", False)
        slow = SymmetricPattern(graph.pairs, graph.num_nodes)
        slow_row = slow.row
    for name in ("rowptr", "col", "pair", "entries"):
        one, other = getattr(fast, name), getattr(slow, name)
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    assert torch.equal(fast.row, slow_row)


def test_a_mirrored_pattern_is_the_transposed_one() -> None:
    graph = PairGraph(5, torch.tensor([[0, 0, 1, 2], [1, 4, 2, 3]]))
    csr = graph.csr
    general, order = Pattern(csr.rowptr, csr.col, 5).by_column
    own, mirrored = csr.by_column
    assert torch.equal(general.col, own.col)
    assert torch.equal(general.rowptr, own.rowptr)
    assert torch.equal(order, mirrored)
