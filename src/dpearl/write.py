"""Synthetic rows as files: CSV, Parquet, .npz, and a PNG grid for pictures. Whole or not at all, never over another file."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image as Pictures

from dpearl import container
from dpearl.errors import UsageError
from dpearl.schema import Category, Datetime, Declaration, Image, Schema

Tables = Iterator[pa.Table]
"""Rows in parts, all of the same types; the first part may be empty."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

MAX_GRID = 10_000
"""Pictures in one PNG."""


def check_rows(rows: int) -> None:
    """Refuse a number of rows that nothing can have."""
    if not isinstance(rows, int) or rows < 0:
        raise UsageError("the number of rows must be a whole number and not negative")


def check_output(path: str | Path, schema: Declaration, rows: int) -> Path:
    """Refuse an output that cannot hold these rows, before any work is done."""
    check_rows(rows)
    path = Path(path)
    pictures = [name for name, column in schema.columns.items() if isinstance(column, Image)]
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(f"{path}: unknown kind of file; use {', '.join(_WRITERS)}")
    if pictures and path.suffix.lower() == ".csv":
        raise UsageError(f"{path}: a CSV cannot hold the pictures of {pictures[0]!r}; use .npz, .parquet or .png")
    if path.suffix.lower() == ".png" and len(pictures) != 1:
        raise UsageError(f"{path}: a grid needs exactly one column of pictures; use .csv, .parquet or .npz")
    if path.suffix.lower() == ".png" and not 1 <= rows <= MAX_GRID:
        raise UsageError(f"{path}: a grid shows 1 to {MAX_GRID:,} pictures; choose -n so, or use .npz")
    return container.claim(path)


def formulas(schema: Schema) -> list[str]:
    """Columns and levels that a spreadsheet would run when it opens a CSV of them: those that begin with = + - @, tab or CR.

    They are written as they are all the same. A quote or blank before them would be another level: rows would no longer be
    those of the schema, for every reader that is no spreadsheet. Numbers with a sign are no formulas.
    """
    texts = [(f"the name of column {name!r}", name) for name in schema.columns]
    for name, column in schema.columns.items():
        if isinstance(column, Category):
            texts += [(f"{text!r} in {name!r}", text) for text in (*column.texts, *([column.other] if column.other else []))]
    return [where for where, text in texts if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _NUMBER.fullmatch(text)]


def write_rows(tables: Tables, schema: Schema, path: str | Path) -> None:
    """All rows in the format that the name asks for."""
    with container.placing(path) as file:
        _WRITERS[Path(path).suffix.lower()](tables, schema, file)


def _write_csv(tables: Tables, schema: Schema, file: BinaryIO) -> None:
    first = _plain(next(tables), schema)
    with csv.CSVWriter(file, first.schema) as writer:
        for table in _chain(first, tables):
            writer.write_table(_plain(table, schema))


def _write_parquet(tables: Tables, schema: Schema, file: BinaryIO) -> None:
    first = next(tables)
    with parquet.ParquetWriter(file, first.schema) as writer:
        for table in _chain(first, tables):
            if len(table):
                writer.write_table(table)


def _write_npz(tables: Tables, schema: Schema, file: BinaryIO) -> None:
    parts = list(tables)
    names = parts[0].column_names
    columns = {name: np.concatenate([_array(part, name, schema) for part in parts]) for name in names}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:  # np.savez takes some names for its own arguments
        for name, array in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, npy.header_data_from_array_1_0(array))
                member.write(array.tobytes())


def _write_png(tables: Tables, schema: Schema, file: BinaryIO) -> None:
    """Pictures side by side, those of one class together."""
    table = pa.concat_tables(tables)
    if schema.label is not None:
        label = table.column(schema.label)
        label = label.cast(label.type.value_type) if pa.types.is_dictionary(label.type) else label
        table = table.take(pc.sort_indices(label))
    name, picture = next((name, column) for name, column in schema.columns.items() if isinstance(column, Image))
    stack = _array(table, name, schema).reshape(-1, picture.height, picture.width, picture.channels)
    Pictures.fromarray(picture_grid(stack, math.ceil(math.sqrt(len(stack))))).save(file, "PNG")


def picture_grid(stack: NDArray[np.uint8], across: int) -> NDArray[np.uint8]:
    """Pictures (rows, height, width, channels) in lines of so many; empty places stay black."""
    down = -(-len(stack) // across)
    _, height, width, channels = stack.shape
    places = np.zeros((down * across, height, width, channels), np.uint8)
    places[: len(stack)] = stack
    grid = places.reshape(down, across, height, width, channels).swapaxes(1, 2)
    grid = grid.reshape(down * height, across * width, channels)
    return grid[:, :, 0] if channels == 1 else grid


def _array(table: pa.Table, name: str, schema: Schema) -> NDArray[Any]:
    """A column as NumPy holds it without pickle: NaN and NaT where a number or moment is missing, else empty text."""
    cells, column = table.column(name).combine_chunks(), schema.columns[name]
    if isinstance(column, Image):
        shape = (column.height, column.width, column.channels) if column.channels > 1 else (column.height, column.width)
        return np.frombuffer(b"".join(cells.to_pylist()), np.uint8).reshape(-1, *shape)
    if isinstance(cells, pa.DictionaryArray):
        cells = cells.dictionary_decode()
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        return np.asarray(cells.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False))
    number = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)
    number = number and not (isinstance(column, Category) and column.missing)  # a float64 cannot name every level
    if column.missing and number:
        cells = cells.cast(pa.float64())
    if number or (pa.types.is_boolean(cells.type) and not column.missing):
        return np.asarray(cells.to_numpy(zero_copy_only=False))
    return np.array(pc.fill_null(cells.cast(pa.string()), "").to_pylist(), np.str_)


def _plain(table: pa.Table, schema: Schema) -> pa.Table:
    """As people write it in a CSV: dictionaries as what they stand for, moments no finer than their step."""
    for place, field in enumerate(table.schema):
        column, storage = schema.columns[field.name], field.type
        if pa.types.is_dictionary(storage):
            storage = storage.value_type
        if pa.types.is_string_view(storage):
            storage = pa.string()
        if isinstance(column, Datetime) and pa.types.is_timestamp(storage):
            storage = _coarsest(column, storage)
        table = table.set_column(place, field.name, table.column(place).cast(storage))
    return table


def _coarsest(column: Datetime, storage: pa.DataType) -> pa.DataType:
    """The coarsest storage that holds every moment of the grid."""
    units = {86400 * 10**6: pa.date32(), 10**6: pa.timestamp("s", storage.tz), 10**3: pa.timestamp("ms", storage.tz)}
    if storage.tz is not None:
        del units[86400 * 10**6]
    grid = (column.span[0], column.step_us)
    return next((found for size, found in units.items() if all(part % size == 0 for part in grid)), storage)


def _chain(first: pa.Table, rest: Tables) -> Tables:
    yield first
    yield from rest


_WRITERS: dict[str, Callable[[Tables, Schema, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".png": _write_png,
}
