"""The paper's balanced Adult: bounds and steps are public round figures, levels are the codes of the paper's own file.

The number of rows and their balance are public under replace-one. A number's step is about a hundredth of its range at least:
frequencies of scale 1/D̄ see no finer, so what a generator does below that is an accident of training, which trees may take for
a difference between classes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from dpearl.schema import Category, Column, Number, Schema

WANTED = 11_000
"""Synthetic rows, as in the paper."""

NUMBERS = {
    "age": (17, 90, 1),
    "fnlwgt": (10_000, 1_500_000, 10_000),
    "education-num": (1, 16, 1),
    "capital-gain": (0, 100_000, 1_000),
    "capital-loss": (0, 5_000, 50),
    "hours-per-week": (1, 99, 1),
}
LEVELS = {
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


def schema(fine: bool = False) -> Schema:
    """The declaration of balanced Adult; `fine` has numbers to the unit."""
    columns: dict[str, Column] = {
        name: Number(lower=low, upper=high, step=1 if fine else step) for name, (low, high, step) in NUMBERS.items()
    }
    return Schema(label="income", columns=columns | {name: Category(levels=tuple(range(n))) for name, n in LEVELS.items()})


def rows(part: str) -> pa.Table:
    """The `train` or the `test` rows."""
    return parquet.read_table(Path(os.environ["DPEARL_DATA"]) / f"adult_balanced_{part}.parquet")
