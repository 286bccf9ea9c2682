"""Independent columns: every one-way histogram under DP and nothing else. The floor that any synthesis must beat.

Accounting: one Gaussian mechanism on the histograms of all c columns as one vector. A row adds 1 to one bin of each column,
so its L2 norm is √c; replacing a row moves two bins of each, √(2c). With noise σ = Δ/μ the vector is μ-GDP, and `Budget.mu`
is exact (Balle & Wang 2018, Theorem 8). Clipping, normalising and sampling are post-processing. Bins hang on the schema
alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codes, ColumnCodec
from dpearl.coded import Coded, bin_count
from dpearl.privacy import Budget, Relation


def noise(columns: int, budget: Budget, relation: Relation) -> float:
    """The standard deviation on every count."""
    moved = 2 if relation is Relation.REPLACE_ONE else 1
    return math.sqrt(moved * columns) / budget.mu


def independent(rows: Coded, budget: Budget, relation: Relation, count: int, seed: int) -> Coded:
    """So many rows, each column drawn on its own. For tables: pictures have no histogram."""
    chance = np.random.default_rng(seed)
    noisy = noisy_counts(rows, noise(len(rows.names), budget, relation), chance)
    return Coded(rows.codec, {name: _drawn(rows.codec.columns[name], own, count, chance) for name, own in noisy.items()})


def noisy_counts(rows: Coded, sigma: float, chance: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """All that is learnt of the rows: how many fall in each bin of each column, with noise."""
    counts = {name: np.bincount(rows.bins(name), minlength=bin_count(rows.codec.columns[name])) for name in rows.names}
    return {name: own + chance.normal(0, sigma, len(own)) for name, own in counts.items()}


def _drawn(column: ColumnCodec, noisy: NDArray[np.float64], count: int, chance: np.random.Generator) -> Codes:
    shares = _shares(noisy, _returned(column))
    return _placed(column, chance.choice(len(shares), count, p=shares), chance)


def _shares(noisy: NDArray[np.float64], returned: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Clipped at zero and normalised over the bins that a synthetic row may fall in; uniform where noise left none."""
    kept = np.where(returned, np.clip(noisy, 0, None), 0)
    kept = kept if kept.any() else returned.astype(float)
    return np.asarray(kept / kept.sum())


def _returned(column: ColumnCodec) -> NDArray[np.bool_]:
    """Which bins a synthetic row may fall in: those along the line, and the levels that the schema lets come back."""
    return np.isin(_levels(column, np.arange(bin_count(column))), column.returns)


def _levels(column: ColumnCodec, bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The level of each bin; those along a number's line are all plain."""
    return bins if column.one_hot else np.maximum(bins - (_lines(column) - 1), 0)


def _lines(column: ColumnCodec) -> int:
    return bin_count(column) - (column.levels - 1)


def _placed(column: ColumnCodec, bins: NDArray[np.int64], chance: np.random.Generator) -> Codes:
    """Codes of rows in these bins, uniformly on the grid points inside."""
    if column.one_hot:
        return bins
    lines, points = _lines(column), column.top + 1
    firsts = -(-np.arange(lines + 1) * points // lines)
    inside = np.minimum(bins, lines - 1)
    places = chance.integers(firsts[inside], firsts[inside + 1])
    return column.code(places[:, None] / max(column.top, 1), _levels(column, bins))
