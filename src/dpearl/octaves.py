"""A public grid of all numbers: two cells an octave on either side of zero. It needs to know nothing of a column.

Cells grow with the numbers in them, so that a few hundred reach from 2^-128 to 2^128. Moments are numbers of
microseconds since 2000. Where a number lies is found in its bits: no logarithm, no rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_OCTAVES = 128
"""Octaves above and below 1. What is smaller counts as zero, what is larger lies in the outermost cell."""

_SIDE = 4 * _OCTAVES
ZERO, CELLS = _SIDE, 2 * _SIDE + 1
"""The cell of zero, and how many cells there are: as many below it as above."""

EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000: moments of our days lie where cells are small."""


def cells_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of every finite number."""
    mantissas, exponents = np.frexp(np.abs(values))
    places = 2 * (exponents.astype(np.int64) + _OCTAVES - 1) + (mantissas >= 0.75)
    ranks = np.where((values == 0) | (places < 0), 0, np.minimum(places, _SIDE - 1) + 1)
    return np.where(values < 0, ZERO - ranks, ZERO + ranks)


def edges(cell: int) -> tuple[float, float]:
    """The lowest and the highest number of a cell; zero is both of its own."""
    rank = abs(cell - ZERO)
    if not rank:
        return 0.0, 0.0
    octave, half = divmod(rank - 1, 2)
    low = (0.75 if half else 0.5) * 2.0 ** (octave - _OCTAVES + 1)
    high = low * (4 / 3 if half else 1.5)
    return (low, high) if cell > ZERO else (-high, -low)
