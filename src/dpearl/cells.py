"""Arrow cells → plain arrays, and values → the storage types they came in. Total: no cell's content stops it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpearl.schema import WHOLE, level_text, microseconds

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Texts that mean a missing cell wherever they are not themselves a declared level."""

_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"


def to_storage(cells: pa.Array, name: str) -> pa.Array:
    """Cells in a storage type named by `storage_name`, at its resolution; Arrow's error where one does not fit."""
    if name.startswith("dictionary["):
        return to_storage(cells, name.removeprefix("dictionary[").removesuffix("]")).dictionary_encode()
    if name.startswith("timestamp["):
        unit, _, zone = name.removeprefix("timestamp[").removesuffix("]").partition(", tz=")
        moments = _floored(cells, {"s": "second", "ms": "millisecond"}.get(unit, "microsecond"))
        return moments.cast(pa.timestamp("us", "UTC" if zone else None)).cast(pa.timestamp(unit, zone or None))
    if name in ("date32[day]", "date64[ms]"):
        return _floored(cells, "day").cast(pa.date32() if name == "date32[day]" else pa.date64())
    storage = pa.string_view() if name == "string_view" else pa.type_for_alias(name)
    return (pc.round(cells) if pa.types.is_floating(cells.type) and pa.types.is_integer(storage) else cells).cast(storage)


def _floored(cells: pa.Array, unit: str) -> pa.Array:
    return pc.floor_temporal(cells, unit=unit) if pa.types.is_timestamp(cells.type) else cells


def is_number(storage: pa.DataType) -> bool:
    """Whether a type holds integers or floats."""
    return bool(pa.types.is_integer(storage) or pa.types.is_floating(storage))


def is_text(storage: pa.DataType) -> bool:
    """Whether a type holds text, plain or in a dictionary."""
    if pa.types.is_dictionary(storage):
        storage = storage.value_type
    return bool(pa.types.is_string(storage) or pa.types.is_large_string(storage) or pa.types.is_string_view(storage))


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array of plain values."""
    cells = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def filled(cells: pa.Array, null: Any) -> NDArray[Any]:
    """Cells as a NumPy array, nulls replaced."""
    values: NDArray[Any] = pc.fill_null(cells, null).to_numpy(zero_copy_only=False)
    return values


def object_texts(values: Iterable[Any]) -> pa.Array:
    """Python objects as text, each by itself: a type inferred from all of them would let one cell re-code the rest."""
    return pa.array([_object_text(value) for value in values], pa.string())


def _object_text(value: Any) -> str | None:
    """What a cell says, None where it says nothing; no object may stop a release, so none may raise."""
    try:
        plain = value.item() if isinstance(value, np.generic) else value
        if plain is None or plain != plain:
            return None
        text = plain.decode(errors="replace") if isinstance(plain, bytes) else level_text(plain)
        return text.encode(errors="replace").decode()
    except Exception:
        return None


def cell_texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Cells as trimmed text, numbers as levels spell them: 1.0 as 1, and a narrow 0.1 as 0.1."""
    cells = flat(column)
    if pa.types.is_floating(cells.type):
        distinct = (cells.cast(pa.float32()) if pa.types.is_float16(cells.type) else cells).dictionary_encode()
        values = distinct.dictionary.cast(pa.string()).cast(pa.float64())
        return pa.array([level_text(value) for value in values.to_pylist()], pa.string()).take(distinct.indices)
    return pc.replace_substring_regex(pc.ascii_trim_whitespace(cells.cast(pa.string())), WHOLE, r"\1")


def absent(cells: pa.Array) -> NDArray[np.bool_]:
    """Which cells say that they are missing: nulls, NaN, and the words for it."""
    if pa.types.is_integer(cells.type) or pa.types.is_boolean(cells.type) or pa.types.is_temporal(cells.type):
        return filled(pc.is_null(cells), True)
    return absent_texts(cell_texts(cells))


def absent_texts(texts: pa.Array) -> NDArray[np.bool_]:
    """The same of cells that are text already, as `cell_texts` gives it."""
    return filled(pc.or_kleene(pc.is_null(texts), pc.is_in(texts, value_set=pa.array(MISSING_WORDS))), True)


def floats(cells: pa.Array) -> NDArray[np.float64]:
    """Cells as float64, NaN for whatever is no number."""
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    if not (is_number(cells.type) or pa.types.is_decimal(cells.type)):
        texts = cell_texts(cells)
        cells = pc.if_else(pc.match_substring_regex(texts, _FLOAT), texts, None)
    return np.array(filled(cells.cast(pa.float64(), safe=False), np.nan))


def moments(cells: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds since 1970 and which cells hold none."""
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        return _microseconds(cells), filled(pc.is_null(cells), True)
    distinct = cell_texts(cells).dictionary_encode()
    texts = distinct.dictionary.cast(pa.binary()).to_pylist()
    parsed = pa.array([_parse_moment(text.decode(errors="replace")) for text in texts], pa.int64())
    moments = parsed.take(distinct.indices)
    return np.array(filled(moments, 0)), filled(pc.is_null(moments), True)


def _microseconds(cells: pa.Array) -> NDArray[np.int64]:
    """Microseconds since 1970; moments beyond their reach stop at its end instead of wrapping round."""
    day = pa.types.is_date32(cells.type)
    ticks = filled(cells.cast(pa.int32()).cast(pa.int64()) if day else cells.cast(pa.int64()), 0)
    unit = "day" if day else getattr(cells.type, "unit", "ms")
    if unit == "ns":
        return np.asarray(ticks // 1000)
    size = {"day": 86400 * 10**6, "s": 10**6, "ms": 10**3, "us": 1}[unit]
    most = (2**63 - 1) // size
    return np.asarray(np.clip(ticks, -most, most) * size)


def stored_bytes(cells: pa.Array, pixels: int) -> NDArray[np.uint8]:
    """The bytes under pictures that are stored as fixed-size binary or as a tensor."""
    values = cells.storage.values if isinstance(cells, pa.ExtensionArray) else cells
    start = cells.offset * pixels + (values.offset if values is not cells else 0)
    return np.frombuffer(values.buffers()[1], np.uint8, len(cells) * pixels, start).reshape(-1, pixels)


def _parse_moment(text: str) -> int | None:
    try:
        return microseconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None
