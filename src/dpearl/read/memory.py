"""Tables in memory: Arrow, pandas, polars, or a mapping of NumPy arrays; and the way back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from dpearl.cells import flat, object_texts
from dpearl.errors import DataError
from dpearl.read.pictures import picture_cells, picture_type
from dpearl.read.tables import guessed_by_pandas, unique
from dpearl.schema import Schema

_ROWS = 2**14


@dataclass(frozen=True)
class MemorySource:
    """A table that is already loaded; `guessed` holds NumPy's kind where a cell can change a column's type."""

    table: pa.Table
    pictures: Mapping[str, np.ndarray[Any, Any]]
    guessed: Mapping[str, str] = field(default_factory=dict)
    where = "table"
    typed = True
    placed = True
    pieces = ()

    @classmethod
    def of(cls, data: Any) -> MemorySource:
        """Whatever kind of table, as Arrow."""
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            return cls(data, {}, guessed_by_pandas(data.schema))
        if isinstance(data, Mapping):
            return cls(*_split(data))
        return cls(_from_frame(data), {}, _guessed(data.dtypes) if _is_pandas(data) else {})

    @property
    def rows(self) -> int:
        pictures = [len(stack) for stack in self.pictures.values()]
        return self.table.num_rows if self.table.num_columns else max(pictures, default=0)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        unique(self.table.column_names, self.where)
        pictures = {name: picture_type(stack.shape[1:], name) for name, stack in self.pictures.items()}
        return {**dict(zip(self.table.column_names, self.table.schema.types, strict=True)), **pictures}

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        return self.types

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        for start in range(0, self.rows, _ROWS):
            size = min(_ROWS, self.rows - start)
            cells = [self._cells(name, start, size) for name in schema.reads]
            yield pa.RecordBatch.from_arrays(cells, schema.reads)

    def _cells(self, name: str, start: int, size: int) -> pa.Array:
        if name in self.pictures:
            return picture_cells(self.pictures[name][start : start + size], name)
        return flat(self.table.column(name).slice(start, size))


def like(table: pa.Table, frame: Any, gaps: Collection[str] = ()) -> Any:
    """An Arrow table as the same kind of table as `frame`, with pandas' nullable types kept.

    Columns in `gaps` may have missing cells: where NumPy needs another type for that, they have it
    whether or not a cell is missing this time.
    """
    if frame is None or isinstance(frame, (pa.Table, pa.RecordBatch, Mapping)):
        return table
    if not _is_pandas(frame):
        return nw.from_arrow(table, backend=nw.get_native_namespace(frame)).to_native()
    made = _with_room(table, gaps).to_pandas()
    for name in gaps:
        if made[name].dtype == np.bool_:
            made[name] = made[name].astype(object)
    for name, wanted in frame.dtypes.items():
        if str(name) in made and nullable(wanted) and made[str(name)].dtype != wanted:
            made[str(name)] = made[str(name)].astype(wanted)
    return made.rename(columns={str(name): name for name in frame.columns})


def _with_room(table: pa.Table, gaps: Collection[str]) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if name in gaps and pa.types.is_integer(table.column(place).type):
            table = table.set_column(place, name, table.column(place).cast(pa.float64(), safe=False))
    return table


def empty_like(data: Any) -> Any:
    """The kind of a table and its types, with no row of it; None for a path or whatever is no frame."""
    if isinstance(data, (pa.Table, pa.RecordBatch, Mapping, str, Path)) or not hasattr(data, "head"):
        return None
    return data.head(0)


def nullable(dtype: Any) -> bool:
    """Whether a pandas type is one of its extension types that hold missing values themselves."""
    return str(dtype)[:1].isupper() or str(dtype) in ("boolean", "string", "str") or str(dtype).endswith("[pyarrow]")


def _is_pandas(frame: Any) -> bool:
    return nw.dependencies.is_pandas_dataframe(frame)


def _from_frame(data: Any) -> pa.Table:
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise DataError("this is not a table: give a path, an Arrow, pandas or polars table, or a dict of arrays") from None
    if not _is_pandas(data):
        return frame.to_arrow()
    unique([str(name) for name in data.columns], "table")
    return pa.table({str(name): _pandas_cells(data[name]) for name in data.columns})


def _pandas_cells(series: Any) -> pa.Array:
    """Typed columns as they are; objects, also as the levels of a categorical, cell by cell."""
    if getattr(series.dtype, "categories", series).dtype == np.dtype(object):
        return object_texts(series)
    try:
        cells = pa.Array.from_pandas(series)
    except (pa.ArrowException, UnicodeEncodeError):
        return object_texts(series)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def _guessed(dtypes: Any) -> dict[str, str]:
    """Whole numbers, floats, booleans and objects: one missing or foreign cell turns each into the next."""
    return {str(name): dtype.kind for name, dtype in dtypes.items() if isinstance(dtype, np.dtype) and dtype.kind in "iufbOSU"}


def _split(data: Mapping[str, Any]) -> tuple[pa.Table, dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Columns given as arrays keep their type; those given as lists are objects, whatever they hold."""
    arrays = {str(name): _array(values) for name, values in data.items()}
    lengths = {len(values) for values in arrays.values() if values.ndim}
    if len(lengths) != 1:
        raise DataError("table: its columns differ in length; give every column the same number of rows")
    pictures = {name: values for name, values in arrays.items() if values.ndim > 1}
    cells = {name: values for name, values in arrays.items() if values.ndim == 1}
    guessed = _guessed({name: values.dtype for name, values in cells.items()})
    return pa.table({name: _numpy_cells(values) for name, values in cells.items()}), pictures, guessed


def _array(values: Any) -> np.ndarray[Any, Any]:
    if hasattr(values, "__array__"):
        return np.asarray(values)
    objects = list(values)
    array = np.empty(len(objects), object)
    array[:] = [np.str_() if isinstance(value, (list, tuple)) else value for value in objects]
    return array


def _numpy_cells(values: np.ndarray[Any, Any]) -> pa.Array:
    return object_texts(values) if values.dtype.kind in "OSU" else pa.array(values)
