"""A Spark session: `mapInArrow` sums every partition, and sums are added in a tree.

Files are read by the executors, piece by piece, with the same readers as everywhere; a table of Spark's is read as Spark
stores it. A task that Spark runs again takes the place of its first run, so nothing counts twice.

Rows per person take a shuffle by person inside the cluster: of each row its codes, 8 bytes a column, and 32 bytes of hashes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from dpearl import persons
from dpearl.design import Design
from dpearl.embeddings.spread import CHUNK
from dpearl.errors import DataError, DpearlError, UsageError
from dpearl.read import Reading, Source
from dpearl.read.spark import SparkSource
from dpearl.release import this_version
from dpearl.sums import Progress, Sums, add, code_sums, nothing, table_sums

FAN = 8
"""Partitions whose sums one task of the tree adds."""
_ROUNDS = 4
"""Tasks for each core: few, as each costs a good part of a second to start; several, for cores to be done at one time."""
_CODED = "who binary, ticket binary, codes binary"
Batches = Iterable[pa.RecordBatch]
Map = Callable[[Batches], Iterator[pa.RecordBatch]]


class LostShard(Exception):
    """Raised where rows are read, and found again in what Spark reports."""


@dataclass(frozen=True)
class Spark:
    """A session that is there, or one at `master`, which ends when the engine is closed."""

    session: Any = None
    master: str | None = None
    placed = False

    @cached_property
    def active(self) -> Any:
        """The session, made when it is first needed."""
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise UsageError("the Spark engine needs pyspark and Java; pip install 'dpearl[spark]'") from None
        if self.session or SparkSession.getActiveSession():
            return self.session or SparkSession.getActiveSession()
        builder = SparkSession.builder.appName("dpearl").config("spark.ui.enabled", "false")
        if (self.master or "local").startswith("local"):
            builder = builder.config(map=dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1"))
            builder = builder.config("spark.sql.shuffle.partitions", FAN).config("spark.ui.showConsoleProgress", "false")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever python3 is
        try:
            started = builder.master(self.master or "local[*]").getOrCreate()
        except Exception as error:  # py4j and Spark raise what they like where Java or the master is missing
            name = type(error).__name__
            raise UsageError(f"no Spark session can be started ({name}); is Java there, and --scheduler right?") from None
        started.sparkContext.setLogLevel("OFF")
        vars(self)["started"] = True
        return started

    def close(self) -> None:
        """End the session if it was started here."""
        if vars(self).pop("started", False):
            self.active.stop()
            vars(self).pop("active")

    def total(self, reading: Reading, design: Design, progress: Progress | None = None) -> Sums:
        """The sums of all rows."""
        frame, partitions, tables = self._rows(reading)
        if not partitions:
            return nothing(design)
        version = this_version()
        if reading.schema.person is None:
            parts = frame.mapInArrow(lambda batches: _summed(tables(batches), design, version), "sums binary")
        else:
            parts = self._kept(frame, tables, design, version)
            partitions = int(self.active.conf.get("spark.sql.shuffle.partitions"))
        sums = self._added(parts, partitions, design)
        if progress:
            progress(int(sums[0]))
        return sums

    def _rows(self, reading: Reading) -> tuple[Any, int, Callable[[Batches], Iterator[pa.Table]]]:
        """A frame, its partitions, and how a partition becomes tables: pieces of files by their numbers, or rows."""
        shared = reading.within()  # sources stay: a frame cannot travel
        if len(reading.sources) == 1 and isinstance(source := reading.sources[0], SparkSource):
            frame = source.frame.select(*(source.frame[f"`{name}`"] for name in reading.schema.reads))
            return frame, frame.rdd.getNumPartitions(), lambda batches: _cast(batches, shared)
        pieces = reading.pieces
        partitions = min(len(pieces), _ROUNDS * int(self.active.sparkContext.defaultParallelism))
        return (
            self.active.range(0, len(pieces), 1, max(partitions, 1)),
            partitions,
            lambda batches: _read(batches, pieces, shared),
        )

    def _kept(self, frame: Any, tables: Callable[[Batches], Iterator[pa.Table]], design: Design, version: str) -> Any:
        """Sums of the rows that persons keep: the smallest tickets of each."""
        from pyspark.sql import Window
        from pyspark.sql.functions import col, row_number

        coded = frame.mapInArrow(lambda batches: _coded(tables(batches), design, version), _CODED)
        ranked = coded.withColumn("place", row_number().over(Window.partitionBy("who").orderBy("ticket")))
        kept = ranked.where(col("place") <= design.schema.rows_per_person).select("codes")
        return kept.mapInArrow(lambda batches: _summed_codes(batches, design), "sums binary")

    def _added(self, parts: Any, partitions: int, design: Design) -> Sums:
        while partitions > FAN:
            partitions = -(-partitions // FAN)
            parts = parts.repartition(partitions).mapInArrow(_joined, "sums binary")
        try:
            found = [np.frombuffer(row["sums"], np.int64) for row in parts.collect()]
        except Exception as error:  # whatever Spark raises; its text may hold rows, so only our own line is shown
            told, name = re.search(r"LostShard: (.*)", str(error)), type(error).__name__
            raise DataError(told[1] if told else f"Spark could not finish ({name}); nothing was released") from None
        return reduce(add, found, nothing(design))


def _read(batches: Batches, pieces: list[Source], shared: Reading) -> Iterator[pa.Table]:
    """The tables of the pieces that a partition names."""
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        try:
            yield from shared.within(pieces[number]).tables(CHUNK)
        except DpearlError as error:
            raise LostShard(str(error)) from None
        except Exception as error:
            name = type(error).__name__
            raise LostShard(f"{pieces[number].where}: this shard is lost ({name}); nothing was released") from None


def _cast(batches: Batches, reading: Reading) -> Iterator[pa.Table]:
    for batch in batches:
        yield pa.Table.from_batches([reading.cast(batch, "Spark table")])


def _summed(tables: Iterable[pa.Table], design: Design, version: str) -> Iterator[pa.RecordBatch]:
    _same(version)
    with threadpool_limits(1):
        yield _row(reduce(add, (table_sums(table, design) for table in tables), nothing(design)))


def _coded(tables: Iterable[pa.Table], design: Design, version: str) -> Iterator[pa.RecordBatch]:
    """Person, ticket and codes of every row that names somebody."""
    _same(version)
    for table in tables:
        codes = design.codec.encode(table)
        tickets = persons.hashes(table, design.codec, codes)
        found = [(ticket, row) for ticket, row in zip(tickets, persons.packed(codes), strict=True) if ticket]
        columns = [[ticket[:16] for ticket, _ in found], [ticket[16:] for ticket, _ in found], [row for _, row in found]]
        yield pa.RecordBatch.from_arrays([pa.array(column, pa.binary()) for column in columns], ["who", "ticket", "codes"])


def _summed_codes(batches: Batches, design: Design) -> Iterator[pa.RecordBatch]:
    none = design.codec.encode(pa.table({name: pa.nulls(0, pa.string()) for name in design.schema.reads}))
    with threadpool_limits(1):
        rows = (persons.unpacked(batch.column(0).to_pylist(), none) for batch in batches)
        yield _row(reduce(add, (code_sums(codes, design) for codes in rows), nothing(design)))


def _joined(batches: Batches) -> Iterator[pa.RecordBatch]:
    found = [np.frombuffer(sums, np.int64) for batch in batches for sums in batch.column(0).to_pylist()]
    if found:
        yield _row(reduce(add, found))


def _row(sums: Sums) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([sums.tobytes()], pa.binary())], ["sums"])


def _same(version: str) -> None:
    if this_version() != version:
        raise LostShard(f"an executor has dpearl {this_version()}, the driver {version}; install one version everywhere")
