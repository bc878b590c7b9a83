import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from purigraph.kernels import compiled
from purigraph.kernels.sorted_lists import count_below, merge

integers = st.lists(st.integers(-50, 50), max_size=30)


@pytest.mark.parametrize("available", [True, False])
@given(left=st.sets(st.integers(0, 40)), right=st.sets(st.integers(0, 40)))
def test_merged_lists_are_sorted_and_know_where_everything_went(
    available: bool, left: set[int], right: set[int]
) -> None:
    one, other = torch.tensor(sorted(left), dtype=torch.int64), torch.tensor(sorted(right), dtype=torch.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", available)
        merged, at_one, at_other = merge(one, other)
    assert merged.tolist() == sorted(left | right)
    assert torch.equal(merged[at_one], one)
    assert torch.equal(merged[at_other], other)


@given(integers, integers, st.booleans(), st.booleans())
def test_count_below_is_searchsorted_for_queries_in_any_order(
    values: list[int], queries: list[int], or_equal: bool, ascending: bool
) -> None:
    sorted_values = torch.tensor(sorted(values), dtype=torch.int64)
    asked = torch.tensor(sorted(queries) if ascending else queries, dtype=torch.int64)
    expected = torch.searchsorted(sorted_values, asked, right=or_equal)
    assert torch.equal(count_below(sorted_values, asked, or_equal=or_equal), expected)
