"""Credit-card fraud: every fraud and, by public coins, one in two hundred of the other rows.

The paper does not say how it balanced its classes. DP-MERF's PRC of 0.26 there is what guessing would have at 492 frauds among
1,913 rows, which is what DP-MERF's own preparation leaves (half a percent of the other rows), so that is the reading here.

A row is kept or not by its own class and by a coin that hangs on its place alone, so that it never decides about another. What
is protected is a row of the balanced table, under replace-one, where the number of rows is public: 492 frauds are printed on the
data set's page. Each seed holds out another tenth of the kept rows, by their place, to be tested on. Bounds are public: ten
units either way for each principal component, two days of seconds, amounts up to 5,000; what lies beyond counts as the bound.
Steps are a hundredth of the range, as for Adult.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from dpearl.schema import Category, Column, Number, Schema

KEPT, FOLDS = 0.005, 10
"""The chance of a row that is no fraud, and the tenths of which one is held out."""

WANTED = 1_900
"""Synthetic rows: about as many as there are real ones."""

COMPONENTS = tuple(f"V{place}" for place in range(1, 29))


def schema() -> Schema:
    """The declaration of the credit data."""
    columns: dict[str, Column] = {"Time": Number(lower=0, upper=172_800, step=1_800)}
    columns |= {name: Number(lower=-10, upper=10, step=0.2) for name in COMPONENTS}
    columns |= {"Amount": Number(lower=0, upper=5_000, step=50), "Class": Category(levels=(0, 1))}
    return Schema(label="Class", columns=columns)


def balanced(frauds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are kept: frauds, and those whose coin says so."""
    coins = np.random.default_rng(0).random(len(frauds))
    return frauds | (coins < KEPT)


def folds(count: int) -> NDArray[np.int64]:
    """The tenth in which each of so many rows lies, by its place; all alike in size."""
    return np.random.default_rng(1).permutation(count) % FOLDS


@cache
def kept() -> pa.Table:
    """The balanced table."""
    table = parquet.read_table(Path(os.environ["DPEARL_DATA"]) / "credit.parquet")
    return table.filter(pa.array(balanced(table.column("Class").to_numpy() == 1)))


def rows(part: str, fold: int) -> pa.Table:
    """The `train` or the `test` rows where one tenth is held out."""
    held = folds(kept().num_rows) == fold
    return kept().filter(pa.array(held if part == "test" else ~held))
