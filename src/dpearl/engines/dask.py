"""A Dask cluster: every worker reads its own pieces of the files, and int64 sums travel, never rows.

A task's result hangs on its piece alone, and the tree of additions has every piece as a leaf once. A task that is run again,
because its worker died or its result was lost, therefore counts nothing twice and leaves nothing out.

Rows per person take a shuffle: ballots, 40 bytes for each row that may count, go to the bucket of their person, and those
that were kept go back to the worker that reads the piece. Rows are read twice, and still none of them travels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import getitem
from typing import Any

import numpy as np

from dpearl import persons
from dpearl.design import Design
from dpearl.embeddings.spread import CHUNK
from dpearl.errors import DataError, DpearlError, UsageError
from dpearl.persons import Ballots
from dpearl.read import Reading, Source
from dpearl.release import this_version
from dpearl.sums import Progress, Sums, add, code_sums, nothing, table_sums

Shared = tuple[Reading, Design]
FAN = 8
"""Sums that one task of the tree adds."""
_BUCKETS = 16
_BATCHES = 2**32
"""More batches than any piece has: a batch's number is its piece's times this, and its own."""


@dataclass(frozen=True)
class Dask:
    """A cluster that is there, at `scheduler`, or one of `workers` processes on this machine."""

    scheduler: str | None = None
    workers: int | None = None
    placed = False

    @cached_property
    def client(self) -> Any:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise UsageError("the Dask engine needs dask and distributed; pip install 'dpearl[dask]'") from None
        if self.scheduler is None:
            workers = self.workers or os.cpu_count() or 1
            return Client(LocalCluster(workers, threads_per_worker=1, dashboard_address=None))  # type: ignore[no-untyped-call]
        try:
            return Client(self.scheduler, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError):
            raise UsageError(f"{self.scheduler}: no Dask scheduler answers there; mend --scheduler, or start one") from None

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if "client" in vars(self):
            cluster = self.client.cluster
            self.client.close()
            if cluster is not None:
                cluster.close()

    def total(self, reading: Reading, design: Design, progress: Progress | None = None) -> Sums:
        """The sums of all rows. No piece, no rows."""
        pieces = reading.pieces
        if not pieces:
            return nothing(design)
        shared = self._submit(_shared, reading.within(), design, this_version())
        parts = (
            [self._submit(_sum, piece, shared) for piece in pieces]
            if reading.schema.person is None
            else self._sums_of_kept(pieces, shared, reading.schema.rows_per_person)
        )
        total = self._tree(_added, parts)
        return self._watched(total, parts, pieces, progress)

    def _sums_of_kept(self, pieces: Sequence[Source], shared: Any, most: int) -> list[Any]:
        """The shuffle by person: ballots to their buckets, and what was kept back to its piece."""
        count = min(len(pieces), _BUCKETS)
        cast = [self._submit(_cast, piece, shared, number, count) for number, piece in enumerate(pieces)]
        winners = [
            self._tree(_kept, [self._submit(getitem, ballots, bucket) for ballots in cast], most) for bucket in range(count)
        ]
        return [
            self._submit(_sum_kept, piece, shared, number, [self._submit(_of_piece, bucket, number) for bucket in winners])
            for number, piece in enumerate(pieces)
        ]

    def _tree(self, join: Callable[..., Any], parts: Sequence[Any], *more: Any) -> Any:
        """Join results by the few until one is left."""
        while True:
            parts = [self._submit(join, parts[start : start + FAN], *more) for start in range(0, len(parts), FAN)]
            if len(parts) == 1:
                return parts[0]

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """A task of its own: results are never taken for those of another release's tasks."""
        return self.client.submit(work, *arguments, pure=False)

    def _watched(self, total: Any, parts: list[Any], pieces: Sequence[Source], progress: Progress | None) -> Sums:
        """The result, or which piece of the data was lost, and why."""
        from distributed import as_completed

        names = {part.key: piece for part, piece in zip(parts, pieces, strict=True)}
        for done in as_completed(parts, self.client.loop):  # type: ignore[no-untyped-call]
            if done.status != "finished":
                raise _lost(done.exception(), names[done.key])
            if progress:
                progress(names[done.key].rows or 0)
        sums: Sums = total.result()
        return sums


def _lost(error: BaseException, piece: Source) -> DpearlError:
    if isinstance(error, DpearlError):
        return error
    name = type(error).__name__
    told = "workers died while they read it" if name == "KilledWorker" else f"its task failed ({name})"
    return DataError(f"{piece.where}: this shard is lost, {told}; nothing was released; see to the workers and run again")


def _shared(reading: Reading, design: Design, version: str) -> Shared:
    """What every piece is read and summed by, on a worker that computes as the owner would."""
    if this_version() != version:
        raise UsageError(f"a worker has dpearl {this_version()}, this machine {version}; install one version everywhere")
    return reading, design


def _sum(piece: Source, shared: Shared) -> Sums:
    reading, design = shared
    return reduce(add, (table_sums(table, design) for table in reading.within(piece).tables(CHUNK)), nothing(design))


def _added(parts: Sequence[Sums]) -> Sums:
    return reduce(add, parts)


def _cast(piece: Source, shared: Shared, number: int, buckets: int) -> list[Ballots]:
    """A piece's ballots by bucket; nobody needs to send more than may be kept."""
    reading, design = shared
    numbered = enumerate(reading.within(piece).tables(CHUNK), start=number * _BATCHES)
    ballots = [persons.cast(table, design.codec, batch) for batch, table in numbered]
    joined = np.concatenate([np.empty((0, persons.WORDS), np.uint64), *ballots])
    return persons.buckets(persons.keep(joined, reading.schema.rows_per_person), buckets)


def _kept(ballots: Sequence[Ballots], most: int) -> Ballots:
    return persons.keep(np.concatenate(ballots), most)


def _of_piece(ballots: Ballots, number: int) -> Ballots:
    mine: Ballots = ballots[ballots[:, -1] // np.uint64(_BATCHES) == number]
    return mine


def _sum_kept(piece: Source, shared: Shared, number: int, ballots: Sequence[Ballots]) -> Sums:
    reading, design = shared
    mine, sums = np.concatenate(ballots), nothing(design)
    for batch, table in enumerate(reading.within(piece).tables(CHUNK), start=number * _BATCHES):
        sums = add(sums, code_sums(persons.kept(table, design.codec, mine[mine[:, -1] == batch]), design))
    return sums
