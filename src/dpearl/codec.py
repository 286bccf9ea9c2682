"""Row ↔ integers, column by column.

Encode is total: any cell gives a valid code, so content can never stop a release
(a failure would itself leak). Encode is row-local: a cell's code depends on nothing
but the cell and the schema. Decode is its inverse on the grid.

A column's code is one integer (a picture's is its bytes). For embedding, a code splits
into coordinates (integers 0..top on a line) and a level (one of a few, one-hot):

    number, datetime   one coordinate; level 0 for plain values, then missing, then spikes
    category, boolean  no coordinate; a level for each declared value, other, missing
    image              a coordinate per pixel; level 0, or 1 for a picture that cannot be read

A column with an open question has a code too: where its cell lies on a grid that needs no answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpearl.cells import (
    absent,
    absent_texts,
    cell_texts,
    filled,
    flat,
    floats,
    is_number,
    is_text,
    moments,
    stored_bytes,
    to_storage,
)
from dpearl.errors import DataError
from dpearl.frames import Frames
from dpearl.octaves import CELLS, EPOCH, cells_of, edges
from dpearl.schema import (
    MODE,
    AnyColumn,
    Asked,
    AskedDatetime,
    AskedNumber,
    Boolean,
    Category,
    Datetime,
    Image,
    Number,
    Schema,
)

Codes = NDArray[Any]
"""int64 (rows,) for a table column; uint8 (rows, pixels + 1) for images, the last byte 1 if unreadable."""

_EXACT_DECIMALS = 22
"""10^22 is the last power of ten that a float64 holds exactly."""

TOP = 2**16 - 1
"""Largest coordinate: 16 bits, so that phases stay exact in a float64 (DESIGN: integers, not floats)."""

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


class Feature(Protocol):
    """How embeddings see a column: codes as coordinates and a level.

    `returns` are the levels that a synthetic row may have: not other unless it is named, not missing
    unless it is declared. `code` is the way back from positions in [0, 1] and levels to codes.
    """

    @property
    def coordinates(self) -> int: ...
    @property
    def top(self) -> int: ...
    @property
    def levels(self) -> int: ...
    @property
    def one_hot(self) -> bool: ...
    @property
    def returns(self) -> tuple[int, ...]: ...
    def coordinate(self, codes: Codes) -> NDArray[np.uint16]: ...
    def level(self, codes: Codes) -> NDArray[np.int64]: ...
    def code(self, positions: NDArray[np.float64], levels: NDArray[np.int64]) -> Codes: ...


class ColumnCodec(Feature, Protocol):
    """How one column becomes integers.

    `valid` says which cells are such as a synthetic row may hold: declared, within bounds, on the grid.
    """

    @property
    def natural(self) -> pa.DataType: ...
    def accepts(self, storage: pa.DataType) -> bool: ...
    def encode(self, cells: pa.Array) -> Codes: ...
    def valid(self, cells: pa.Array) -> NDArray[np.bool_]: ...
    def decode(self, codes: Codes) -> pa.Array: ...


class _Line:
    """What numbers and datetimes share: grid points 0..points-1, then missing, then spikes."""

    column: Number | Datetime
    coordinates = 1
    one_hot = False

    @property
    def top(self) -> int:
        return min(self.points - 1, TOP)

    @property
    def levels(self) -> int:
        return 2

    @cached_property
    def points(self) -> int:
        return self.column.points

    def coordinate(self, codes: Codes) -> NDArray[np.uint16]:
        scaled = codes if self.points - 1 <= TOP else np.rint(codes / (self.points - 1) * TOP)
        return np.where(codes < self.points, scaled, 0).astype(np.uint16)[:, None]

    def level(self, codes: Codes) -> NDArray[np.int64]:
        levels: NDArray[np.int64] = np.maximum(codes - (self.points - 1), 0)
        return levels

    def code(self, positions: NDArray[np.float64], levels: NDArray[np.int64]) -> Codes:
        return np.where(levels == 0, self._on_grid(positions[:, 0]), self.points - 1 + levels)

    def _on_grid(self, positions: NDArray[np.float64]) -> Codes:
        return np.minimum(np.rint(positions * (self.points - 1)).astype(np.int64), self.points - 1)

    @property
    def returns(self) -> tuple[int, ...]:
        return tuple(level for level in range(self.levels) if level != 1 or self.column.missing)


def _rounded(values: NDArray[np.float64], resolution: float) -> NDArray[np.float64]:
    """Values with as many decimals as tell a tenth of the grid's resolution; more would say nothing."""
    if resolution < 1e-290:
        return values
    return np.round(values, 1 - math.floor(math.log10(resolution)))


@dataclass(frozen=True)
class NumberCodec(_Line):
    """NaN and text become missing, infinities the bound, spikes levels of their own."""

    column: Number

    @property
    def top(self) -> int:
        return TOP if self.column.log else super().top

    @property
    def levels(self) -> int:
        return 2 + len(self.column.spikes)

    @property
    def natural(self) -> pa.DataType:
        return pa.int64() if self.column.integral else pa.float64()

    def accepts(self, storage: pa.DataType) -> bool:
        return _holds_numbers(storage)

    def encode(self, cells: pa.Array) -> Codes:
        values = floats(cells)
        codes = self._nearest(np.fmin(np.fmax(values, self.column.lower), self.column.upper))
        for rank, spike in enumerate(self.column.spikes, start=1):
            codes[values == spike] = self.points + rank
        codes[np.isnan(values)] = self.points
        return codes

    def valid(self, cells: pa.Array) -> NDArray[np.bool_]:
        values = floats(cells)
        inside = (values >= self.column.lower) & (values <= self.column.upper)
        if self.column.step is not None:
            plain = np.where(inside, values, self.column.lower)
            inside &= np.abs(self._values(self._nearest(plain)) - plain) <= 1e-6 * self.column.step
        return inside | np.isin(values, self.column.spikes) | (self.column.missing & absent(cells))

    def decode(self, codes: Codes) -> pa.Array:
        values = self._values(np.minimum(codes, self.points - 1))
        for rank, spike in enumerate(self.column.spikes, start=1):
            values[codes == self.points + rank] = spike
        return pa.array(values, mask=codes == self.points).cast(self.natural)

    def coordinate(self, codes: Codes) -> NDArray[np.uint16]:
        if not self.column.log or self.column.step is None:
            return super().coordinate(codes)
        values = self._values(np.minimum(codes, self.points - 1))
        return np.where(codes < self.points, self._on_log_grid(values), 0).astype(np.uint16)[:, None]

    def plain(self, codes: Codes) -> NDArray[np.float64]:
        """Values of plain codes; the upper bound for missing and spikes."""
        return self._values(np.minimum(codes, self.points - 1))

    def nearest(self, values: NDArray[np.float64]) -> Codes:
        """The grid point of each value."""
        return self._nearest(np.clip(values, self.column.lower, self.column.upper))

    def _on_grid(self, positions: NDArray[np.float64]) -> Codes:
        """Positions of a logarithmic column lie on the log grid, whatever its step."""
        if not self.column.log or self.column.step is None:
            return super()._on_grid(positions)
        return self._nearest(self._log_grid[np.rint(positions * TOP).astype(np.int64)])

    @property
    def _bounds(self) -> tuple[float, float]:
        return self.column.lower, self.column.upper

    def _nearest(self, values: NDArray[np.float64]) -> Codes:
        lower, upper = self._bounds
        if self.column.step is not None:
            index = np.rint((values - lower) / self.column.step)
        elif self.column.log:
            return self._on_log_grid(values)
        else:
            index = np.rint((values - lower) / (upper - lower) * TOP)
        return np.clip(index, 0, self.points - 1).astype(np.int64)

    def _values(self, codes: Codes) -> NDArray[np.float64]:
        if self.column.step is not None:
            values = np.asarray(self.column.lower + codes * self.column.step)
            return values if self._decimals is None else np.round(values, self._decimals)
        if self.column.log:
            return self._log_grid[codes]
        lower, upper = self._bounds
        return np.clip(_rounded(lower + codes / TOP * (upper - lower), (upper - lower) / TOP), lower, upper)

    @cached_property
    def _decimals(self) -> int | None:
        """Digits behind the point on the grid, so that 3 * 0.1 comes back as 0.3; None where a float64 has too few."""
        exponents = [Decimal(repr(value)).normalize().as_tuple().exponent for value in (self.column.lower, self.column.step)]
        digits = max(-min(int(exponent) for exponent in exponents), 0)
        fits = digits <= _EXACT_DECIMALS and max(map(abs, self._bounds)) < 2**53 / 10**digits
        return digits if fits else None

    @cached_property
    def _log_grid(self) -> NDArray[np.float64]:
        lower, upper = self._bounds
        with np.errstate(over="ignore"):  # at the end, where the upper bound is next to the largest of floats
            grid = np.minimum(lower * np.exp(np.arange(TOP + 1) / TOP * np.log(upper / lower)), upper)
            exponents = np.floor(np.log10(grid))
            for exponent in np.unique(exponents):
                own = exponents == exponent
                grid[own] = _rounded(grid[own], 10.0**exponent * (math.log(upper / lower) / TOP))
        grid[0], grid[-1] = lower, upper
        return np.asarray(np.clip(grid, lower, upper))

    @cached_property
    def _log_edges(self) -> NDArray[np.float64]:
        return np.sqrt(self._log_grid[:-1]) * np.sqrt(self._log_grid[1:])

    def _on_log_grid(self, values: NDArray[np.float64]) -> Codes:
        """Nearest point in log space, by bisection: the same for every batch and machine vector width."""
        return np.searchsorted(self._log_edges, values).astype(np.int64)


@dataclass(frozen=True)
class DatetimeCodec(_Line):
    """A number of steps since the lower bound."""

    column: Datetime

    @property
    def natural(self) -> pa.DataType:
        return pa.timestamp("us", None if self.column.lower.tzinfo is None else "UTC")

    def accepts(self, storage: pa.DataType) -> bool:
        return _holds_moments(storage)

    def encode(self, cells: pa.Array) -> Codes:
        when, missing = moments(cells)
        lower, upper = self.column.span
        step = self.column.step_us
        codes = np.minimum((np.clip(when, lower, upper) - lower + step // 2) // step, self.points - 1)
        return np.where(missing, self.points, codes)

    def valid(self, cells: pa.Array) -> NDArray[np.bool_]:
        """Moments off the grid count: storage that is coarser than the step cannot hold the grid's own."""
        when, missing = moments(cells)
        lower, upper = self.column.span
        return np.where(missing, self.column.missing & absent(cells), (when >= lower) & (when <= upper))

    def decode(self, codes: Codes) -> pa.Array:
        moments = self.column.span[0] + np.minimum(codes, self.points - 1) * self.column.step_us
        return pa.array(moments, mask=codes == self.points).cast(self.natural)


class _Levels:
    """What categories and booleans share: a code is a level, and nothing else."""

    coordinates = 0
    top = 0
    one_hot = True

    def coordinate(self, codes: Codes) -> NDArray[np.uint16]:
        return np.empty((len(codes), 0), np.uint16)

    def level(self, codes: Codes) -> NDArray[np.int64]:
        return codes

    def code(self, positions: NDArray[np.float64], levels: NDArray[np.int64]) -> Codes:
        return levels


@dataclass(frozen=True)
class ModeFeature(_Levels):
    """Which of its modes a number belongs to; after them, as ever, missing and spikes."""

    number: NumberCodec
    frames: Frames

    @property
    def modes(self) -> int:
        return len(self.frames.modes)

    @property
    def levels(self) -> int:
        return self.modes + self.number.levels - 1

    @property
    def returns(self) -> tuple[int, ...]:
        return (*range(self.modes), *(self.modes + level - 1 for level in self.number.returns if level))

    def level(self, codes: Codes) -> NDArray[np.int64]:
        levels = self.number.level(codes)
        return np.where(levels == 0, self.frames.nearest(self.number.plain(codes)), self.modes + levels - 1)

    def joined(self, levels: Codes, coordinates: Codes) -> Codes:
        """A number's codes from its modes and its places in them."""
        inside = np.minimum(levels, self.modes - 1)
        values = self.frames.values(coordinates / TOP, inside)
        return np.where(levels < self.modes, self.number.nearest(values), self.number.points + levels - self.modes)


@dataclass(frozen=True)
class PlaceFeature:
    """Where in its mode's frame a number lies; at zero where it has no mode."""

    mode: ModeFeature
    coordinates = 1
    top = TOP
    levels = 1
    one_hot = False
    returns = (0,)

    def coordinate(self, codes: Codes) -> NDArray[np.uint16]:
        modes = self.mode.level(codes)
        inside = np.minimum(modes, self.mode.modes - 1)
        places = self.mode.frames.places(self.mode.number.plain(codes), inside)
        return np.where(modes < self.mode.modes, np.rint(places * TOP), 0).astype(np.uint16)[:, None]

    def level(self, codes: Codes) -> NDArray[np.int64]:
        return np.zeros(len(codes), np.int64)

    def code(self, positions: NDArray[np.float64], levels: NDArray[np.int64]) -> Codes:
        return np.rint(positions[:, 0] * TOP).astype(np.int64)


@dataclass(frozen=True)
class CategoryCodec(_Levels):
    """A cell matches a level by its text; undeclared text is other, nothing is missing."""

    column: Category

    @property
    def levels(self) -> int:
        return len(self.column.levels) + 2

    @property
    def returns(self) -> tuple[int, ...]:
        declared = len(self.column.levels)
        other, missing = (declared,) * (self.column.other is not None), (declared + 1,) * self.column.missing
        return (*range(declared), *other, *missing)

    @property
    def natural(self) -> pa.DataType:
        kinds = {type(level) for level in self.column.levels}
        if self.column.other is not None or kinds not in ({int}, {bool}):
            return pa.string()
        if kinds == {bool}:
            return pa.bool_()
        return pa.int64() if all(abs(level) < 2**63 for level in self.column.levels if isinstance(level, int)) else pa.string()

    def accepts(self, storage: pa.DataType) -> bool:
        return _holds_levels(storage)

    def encode(self, cells: pa.Array) -> Codes:
        if pa.types.is_signed_integer(cells.type):
            found, nothing = pc.index_in(cells.cast(pa.int64()), value_set=self._whole, skip_nulls=True), absent(cells)
        else:
            texts = cell_texts(cells)
            found, nothing = pc.index_in(texts, value_set=self._keys), absent_texts(texts)
        fallback = np.where(nothing, self.levels - 1, self.levels - 2)
        return np.where(filled(pc.is_valid(found), False), filled(found, 0), fallback).astype(np.int64)

    def valid(self, cells: pa.Array) -> NDArray[np.bool_]:
        """Undeclared text is valid where it is the name of `other`."""
        codes = self.encode(cells)
        named = filled(pc.equal(cell_texts(cells), self.column.other or ""), False)
        return np.asarray(np.isin(codes, self.returns) & ((codes != len(self.column.levels)) | named))

    def decode(self, codes: Codes) -> pa.Array:
        """`other` comes back under its declared name, as missing where it has none."""
        spellings = pa.array([*self.column.texts, self.column.other, None], pa.string())
        return spellings.take(pa.array(codes)).cast(self.natural)

    @cached_property
    def _keys(self) -> pa.Array:
        return cell_texts(pa.array(self.column.texts, pa.string()))

    @cached_property
    def _whole(self) -> pa.Array:
        """Levels that spell a whole number as an integer cell would, so that such cells need no text."""
        keys = self._keys.to_pylist()
        whole = [int(key) if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", key) else None for key in keys]
        return pa.array([value if value is not None and abs(value) < 2**63 else None for value in whole], pa.int64())


@dataclass(frozen=True)
class BooleanCodec(_Levels):
    """False, true, missing."""

    column: Boolean
    levels = 3
    natural = pa.bool_()

    @property
    def returns(self) -> tuple[int, ...]:
        return (0, 1, 2) if self.column.missing else (0, 1)

    def accepts(self, storage: pa.DataType) -> bool:
        return pa.types.is_boolean(storage) or is_number(storage) or is_text(storage)

    def encode(self, cells: pa.Array) -> Codes:
        texts = pc.ascii_lower(cell_texts(cells))
        true = filled(pc.is_in(texts, value_set=pa.array(_TRUE)), False)
        false = filled(pc.is_in(texts, value_set=pa.array(_FALSE)), False)
        return np.where(true, 1, np.where(false, 0, 2)).astype(np.int64)

    def valid(self, cells: pa.Array) -> NDArray[np.bool_]:
        return np.where(self.encode(cells) == 2, self.column.missing & absent(cells), True)

    def decode(self, codes: Codes) -> pa.Array:
        return pa.array(codes == 1, mask=codes == 2)


@dataclass(frozen=True)
class ImageCodec:
    """Pixels as they are."""

    column: Image
    top = 255
    levels = 2
    one_hot = False
    returns = (0,)

    @property
    def coordinates(self) -> int:
        return self.column.pixels

    @property
    def natural(self) -> pa.DataType:
        return pa.binary(self.column.pixels)

    def accepts(self, storage: pa.DataType) -> bool:
        return bool(storage == self.natural)

    def encode(self, cells: pa.Array) -> Codes:
        missing = filled(pc.is_null(cells), True)
        pixels = np.zeros((len(cells), self.column.pixels + 1), np.uint8)
        if len(cells):
            pixels[:, :-1] = stored_bytes(cells, self.column.pixels)
        pixels[missing] = 0
        pixels[:, -1] = missing
        return pixels

    def valid(self, cells: pa.Array) -> NDArray[np.bool_]:
        return filled(pc.is_valid(cells), False)

    def decode(self, codes: Codes) -> pa.Array:
        pixels = np.ascontiguousarray(codes[:, :-1])
        return pa.array([row.tobytes() for row in pixels], self.natural, mask=codes[:, -1] == 1)

    def coordinate(self, codes: Codes) -> NDArray[np.uint16]:
        return codes[:, :-1].astype(np.uint16)

    def level(self, codes: Codes) -> NDArray[np.int64]:
        return codes[:, -1].astype(np.int64)

    def code(self, positions: NDArray[np.float64], levels: NDArray[np.int64]) -> Codes:
        return np.column_stack([np.rint(positions * self.top), levels]).astype(np.uint8)


class _Asked(_Levels):
    """What columns with open questions share: every cell is fine, and none is ever made of a code."""

    returns: tuple[int, ...] = ()
    natural = pa.float64()

    def valid(self, cells: pa.Array) -> NDArray[np.bool_]:
        return np.ones(len(cells), bool)

    def decode(self, codes: Codes) -> pa.Array:
        """The lowest number of each cell."""
        return pa.array([None if code >= CELLS else edges(int(code))[0] for code in codes], self.natural)


@dataclass(frozen=True)
class AskedNumberCodec(_Asked):
    """The cell of a number whose bounds are not known; one code more for what says nothing of them: missing values,
    infinities and spikes."""

    column: AskedNumber
    levels = CELLS + 1

    def accepts(self, storage: pa.DataType) -> bool:
        return _holds_numbers(storage)

    def encode(self, cells: pa.Array) -> Codes:
        values = floats(cells)
        silent = ~np.isfinite(values) | np.isin(values, self.column.spikes)
        if self.column.log:
            silent |= values <= 0
        lower, upper = self.column.lower, self.column.upper
        kept = np.clip(values, -np.inf if lower is None else lower, np.inf if upper is None else upper)
        return np.where(silent, CELLS, cells_of(np.where(silent, 0.0, kept)))


@dataclass(frozen=True)
class AskedDatetimeCodec(_Asked):
    """The cell of a moment's microseconds since 2000; one code more for what is missing."""

    levels = CELLS + 1

    def accepts(self, storage: pa.DataType) -> bool:
        return _holds_moments(storage)

    def encode(self, cells: pa.Array) -> Codes:
        when, missing = moments(cells)
        return np.where(missing, CELLS, cells_of(when.astype(np.float64) - EPOCH))


@dataclass(frozen=True)
class AskedCategoryCodec(_Asked):
    """A category whose levels are not known: until they are, all cells are alike."""

    levels = 1

    def accepts(self, storage: pa.DataType) -> bool:
        return _holds_levels(storage)

    def encode(self, cells: pa.Array) -> Codes:
        return np.zeros(len(cells), np.int64)


def _holds_numbers(storage: pa.DataType) -> bool:
    return is_number(storage) or bool(pa.types.is_decimal(storage)) or is_text(storage)


def _holds_moments(storage: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(storage) or pa.types.is_date(storage)) or is_text(storage)


def _holds_levels(storage: pa.DataType) -> bool:
    return is_number(storage) or bool(pa.types.is_boolean(storage) or pa.types.is_date32(storage)) or is_text(storage)


def column_codec(column: AnyColumn) -> ColumnCodec:
    """The codec of one declared column."""
    if isinstance(column, Asked):
        return _asked_codec(column)
    if isinstance(column, Number):
        return NumberCodec(column)
    if isinstance(column, Datetime):
        return DatetimeCodec(column)
    if isinstance(column, Category):
        return CategoryCodec(column)
    return BooleanCodec(column) if isinstance(column, Boolean) else ImageCodec(column)


def _asked_codec(column: Asked) -> ColumnCodec:
    if isinstance(column, AskedNumber):
        return AskedNumberCodec(column)
    return AskedDatetimeCodec() if isinstance(column, AskedDatetime) else AskedCategoryCodec()


@dataclass(frozen=True)
class Rows:
    """A batch as the embeddings see it: class, coordinates, levels and codes of every row."""

    label: NDArray[np.int64]
    coordinates: NDArray[np.uint16]
    levels: NDArray[np.int64]
    codes: Mapping[str, Codes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label)

    def joint_levels(self, columns: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
        """One code for the levels of several columns, each given with its size."""
        joint = np.zeros(len(self), np.int64)
        for column, size in columns:
            joint *= size
            joint += self.levels[:, column]
        return joint


@dataclass(frozen=True)
class Codec:
    """A whole row ↔ integers."""

    schema: Schema

    @cached_property
    def columns(self) -> dict[str, ColumnCodec]:
        """Every declared column, the label included."""
        return {name: column_codec(column) for name, column in self.schema.columns.items()}

    @cached_property
    def features(self) -> dict[str, Feature]:
        """The columns that are embedded; a label of classes conditions the embedding instead. A number with modes is two
        features: which mode, and where in it."""
        found: dict[str, Feature] = {}
        for name, codec in self.columns.items():
            if isinstance(codec, NumberCodec) and isinstance(codec.column.modes, tuple):
                found[name + MODE] = mode = ModeFeature(codec, Frames(codec.column.modes))
                found[name] = PlaceFeature(mode)
            elif not (name == self.schema.label and codec.one_hot):
                found[name] = codec
        return found

    def joined(self, drawn: Mapping[str, Codes]) -> dict[str, Codes]:
        """The codes of columns from those of their features."""
        codes = {name: own for name, own in drawn.items() if not name.endswith(MODE)}
        for name, feature in self.features.items():
            if isinstance(feature, ModeFeature):
                column = name.removesuffix(MODE)
                codes[column] = feature.joined(drawn[name], drawn[column])
        return codes

    @property
    def classes(self) -> int:
        """Classes that the embedding is conditioned on, other and missing included; 1 without a label."""
        label = self.columns.get(self.schema.label or "")
        return label.levels if label is not None and label.one_hot else 1

    @property
    def labels(self) -> tuple[int, ...]:
        """Codes of the label that rows may come back with; one class without a label."""
        return self.columns[str(self.schema.label)].returns if self.classes > 1 else (0,)

    @property
    def tops(self) -> NDArray[np.int64]:
        """The largest value of each coordinate."""
        return np.repeat([c.top for c in self.features.values()], [c.coordinates for c in self.features.values()])

    def encode(self, table: pa.RecordBatch | pa.Table) -> dict[str, Codes]:
        """Codes of every column; cells that do not fit become missing, other or a bound."""
        return {name: codec.encode(flat(table.column(name))) for name, codec in self.columns.items()}

    def decode(self, codes: Mapping[str, Codes], types: Mapping[str, str] | None = None) -> pa.Table:
        """The rows of these codes, in the storage types that are named, else the natural ones."""
        arrays = {}
        for name, codec in self.columns.items():
            cells = codec.decode(codes[name])
            arrays[name] = to_storage(cells, types[name]) if types and name in types else cells
        return pa.table(arrays)

    def stores(self, types: Mapping[str, Any]) -> bool:
        """Whether these are storage types that `decode` can give rows back in; a file may name anything."""
        own = self.schema.columns
        return all(isinstance(stored, str) and name in own and _stores(own[name], stored) for name, stored in types.items())

    def rows(self, codes: Mapping[str, Codes]) -> Rows:
        """Codes split into what embeddings see."""
        size = len(next(iter(codes.values())))
        parts = [(codec, codes[name.removesuffix(MODE)]) for name, codec in self.features.items()]
        conditioned = self.classes > 1 and self.schema.label is not None
        return Rows(
            label=codes[str(self.schema.label)] if conditioned else np.zeros(size, np.int64),
            coordinates=np.concatenate([codec.coordinate(code).T for codec, code in parts]).T,
            levels=np.stack([codec.level(code) for codec, code in parts]).T,
            codes=codes,
        )


def check_storage(where: str, name: str, column: AnyColumn, storage: pa.DataType) -> None:
    """Refuse a column whose storage cannot hold the declared kind, before any row is read."""
    if pa.types.is_dictionary(storage):
        storage = storage.value_type
    if isinstance(storage, pa.OpaqueType):
        raise DataError(
            f"{where}: {name!r} holds NumPy objects, long doubles or Fortran order; save plain C-ordered numbers or text"
        )
    if isinstance(column, Image) and isinstance(storage, pa.FixedShapeTensorType):
        found, declared = (*storage.shape, 1)[:3], (column.height, column.width, column.channels)
        if storage.value_type != pa.uint8():
            raise DataError(f"{where}: {name!r} holds {storage.value_type} pixels; images must be 8-bit (uint8, 0 to 255)")
        if found != declared:
            sizes = [" x ".join(map(str, shape)) for shape in (found, declared)]
            raise DataError(f"{where}: {name!r} holds images of {sizes[0]}, the schema declares {sizes[1]}; change one of them")
    elif not (pa.types.is_null(storage) or column_codec(column).accepts(storage)):
        hint = "flatten it first" if pa.types.is_nested(storage) else "convert it or change its kind"
        raise DataError(f"{where}: column {name!r} is stored as {storage}, which is no {column.kind}; {hint}")


def storage_name(column: AnyColumn, storage: pa.DataType) -> str | None:
    """How a release names a storage type; None where values come back in the natural type.

    That is also where the type cannot hold all that the schema declares: 300 in an int8, a named
    `other` among whole numbers.
    """
    if pa.types.is_null(storage) or pa.types.is_decimal(storage) or isinstance(column, (Image, Asked)):
        return None
    name = f"dictionary[{storage.value_type}]" if pa.types.is_dictionary(storage) else str(storage)
    return name if _stores(column, name) else None


def _stores(column: AnyColumn, name: str) -> bool:
    """Whether there is a storage type of this name that holds all that a column declares."""
    codec = column_codec(column)
    first = column.points - 1 if isinstance(column, (Number, Datetime)) else 0
    ends = np.array([0, *range(first, first + codec.levels)])
    try:
        to_storage(codec.decode(ends), name)
    except (pa.ArrowException, ValueError, RecursionError):
        return False
    return True
