"""Planetoid's pickles: only what they need gets out of them."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purigraph.datasets.planetoid import CORA, load_pickle
from purigraph.errors import DatasetError

# Opcodes of protocol 2 as the old files have them: an array, and a CSR matrix [[0, 2], [3, 0]] of float32.
DTYPE = b"cnumpy\ndtype\n(U\x02%sK\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(kind: bytes, values: np.ndarray[Any, Any]) -> bytes:
    raw = values.tobytes()
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01(K"
        + bytes([len(values)])
        + b"t"
        + DTYPE % kind
        + b"\x89U"
        + bytes([len(raw)])
        + raw
        + b"tb"
    )


def test_old_arrays_matrices_and_lists_are_read_without_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x80\x02" + array(b"i4", np.array([3, -1], dtype="<i4")) + b".")
    assert load_pickle(path).tolist() == [3, -1]

    state = b"(" + b"".join(
        [
            b"U\x06_shape(K\x02K\x02t",
            b"U\x04data" + array(b"f4", np.array([2, 3], dtype="<f4")),
            b"U\x07indices" + array(b"i4", np.array([1, 0], dtype="<i4")),
            b"U\x06indptr" + array(b"i4", np.array([0, 1, 2], dtype="<i4")),
        ]
    )
    path.write_bytes(b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}" + state + b"ub.")
    assert load_pickle(path).toarray().tolist() == [[0, 2], [3, 0]]

    path.write_bytes(pickle.dumps(defaultdict(list, {0: [1, 2]}), protocol=2))
    assert load_pickle(path) == {0: [1, 2]}
    assert len(recwarn) == 0


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"x": Malicious()}, protocol=protocol))
    with pytest.raises(DatasetError, match=r"asks for (posix|nt)\.mkdir.*it was not opened"):
        load_pickle(path)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(OrderedDict(), protocol=2), r"asks for collections\.OrderedDict"),
        (b"cbuiltins\neval\n(S'1'\ntR.", r"asks for builtins\.eval"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(c__builtin__\nlist\n(K\x00tU\x01btR.", "is not admitted"),
        (b"\x80\x02P1\n.", "damaged or foreign|outside of it"),
        (b"Pfile\n.", "refers to an object outside of it"),
        (b"", "damaged or foreign"),
        (b"\x80\x02}q\x00(K", "damaged or foreign"),
        (b"not a pickle", "damaged or foreign"),
    ],
)
def test_foreign_pickles_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        load_pickle(tmp_path / "file")


def test_files_name_a_fixed_revision() -> None:
    assert all("af6abf4" in url for file in CORA.values() for url in file.urls)
    assert all(len(file.sha256) == 64 for file in CORA.values())
