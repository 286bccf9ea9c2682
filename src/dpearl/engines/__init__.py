"""Who runs the map and the additions: one machine, a Dask cluster, a Spark session. Private.

An engine is a short file. What it does with rows is in `sums` (map a batch to sums, add sums) and `persons` (at most m rows
of a person), so all of them give the same integers. Dask and pyspark are imported when they are used.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from dpearl.design import Design
from dpearl.engines.dask import Dask
from dpearl.engines.local import MEGABYTES, Local
from dpearl.engines.spark import Spark
from dpearl.errors import UsageError
from dpearl.read import Reading
from dpearl.sums import Progress, Sums


class Engine(Protocol):
    """Sums a design over all rows of a reading; `placed` says whether it knows the place of a row among all."""

    @property
    def placed(self) -> bool: ...
    def total(self, reading: Reading, design: Design, progress: Progress | None = None) -> Sums: ...
    def close(self) -> None: ...


class EngineName(StrEnum):
    """The engines there are."""

    LOCAL = "local"
    DASK = "dask"
    SPARK = "spark"


def engine_named(name: EngineName, scheduler: str | None, threads: int | None, memory: int = MEGABYTES) -> Engine:
    """The engine of this name: `threads` are threads, workers or Spark's cores here, where no cluster is named."""
    if name is EngineName.DASK:
        return Dask(scheduler, threads)
    if name is EngineName.SPARK:
        return Spark(master=scheduler or (f"local[{threads}]" if threads else None))
    if scheduler is not None:
        raise UsageError("--scheduler names a cluster; add --engine dask or --engine spark")
    return Local(threads, memory)
