import pytest
import torch

from purigraph.errors import InputError
from purigraph.kernels.row_products import Rows


def matrix(density: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 50, generator=generator)
    x[torch.rand(30, 50, generator=generator) >= density] = 0
    x[3] = 0  # a row of nothing
    return x


@pytest.mark.parametrize("density", [0.05, 0.9])
@pytest.mark.parametrize("layout", ["strided", "csr", "coo"])
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_products_are_those_of_the_dense_matrix(
    density: float, layout: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURIGRAPH_KERNELS", kernels)
    monkeypatch.setattr("purigraph.kernels.row_products._BLOCK_ELEMENTS", 200)  # several blocks
    x = matrix(density)
    given = {"strided": x, "csr": x.to_sparse_csr(), "coo": x.to_sparse_coo()}[layout]
    pairs = torch.triu_indices(30, 30, offset=1)
    for rows, dense in ((Rows(given), x.double()), (Rows(given).binary(), (x != 0).double())):
        product = dense @ dense.t()
        torch.testing.assert_close(rows.products(pairs), product[pairs[0], pairs[1]])
        torch.testing.assert_close(rows.squared_norms(), product.diagonal())
        assert torch.equal(rows.products(pairs), rows.products(pairs.flip(0)))
        assert rows.products(pairs[:, :0]).shape == (0,)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_rows_of_nothing(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURIGRAPH_KERNELS", kernels)
    assert Rows(torch.zeros(4, 5)).products(torch.tensor([[0, 1], [2, 3]])).tolist() == [0, 0]


def test_stored_zeros_are_no_features() -> None:
    x = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 2, 1]]), torch.tensor([0.0, 2.0, 3.0]), (2, 4))
    assert Rows(x).binary().squared_norms().tolist() == [1, 1]


def test_what_can_t_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="must be a matrix"):
        Rows(torch.ones(3))
    with pytest.raises(InputError, match="NaN or infinite"):
        Rows(torch.full((2, 2), torch.nan))
