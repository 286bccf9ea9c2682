"""The file form of everything dpearl stores: safetensors plus canonical JSON, no pickle.

A file is read only after its size, its kind, its version and a SHA-256 over every byte
have been checked. It is written whole or not at all, and never over another file.
Until it is whole it is a draft: hidden, and locked as long as its writer lives. What a killed process left is
removed by the next one that writes under the same name.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from dpearl.canonical import canonical
from dpearl.errors import DpearlError, FileError, UsageError

VERSION = 1
MAX_FILE = 4 * 2**30
MAX_HEADER = 64 * 2**20
_BLANK = "0" * 64

UNFIT = (DpearlError, ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of parts that anybody may have written, with a right digest, when they are put together and do not fit."""


def claim(path: str | Path) -> Path:
    """Refuse an output that cannot be written, before any work is done or budget spent."""
    path = Path(path)
    try:
        sweep(path)
        if path.exists():
            raise UsageError(f"{path}: already exists; choose another name or move it away")
        if not path.parent.is_dir():
            raise UsageError(f"{path}: folder {path.parent} does not exist; create it first")
        draft = _draft(path)
        draft.touch(0o600, exist_ok=False)
        draft.unlink(missing_ok=True)
    except PermissionError:
        raise UsageError(f"{path}: folder {path.parent} cannot be written to") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
    return path


def _draft(path: Path) -> Path:
    """A hidden name beside a file, for what is not finished."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def sweep(path: Path) -> None:
    """Remove the drafts of this name whose writers are gone: whoever is killed lets go of his lock."""
    for draft in path.parent.glob(f".{escape(path.name)}.{16 * '[0-9a-f]'}"):
        with suppress(OSError), _held(draft):
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()


def remove(path: Path) -> None:
    """Remove a file that is not needed any more, and what killed writers left of it."""
    path.unlink(missing_ok=True)
    sweep(path)


@contextmanager
def _held(draft: Path) -> Iterator[None]:
    """A draft, locked; refused where another process holds it."""
    handle = os.open(draft, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def pack(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[bytes, str]:
    """The bytes of a file and its digest, which covers all of them but itself."""
    head = canonical({**meta, "format": kind, "version": VERSION, "digest": _BLANK}).decode()
    blank = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {"dpearl": head})
    digest = hashlib.sha256(blank).hexdigest()
    return blank.replace(_mark(_BLANK), _mark(digest), 1), digest


def place_file(path: str | Path, content: bytes, mode: int = 0o644) -> None:
    """All of the content under this name, or nothing; an existing file is never replaced."""
    with placing(path, mode) as file:
        file.write(content)


@contextmanager
def placing(path: str | Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file to write into that gets its name when all is written and safe on disk, or never."""
    with _drafting(claim(path), mode) as (file, draft):
        yield file
        _settle(file)
        _link(draft, Path(path))


def replace_file(path: str | Path, content: bytes, mode: int = 0o644) -> None:
    """All of the content under this name, or what was there before: for work in progress alone."""
    sweep(Path(path))
    with _drafting(Path(path), mode) as (file, draft):
        file.write(content)
        _settle(file)
        draft.replace(path)


@contextmanager
def placing_folder(path: str | Path) -> Iterator[Path]:
    """A folder to fill, closed to others, that gets its name when all in it is safe on disk, or never."""
    draft = _draft(claim(path))
    try:
        draft.mkdir(mode=0o700)
        with _held(draft):
            yield draft
            sync_folder(draft)
            draft.rename(path)
        sync_folder(draft.parent)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _drafting(path: Path, mode: int) -> Iterator[tuple[BinaryIO, Path]]:
    draft = _draft(path)
    try:
        with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "w+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file, draft
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        draft.unlink(missing_ok=True)


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _link(draft: Path, path: Path) -> None:
    """Give the draft its name; where the file system has no hard links, rename it."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        claim(path)
        draft.rename(path)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """JSON and arrays of a file of this kind, refused if one bit differs from what was written."""
    content = _checked_bytes(Path(path))
    try:
        meta = _meta(content)
        found, version, digest = str(meta["format"]), meta["version"], str(meta["digest"])
        if type(version) is not int:
            raise ValueError("version")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileError(f"{path}: is not a dpearl file, or is damaged") from None
    if version > VERSION:
        raise FileError(f"{path}: was written by a newer dpearl (format {version}); upgrade dpearl to read it")
    if found != kind:
        raise FileError(f"{path}: is a {found} file, not a {kind} file")
    if hashlib.sha256(content.replace(_mark(digest), _mark(_BLANK), 1)).hexdigest() != digest:
        raise FileError(f"{path}: is damaged (its digest does not match); get an intact copy")
    try:
        return meta, load(content)
    except Exception:  # safetensors' own error type is not exported by its numpy module
        raise FileError(f"{path}: is damaged; get an intact copy") from None


def kind_of(path: str | Path) -> str | None:
    """The kind that a file claims to be, None where it is no dpearl file."""
    try:
        return str(_meta(_checked_bytes(Path(path), header_only=True))["format"])
    except (FileError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _mark(digest: str) -> bytes:
    return rf"\"digest\":\"{digest}\"".encode()


def _checked_bytes(path: Path, header_only: bool = False) -> bytes:
    """The file's bytes, or those up to its tensors, after its claimed sizes are known to be sane."""
    try:
        if path.is_dir():
            raise FileError(f"{path}: is a folder, not a file")
        if not path.is_file():
            raise FileError(f"{path}: no such file")
        size = path.stat().st_size
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
            if size < 16 or header > min(size - 8, MAX_HEADER):
                raise FileError(f"{path}: is not a dpearl file, or is damaged")
            if size > MAX_FILE:
                raise FileError(f"{path}: is larger than any dpearl file ({size} bytes)")
            file.seek(0)
            return file.read(8 + header if header_only else -1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror})") from None


def _meta(content: bytes) -> Any:
    """The canonical JSON inside safetensors' own header."""
    size = int.from_bytes(content[:8], "little")
    text = json.loads(content[8 : 8 + size])["__metadata__"]["dpearl"]
    meta = json.loads(text)
    if canonical(meta).decode() != text:  # no key twice, no NaN: what one reader sees is what all see
        raise ValueError("spelling")
    return meta
