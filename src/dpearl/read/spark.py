"""A table of Spark's: its columns and types. Its rows stay in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dpearl.errors import UsageError
from dpearl.read.tables import unique
from dpearl.schema import Schema


@dataclass(frozen=True)
class SparkSource:
    """A DataFrame of pyspark."""

    frame: Any
    where = "Spark table"
    typed = True
    placed = False
    pieces = ()
    rows = None
    guessed: ClassVar[dict[str, str]] = {}

    @property
    def types(self) -> dict[str, pa.DataType]:
        from pyspark.sql.pandas.types import to_arrow_schema

        stored = to_arrow_schema(self.frame.schema)
        return dict(zip(unique(stored.names, self.where), stored.types, strict=True))

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        return self.types

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        raise UsageError("a Spark table is summed where it is; use the Spark engine")
