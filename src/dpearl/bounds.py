"""Bounds from noisy counts on a grid: where nearly all of a column's values lie. A function of released numbers alone.

A cell is seen when its count is more than noise makes of the largest of so many empty cells. The range reaches from the first
seen cell to the last; less, where the outermost hold no more than two thousandths of all rows, for a few values far out are
better moved to a bound than all others squeezed; and further, where the next cells hold more than noise explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAIL = 0.002
"""Part of the rows that may lie beyond either bound."""

_SURE = 1.5
"""Standard deviations above √(2 ln cells), which is where the largest of so many noises lies: an empty cell is seen once in ten
thousand times."""

_OCTAVE, _STRETCH, _MOST = 1.5, 2.0, 2
"""Noise that the next one or two cells must exceed for a range to reach into them, octaves or equal stretches; and the cells that
it may grow by at either end. Chosen on heavy tails, Adult and Credit (`bench.auxiliary`)."""

_APART = 3.0
"""A range of at most three times its distance from zero is looked at again, on a grid of its own: years, moments, weights."""

_OUTSIDE = 2.5
"""Noise that may explain what a narrower range leaves out."""


@dataclass(frozen=True)
class Span:
    """The first and last cell of a range; of its core, before it was let grow; and about how many rows it holds."""

    low: int
    high: int
    core: tuple[int, int]
    rows: float


def span(noisy: Floats, noise: float, beyond: float = _OCTAVE) -> Span | None:
    """The cells that hold nearly all rows; None where nothing can be seen."""
    seen = np.flatnonzero(noisy > noise * (math.sqrt(2 * math.log(len(noisy))) + _SURE))
    if not len(seen):
        return None
    rows, last = float(noisy[seen].sum()), len(noisy) - 1
    first, low = _end(noisy, seen, rows, beyond * noise)
    back, high = _end(noisy[::-1], last - seen[::-1], rows, beyond * noise)
    return Span(low, last - high, (first, last - back), rows)


def _end(noisy: Floats, seen: NDArray[np.int64], rows: float, limit: float) -> tuple[int, int]:
    """Where a range begins, coming from outside: its core, and what it grows to."""
    few = int(np.searchsorted(np.cumsum(noisy[seen]), TAIL * rows, side="right"))
    core = place = int(seen[min(few, len(seen) - 1)])
    while not few and core - place < _MOST:
        steps = [step for step in (1, 2) if step <= place and _more(noisy[place - step : place], rows, limit)]
        if not steps:
            break
        place -= steps[0]
    return core, place


def _more(cells: Floats, rows: float, limit: float) -> bool:
    return float(cells.sum()) > max(limit * math.sqrt(len(cells)), TAIL * rows / 2)


def far_from_zero(lower: float, upper: float) -> bool:
    """Whether a range is narrow for where it lies, so that cells which grow from zero are too wide for it."""
    return lower * upper > 0 and min(abs(lower), abs(upper)) * _APART >= upper - lower


def narrower(noisy: Floats, noise: float, rows: float) -> tuple[float, float] | None:
    """The part of a line that holds nearly all of so many rows, as fractions; None where it is not much less than all of it."""
    found = span(noisy, noise, _STRETCH)
    if found is None:
        return None
    inside = slice(found.low, found.high + 1)
    left = len(noisy) - (found.high + 1 - found.low)
    lost = float(noisy.sum() - noisy[inside].sum())
    if 2 * left < len(noisy) or lost > 2 * TAIL * rows + _OUTSIDE * noise * math.sqrt(left):
        return None
    return found.low / len(noisy), (found.high + 1) / len(noisy)
