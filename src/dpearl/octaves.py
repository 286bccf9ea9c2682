"""A public grid of all numbers: a cell for every octave on either side of zero. It needs to know nothing of a column.

Cells grow with the numbers in them, so that a few hundred reach from 2^-128 to 2^128. Moments are numbers of
microseconds since 2000. Where a number lies is found in its bits: no logarithm, no rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_OCTAVES = 128
"""Octaves above and below 1. What is smaller counts as zero, what is larger lies in the outermost cell."""

ZERO, CELLS = 2 * _OCTAVES, 4 * _OCTAVES + 1
"""The cell of zero, and how many cells there are: as many below it as above."""

EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000: moments of our days lie where cells are small."""


def cells_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of every finite number."""
    exponents = np.frexp(np.abs(values))[1].astype(np.int64) + _OCTAVES
    ranks = np.where(values == 0, 0, np.clip(exponents, 0, ZERO))
    return np.where(values < 0, ZERO - ranks, ZERO + ranks)


def edges(cell: int) -> tuple[float, float]:
    """Between which numbers a cell lies; zero is both edges of its own."""
    rank = abs(cell - ZERO)
    low, high = (2.0 ** (rank - _OCTAVES - 1), 2.0 ** (rank - _OCTAVES)) if rank else (0.0, 0.0)
    return (low, high) if cell >= ZERO else (-high, -low)
