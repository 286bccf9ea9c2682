"""Cells ↔ codes: total, row-local, and inverse on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpearl.cells import MISSING_WORDS, to_storage
from dpearl.codec import TOP, Codec, ColumnCodec, check_storage, column_codec, storage_name
from dpearl.errors import DataError
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema
from strategies import BOOLEANS, COLUMNS, IMAGES, categories, datetimes, numbers

TABLED = numbers() | categories() | datetimes() | BOOLEANS
CELL_TEXTS = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([*MISSING_WORDS, " 1 ", "1e999", "-inf", "Infinity", "1e-999", "true", "No", "2020-02-30", "+1."]).map(
        str.encode
    ),
    st.sampled_from(["2020-01-31T25:00", "0001-01-01T00:00+23:59", "9999-12-31", "\u00a0x", "٣", "1\n"]).map(str.encode),
    st.floats().map(lambda value: repr(value).encode()),
    st.datetimes().map(lambda moment: moment.isoformat().encode()),
)
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
MOMENTS = [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("ns", "Asia/Kolkata"), pa.date64()]


def text_array(cells: Sequence[bytes | None], storage: pa.DataType) -> pa.Array:
    """Text whose bytes nobody checked, as Parquet may hold."""
    return pa.array(cells, pa.binary()).cast(pa.string(), safe=False).cast(storage)


@st.composite
def arrays(draw: st.DrawFn, column: Column) -> pa.Array:
    """Any cells in any storage that is accepted."""
    size = draw(st.integers(0, 6))

    def cells(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | values, min_size=size, max_size=size))

    whole = st.sampled_from([-(2**63), 2**63 - 1, 0, 1, -1]) | st.integers(-(2**63), 2**63 - 1)
    made = [
        *(pa.array(cells(st.integers(*_reach(kind))), kind) for kind in [draw(st.sampled_from(INTEGERS))]),
        pa.array(cells(st.floats()), pa.float64()),
        pa.array(cells(st.floats(width=32)), pa.float32()),
        pa.array([None if cell is None else np.float16(cell) for cell in cells(st.floats(width=16))], pa.float16()),
        pa.array(cells(st.decimals(-(10**9), 10**9, places=3)), pa.decimal128(20, 3)),
        pa.array(cells(st.booleans()), pa.bool_()),
        pa.array(cells(whole), pa.int64()).view(draw(st.sampled_from(MOMENTS))),
        pa.array(cells(st.integers(-(2**31), 2**31 - 1)), pa.int32()).view(pa.date32()),
        text_array(cells(CELL_TEXTS), draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))),
        text_array(cells(CELL_TEXTS), pa.string()).dictionary_encode(),
        pa.nulls(size),
    ]
    if isinstance(column, Image):
        made = [pa.array(cells(st.binary(min_size=column.pixels, max_size=column.pixels)), pa.binary(column.pixels))]
    codec = column_codec(column)
    return draw(st.sampled_from([array for array in made if pa.types.is_null(array.type) or codec.accepts(array.type)]))


def _reach(storage: pa.DataType) -> tuple[int, int]:
    bits = storage.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(storage) else (0, 2**bits - 1)


def last_code(column: Column) -> int:
    if isinstance(column, (Number, Datetime)):
        return column.points + (len(column.spikes) if isinstance(column, Number) else 0)
    return column_codec(column).levels - 1


def encode(column: Column, cells: Sequence[Any] | pa.Array) -> list[int]:
    array = cells if isinstance(cells, pa.Array) else pa.array(cells)
    codes: list[int] = column_codec(column).encode(array).tolist()
    return codes


def check_valid(column: Column, codec: ColumnCodec, codes: NDArray[Any]) -> None:
    if isinstance(column, Image):
        assert codes.shape[1] == column.pixels + 1
        assert set(codes[:, -1]) <= {0, 1}
    else:
        assert codes.dtype == np.int64
        assert ((codes >= 0) & (codes <= last_code(column))).all()
    assert (codec.coordinate(codes) <= codec.top).all()
    assert codec.coordinate(codes).shape == (len(codes), codec.coordinates)
    assert ((codec.level(codes) >= 0) & (codec.level(codes) < codec.levels)).all()


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_any_cells_give_valid_codes_that_depend_on_nothing_else(data: st.DataObject) -> None:
    column = data.draw(TABLED | IMAGES)
    codec = column_codec(column)
    cells = data.draw(arrays(column))
    codes = codec.encode(cells)
    check_valid(column, codec, codes)
    alone = [codec.encode(cells.slice(place, 1)) for place in range(len(cells))]
    assert np.array_equal(codes, np.concatenate(alone) if alone else codes)
    turned = [cells.slice(place, 1) for place in reversed(range(len(cells)))]
    assert np.array_equal(codes[::-1], codec.encode(pa.concat_arrays(turned)) if turned else codes)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_codes_survive_decoding_and_encoding(data: st.DataObject) -> None:
    column = data.draw(TABLED)
    codec = column_codec(column)
    last = last_code(column)
    drawn = data.draw(st.lists(st.integers(0, last) | st.integers(max(0, last - 6), last), max_size=8))
    codes = np.array(drawn, np.int64)
    cells = codec.decode(codes)
    again = codec.encode(cells)
    hidden = _hidden(column, cells, codes)
    assert again[~hidden].tolist() == codes[~hidden].tolist()
    assert codec.decode(again).equals(cells)
    assert cells.type == codec.natural


@pytest.mark.parametrize(
    "ends", [(9116115311696.0, 1.7976931348623035e308), (1320716.0, 9.999999999999344e305), (5e-324, 1e-300)]
)
def test_a_logarithm_reaches_to_the_ends_of_floats(ends: tuple[float, float]) -> None:
    codec = column_codec(Number(lower=ends[0], upper=ends[1], log=True))
    codes = np.array([0, 2**15, 2**16 - 1])
    cells = codec.decode(codes)
    assert codec.encode(cells).tolist() == codes.tolist()
    assert (cells[0].as_py(), cells[2].as_py()) == ends


def _hidden(column: Column, cells: pa.Array, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Codes that come back as another with the same value: a grid point under a spike, `other` without a name of its own."""
    if isinstance(column, Number):
        values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return np.isin(values, column.spikes) & (codes < column.points)
    if isinstance(column, Category):
        nameless = column.other is None or column.other.strip(" \t\n\r\v\f") in MISSING_WORDS
        return np.asarray((codes == len(column.levels)) & nameless, bool)
    return np.zeros(len(codes), bool)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.integers(0, 9), st.data())
def test_decimals_on_the_grid_come_back_to_the_last_digit(start: int, step: int, places: int, data: st.DataObject) -> None:
    unit = Fraction(1, 10**places)
    count = data.draw(st.integers(2, 10**6))
    lower, upper = float(start * unit), float((start + step * (count - 1)) * unit)
    column = Number(lower=lower, upper=upper, step=float(step * unit))
    assert column.points == count
    codes = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=9)))
    values = [float((start + step * int(code)) * unit) for code in codes]
    assert column_codec(column).decode(codes).to_pylist() == values
    assert encode(column, pa.array(values, pa.float64())) == codes.tolist()
    assert encode(column, [repr(value) for value in values]) == codes.tolist()
    assert encode(column, [Decimal(repr(value)) for value in values]) == codes.tolist()


def test_steps_of_any_size_keep_their_grid_apart() -> None:
    for lower, upper, step in [(0, 1e-16, 1e-18), (0, 1e300, 1e290), (-1e-300, 1e-300, 1e-305), (0.1, 1e12, 0.01)]:
        column = Number(lower=lower, upper=upper, step=step)
        codes = np.unique(np.linspace(0, column.points - 1, 99).astype(np.int64))
        assert encode(column, column_codec(column).decode(codes)) == codes.tolist()


@settings(max_examples=100, deadline=None)
@given(datetimes(), st.data())
def test_moments_on_the_grid_come_back_exactly(column: Datetime, data: st.DataObject) -> None:
    code = data.draw(st.integers(0, column.points - 1))
    moment = column.span[0] + code * column.step_us
    cells = column_codec(column).decode(np.array([code]))
    assert cells.cast(pa.int64()).to_pylist() == [moment]
    text = cells.cast(pa.string()).to_pylist()
    assert encode(column, text) == [code] or not 0 < moment // (366 * 86400 * 10**6) + 1969 < 9998


@pytest.mark.parametrize(
    "column", [Number(lower=0, upper=9, step=1), Number(lower=1, upper=9, log=True), Number(lower=0, upper=9)]
)
def test_what_is_no_number_is_missing_and_what_is_beyond_is_the_bound(column: Number) -> None:
    last, missing = column.points - 1, column.points
    assert encode(column, [float("nan"), None, float("inf"), -float("inf"), 1e300]) == [missing, missing, last, 0, last]
    words = ["1e999", "-1e999", "inf", "-Infinity", "ten", "", "NA", "0x10", "1,5"]
    assert encode(column, words) == [last, 0, last, 0, *[missing] * 5]
    assert encode(column, pa.array([2**64 - 1], pa.uint64())) == [last]
    assert encode(column, [-(2**63), 2**63 - 1]) == [0, last]


def test_spikes_are_levels_of_their_own_inside_and_outside_the_bounds() -> None:
    column = Number(lower=0, upper=10, step=1, spikes=(0, -1, 99.5))
    assert encode(column, [0.0, -1.0, 99.5, 99.0, 0.2]) == [12, 13, 14, 10, 0]
    codec = column_codec(column)
    assert codec.level(np.array([0, 10, 11, 12, 13, 14])).tolist() == [0, 0, 1, 2, 3, 4]
    assert codec.coordinate(np.array([0, 10, 11, 12, 13, 14]))[:, 0].tolist() == [0, 10, 0, 0, 0, 0]


def test_moments_beyond_the_bounds_stop_there_whatever_their_unit() -> None:
    column = Datetime(lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 11), step="1d")
    for storage in MOMENTS:
        extreme = pa.array([-(2**63), 2**63 - 1, None], pa.int64()).view(storage)
        assert encode(column, extreme) == [0, 10, 11]
    assert encode(column, pa.array([-(2**31), 2**31 - 1], pa.int32()).view(pa.date32())) == [0, 10]
    words = ["2020-01-02T11:59", "2020-01-02 12:00", "2020-01-03T01:00+02:00", "1066-10-14", "3000-01-01", "soon", "NaN"]
    assert encode(column, words) == [1, 2, 2, 0, 10, 11, 11]
    zoned = pa.array([datetime(2020, 1, 5) + timedelta(hours=1)], pa.timestamp("us", "Asia/Tokyo"))
    assert encode(column, zoned) == [4]


def test_a_level_matches_by_its_text_in_whatever_storage() -> None:
    named, numbered = Category(levels=("0", "1", "NA")), Category(levels=(0, 1, 2**62, 0.1, 1e-05, 1e15, True))
    for cells in (pa.array([0, 1, 7, None], pa.int8()), pa.array([0.0, 1.0, 7.5, np.nan]), pa.array([" 0", "1 ", "x", ""])):
        assert encode(named, cells) == [0, 1, 3, 4]
        assert encode(numbered, cells) == [0, 1, 7, 8]
    assert encode(named, ["NA", "N/A", "None", "nan", None]) == [2, 4, 4, 4, 4]
    assert (
        encode(numbered, pa.array([2**62, 1], pa.uint64())) == encode(numbered, [2**62, 1]) == encode(numbered, [str(2**62), "1"])
    )
    assert encode(numbered, [0.1, 1e-05, 1e15]) == encode(numbered, pa.array([0.1, 1e-05, 1e15], pa.float32())) == [3, 4, 5]
    assert encode(numbered, [True, False]) == [6, 7]
    assert encode(Category(levels=("1970-01-02", "x")), pa.array([1], pa.date32())) == [0]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=6, unique=True))
def test_declared_floats_are_found_in_columns_of_floats(cells: list[float]) -> None:
    assert encode(Category(levels=tuple(cells)), pa.array(cells, pa.float64())) == list(range(len(cells)))
    shortest = tuple(float(str(np.float32(cell))) for cell in cells)
    assert encode(Category(levels=shortest), pa.array(cells, pa.float32())) == list(range(len(cells)))


def test_booleans_are_read_in_many_spellings() -> None:
    assert encode(Boolean(), ["TRUE", " t", "Yes", "1", "false", "F", "no", "0", "maybe", None]) == [1, 1, 1, 1, 0, 0, 0, 0, 2, 2]
    assert encode(Boolean(), [1.0, 0.0, np.nan, 7.0]) == [1, 0, 2, 2]
    assert encode(Boolean(), [True, False, None]) == [1, 0, 2]


def test_natural_types_follow_the_declared_levels() -> None:
    assert column_codec(Category(levels=(0, 1))).decode(np.arange(4)).to_pylist() == [0, 1, None, None]
    assert column_codec(Category(levels=(0, 1), other="rest")).decode(np.arange(4)).to_pylist() == ["0", "1", "rest", None]
    assert column_codec(Category(levels=(True, False))).decode(np.arange(4)).to_pylist() == [True, False, None, None]
    assert column_codec(Category(levels=(2**70, 1))).decode(np.arange(3)).to_pylist() == [str(2**70), "1", None]
    assert column_codec(Number(lower=0, upper=9, step=3)).natural == pa.int64()
    assert column_codec(Number(lower=0, upper=9, step=3, spikes=(0.5,))).natural == pa.float64()


def test_pictures_are_the_same_bytes_whichever_way_they_are_stored() -> None:
    column, pixels = Image(height=2, width=3), np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    binary = pa.array([None if place == 1 else picture.tobytes() for place, picture in enumerate(pixels)], pa.binary(6))
    codes = column_codec(column).encode(binary)
    assert np.array_equal(codes[[0, 2, 3], :-1], pixels.reshape(4, 6)[[0, 2, 3]])
    assert codes[:, -1].tolist() == [0, 1, 0, 0]
    assert not codes[1, :-1].any()
    assert column_codec(column).decode(codes).equals(binary)
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(pixels)
    check_storage("table", "picture", column, tensor.type)
    assert np.array_equal(column_codec(column).encode(tensor.slice(2)), codes[2:])


@pytest.mark.parametrize(
    ("column", "storage"),
    [
        (Number(lower=0, upper=1), pa.bool_()),
        (Number(lower=0, upper=1), pa.list_(pa.int8())),
        (Boolean(), pa.timestamp("s")),
        (Category(levels=("a", "b")), pa.struct([("a", pa.int8())])),
        (Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1)), pa.int64()),
        (Image(height=2, width=2), pa.binary(5)),
        (Image(height=2, width=2), pa.fixed_shape_tensor(pa.uint8(), (2, 3))),
        (Image(height=2, width=2), pa.fixed_shape_tensor(pa.int64(), (2, 2))),
    ],
)
def test_storage_that_cannot_hold_the_kind_is_refused_before_a_row_is_read(column: Column, storage: pa.DataType) -> None:
    with pytest.raises(DataError, match=r"file.*'x'"):
        check_storage("file", "x", column, storage)


@pytest.mark.parametrize(
    "storage",
    [
        *(pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view()),
        *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())),
    ],
)
def test_rows_come_back_in_the_storage_they_came_in(storage: pa.DataType) -> None:
    schema = Schema(
        columns={"n": Number(lower=0, upper=9, step=1, spikes=(50,)), "c": Category(levels=("0", "7")), "b": Boolean()}
    )
    name = storage_name(schema.columns["c"], storage)
    assert name is not None
    codes = {"n": np.array([0, 9, 10, 11]), "c": np.array([0, 1, 3, 1]), "b": np.array([0, 1, 2, 1])}
    table = Codec(schema).decode(codes, {"n": name, "c": name})
    wanted = storage if not pa.types.is_dictionary(storage) else pa.dictionary(pa.int32(), storage.value_type)
    assert [table.schema.field(column).type for column in "ncb"] == [wanted, wanted, pa.bool_()]
    again = Codec(schema).encode(table)
    assert {key: value.tolist() for key, value in again.items()} == {key: value.tolist() for key, value in codes.items()}


@pytest.mark.parametrize("storage", [*MOMENTS, pa.date32()])
def test_moments_come_back_in_the_unit_they_came_in(storage: pa.DataType) -> None:
    column = Datetime(lower=datetime(1960, 1, 1), upper=datetime(2020, 1, 1), step="1s")
    name = storage_name(column, storage)
    assert name is not None
    made = to_storage(column_codec(column).decode(np.array([86400 * 3, column.points])), name)
    assert made.type == storage
    assert encode(column, made) == [86400 * 3, column.points]


@pytest.mark.parametrize(
    ("column", "storage"),
    [
        (Number(lower=0, upper=300, step=1), pa.int8()),
        (Number(lower=-1, upper=3, step=1), pa.uint8()),
        (Number(lower=0, upper=3, step=1, spikes=(999,)), pa.uint8()),
        (Category(levels=("1", "2"), other="rest"), pa.int64()),
        (Category(levels=("a", "b")), pa.int64()),
        (Datetime(lower=datetime(1200, 1, 1), upper=datetime(2020, 1, 1)), pa.timestamp("ns")),
        (Image(height=1, width=1), pa.binary(1)),
        (Boolean(), pa.null()),
    ],
)
def test_a_storage_too_small_for_the_schema_gives_way_to_the_natural_one(column: Column, storage: pa.DataType) -> None:
    assert storage_name(column, storage) is None


def test_continuous_numbers_are_rounded_into_whole_storage() -> None:
    column = Number(lower=0, upper=100)
    codes = column_codec(column).encode(pa.array(range(101)))
    assert to_storage(column_codec(column).decode(codes), "int8").to_pylist() == list(range(101))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), COLUMNS, min_size=2), st.data())
def test_a_row_is_its_columns_side_by_side(columns: dict[str, Column], data: st.DataObject) -> None:
    labels = [name for name, column in columns.items() if column.kind != "image"]
    codec = Codec(Schema(columns=columns, label=data.draw(st.none() | st.sampled_from(labels)) if labels else None))
    made = {name: data.draw(arrays(column)) for name, column in columns.items()}
    size = min(map(len, made.values()))
    codes = codec.encode(pa.table({name: cells.slice(0, size) for name, cells in made.items()}))
    if not all(isinstance(columns[name], Image) and len(cells) == 0 for name, cells in made.items()):
        rows = codec.rows(codes)
        assert rows.coordinates.shape == (size, len(codec.tops))
        assert (rows.coordinates <= codec.tops).all()
        assert (codec.tops <= TOP).all()
        assert (rows.levels < [column.levels for column in codec.features.values()]).all()
        assert ((rows.label >= 0) & (rows.label < codec.classes)).all()
