"""How pairs of columns are measured, chosen from what the first look has released: bins, what is expected of a row, and how long
a row may be.

Everything here is a function of released numbers, and nothing here has a part in the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.density import Floats, column_counts
from dpearl.embeddings.marginals import EACH, SIDE, UNIT, Pairs, Side, Singles, Whole, pairs_of
from dpearl.grid import FEW, Grid, Ladder, bins_along, chosen_cells, chosen_grid
from dpearl.measurement import Measurement

_MOST_CELLS = 2**19
"""Cells of all pairs together: 4 MB of release."""

_PART, _COLUMN, _MOST_COLUMN = 0.7, 0.8, 2.5
"""Squared length of an average row in each column by class: this part of that in its pairs with columns before it, within these
ends, in units of a row that is alone in its bin. With 2.5 in place of 0.8, on generated rows, 1,740 × 31 at ε = 3, boosting AUC
rises from .766 to .782 (six releases each), on 101 columns 5 is no better. On Adult at ε = 1 it comes to 1.6: TV of single
columns is .0042 then and boosting AUC on training rows .9148; with 0.8, and half as much again for the first look, .0045 and
.9140 (14 and 12 releases)."""

_INSIDE, _HALF, _SELDOM, _SHARPEST = 2.0, 0.5, 1e-3, 12.0
"""The same inside its bins, at most half as much as pairs, and nothing where so few rows would show; and how much a squared
length may be raised to get there. On Adult half as much or half as much again changes no measure by more than a few percent."""

_VALUES = 0.5
"""Part of that which is worth knowing, of rows in cells of several values, which of these they share. On Adult at ε = 1 nothing,
half and all give a two-sample AUC of .598, .596 and .594, and boosting AUC on training rows .9178, .9173 and .9166 (ten, six and
ten releases)."""

_CLEAR = 1000.0
"""Rows, in units of a cell's noise, from which on less noise is worth less than rows that count in full: of twice as many, a row
may be longer by a root of two. Below, with noise as on Adult at ε = 1, a limit a fifth above the average row's is no better. With
seven tenths of it TV of pairs is 3% lower, but ROC of ten classifiers .738 in place of .746 (24,000 rows, five releases)."""

_SHORTEST = 64
"""The limit is at least this part of the longest row, so that no row counts for less than an eighth."""


def chosen_pairs(codec: Codec, measured: Measurement, rows: float, noise: float, weight: float) -> Pairs:
    """Pairs on grids that follow the first measurement, and a limit on the length of a row.

    `noise` is that of one of their cells, in rows. Bins are made fewer until all cells together are few enough.
    """
    block = measured.design.block("singles")
    assert isinstance(block, Singles)
    counts = column_counts(measured, rows)
    along = bins_along(rows, noise)
    while True:
        coarser = noise * _coarser(along, rows, noise)
        grids = {name: chosen_grid(own, counts[name], along, coarser) for name, own in block.ladders.items()}
        sides = {name: _side(own, grids[name], counts[name]) for name, own in block.ladders.items()}
        made = pairs_of(codec, block.ladders, sides, weight)
        if made.shape[0] <= _MOST_CELLS or along <= 2:
            return _limited(made, counts, math.sqrt(max(rows / (noise * _CLEAR), 1)))
        along -= 1


def _coarser(along: int, rows: float, noise: float) -> float:
    """Where bins had to be made fewer, the rows that each must hold grow alike."""
    return (bins_along(rows, noise) / along) ** 2


def _side(ladder: Ladder, grid: Grid, counts: Floats) -> Side:
    """A column as the first measurement shows it."""
    cells = chosen_cells(ladder, grid, counts)
    whole, none = np.zeros(grid.size, np.int64), np.zeros(cells.size, np.int64)
    side = Side(grid, cells, _shares(np.bincount(grid.bins, counts), whole), none, SIDE, 0, 0)
    side = replace(side, inner=_shares(np.bincount(cells.bins, counts), side.owner))
    looked = _mean(side.within2, cells.bins, counts) > _SELDOM * UNIT
    single = looked and ladder.lines[-1] == ladder.points and 0 < _mean(side.several, cells.bins, counts) <= FEW
    return replace(side, finer=SIDE * looked, finest=SIDE * single)


def _limited(pairs: Pairs, counts: Mapping[str, Floats], longer: float) -> Pairs:
    """Columns and what is inside their bins as sharply as it is worth, and no row longer than an average one, were columns
    independent, or so many times as long. All columns take the same part of it: the fewer rows pay, the sharper they are seen."""
    along = [_mean(side.lengths2, side.grid.bins, counts[name]) for name, side in pairs.sides.items()]
    together = sum(along[one] * along[other] for one, other in pairs.pairs.tolist())
    each = together / UNIT**2 / len(along)
    wanted = float(np.clip(_PART * each, _COLUMN, _MOST_COLUMN)), min(_INSIDE, _HALF * each)
    made = replace(pairs, sides={name: _sharpened(side, wanted, counts[name]) for name, side in pairs.sides.items()})
    alone = sum(_mean(side.alone2, side.cells.bins, counts[name]) for name, side in made.sides.items())
    usual = max(math.ceil((EACH**2 + alone + together) * longer), made.longest2 // _SHORTEST)
    return replace(made, limit=min(usual, made.longest2))


def _sharpened(side: Side, wanted: tuple[float, float], counts: Floats) -> Side:
    """A side of which an average row has these squared lengths."""
    bins, cells = _mean(side.lengths2, side.grid.bins, counts), _mean(side.within2, side.cells.bins, counts)
    values = _mean(side.several, side.cells.bins, counts) * UNIT
    finer, finest = _sharpness(wanted[1], cells), _sharpness(_VALUES * wanted[1], values, _VALUES * _SHARPEST)
    return replace(side, sharp=_sharpness(wanted[0], bins), finer=finer * (side.finer > 0), finest=finest * (side.finest > 0))


def _shares(counts: NDArray[Any], owner: Whole) -> Whole:
    """Parts of SIDE that each count takes of what its owner holds; even ones where that is nothing."""
    held, parts = np.bincount(owner, counts)[owner], np.bincount(owner)[owner]
    return np.asarray(np.rint(SIDE * np.where(held > 0, counts / np.maximum(held, 1e-9), 1 / parts)), np.int64)


def _mean(lengths2: NDArray[Any], bins: NDArray[np.uint16], counts: Floats) -> float:
    """Of what rows have in each bin."""
    return float(lengths2[bins] @ counts / counts.sum())


def _sharpness(wanted: float, usual: float, most: float = _SHARPEST) -> int:
    return round(SIDE * math.sqrt(min(wanted * UNIT / max(usual, 1e-9), most)))
