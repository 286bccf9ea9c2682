"""Tables in memory come back as the same kind of table in the same types, and types tell nothing of cells."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpearl.codec import Codec
from dpearl.errors import DataError
from dpearl.read import batches, open_sources, storage_names
from dpearl.read.memory import like
from dpearl.schema import Boolean, Category, Column, Datetime, Number, Schema

AGE, SIZE = Number(lower=0, upper=120, step=1, missing=True), Number(lower=0, upper=2)
COLOUR, CODE, FLAG = Category(levels=("red", "blue")), Category(levels=("0", "1", "2")), Boolean(missing=True)
WHEN = Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1), step="1h")


def schema(**columns: Column) -> Schema:
    return Schema(columns={**columns, "filler": Boolean()})


def there_and_back(data: Any, declared: Schema) -> Any:
    """What a release and a sample do to a table: encode, name the types, decode, give back the same kind."""
    sources, codec = open_sources(data), Codec(declared)
    (table,) = batches(sources, declared, 100)
    return like(codec.decode(codec.encode(table), storage_names(sources, declared)), data)


def pandas_frame() -> pd.DataFrame:
    moments = pd.to_datetime(pd.Series([datetime(2020, 5, 1), None, datetime(2020, 6, 1, 12)]))
    return pd.DataFrame(
        {
            "age": [30, 41, 0],
            "size": [0.0, 2.0, 1e-9],
            "age_nullable": pd.array([1, None, 3], "Int64"),
            "size_nullable": pd.array([0.0, None, 2.0], "Float32"),
            "flag": [True, False, True],
            "flag_nullable": pd.array([True, None, False], "boolean"),
            "colour": ["red", "blue", None],
            "colour_string": pd.array(["red", None, "blue"], "string"),
            "colour_category": pd.Categorical(["red", "blue", None]),
            "code": [0, 1, 2],
            "code_category": pd.Categorical([0, 1, 2]),
            "when": moments,
            "when_zoned": moments.dt.tz_localize("Europe/Berlin"),
            "filler": [True, True, False],
        }
    )


PANDAS_SCHEMA = schema(
    age=AGE,
    age_nullable=AGE,
    size=SIZE,
    size_nullable=SIZE,
    flag=FLAG,
    flag_nullable=FLAG,
    colour=COLOUR,
    colour_string=COLOUR,
    colour_category=COLOUR,
    code=CODE,
    code_category=CODE,
    when=WHEN,
    when_zoned=WHEN,
)


def test_pandas_comes_back_as_pandas_with_its_types_and_values() -> None:
    frame = pandas_frame()
    made = there_and_back(frame, PANDAS_SCHEMA)[frame.columns]
    pd.testing.assert_frame_equal(made, frame.assign(size=[0.0, 2.0, 0.0]), check_exact=False, atol=1e-4, check_categorical=False)
    for name in ("colour_category", "code_category"):
        assert set(made[name].cat.categories) == set(frame[name].cat.categories)
        assert made[name].cat.categories.dtype == frame[name].cat.categories.dtype


def test_polars_comes_back_as_polars_with_its_types_and_values() -> None:
    frame = pl.DataFrame(
        {
            "age": pl.Series([30, None, 0], dtype=pl.Int8),
            "size": pl.Series([0.0, 2.0, None], dtype=pl.Float32),
            "colour": ["red", None, "blue"],
            "kind": pl.Series(["red", None, "blue"], dtype=pl.Categorical),
            "code": pl.Series([0, 1, None], dtype=pl.UInt16),
            "when": pl.Series([datetime(2020, 5, 1, 3), None, datetime(2020, 5, 1)], dtype=pl.Datetime("ms", "UTC")),
            "day": [date(2020, 5, 1), None, date(2020, 12, 31)],
            "filler": [True, None, False],
        }
    )
    declared = schema(age=AGE, size=SIZE, colour=COLOUR, kind=COLOUR, code=CODE, when=WHEN, day=WHEN)
    made = there_and_back(frame, declared)
    assert isinstance(made, pl.DataFrame)
    assert made.select(frame.columns).equals(frame)
    assert made.select(frame.columns).schema == frame.schema


@pytest.mark.parametrize("kind", [pa.table, pa.record_batch])
def test_arrow_comes_back_as_arrow_in_its_types(kind: Any) -> None:
    columns = {
        "age": pa.array([30, None, 0], pa.uint8()),
        "size": pa.array([0.0, 2.0, None], pa.float32()),
        "colour": pa.array(["red", None, "blue"], pa.large_string()),
        "kind": pa.array(["red", None, "blue"]).dictionary_encode(),
        "code": pa.array([0, 1, None], pa.int16()),
        "when": pa.array([datetime(2020, 5, 1), None, None], pa.timestamp("s", "Asia/Tokyo")),
        "filler": pa.array([True, None, False]),
    }
    declared = schema(age=AGE, size=SIZE, colour=COLOUR, kind=COLOUR, code=CODE, when=WHEN)
    made = there_and_back(kind(columns), declared)
    assert made.select(list(columns)).equals(pa.table(columns))


@pytest.mark.parametrize(
    ("column", "whole", "holed"),
    [
        (AGE, [1, 2, 3], [1, None, 3]),
        (AGE, [1.0, 2.0, 3.0], [1, 2, 3]),
        (CODE, [0, 1, 2], [0, None, 2]),
        (Category(levels=(0, 1, 2)), [0, 1, 2], [0, None, 2]),
        (Category(levels=(0.5, 1.5)), [0.5, 1.5, 0.5], [0.5, None, 0.5]),
        (Category(levels=(1, 2), other="rest"), [1, 2, 3], [1, None, 3]),
        (Category(levels=(True, False)), [True, False, True], [True, None, True]),
        (FLAG, [1, 0, 1], [1, None, 1]),
        (FLAG, [True, False, True], [True, None, True]),
    ],
)
@pytest.mark.parametrize("kind", [pd.DataFrame, dict])
def test_one_missing_cell_does_not_show_in_the_types(column: Column, whole: list[Any], holed: list[Any], kind: Any) -> None:
    declared = schema(x=column)
    tables = [kind({"x": np.array(pd.Series(cells)), "filler": np.array([True] * 3)}) for cells in (whole, holed)]
    names = [storage_names(open_sources(table), declared) for table in tables]
    assert names[0] == names[1]
    for table in tables:
        (read,) = batches(open_sources(table), declared, 9)
        assert len(Codec(declared).encode(read)["x"]) == 3


@pytest.mark.parametrize("foreign", ["blue", 7, None, 2.5, b"\xff", ("a",), date(2020, 1, 1)])
def test_one_foreign_cell_among_objects_does_not_show_in_the_types(foreign: Any) -> None:
    declared = schema(x=COLOUR)
    frame = pd.DataFrame({"x": pd.Series(["red", foreign, 3], dtype=object), "filler": [True] * 3})
    assert "x" not in storage_names(open_sources(frame), declared)
    (table,) = batches(open_sources(frame), declared, 9)
    assert Codec(declared).encode(table)["x"][0] == 0


def test_names_that_are_no_text_are_read_as_text_and_come_back_as_they_were() -> None:
    frame = pd.DataFrame({2020: [1, 2], "filler": [True, False]})
    made = there_and_back(frame, schema(**{"2020": AGE}))
    assert list(made.columns) == [2020, "filler"]
    assert made[2020].tolist() == [1, 2]


def test_a_mapping_of_arrays_is_a_table() -> None:
    made = there_and_back({"age": np.array([3, 4]), "filler": np.array([True, False])}, schema(age=AGE))
    assert made.to_pydict() == {"age": [3, 4], "filler": [True, False]}


@pytest.mark.parametrize("data", [3, None, [1, 2], {"a": [1], "b": [1, 2]}, {}])
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="table"):
        open_sources(data)
