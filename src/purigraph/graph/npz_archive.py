"""Opening an `.npz` archive that anybody may have written: nothing is unpickled, nothing blocks, memory is bounded.

What an array claims to hold is compared with what its member of the archive holds, and with the memory of the machine,
before anything is allocated. Every problem is a `GraphError` that gives its true reason.
"""

from __future__ import annotations

import errno
import lzma
import math
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from purigraph.errors import GraphError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SUFFIX = ".npy"
#: What damaged or hostile bytes raise in zip archives, decompressors and NumPy's reader.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    SyntaxError,
    tokenize.TokenError,  # NumPy's, of an array's header
    OverflowError,
    RuntimeError,  # also NotImplementedError and RecursionError
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_ENCRYPTED = 0x1
# NumPy's own limit: the header is parsed as a Python literal, which takes long if it is long.
_LARGEST_HEADER = 10_000


@contextmanager
def open_archive(path: str | Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive. Only regular files are opened, so a FIFO or a device never blocks.

    Raises:
        GraphError: If there is no such file, or it can't be read, or it is not an archive.
    """
    with open_regular(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except OSError as error:
            if error.errno in (None, errno.EINVAL):  # a damaged directory points before the start of the file
                raise _not_an_archive(path) from None
            raise GraphError(f"{path} can't be read: {error.strerror}.") from None
        except DAMAGE:
            raise _not_an_archive(path) from None
        with archive:
            yield archive


def read_arrays(
    path: str | Path, wanted: Callable[[str], bool], check: Callable[[list[str]], None]
) -> dict[str, Array]:
    """Return the arrays of an archive whose names are wanted.

    Args:
        path: The archive.
        wanted: Whether to read the array of this name.
        check: Called with the names of all members before anything is read; may raise.

    Raises:
        GraphError: If a wanted member is not a plain array or can't be read, or if all of them don't fit in memory.
    """
    with open_archive(path) as archive:
        members: dict[str, zipfile.ZipInfo] = {}
        twice = set()
        for member in archive.infolist():
            name = member.filename.removesuffix(SUFFIX)
            if name in members:
                twice.add(name)
            members[name] = member
        check(list(members))
        chosen = {name: member for name, member in members.items() if wanted(name)}
        for name in chosen:
            if name in twice:
                raise GraphError(f"{path} has two arrays `{name}`: keep one of them.")
        for name, member in chosen.items():
            _check_member(archive, member, path, name)
        check_memory(
            sum(member.file_size for member in chosen.values()), f"{path}: its arrays take", "use a smaller graph"
        )
        return {name: _read(archive, member, path, name) for name, member in chosen.items()}


def check_memory(size: int, what: str, advice: str) -> None:
    """Raise `GraphError` if this many bytes are more than the memory that is available."""
    available = available_memory()
    if available is not None and size > available:
        raise GraphError(f"{what} {_readable(size)}, but {_readable(available)} of memory are available: {advice}.")


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


@contextmanager
def open_regular(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a regular file for reading; a FIFO or a device, which could block or never end, is refused.

    Raises:
        GraphError: If there is no such file, or it can't be read, or it is not a regular file.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for somebody to write to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise GraphError(f"There is no file {path}.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise GraphError(f"{path} can't be read: its symbolic links lead in a circle.") from None
        raise GraphError(f"{path} can't be read: {error.strerror}.") from None
    except ValueError as error:  # a null byte in the name
        raise GraphError(f"{str(path)!r} is not the name of a file ({error}).") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
        raise GraphError(f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a graph file.")
    with open(handle, "rb") as file:
        yield file


def _check_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str | Path, name: str) -> None:
    """Raise unless the member is an array of plain numbers or texts that is as long as its header says."""
    if member.flag_bits & _ENCRYPTED:
        raise GraphError(f"{path}: `{name}` is encrypted: decrypt the archive first.")
    if member.compress_type not in _METHODS:
        raise GraphError(
            f"{path}: `{name}` is compressed by method {member.compress_type}, which can't be read: write the file "
            "with numpy.savez_compressed."
        )
    with _explaining(path, name), archive.open(member) as stream:
        magic = stream.read(len(np.lib.format.MAGIC_PREFIX) + 2)
        if magic[:-2] != np.lib.format.MAGIC_PREFIX:
            raise GraphError(f"{path}: `{name}` is not an array (its member {member.filename} is not in .npy format).")
        width = "<H" if magic[-2] == 1 else "<I"
        (length,) = struct.unpack(width, stream.read(struct.calcsize(width)))
        if length > _LARGEST_HEADER:
            raise GraphError(
                f"{path}: the header of `{name}` has {length} bytes; at most {_LARGEST_HEADER} are read, as a plain "
                "array needs about 100."
            )
        start = len(magic) + struct.calcsize(width) + length
    with _explaining(path, name), archive.open(member) as stream:
        np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if magic[-2] == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise GraphError(
            f"{path} can't be read as a graph file: `{name}` holds pickled objects, which are never opened: save plain "
            "arrays."
        )
    expected, found = math.prod(shape) * dtype.itemsize, member.file_size - start
    if any(size < 0 for size in shape) or expected != found:
        raise GraphError(
            f"{path}: `{name}` claims the shape {shape} of {dtype}, {expected} bytes, but holds {found} bytes: the "
            "file is damaged."
        )


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str | Path, name: str) -> Array:
    with _explaining(path, name), archive.open(member) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # to its end, so the checksum of an array without elements is compared too
    return array


@contextmanager
def _explaining(path: str | Path, name: str) -> Iterator[None]:
    try:
        yield
    except GraphError:
        raise
    except MemoryError:
        raise GraphError(f"{path}: there is not enough memory to read `{name}`: use a smaller graph.") from None
    except DAMAGE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GraphError(f"{path} can't be read as a graph file: `{name}` is damaged ({reason}).") from None


def _not_an_archive(path: str | Path) -> GraphError:
    return GraphError(
        f"{path} is not a graph file (an .npz archive of NumPy arrays): it is damaged, cut short or foreign."
    )


def _readable(size: int) -> str:
    """Return a number of bytes in the largest fitting unit.

    >>> _readable(3 * 10**9), _readable(10**23)
    ('3.0 GB', '100000000000.0 TB')
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
