"""What every reader offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from dpearl.schema import Schema


class Source(Protocol):
    """Something with named, typed columns whose rows can be read again and again.

    `pieces` are parts that another process can read by itself; there are none where rows would have to travel.
    `placed` says whether every row keeps its place from one reading to the next, whatever other rows there are.
    """

    @property
    def where(self) -> str: ...
    @property
    def types(self) -> dict[str, pa.DataType]: ...
    @property
    def suggested(self) -> dict[str, pa.DataType]: ...
    @property
    def guessed(self) -> Mapping[str, str]: ...
    @property
    def typed(self) -> bool: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def placed(self) -> bool: ...
    @property
    def pieces(self) -> Sequence[Source]: ...
    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]: ...
