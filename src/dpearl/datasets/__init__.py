"""Data that the package carries: UCI Adult, CC BY 4.0 (ATTRIBUTION.md)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from dpearl.schema import Schema, load_schema

_HERE = Path(__file__).parent
ADULT_TRAIN = _HERE / "adult_train.parquet"
ADULT_TEST = _HERE / "adult_test.parquet"
ADULT_SCHEMA = _HERE / "adult.toml"


def adult() -> pa.Table:
    """The 32,561 training rows."""
    return parquet.read_table(ADULT_TRAIN)


def adult_test() -> pa.Table:
    """The 16,281 test rows."""
    return parquet.read_table(ADULT_TEST)


def adult_schema() -> Schema:
    """Its declared schema."""
    return load_schema(ADULT_SCHEMA)
