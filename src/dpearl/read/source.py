"""What every reader offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from dpearl.schema import Schema


class Source(Protocol):
    """Something with named, typed columns whose rows can be read again and again."""

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
    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]: ...
