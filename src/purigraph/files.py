"""The one place that writes files, and JSON and hashes of files."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
import secrets
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from purigraph.errors import ModelFileError, OutputError

#: A `config.json` has a few kilobytes: a JSON file above this size is not one of ours.
LARGEST_JSON = 10_000_000

_STALE_SECONDS = 86_400.0
# Only these mean that writing failed: a block of `atomic_path` may also read files or the network.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
_REMEDIES = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "write to another disk",
    errno.EROFS: "choose a place that can be written",
    errno.EACCES: "choose a place that you may write, or change its permissions",
    errno.EPERM: "choose a place that you may write, or change its permissions",
    errno.EIO: "check the disk, or write to another one",
    errno.ELOOP: "remove the loop of symbolic links, or choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; its contents become those of `path` if the block succeeds, and are removed otherwise.

    A regular file is replaced by one rename and keeps its permissions. A symbolic link stays one: the file that it
    points to is replaced. To a pipe or a character device, the contents are copied once they are complete.

    Raises:
        OutputError: If `path` can't be written, is read-only, or is neither a regular file nor a pipe or character
            device. The error names `path` and says what would help; what was at `path` is unchanged.
    """
    with naming(path):
        target, old = _destination(Path(path))
        stream = old is not None and (not stat.S_ISREG(old.st_mode) or _descriptor(target) is not None)
        folder = Path(tempfile.gettempdir()) if stream else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        remove_stale(folder, _prefix(target.name))
        temporary = folder / f"{_prefix(target.name)}{_host()}-{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        with naming(path):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        with _naming_write_errors(path):
            yield temporary
        with naming(path):
            if stream:
                _copy_to_stream(temporary, target)
                return
            if old is not None:
                _take_over_permissions(temporary, old)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Raise `OutputError` for a file that `atomic_path` would refuse, before any work is done for it."""
    with naming(path):
        _destination(Path(path))


def is_stream(path: str | Path) -> bool:
    """Whether what is written to a path goes elsewhere than to a file: to a pipe, a device, or `/dev/fd/1`."""
    place = Path(path)
    try:
        return _descriptor(place) is not None or (place.exists() and not place.is_file())
    except (OSError, ValueError):
        return False


def move(source: Path, target: Path) -> None:
    """Rename a file onto another one; if that is a symbolic link, what it points to is replaced."""
    with naming(target):
        place, _ = _destination(target)
        try:
            os.replace(source, place)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)
    source.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, for one of several processes at a time; it leaves no file and ends with the process.

    Where folders can't be locked (Windows, some network file systems) it does nothing.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough: a child forked meanwhile has the handle too
        os.close(handle)


def remove_stale(folder: Path, start: str) -> None:
    """Remove the temporary files of killed processes, and those that nobody has touched for a day.

    Args:
        folder: Where they are.
        start: How their names start.
    """
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if name.startswith(start) and name.endswith(".part")]
        for part in (folder / name for name in names):
            host, _, rest = part.name.split(".")[-2].partition("-")
            pid = rest.partition("-")[0] if host == _host() else ""
            with suppress(OSError):
                gone = pid.isdecimal() and not _is_running(int(pid))
                if gone or time.time() - part.stat().st_mtime > _STALE_SECONDS:
                    part.unlink()


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Turn file system errors into an `OutputError` that names `path`, the reason and what would help."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise _output_error(path, error) from error


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, *parts: bytes) -> None:
    """Write the parts, one after the other, as a file, atomically."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        for part in parts:
            file.write(part)


def write_json(path: str | Path, value: object) -> None:
    """Write JSON atomically, indented and with a final newline; see `json_text`."""
    write_text(path, json_text(value, ensure_ascii=False) + "\n")


def json_text(value: object, *, ensure_ascii: bool = True) -> str:
    """Return a value as indented JSON. Infinity and NaN, which JSON does not have, become null.

    >>> json_text([0.5, float("inf")]).split()
    ['[', '0.5,', 'null', ']']
    """
    return json.dumps(_finite(value), indent=2, ensure_ascii=ensure_ascii, allow_nan=False)


def read_json(path: str | Path) -> Any:
    """Read a JSON file of at most `LARGEST_JSON` bytes.

    Raises:
        ModelFileError: If the file is missing, not a regular file, too large, can't be read or is not JSON; the message
            names it.
    """
    size = regular_file_size(path)
    if size > LARGEST_JSON:
        raise ModelFileError(
            f"{path} has {size:,} bytes: it is damaged or foreign, as such files have at most {LARGEST_JSON:,}."
        )
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(LARGEST_JSON + 1).decode("utf-8"))
    except OSError as error:
        raise ModelFileError(f"{path} can't be read: {error.strerror or error}.") from None
    except RecursionError:
        raise ModelFileError(f"{path} is nested too deeply: the file is damaged or foreign.") from None
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise ModelFileError(f"{path} is not valid JSON ({error}): the file is damaged or foreign.") from None


def regular_file_size(path: str | Path) -> int:
    """Return the size of a file in bytes. A pipe or device could be read forever, so it is refused.

    Raises:
        ModelFileError: If it does not exist, can't be reached or is not a regular file.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:  # a ValueError for a null character in the name
        raise ModelFileError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(f"{path} can't be read: it is {_type_name(found.st_mode)}, not a regular file.")
    return found.st_size


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _destination(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return what is written for `path` (the end of its symbolic links) and what exists there, or None."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        # A link to a file that does not exist yet is followed too. `resolve` alone would accept loops.
        return Path(os.path.realpath(path)), None
    mode = old.st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or _descriptor(path) is not None:
        return path, old
    if not stat.S_ISREG(mode):
        raise OutputError(f"{path} can't be written: it is {_type_name(mode)}, not a regular file.")
    # For root, everything can be written; a file without any write permission is still meant to stay as it is.
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        raise OutputError(f"{path} is read-only, so it is not replaced: choose another name, or make it writable.")
    return Path(os.path.realpath(path)), old


def _descriptor(path: Path) -> int | None:
    """Return the number of the open file of this process that a path names, or None if it names none.

    A file that the shell has opened must be written through it: replacing it, or opening it again, would lose output.
    """
    name = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}.get(str(path), str(path))
    number = name.removeprefix("/dev/fd/").removeprefix("/proc/self/fd/")
    return int(number) if number != name and number.isdecimal() else None


def _copy_to_stream(source: Path, target: Path) -> None:
    number = _descriptor(target)
    handle = os.open(target, os.O_WRONLY | os.O_APPEND) if number is None else os.dup(number)
    with open(source, "rb") as reader, os.fdopen(handle, "wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)


def _take_over_permissions(new: Path, old: os.stat_result) -> None:
    with suppress(OSError):  # only root may change the owner
        os.chown(new, old.st_uid, old.st_gid)
    os.chmod(new, stat.S_IMODE(old.st_mode))


def _is_running(pid: int) -> bool:
    if os.name != "posix":  # pragma: no cover - there, signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _prefix(name: str) -> str:
    return f".{name[:50]}."  # shortened, as the whole temporary name must stay below 255 bytes


def _host() -> str:
    """Return a short name of this machine: the process numbers of another one say nothing here."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


@contextmanager
def _naming_write_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of writing, also those that a library has wrapped in its own, into an `OutputError`."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno in _WRITE_ERRORS:
                raise _output_error(path, cause) from error
            cause = cause.__cause__ or cause.__context__
        raise


def _output_error(path: str | Path, error: OSError) -> OutputError:
    remedy = _REMEDIES.get(error.errno or 0)
    advice = "" if remedy is None else f" What was there is unchanged: {remedy}."
    found = OutputError(f"{path} can't be written: {error.strerror or error}.{advice}")
    found.errno = error.errno
    return found


def _type_name(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
