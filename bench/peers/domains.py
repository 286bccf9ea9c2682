"""A schema in the terms of each peer: declared levels and bounds, never anything of the rows.

Spikes and logarithms have no counterpart there and are left out. Whole numbers stay whole where a peer can keep them so.
"""

from __future__ import annotations

from typing import Any

from dpearl.schema import Boolean, Category, Column, Number, Schema

ORDINAL = 150
"""smartnoise takes whole numbers in a range below this for levels (its `infer_column_types`), and bins the others."""

BINS = 20
"""Bins of a number for smartnoise, whose own default is 10: as many as the judges look at."""

Domain = dict[str, dict[str, Any]]
"""What a peer is told of each column."""


def dpmm_domain(schema: Schema) -> Domain:
    """`categories`, or `lower` and `upper`; and the pandas type by which dpmm tells numbers and whole numbers apart."""
    return {name: _dpmm(column) for name, column in schema.columns.items()}


def _dpmm(column: Column) -> dict[str, Any]:
    levels = _levels(column)
    if levels is not None:
        return {"type": "category", "categories": levels}
    assert isinstance(column, Number), f"no peer is told of a {column.kind}"
    whole = column.integral and not column.missing
    return {"type": "int64" if whole else "float64", **_bounds(column)}


def smartnoise_domain(schema: Schema) -> Domain:
    """`levels`, or `lower`, `upper` and `bins`; and whether cells may be missing."""
    return {name: {**_smartnoise(column), "missing": column.missing} for name, column in _plain(schema).items()}


def _smartnoise(column: Boolean | Category | Number) -> dict[str, Any]:
    levels = _levels(column)
    if levels is not None:
        return {"levels": levels}
    assert isinstance(column, Number)
    if column.integral and column.step == 1 and column.upper - column.lower < ORDINAL:
        return {"levels": [*range(int(column.lower), int(column.upper) + 1)]}
    return {**_bounds(column), "bins": BINS}


def _plain(schema: Schema) -> dict[str, Boolean | Category | Number]:
    assert all(isinstance(column, (Boolean, Category, Number)) for column in schema.columns.values())
    return {name: column for name, column in schema.columns.items() if isinstance(column, (Boolean, Category, Number))}


def _levels(column: Column) -> list[Any] | None:
    if isinstance(column, Boolean):
        return [False, True]
    return [*column.levels] if isinstance(column, Category) else None


def _bounds(column: Number) -> dict[str, Any]:
    whole = column.integral
    return {"lower": int(column.lower) if whole else column.lower, "upper": int(column.upper) if whole else column.upper}
