"""Rows → exact integer sums. Everything in this file is private.

Sums are int64, so they are the same for every batch size, row order, number of threads and
split into shards, bit for bit, and shards add up to the whole. (The paper's pairwise distance alone
hangs on the order in which rows are read: it pairs them by place.)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpearl import container
from dpearl.cells import MISSING_WORDS, cell_texts
from dpearl.design import Design, load_design
from dpearl.embeddings.spread import CHUNK
from dpearl.errors import FileError, UsageError
from dpearl.read import Source, batches, storage_names

PARTIAL = "dpearl-partial"
_EMPTY = "empty"
"""A shard without rows: it counts as a shard all the same, or the noise would tell that it is empty."""
_NOBODY = {None, *(word.encode() for word in MISSING_WORDS)}
Progress = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Private sums of a design over some rows, and which shards they came from."""

    design: Design
    sums: Mapping[str, NDArray[np.int64]]
    rows: int
    shards: tuple[str, ...]
    types: Mapping[str, str]


def embed(
    sources: Sequence[Source],
    design: Design,
    threads: int | None = None,
    progress: Progress | None = None,
    batch_rows: int = CHUNK,
) -> Embedding:
    """Sum the design's blocks over all rows; memory does not grow with their number."""
    sums = {block.family: np.zeros(block.shape, np.int64) for block in design.blocks}
    rows = 0
    tables = bounded(batches(sources, design.schema, batch_rows), design)
    workers = threads or os.cpu_count() or 1
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        for count, parts in _in_order(pool, lambda table: _sum(table, design), tables, 2 * workers):
            rows += count
            for family, part in parts.items():
                sums[family] += part
            if progress:
                progress(count)
    return Embedding(design, sums, rows, (_fingerprint(design, sums) if rows else _EMPTY,), storage_names(sources, design.schema))


def _sum(table: pa.Table, design: Design) -> tuple[int, dict[str, NDArray[np.int64]]]:
    rows = design.codec.rows(design.codec.encode(table))
    return len(rows), {block.family: block.sum(rows) for block in design.blocks}


def _in_order(pool: ThreadPoolExecutor, work: Callable[[pa.Table], Any], items: Iterable[pa.Table], ahead: int) -> Iterator[Any]:
    """Map over threads, at most `ahead` items under way, so that a fast reader cannot fill memory."""
    pending: list[Future[Any]] = []
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) >= ahead:
            yield pending.pop(0).result()
    for future in pending:
        yield future.result()


def bounded(tables: Iterable[pa.Table], design: Design) -> Iterator[pa.Table]:
    """Keep at most the declared number of rows of each person; a row that names nobody is left out."""
    person, most = design.schema.person, design.schema.rows_per_person
    if person is None:
        yield from tables
        return
    seen: dict[bytes | None, int] = {}
    for table in tables:
        keep = np.zeros(len(table), bool)
        for place, who in enumerate(_people(table.column(person))):
            if who not in _NOBODY and seen.get(who, 0) < most:
                seen[who] = seen.get(who, 0) + 1
                keep[place] = True
        if keep.any():
            yield table.filter(pa.array(keep))


def _people(ids: pa.ChunkedArray) -> list[bytes | None]:
    """Who each row belongs to, as text: 7, 7.0 and "7" are one person, and no text stops a release."""
    people: list[bytes | None] = cell_texts(ids).cast(pa.binary()).to_pylist()
    return people


def _fingerprint(design: Design, sums: Mapping[str, NDArray[np.int64]]) -> str:
    """The same rows under the same design have the same fingerprint, whatever their order or file."""
    digest = hashlib.sha256(design.digest.encode())
    for family in sorted(sums):
        digest.update(sums[family].tobytes())
    return digest.hexdigest()


def merge(embeddings: Sequence[Embedding]) -> Embedding:
    """Add the sums of different shards under one design."""
    first = embeddings[0]
    shards = [shard for embedding in embeddings for shard in embedding.shards]
    held = [shard for shard in shards if shard != _EMPTY]
    if any(embedding.design.digest != first.design.digest for embedding in embeddings):
        raise UsageError("the partial sums have different designs; embed all shards with the same schema and options")
    if len(set(held)) < len(held):
        raise UsageError("the same shard is given twice (equal sums); leave one out, or embed equal rows in one shard")
    sums = {family: sum((e.sums[family] for e in embeddings), np.zeros_like(first.sums[family])) for family in first.sums}
    return Embedding(first.design, sums, sum(e.rows for e in embeddings), tuple(sorted(shards)), first.types)


def save_partial(embedding: Embedding, path: str | Path) -> None:
    """Write private sums: readable by their owner alone, and marked as what they are."""
    meta = {
        "PRIVATE": "exact sums over sensitive rows, not sanitized: keep secret, delete after release",
        "design": embedding.design.to_dict(),
        "rows": embedding.rows,
        "shards": list(embedding.shards),
        "types": dict(embedding.types),
    }
    sums = {f"sums.{family}": array for family, array in embedding.sums.items()}
    content, _ = container.pack(PARTIAL, meta, {**embedding.design.arrays(), **sums})
    container.place_file(path, content, mode=0o600)


def load_partial(path: str | Path) -> Embedding:
    """Read private sums back."""
    meta, arrays = container.read(path, PARTIAL)
    try:
        sums = {name.removeprefix("sums."): array for name, array in arrays.items() if name.startswith("sums.")}
        design = load_design(meta["design"], {name: array for name, array in arrays.items() if not name.startswith("sums.")})
        fits = design.fits(sums)
        embedding = Embedding(design, sums, int(meta["rows"]), tuple(meta["shards"]), dict(meta["types"]))
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise FileError(f"{path}: is damaged: its sums do not fit its design")
    return embedding
