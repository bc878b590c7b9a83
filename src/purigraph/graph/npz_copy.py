"""Copying an `.npz` archive with some of its arrays changed and all others unchanged byte by byte."""

from __future__ import annotations

import lzma
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from purigraph.errors import GraphError, PurigraphError
from purigraph.files import atomic_path
from purigraph.graph.npz_archive import SUFFIX, Array, open_archive


def copy_npz(source: str | Path, target: str | Path, changes: Mapping[str, Array | None]) -> None:
    """Write a copy of an archive atomically.

    Unchanged arrays are never decoded, so their dtype, memory order and even pickled objects (which stay unopened) are
    the same in the copy. A changed array keeps its position; new arrays come last. The same contents give a
    bit-identical file.

    Args:
        source: The archive to copy.
        target: The file to write.
        changes: New contents by array name; None removes the array.

    Raises:
        GraphError: If the archive is damaged; nothing is written in this case.
    """
    try:
        with open_archive(source) as old, atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w") as new:
            _copy(old, new, changes)
    except PurigraphError:
        raise
    # A RuntimeError is an encrypted member or an unknown compression, an OSError without a number damaged BZIP2.
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise GraphError(f"{source} can't be copied: the file is damaged or can't be read ({error}).") from None


def _copy(old: zipfile.ZipFile, new: zipfile.ZipFile, changes: Mapping[str, Array | None]) -> None:
    pending = dict(changes)
    for member in old.infolist():
        name = member.filename.removesuffix(SUFFIX)
        if name in changes:
            _write(new, name, pending.pop(name, None))
            continue
        # A new header, as the old one has the sizes and offsets of the old archive.
        header = zipfile.ZipInfo(member.filename, member.date_time)
        header.compress_type = member.compress_type
        with old.open(member) as reader, new.open(header, "w", force_zip64=True) as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)
    for name, array in pending.items():
        _write(new, name, array)


def _write(archive: zipfile.ZipFile, name: str, array: Array | None) -> None:
    if array is None:
        return
    header = zipfile.ZipInfo(f"{name}{SUFFIX}")
    header.compress_type = zipfile.ZIP_DEFLATED
    # The size is unknown before writing, so the header must allow for a large one.
    with archive.open(header, "w", force_zip64=True) as writer:
        np.lib.format.write_array(writer, array, allow_pickle=False)
