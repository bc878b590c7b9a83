"""Hashes of tensors and text: equal hashes mean equal contents."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def fingerprint(*parts: Tensor | str) -> str:
    """Return a hash (64 hexadecimal digits) of the values, shapes, dtypes and layouts of the tensors, and of the text.

    >>> fingerprint(torch.ones(2)) == fingerprint(torch.ones(2)), fingerprint(torch.ones(2)) == fingerprint("1 1")
    (True, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(f"text of {len(part)}: {part}".encode())
            continue
        for tensor in _strided(part.detach()):
            digest.update(f"{part.layout} {tensor.dtype} of {tuple(tensor.shape)}: ".encode())
            digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _strided(tensor: Tensor) -> list[Tensor]:
    if tensor.layout == torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout == torch.sparse_coo:
        entries = tensor.coalesce()
        return [entries.indices(), entries.values()]
    return [tensor]
