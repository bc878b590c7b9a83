"""Cora and Pubmed as the Planetoid project published them: Python 2 pickles and a list of test nodes.

Z. Yang, W. Cohen, R. Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016.
All nodes are kept; the public split is not used, as the paper draws its own.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from purigraph.datasets.base import register
from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.sources import RemoteFile, fetch
from purigraph.errors import DatasetError

PARTS = ("allx", "ally", "tx", "ty", "graph", "test.index")
URL = "https://raw.githubusercontent.com/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data"


def _files(name: str, *hashes: str) -> dict[str, RemoteFile]:
    return {
        part: RemoteFile(f"{name}/ind.{name}.{part}", sha256, (f"{URL}/ind.{name}.{part}",))
        for part, sha256 in zip(PARTS, hashes, strict=True)
    }


CORA = _files(
    "cora",
    "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
)
PUBMED = _files(
    "pubmed",
    "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
)


@register("cora", nodes=2708, edges=5278, features=1433, classes=7, homophily=0.80, files=tuple(CORA.values()))
def read_cora(root: Path | None) -> RawGraph:
    """Read the graph: machine-learning papers; 0/1 words."""
    return _read(CORA, root)


@register("pubmed", nodes=19717, edges=44324, features=500, classes=3, homophily=0.80, files=tuple(PUBMED.values()))
def read_pubmed(root: Path | None) -> RawGraph:
    """Read the graph: papers on diabetes; TF-IDF words."""
    return _read(PUBMED, root)


def _read(files: dict[str, RemoteFile], root: Path | None) -> RawGraph:
    paths = {part: fetch(file, root) for part, file in files.items()}
    parts = {part: load_pickle(path) for part, path in paths.items() if part != "test.index"}
    test_index = np.loadtxt(paths["test.index"], dtype=np.int64)
    # The rows of tx and ty belong to the test nodes in the order in which test.index lists them.
    rows = np.arange(parts["allx"].shape[0] + parts["tx"].shape[0])
    rows[test_index] = np.sort(test_index)
    x = sparse.vstack([parts["allx"], parts["tx"]], format="csr")[rows]
    y = np.concatenate([parts["ally"], parts["ty"]]).argmax(axis=1)[rows]
    arcs = [(node, neighbour) for node, neighbours in parts["graph"].items() for neighbour in neighbours]
    return RawGraph(x=x, y=y, arcs=np.array(arcs).T)


def load_pickle(path: Path) -> Any:
    """Open a Planetoid pickle: a NumPy array, a CSR matrix, or lists by node. Nothing else can come out.

    Raises:
        DatasetError: If the file asks for anything but the few names that such a file needs, or is damaged.
    """
    try:
        with open(path, "rb") as file:
            loaded = _Unpickler(file, encoding="latin1").load()
    except DatasetError:
        raise
    except Exception as error:
        # A damaged pickle can raise almost anything from inside the unpickling of NumPy's objects.
        raise DatasetError(f"{path} is not a Planetoid file: it is damaged or foreign ({error}).") from error
    return loaded.matrix() if isinstance(loaded, _CsrState) else loaded


class _CsrState:
    """What a pickled `scipy.sparse.csr.csr_matrix` holds, without the class of SciPy's that it once was."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def matrix(self) -> Any:
        state = self.state
        return sparse.csr_array((state["data"], state["indices"], state["indptr"]), shape=state["_shape"])


def _reconstruct(subtype: type, shape: tuple[int, ...], dtype: str) -> Any:
    """What NumPy's own function of this name does: an empty array, which the pickle then fills."""
    if subtype is not np.ndarray:
        raise DatasetError(f"a pickled array of the type {subtype!r} is not admitted.")
    return np.ndarray.__new__(np.ndarray, shape, dtype)


class _Unpickler(pickle.Unpickler):
    """Admits the names that Planetoid's files hold, and maps old names to what they are called today."""

    ADMITTED: dict[tuple[str, str], Any] = {  # noqa: RUF012 (never changed)
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("scipy.sparse.csr", "csr_matrix"): _CsrState,
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ADMITTED:
            raise DatasetError(
                f"The file asks for {module}.{name}, which no Planetoid file needs. Opening it could run "
                "foreign code: it was not opened."
            )
        return self.ADMITTED[module, name]

    def persistent_load(self, pid: Any) -> NoReturn:
        raise DatasetError(f"The file refers to an object outside of it ({pid!r}): no Planetoid file does.")
