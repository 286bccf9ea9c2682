"""Files in object stores: `s3://`, `gs://`, `abfs://` by PyArrow, with the user's own credentials; others by fsspec."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from dpearl.errors import DataError, UsageError

_ARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "file")


@dataclass(frozen=True)
class Remote:
    """A file in a store; its name is shown without credentials or options."""

    scheme: str
    path: str
    store: Any
    size: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path.lstrip('/')}"

    @property
    def suffixes(self) -> list[str]:
        return PurePosixPath(self.path).suffixes

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix


def is_remote(name: str) -> bool:
    """Whether a name is that of a store rather than of a file here."""
    return "://" in name


def found(uri: str) -> list[Remote]:
    """The files of a name: itself, a folder's, or those that match a pattern, in order."""
    scheme = uri.partition("://")[0]
    try:
        store, path = _store(scheme, uri)
        start, pattern = _fixed(path)
        info = store.get_file_info(start)
        if info.type is fs.FileType.Directory:
            listed = store.get_file_info(fs.FileSelector(start, recursive=True))
            files = [item for item in listed if item.type is fs.FileType.File and _visible(item.path, start)]
        else:
            files = [info] if info.type is fs.FileType.File else []
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(f"{scheme} store: cannot be read ({type(error).__name__}); check the name and your credentials") from None
    chosen = [item for item in files if pattern is None or fnmatchcase(item.path, pattern)]
    if not chosen:
        raise DataError(f"{scheme}://{path.lstrip('/')}: no such file or folder")
    return [Remote(scheme, item.path, store, item.size) for item in sorted(chosen, key=lambda item: str(item.path))]


def _store(scheme: str, uri: str) -> tuple[Any, str]:
    if scheme in _ARROW:
        store, path = fs.FileSystem.from_uri(uri)
        return store, path
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{scheme}://: this kind of store needs fsspec; pip install fsspec") from None
    try:
        store, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError):
        raise UsageError(f"{scheme}://: no reader for this kind of store is installed") from None
    return fs.PyFileSystem(fs.FSSpecHandler(store)), path


def _fixed(path: str) -> tuple[str, str | None]:
    """The part of a pattern that is no pattern, and the whole of it where there is one."""
    parts = PurePosixPath(path).parts
    plain = next((place for place, part in enumerate(parts) if any(mark in part for mark in "*?[")), None)
    return (path, None) if plain is None else (str(PurePosixPath(*parts[:plain])), path)


def _visible(path: str, start: str) -> bool:
    return not any(part.startswith(".") for part in PurePosixPath(path.removeprefix(start)).parts)
