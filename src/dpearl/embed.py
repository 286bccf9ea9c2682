"""Rows → exact integer sums, and their private file. Everything in this file is private.

Which engine sums makes no difference to the sums, and shards add up to the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpearl import container
from dpearl.design import Design, load_design
from dpearl.embeddings.spread import PairwiseDistance
from dpearl.engines import Engine
from dpearl.engines.local import Local
from dpearl.errors import FileError, UsageError
from dpearl.read import Reading, Source, filtered, storage_names
from dpearl.sums import Progress, blocks_of

PARTIAL = "dpearl-partial"
_EMPTY = "empty"
"""A shard without rows: it counts as a shard all the same, or the noise would tell that it is empty."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """Private sums of a design over some rows, and which shards they came from."""

    design: Design
    sums: Mapping[str, NDArray[np.int64]]
    rows: int
    shards: tuple[str, ...]
    types: Mapping[str, str]
    counted: Mapping[str, str] = field(default_factory=dict)
    """Files that a running sum has counted: the digest of their content, and their name."""
    filtered: bool = False
    """Whether cells decided on which rows were read: then their number tells of cells."""


def embed(sources: Sequence[Source], design: Design, engine: Engine | None = None, progress: Progress | None = None) -> Embedding:
    """Sum the design's blocks over all rows."""
    engine, reading = engine or Local(), Reading.of(sources, design.schema)
    if design.find(PairwiseDistance) and not (engine.placed and reading.placed):
        raise UsageError(
            "the pairwise distance pairs rows by their place in files: use --engine local on files, or --scale public"
        )
    total = engine.total(reading, design, progress)
    rows, sums = int(total[0]), blocks_of(total, design)
    shard, types = _fingerprint(design, sums) if rows else _EMPTY, storage_names(sources, design.schema)
    return Embedding(design, sums, rows, (shard,), types, filtered=filtered(sources))


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
    counted = [digest for embedding in embeddings for digest in embedding.counted]
    if len(set(counted)) < len(counted):
        raise UsageError("the same file was counted in two of the partial sums; leave one of them out")
    sums = {family: sum((e.sums[family] for e in embeddings), np.zeros_like(first.sums[family])) for family in first.sums}
    names = {digest: name for embedding in embeddings for digest, name in embedding.counted.items()}
    chosen = any(embedding.filtered for embedding in embeddings)
    return Embedding(first.design, sums, sum(e.rows for e in embeddings), tuple(sorted(shards)), first.types, names, chosen)


def save_partial(embedding: Embedding, path: str | Path) -> None:
    """Write private sums: readable by their owner alone, and marked as what they are."""
    container.place_file(path, packed_partial(embedding), mode=0o600)


def packed_partial(embedding: Embedding) -> bytes:
    """The file of private sums, marked as what it is."""
    meta = {
        "PRIVATE": "exact sums over sensitive rows, not sanitized: keep secret, delete after release",
        "design": embedding.design.to_dict(),
        "rows": embedding.rows,
        "shards": list(embedding.shards),
        "types": dict(embedding.types),
        "counted": dict(embedding.counted),
        "filtered": embedding.filtered,
    }
    sums = {f"sums.{family}": array for family, array in embedding.sums.items()}
    return container.pack(PARTIAL, meta, {**embedding.design.arrays(), **sums})[0]


def load_partial(path: str | Path) -> Embedding:
    """Read private sums back."""
    meta, arrays = container.read(path, PARTIAL)
    try:
        sums = {name.removeprefix("sums."): array for name, array in arrays.items() if name.startswith("sums.")}
        design = load_design(meta["design"], {name: array for name, array in arrays.items() if not name.startswith("sums.")})
        fits = design.fits(sums)
        held = int(meta["rows"]), tuple(meta["shards"]), dict(meta["types"]), dict(meta.get("counted", {}))
        embedding = Embedding(design, sums, *held, bool(meta.get("filtered", False)))
        fits = fits and embedding.rows >= 0 and design.codec.stores(embedding.types)
    except container.UNFIT:
        fits = False
    if not fits:
        raise FileError(f"{path}: is damaged: its sums do not fit its design")
    return embedding
