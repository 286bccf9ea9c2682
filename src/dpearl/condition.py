"""What sampled rows shall have in common: `column = value`, in the schema's own words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.cells import moments
from dpearl.codec import Codes, column_codec
from dpearl.errors import UsageError, meant
from dpearl.schema import Category, Column, Datetime, Image, Number, Schema, level_key, level_text


@dataclass(frozen=True)
class Condition:
    """A column has this code."""

    name: str
    text: str
    code: int

    def __str__(self) -> str:
        return f"{self.name}={self.text}"

    def holds(self, codes: Mapping[str, Codes]) -> NDArray[np.bool_]:
        return np.asarray(codes[self.name] == self.code)


def parse_where(texts: list[str]) -> dict[str, str]:
    """`column=value` as the command line gives it; each column once."""
    wanted: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--where {text!r}: write column=value")
        if name in wanted:
            raise UsageError(f"--where: {name!r} is given twice; a row has one value in a column")
        wanted[name] = value
    return wanted


def conditions(schema: Schema, where: Mapping[str, Any]) -> list[Condition]:
    """Conditions that the schema can meet; others are refused with what could be meant."""
    return [_condition(schema, name, value) for name, value in where.items()]


def _condition(schema: Schema, name: str, value: Any) -> Condition:
    if name not in schema.columns:
        raise UsageError(f"where: there is no column {name!r}{meant(name, schema.columns)}")
    column, text = schema.columns[name], _text(value)
    if isinstance(column, Image):
        raise UsageError(f"where: {name!r} is an image; give a column with values that can be named")
    codec, cells = column_codec(column), pa.array([text.encode(errors="replace").decode()], pa.string())
    code = codec.encode(cells)
    if isinstance(column, Category) and text == column.other:
        code = np.array([len(column.levels)])
    returned = int(codec.level(code)[0]) in codec.returns
    absent = codec.decode(code)[0].as_py() is None
    if not returned or absent != (text == "") or not (absent or _within(column, text, cells)):
        raise UsageError(f"where: {name!r} is never {text!r}; {_allowed(column)}{_near(column, text)}")
    return Condition(name, text, int(code[0]))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else level_text(value)


def _within(column: Column, text: str, cells: pa.Array) -> bool:
    """Whether the value itself can come back: coding moves it to a bound, or to other, where it cannot."""
    if isinstance(column, Number):
        return float(text) in column.spikes or (column.lower <= float(text) <= column.upper and _on_step(column, text, cells))
    if isinstance(column, Datetime):
        return column.span[0] <= int(moments(cells)[0][0]) <= column.span[1]
    return not isinstance(column, Category) or text == column.other or level_key(text) in map(level_key, column.texts)


def _on_step(column: Number, text: str, cells: pa.Array) -> bool:
    codec = column_codec(column)
    value = codec.decode(codec.encode(cells))[0].as_py()
    return column.step is None or math.isclose(value, float(text), abs_tol=1e-9 * column.step)


def _allowed(column: Column) -> str:
    """What a column may be, short enough for one line."""
    if isinstance(column, (Number, Datetime)):
        lower, upper = (f"{end:g}" if isinstance(end, float) else str(end) for end in (column.lower, column.upper))
        steps = "" if column.step is None else f", in steps of {column.step}"
        return f"it lies between {lower} and {upper}{steps}"
    if isinstance(column, Category):
        named = [*column.texts, *([column.other] if column.other else [])]
        return f"its levels are {', '.join(named[:12])}{', ...' if len(named) > 12 else ''}"
    return "it is true or false"


def _near(column: Column, text: str) -> str:
    return meant(text, column.texts) if isinstance(column, Category) else ""
