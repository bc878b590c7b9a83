"""The node features of a graph file: a dense matrix, or the CSR parts of a sparse one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy import sparse as scipy_sparse
from torch import Tensor

from purigraph.errors import GraphError
from purigraph.graph.npz_archive import Array, check_memory
from purigraph.graph.sparse_features import csr_from_scipy, csr_to_scipy
from purigraph.kernels.feature_matrix import LARGEST_FEATURE, read_features

CSR_KEYS = ("x_data", "x_indices", "x_indptr", "x_shape")


def feature_arrays(x: Tensor) -> dict[str, Array]:
    """Return the arrays of a graph file for features (N, F) in any layout."""
    # Half precision stays as it is: the file is half as large, and every value is read back exactly.
    x = read_features(x, name="data.x", dtype=x.dtype if isinstance(x, Tensor) and x.dtype == torch.float16 else None)
    if x.layout == torch.strided:
        return {"x": x.cpu().numpy()}
    csr = csr_to_scipy(x.to_sparse_csr() if x.dtype != torch.float16 else x.float().to_sparse_csr())
    parts = (csr.data, csr.indices, csr.indptr, np.asarray(csr.shape, dtype=np.int64))
    return dict(zip(CSR_KEYS, parts, strict=True))


def read_file_features(arrays: dict[str, Array], path: str | Path, *, sparse: bool) -> Tensor:
    """Return the features (N, F) of a file's arrays, dense or as a torch CSR tensor."""
    if "x" in arrays:
        x = arrays["x"]
        _check(x.ndim == 2 and x.dtype.kind in "fiub", path, "x", "(N, F) of numbers", x)
        x = to_floating(x, path, "x")
        _check_range(x, path, "x")
        return csr_from_scipy(scipy_sparse.csr_array(x)) if sparse else torch.from_numpy(x)
    csr = _csr(arrays, path)
    if sparse:
        return csr_from_scipy(csr)
    rows, columns = csr.shape
    check_memory(
        rows * columns * csr.dtype.itemsize,
        f"{path}: as a dense matrix, the {rows} x {columns} features take",
        "read them as sparse ones, load_npz(path, sparse=True), or remove columns that are empty",
    )
    return torch.from_numpy(csr.toarray())


def to_floating(array: Array, path: str | Path, key: str) -> Array:
    """Convert numbers to float32, and floating point ones of higher precision to float64.

    Raises:
        GraphError: If a finite number is too large for that.
    """
    double = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    dtype = np.dtype(np.float64 if double else np.float32)
    if array.dtype == dtype:
        return array
    check_memory(array.size * dtype.itemsize, f"{path}: `{key}` takes", "use a smaller graph")
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    lost = np.isfinite(array) & ~np.isfinite(converted) if array.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if lost.any():
        first = [int(index) for index in np.argwhere(lost)[0]]
        precision = "double" if double else "single"
        raise GraphError(f"{path}: `{key}` is too large for {precision} precision at {first}.")
    return converted


def _csr(arrays: dict[str, Array], path: str | Path) -> scipy_sparse.csr_array:
    """Return the CSR parts as a matrix; they are checked first, as SciPy trusts them."""
    values, indices, indptr, shape = (arrays[key] for key in CSR_KEYS)
    _check(shape.shape == (2,) and shape.dtype.kind in "iu", path, "x_shape", "(2,) integer", shape)
    rows, columns = (int(size) for size in shape)
    if not (0 <= rows < 1 << 62 and 0 <= columns < 1 << 62):
        raise GraphError(f"{path}: `x_shape` is ({rows}, {columns}), which is not the shape of a matrix.")
    _check(values.ndim == 1 and values.dtype.kind in "fiub", path, "x_data", "(nnz,) of numbers", values)
    nonzeros = len(values)
    for key, array, size in (("x_indices", indices, nonzeros), ("x_indptr", indptr, rows + 1)):
        _check(array.shape == (size,) and array.dtype.kind in "iu", path, key, f"({size},) integer", array)
    bounds = [int(bound) for bound in (indptr[0], indptr[-1])]
    if bounds != [0, nonzeros] or (indptr[1:] < indptr[:-1]).any():
        raise GraphError(
            f"{path}: {', '.join(CSR_KEYS)} are not a CSR matrix: `x_indptr` must ascend from 0 to {nonzeros}."
        )
    if nonzeros and not 0 <= int(indices.min()) <= int(indices.max()) < columns:
        raise GraphError(
            f"{path}: {', '.join(CSR_KEYS)} are not a CSR matrix: `x_indices` must be columns from 0 to {columns - 1}; "
            f"they are from {int(indices.min())} to {int(indices.max())}."
        )
    values = to_floating(values, path, "x_data")
    _check_range(values, path, "x_data")
    parts = (values, indices.astype(np.int64), indptr.astype(np.int64))
    csr = scipy_sparse.csr_array(parts, shape=(rows, columns))
    csr.sum_duplicates()
    _check_range(csr.data, path, "x_data")
    return csr


def _check(fits: bool, path: str | Path, key: str, expected: str, found: Array) -> None:
    if not fits:
        raise GraphError(f"{path}: `{key}` must be {expected}; it is {found.shape} {found.dtype}.")


def _check_range(array: Array, path: str | Path, key: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        first = [int(index) for index in np.argwhere(bad)[0]]
        raise GraphError(f"{path}: `{key}` is not finite at {first} ({int(bad.sum())} such entries).")
    bad = np.abs(array) > LARGEST_FEATURE
    if bad.any():
        first = [int(index) for index in np.argwhere(bad)[0]]
        raise GraphError(
            f"{path}: `{key}` is {array[tuple(first)]:g} at {first}, too large for products in single precision: scale "
            f"the features to at most {LARGEST_FEATURE:g} ({int(bad.sum())} such entries)."
        )
