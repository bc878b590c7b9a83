"""Where a dataset's files come from: your own folder, the cache, or a verified download.

A file is used only if its SHA-256 is the one stated in `RemoteFile`, wherever it was found. It is looked
for in `$PURIGRAPH_DATA/<folder>/<file>`, then in the cache, then downloaded to the cache. A download gets
there only if it is complete and right: whatever goes wrong, the cache stays intact.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

from purigraph.errors import DatasetError
from purigraph.files import atomic_path, sha256

DATA_VARIABLE = "PURIGRAPH_DATA"
TIMEOUT_SECONDS = 30

# Files whose hash was checked are not hashed again as long as size and time of change stay the same.
_verified: set[tuple[str, int, int, str]] = set()


@dataclass(frozen=True)
class RemoteFile:
    """One file of a dataset.

    Attributes:
        path: Its place in a data folder: `folder/file`.
        sha256: Its SHA-256 in hexadecimal digits.
        urls: Where it can be downloaded; tried in turn.
        hint: What to do if there is no URL or none of them works.
    """

    path: str
    sha256: str
    urls: tuple[str, ...] = ()
    hint: str = ""

    def find(self, root: str | Path | None = None) -> Path | None:
        """Return where the file is on this machine, or None.

        Raises:
            DatasetError: If the file in `PURIGRAPH_DATA` is not the one that it should be.
        """
        data = data_folder()
        if data is not None and (data / self.path).is_file():
            found = data / self.path
            if not self._is_right(found):
                raise DatasetError(
                    f"{found} is not the file that it should be: its SHA-256 is {sha256(found)} instead of "
                    f"{self.sha256}. It is damaged, cut short or another version: replace it, or remove it "
                    "to have it downloaded."
                )
            return found
        cached = cache_folder(root) / self.path
        # A damaged file in the cache is not an error: it is downloaded again.
        return cached if cached.is_file() and self._is_right(cached) else None

    def _is_right(self, path: Path) -> bool:
        status = path.stat()
        key = (str(path), status.st_size, status.st_mtime_ns, self.sha256)
        if key not in _verified:
            if sha256(path) != self.sha256:
                return False
            _verified.add(key)
        return True


def data_folder() -> Path | None:
    """Return the folder that `PURIGRAPH_DATA` names, or None."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value).expanduser() if value else None


def cache_folder(root: str | Path | None = None) -> Path:
    """Return `root`. Default: the user's cache folder of this library."""
    return Path(platformdirs.user_cache_dir("purigraph")) if root is None else Path(root).expanduser()


def fetch(file: RemoteFile, root: str | Path | None = None) -> Path:
    """Return where the file is, after downloading it if necessary.

    Args:
        file: What to get.
        root: The cache folder. Default: the user's.

    Raises:
        DatasetError: If it can't be had. The message names the file, where it was looked for, what each URL gave, and
            what to do.
    """
    found = file.find(root)
    if found is not None:
        return found
    target = cache_folder(root) / file.path
    if not file.urls:
        raise DatasetError(f"{_looked_for(file, target)} {_what_to_do(file)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Of several processes that need the file, one downloads it and the others wait.
        with FileLock(target.with_name(f".{target.name}.lock")):
            return file.find(root) or _download(file, target)
    except OSError as error:
        raise DatasetError(
            f"{file.path} can't be stored in the cache folder {target.parent}: {error}. Give another folder "
            f"(root=...). {_what_to_do(file)}"
        ) from error


def _download(file: RemoteFile, target: Path) -> Path:
    import pooch  # 0.05 s: only for those who download

    failures = []
    for url in file.urls:
        pooch.get_logger().info("Downloading %s from %s to %s", file.path, url, target.parent)
        try:
            with atomic_path(target) as temporary:
                pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS, chunk_size=1 << 18)(url, str(temporary), None)
                found = sha256(temporary)
                if found != file.sha256:
                    size = temporary.stat().st_size
                    raise DatasetError(f"what came ({size} bytes) is another file, its SHA-256 is {found}")
        except DatasetError as error:
            failures.append(f"{url}: {error}")
        except OSError as error:  # all that requests raises is an OSError too
            failures.append(f"{url}: the download failed or was cut short ({error})")
        else:
            return target
    listing = "".join(f"\n- {failure}" for failure in failures)
    raise DatasetError(
        f"{_looked_for(file, target)} No URL gave it, and nothing was stored:{listing}\n{_what_to_do(file)}"
    )


def _looked_for(file: RemoteFile, target: Path) -> str:
    data = data_folder()
    first = f"{DATA_VARIABLE} is not set" if data is None else f"there is no {data / file.path}"
    return f"The dataset file {file.path} (SHA-256 {file.sha256}) is not here: {first}, and no {target}."


def _what_to_do(file: RemoteFile) -> str:
    return (
        f"{file.hint or 'Check the network and try again.'} Or set {DATA_VARIABLE} to a folder that holds {file.path}."
    )
