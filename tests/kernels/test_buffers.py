import mmap

import pytest
import torch

from purigraph.kernels import buffers


@pytest.mark.parametrize("large", [1, 10**12])
def test_buffers_are_ordinary_memory(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_LARGE", large)
    memory = buffers.empty(3, 5, like=torch.empty(0, dtype=torch.float64))
    memory.fill_(2)
    assert memory.dtype == torch.float64
    assert memory.shape == (3, 5)
    assert memory.is_contiguous()
    kept = memory[1:].clone()
    del memory
    assert kept.sum() == 20


def test_systems_without_huge_pages_get_plain_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_LARGE", 1)
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert buffers.empty(2, like=torch.empty(0)).shape == (2,)
