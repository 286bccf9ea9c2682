"""A Dask cluster: every worker reads its own pieces of the files, and int64 sums travel, never rows.

A task's result hangs on its piece alone, and the tree of additions has every piece as a leaf once. A task that is run again,
because its worker died or its result was lost, therefore counts nothing twice and leaves nothing out.

Rows per person take a shuffle: ballots, 40 bytes for each row that may count, go to the bucket of their person, and those
that were kept go back to the worker that reads the piece. Rows are read twice, and still none of them travels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from logging import CRITICAL
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
_AGAIN = "nothing was released, see to the workers and run again"
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}
"""For a cluster that is started here: no profile, few ticks, and memory that is kept from batch to batch. Dask's own settings
make workers give memory back at once, and asking for it again costs a fifth of the CPU of a sum."""
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
        """The connection to the cluster, made when it is first needed."""
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise UsageError("the Dask engine needs dask and distributed; pip install 'dpearl[dask]'") from None
        if self.scheduler is None:
            alone: dict[str, Any] = {
                "threads_per_worker": 1,
                "dashboard_address": "127.0.0.1:0",
                "memory_limit": None,
                "silence_logs": CRITICAL,
            }
            with dask.config.set(_QUIET):
                return Client(LocalCluster(self.workers or os.cpu_count() or 1, **alone))  # type: ignore[no-untyped-call]
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
        bounded, most = reading.schema.person is not None, reading.schema.rows_per_person
        cast, won = self._shuffled(pieces, shared, most) if bounded else ([], [None] * len(pieces))
        parts = [self._submit(_sum, *task, shared) for task in zip(pieces, range(len(pieces)), won, strict=True)]
        names = {key: piece for keys in (cast, [part.key for part in parts]) for key, piece in zip(keys, pieces, strict=False)}
        return self._watched(self._tree(_added, parts), parts, names, progress)

    def _shuffled(self, pieces: Sequence[Source], shared: Any, most: int) -> tuple[list[str], list[Any]]:
        """The shuffle by person: ballots go to their buckets, and those that won, by bucket, back to each piece."""
        count = min(len(pieces), _BUCKETS)
        cast = [self._submit(_cast, piece, number, shared, count) for number, piece in enumerate(pieces)]
        winners = [
            self._tree(_kept, [self._submit(getitem, ballots, bucket) for ballots in cast], most) for bucket in range(count)
        ]
        back = [[self._submit(_of_piece, bucket, number) for bucket in winners] for number in range(len(pieces))]
        return [ballots.key for ballots in cast], back

    def _tree(self, join: Callable[..., Any], parts: Sequence[Any], *more: Any) -> Any:
        """Join results by the few until one is left."""
        while True:
            parts = [self._submit(join, parts[start : start + FAN], *more) for start in range(0, len(parts), FAN)]
            if len(parts) == 1:
                return parts[0]

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """A task of its own: results are never taken for those of another release's tasks."""
        return self.client.submit(work, *arguments, pure=False)

    def _watched(self, total: Any, parts: list[Any], names: dict[str, Source], progress: Progress | None) -> Sums:
        """The result, or what was lost, and why; sums that were added are let go."""
        from distributed import as_completed

        waiting = as_completed(parts, self.client.loop)  # type: ignore[no-untyped-call]
        parts.clear()
        for done in waiting:
            if done.status != "finished":
                raise _lost(done.exception(), names)
            if progress:
                progress(names[done.key].rows or 0)
        sums: Sums = total.result()
        return sums


def _lost(error: BaseException, names: dict[str, Source]) -> DpearlError:
    """What to tell of a task that failed for good: its own words, or whose workers died, or that workers cannot work."""
    if isinstance(error, DpearlError):
        return error
    if (killed := names.get(getattr(error, "task", ""))) is not None:
        return DataError(f"{killed.where}: this shard is lost, workers died while they read it; {_AGAIN}")
    return UsageError(f"workers failed ({type(error).__name__}); have they the files and this version of dpearl? {_AGAIN}")


@contextmanager
def _naming(piece: Source) -> Iterator[None]:
    """Whatever goes wrong with a piece is told with its name, and without a cell."""
    try:
        yield
    except DpearlError:
        raise
    except Exception as error:
        raise DataError(f"{piece.where}: this shard is lost, its task failed ({type(error).__name__}); {_AGAIN}") from None


def _shared(reading: Reading, design: Design, version: str) -> Shared:
    """What every piece is read and summed by, on a worker that computes as the owner would."""
    if this_version() != version:
        raise UsageError(f"a worker has dpearl {this_version()}, this machine {version}; install one version everywhere")
    return reading, design


def _sum(piece: Source, number: int, won: Sequence[Ballots] | None, shared: Shared) -> Sums:
    """The sums of a piece; where persons are bounded, of the rows whose ballots won."""
    (reading, design), ballots = shared, None if won is None else np.concatenate(won)
    sums = nothing(design)
    with _naming(piece):
        for batch, table in enumerate(reading.within(piece).tables(CHUNK), start=number * _BATCHES):
            if ballots is None:
                sums = add(sums, table_sums(table, design))
            else:
                sums = add(sums, code_sums(persons.kept(table, design.codec, ballots[ballots[:, -1] == batch]), design))
    return sums


def _added(parts: Sequence[Sums]) -> Sums:
    return reduce(add, parts)


def _cast(piece: Source, number: int, shared: Shared, buckets: int) -> list[Ballots]:
    """A piece's ballots by bucket; nobody needs to send more than may be kept."""
    reading, design = shared
    with _naming(piece):
        numbered = enumerate(reading.within(piece).tables(CHUNK), start=number * _BATCHES)
        ballots = [persons.cast(table, design.codec, batch) for batch, table in numbered]
    joined = np.concatenate([np.empty((0, persons.WORDS), np.uint64), *ballots])
    return persons.buckets(persons.keep(joined, reading.schema.rows_per_person), buckets)


def _kept(ballots: Sequence[Ballots], most: int) -> Ballots:
    return persons.keep(np.concatenate(ballots), most)


def _of_piece(ballots: Ballots, number: int) -> Ballots:
    mine: Ballots = ballots[ballots[:, -1] // np.uint64(_BATCHES) == number]
    return mine
