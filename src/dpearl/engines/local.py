"""One machine: threads over batches, out of core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from dpearl import persons
from dpearl.codec import Codec
from dpearl.design import Design
from dpearl.embeddings.spread import CHUNK
from dpearl.read import Reading
from dpearl.sums import Progress, Sums, add, code_sums, nothing, table_sums

T = TypeVar("T")
MEGABYTES = 512
_WORKING = 16
"""Bytes that coding and summing a batch need for each byte of it."""
_COMPACT = 2**20
"""Ballots after which those that cannot win are dropped, at least."""


@dataclass(frozen=True)
class Local:
    """Threads on this machine. `memory` bounds, in megabytes, what batches in work take together; one batch always goes on."""

    threads: int | None = None
    memory: int = MEGABYTES
    batch_rows: int = CHUNK
    placed = True

    def total(self, reading: Reading, design: Design, progress: Progress | None = None) -> Sums:
        """The sums of all rows; with a person column, rows are read twice: who keeps which, then the sums."""
        sums, work = nothing(design), partial(_sum, design=design)
        if reading.schema.person is not None:
            work = partial(_sum_kept, design=design, ballots=self._ballots(reading, design.codec))
        for rows, part in self._map(work, enumerate(reading.tables(self.batch_rows))):
            sums = add(sums, part)
            if progress:
                progress(rows)
        return sums

    def close(self) -> None:
        """Nothing is held."""

    def _ballots(self, reading: Reading, codec: Codec) -> persons.Ballots:
        """The ballots that are kept, by batch: 40 bytes for each row that will count."""
        most, held = reading.schema.rows_per_person, np.empty((0, persons.WORDS), np.uint64)
        fresh: list[persons.Ballots] = []
        for ballots in self._map(partial(_cast, codec=codec), enumerate(reading.tables(self.batch_rows))):
            fresh.append(ballots)
            if sum(map(len, fresh)) > max(_COMPACT, len(held)):
                held, fresh = persons.keep(np.concatenate([held, *fresh]), most), []
        held = persons.keep(np.concatenate([held, *fresh]), most)
        return held[np.argsort(held[:, -1], kind="stable")]

    def _map(self, work: Callable[[tuple[int, pa.Table]], T], tables: Iterable[tuple[int, pa.Table]]) -> Iterator[T]:
        """Map over threads, in order; a fast reader cannot fill memory."""
        workers = self.threads or os.cpu_count() or 1
        room = self.memory * 2**20 // _WORKING
        pending: deque[tuple[int, Future[T]]] = deque()
        with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
            for number, table in tables:
                while pending and (len(pending) >= 2 * workers or sum(size for size, _ in pending) + table.nbytes > room):
                    yield pending.popleft()[1].result()
                pending.append((table.nbytes, pool.submit(work, (number, table))))
            for _, future in pending:
                yield future.result()


def _sum(batch: tuple[int, pa.Table], design: Design) -> tuple[int, Sums]:
    return len(batch[1]), table_sums(batch[1], design)


def _sum_kept(batch: tuple[int, pa.Table], design: Design, ballots: persons.Ballots) -> tuple[int, Sums]:
    number, table = batch
    start, stop = np.searchsorted(ballots[:, -1], np.array([number, number + 1], np.uint64))
    return len(table), code_sums(persons.kept(table, design.codec, ballots[start:stop]), design)


def _cast(batch: tuple[int, pa.Table], codec: Codec) -> persons.Ballots:
    return persons.cast(batch[1], codec, batch[0])
