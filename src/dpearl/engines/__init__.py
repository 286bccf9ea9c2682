"""Who runs the map and the additions: one machine, a Dask cluster, a Spark session. Private.

An engine is a short file. What it does with rows is in `sums` (map a batch to sums, add sums) and `persons` (at most m rows
of a person), so all of them give the same integers. Only `local` is imported with dpearl; the others bring their own libraries.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from dpearl.design import Design
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
