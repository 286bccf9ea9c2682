"""A running private sum: a nightly job adds the files that are new, and no file counts twice.

The file of sums holds a watermark for each file that it has counted, the digest of its content. It is replaced as a whole or not
at all, so after a crash it is the sum of before, and the same command goes on.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dpearl import container
from dpearl.design import Design
from dpearl.embed import Embedding, load_partial, merge, packed_partial
from dpearl.engines import Engine
from dpearl.errors import DataError, UsageError
from dpearl.owner import Stages, embed_all
from dpearl.read import Source, open_sources

_BLOCK = 2**20


@dataclass(frozen=True)
class Added:
    """What one job did: files that are new in the sum, and how many it had counted before."""

    files: tuple[str, ...]
    known: int


def append(
    path: Path, data: Sequence[str], design: Design, engine: Engine | None = None, progress: Stages | None = None
) -> Added:
    """Add the files that the running sum has not counted yet."""
    if not path.exists():
        container.claim(path)
    with _alone(path):
        running = load_partial(path) if path.exists() else None
        sources = open_sources(list(data))
        marks = {_digest(source): source for source in sources}
        if len(marks) < len(sources):
            raise UsageError("two of these files have the same content, so that a person would count twice; leave one out")
        counted = running.counted if running else {}
        fresh = {digest: source for digest, source in marks.items() if not _known(digest, source, counted)}
        if not fresh:
            raise UsageError(f"{path}: has counted every one of these files before; nothing is added")
        made = embed_all(list(fresh.values()), design, engine, progress)
        for digest, source in fresh.items():
            if _digest(source) != digest:
                raise DataError(f"{source.where}: changed while it was read; run again when it is complete")
        made = replace(made, counted={digest: _name(source) for digest, source in fresh.items()})
        total: Embedding = merge([running, made]) if running else made
        container.replace_file(path, packed_partial(total), mode=0o600)
    return Added(tuple(source.where for source in fresh.values()), len(sources) - len(fresh))


def _known(digest: str, source: Source, counted: Mapping[str, str]) -> bool:
    """Whether a file was counted; refused where only its name or only its content was."""
    name = _name(source)
    if digest in counted and counted[digest] != name:
        raise UsageError(f"{source.where}: was counted before under another name; remove the copy")
    if digest not in counted and name in counted.values():
        raise UsageError(f"{source.where}: was counted before with other content; add new rows as new files")
    return digest in counted


def _name(source: Source) -> str:
    return str(Path(source.where).resolve())


def _digest(source: Source) -> str:
    """SHA-256 of a file's bytes."""
    if not Path(source.where).is_file():
        raise UsageError(f"{source.where}: is no file; --append counts files of this machine")
    digest = hashlib.sha256()
    with open(source.where, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One job at a time in a folder; what a crashed one left behind is removed."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        container.sweep(path)
        yield
    except BlockingIOError:
        raise UsageError(f"{path}: another job is adding to it; run again when that is done") from None
    finally:
        os.close(folder)
