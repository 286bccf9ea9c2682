"""Tables of the benchmarks: declared schemas, training rows and test rows.

Bounds are public round figures; levels are those of the public documentation, or the codes of the paper's own file. What is
not carried by the package is in the folder that DPEARL_DATA names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from bench.generated import World
from dpearl.datasets import adult, adult_schema, adult_test
from dpearl.schema import Category, Column, Number, Schema

BALANCED_NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
BALANCED_LEVELS = {
    "education": 16,
    "workclass": 9,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "native-country": 41,
    "income": 2,
}

CREDIT_KEPT, CREDIT_FOLDS = 0.005, 10
"""The chance of an honest payment to be kept, and the parts of which one is for the test."""


@dataclass(frozen=True, eq=False)
class Table:
    """What may be learnt from, and what is kept for the test."""

    schema: Schema
    train: pa.Table
    test: pa.Table


def balanced_schema() -> Schema:
    columns: dict[str, Column] = {name: Number(lower=low, upper=high, step=1) for name, (low, high) in BALANCED_NUMBERS.items()}
    levels = {name: Category(levels=tuple(range(count))) for name, count in BALANCED_LEVELS.items()}
    return Schema(label="income", columns=columns | levels)


def credit_schema() -> Schema:
    """Two days in seconds, 28 principal components of unknown features, an amount of money, and whether it was a fraud."""
    columns: dict[str, Column] = {"Time": Number(lower=0, upper=172_800, step=1)}
    columns |= {f"V{place}": Number(lower=-10, upper=10) for place in range(1, 29)}
    columns["Amount"] = Number(lower=0.01, upper=30_000, log=True, spikes=(0,))
    return Schema(label="Class", columns={**columns, "Class": Category(levels=(0, 1))})


def _data(name: str) -> pa.Table:
    return parquet.read_table(Path(os.environ["DPEARL_DATA"]) / name)


def _adult(seed: int) -> Table:
    return Table(adult_schema(), adult(), adult_test())


def _balanced(seed: int) -> Table:
    return Table(balanced_schema(), _data("adult_balanced_train.parquet"), _data("adult_balanced_test.parquet"))


def _credit(seed: int) -> Table:
    """Every fraud, and by public coins one in two hundred of the others: a row is kept by its own class and place alone.

    Each seed holds out another tenth.
    """
    rows = _data("credit.parquet")
    coins = np.random.default_rng(0).random(rows.num_rows)
    kept = rows.filter(pa.array((rows["Class"].to_numpy() == 1) | (coins < CREDIT_KEPT)))
    held = np.random.default_rng(1).permutation(kept.num_rows) % CREDIT_FOLDS == seed % CREDIT_FOLDS
    return Table(credit_schema(), kept.filter(pa.array(~held)), kept.filter(pa.array(held)))


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
