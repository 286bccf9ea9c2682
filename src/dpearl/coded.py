"""Rows on the schema's grid, as judges and pictures look at them: bins, values, matrices.

Bins are public: they hang on the schema alone, never on rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.cells import flat
from dpearl.codec import Codec, Codes, ColumnCodec
from dpearl.grid import BINS
from dpearl.schema import Category, Datetime, Image, Number, Schema


@dataclass(frozen=True, eq=False)
class Coded:
    """A table's codes, and how many of its rows hold a cell that the schema does not allow."""

    codec: Codec
    codes: Mapping[str, Codes]
    invalid: int = 0

    @classmethod
    def of(cls, table: pa.Table, schema: Schema) -> Coded:
        """Every row counts, whatever its cells: what does not fit is coded as codecs code it."""
        codec = Codec(schema)
        fits = [column.valid(flat(table.column(name))) for name, column in codec.columns.items()]
        return cls(codec, codec.encode(table), int((~np.all(fits, axis=0)).sum()))

    @classmethod
    def join(cls, parts: Sequence[Coded]) -> Coded:
        """The rows of several tables of one schema."""
        codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes}
        return cls(parts[0].codec, codes, sum(part.invalid for part in parts))

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def take(self, places: NDArray[Any]) -> Coded:
        """These rows; how many of them are valid is not known any more."""
        return Coded(self.codec, {name: own[places] for name, own in self.codes.items()})

    @property
    def schema(self) -> Schema:
        return self.codec.schema

    @cached_property
    def names(self) -> list[str]:
        """All columns but pictures."""
        return [name for name, column in self.schema.columns.items() if not isinstance(column, Image)]

    @cached_property
    def numbers(self) -> list[str]:
        """Numbers and datetimes."""
        return [name for name in self.names if isinstance(self.schema.columns[name], (Number, Datetime))]

    def bins(self, name: str, most: int = BINS) -> NDArray[np.int64]:
        """The bin of every row, below `bin_count`."""
        column, codes = self.codec.columns[name], self.codes[name]
        levels = column.level(codes)
        if column.one_hot:
            return levels
        lines = _lines(column, most)
        places = column.coordinate(codes)[:, 0].astype(np.int64) * lines // (column.top + 1)
        return np.where(levels == 0, places, lines - 1 + levels)

    def shares(self, name: str, most: int = BINS) -> NDArray[np.float64]:
        """The share of rows in every bin."""
        counts = np.bincount(self.bins(name, most), minlength=bin_count(self.codec.columns[name], most))
        return np.asarray(counts / max(len(self), 1))

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Which cells are missing."""
        column = self.codec.columns[name]
        return np.asarray(column.level(self.codes[name]) == (column.levels - 1 if column.one_hot else 1))

    def values(self, name: str) -> NDArray[np.float64]:
        """A number's values, a datetime's microseconds since 1970; NaN where missing."""
        cells = self.codec.columns[name].decode(self.codes[name])
        when = pa.types.is_timestamp(cells.type)
        plain = np.array((cells.cast(pa.int64()) if when else cells).cast(pa.float64(), safe=False).fill_null(0))
        return np.where(self.missing(name), np.nan, plain)

    def matrix(self, names: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Numbers scaled to [-1, 1] by their declared bounds, levels that may come back one-hot."""
        parts: list[NDArray[Any]] = [np.empty((len(self), 0))]
        for name in self.names if names is None else names:
            column, codes = self.codec.columns[name], self.codes[name]
            parts.append(column.coordinate(codes) / max(column.top, 1) * 2 - 1)
            shown = [level for level in column.returns if column.one_hot or level]
            parts.append((column.level(codes)[:, None] == shown).astype(float))
        return np.concatenate(parts, axis=1)


def _lines(column: ColumnCodec, most: int) -> int:
    """Bins along the line of a number."""
    return min(most, column.top + 1)


def bin_count(column: ColumnCodec, most: int = BINS) -> int:
    """How many bins a column has."""
    return column.levels if column.one_hot else _lines(column, most) + column.levels - 1


def bin_names(column: ColumnCodec, most: int = BINS) -> list[str]:
    """What each bin holds: a level, the lowest value of a stretch of the grid, missing, a spike."""
    if column.one_hot:
        return _level_names(column)
    lines = _lines(column, most)
    starts = -(-np.arange(lines) * (column.top + 1) // lines)
    firsts = column.decode(column.code(starts[:, None] / max(column.top, 1), np.zeros(lines, np.int64))).to_pylist()
    spikes = column.decode(column.code(np.zeros((column.levels, 1)), np.arange(column.levels))).to_pylist()[2:]
    return [*map(_short, firsts), "missing", *(f"= {_short(spike)}" for spike in spikes)]


def _level_names(column: ColumnCodec) -> list[str]:
    names = column.decode(np.arange(column.levels)).cast(pa.string()).to_pylist()
    shown = ["missing" if name is None else name for name in names]
    declared = getattr(column, "column", None)
    if isinstance(declared, Category) and declared.other is None:
        shown[-2] = "other"
    return shown


def _short(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)[:10]
