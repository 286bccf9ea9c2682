"""Tables of the benchmarks: declared schemas, training rows and test rows.

Bounds are public round figures; levels are those of the public documentation, or the codes of the paper's own file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from bench.generated import World
from bench.paper import adult as adult_balanced
from bench.paper import credit
from dpearl.datasets import adult, adult_schema, adult_test
from dpearl.schema import Category, Column, Number, Schema


@dataclass(frozen=True, eq=False)
class Table:
    """What may be learnt from, and what is kept for the test."""

    schema: Schema
    train: pa.Table
    test: pa.Table


def credit_schema() -> Schema:
    """Two days in seconds, 28 principal components of unknown features, an amount of money, and whether it was a fraud."""
    columns: dict[str, Column] = {"Time": Number(lower=0, upper=172_800, step=1)}
    columns |= {f"V{place}": Number(lower=-10, upper=10) for place in range(1, 29)}
    columns["Amount"] = Number(lower=0.01, upper=30_000, log=True, spikes=(0,))
    return Schema(label="Class", columns={**columns, "Class": Category(levels=(0, 1))})


def _adult(seed: int) -> Table:
    return Table(adult_schema(), adult(), adult_test())


def _balanced(seed: int) -> Table:
    return Table(adult_balanced.schema(fine=True), adult_balanced.rows("train"), adult_balanced.rows("test"))


def _credit(seed: int) -> Table:
    """The paper's bench says which rows are kept; each seed holds out another tenth."""
    return Table(credit_schema(), *(credit.rows(part, seed % credit.FOLDS) for part in ("train", "test")))


def _generated(world: World, rows: int) -> Table:
    return Table(world.schema, world.people(rows, seed=0), world.people(rows // 2, seed=1))


TABLES: dict[str, Callable[[int], Table]] = {
    "adult": _adult,
    "balanced": _balanced,
    "credit": _credit,
    "wide": lambda seed: _generated(World(columns=101), 16_000),
    "levels": lambda seed: _generated(World(columns=16, levels=10_000), 16_000),
}


@cache
def table(name: str, seed: int = 0) -> Table:
    """A table by its name, as a seed sees it."""
    return TABLES[name](seed)
