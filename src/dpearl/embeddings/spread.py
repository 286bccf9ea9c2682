"""How far apart rows lie: the auxiliary information that sets the scale of the frequencies.

The paper takes the mean pairwise distance (App. D). `PairwiseDistance` is that, over disjoint
pairs: O(n), and replacing a row moves one pair, so the same sensitivity 2·diameter/n of the
mean. It has no meaning when rows come and go; there `Spread` gives the root mean square
distance √(2 tr Cov), which is additive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.embeddings import reach
from dpearl.privacy import Relation

GRID = 2**14
"""The integer that stands for 1."""

CHUNK = 2**14
"""Rows that are paired among themselves: the first half with the second, in reading order."""


def _on_grid(rows: Rows, tops: tuple[int, ...]) -> NDArray[np.int64]:
    return rows.coordinates.astype(np.int64) * GRID // np.array(tops, np.int64)


@dataclass(frozen=True)
class PairwiseDistance:
    """Σ of distances over disjoint pairs, in grid units, rounded down. Replace-one only."""

    tops: tuple[int, ...]
    one_hot: tuple[bool, ...]
    diameter2: int
    weight: float
    family = "pairwise-distance"
    classes = 1
    shape = (1,)

    @property
    def peak(self) -> int:
        return math.isqrt(self.norm2)

    @property
    def norm2(self) -> int:
        return self.diameter2 * GRID**2

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """A pair's distance lies in [0, diameter], and a row is in one pair."""
        if relation is Relation.ADD_REMOVE:
            raise ValueError("pairs shift when a row comes or goes: pairwise distance needs replace-one")
        return self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        return np.array([sum(self._chunk(rows, start) for start in range(0, len(rows), CHUNK))], np.int64)

    def _chunk(self, rows: Rows, start: int) -> int:
        half = min(len(rows) - start, CHUNK) // 2
        first, second = slice(start, start + half), slice(start + half, start + 2 * half)
        points, levels = _on_grid(rows, self.tops)[start : start + 2 * half], rows.levels
        squares = ((points[:half] - points[half:]) ** 2).sum(axis=1)
        squares += GRID**2 * self._steps(levels[first], levels[second])
        return int(np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64).sum())

    def _steps(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Squared distance between one-hot levels: 2 where they differ, 1 where one of them is plain."""
        plain = ~np.array(self.one_hot)
        steps: NDArray[np.int64] = (2 * (first != second) - (plain & ((first == 0) ^ (second == 0)))).sum(axis=1)
        return steps

    def estimate(self, noisy: NDArray[np.int64], rows: int) -> float:
        """The mean distance, kept within what is possible."""
        pairs = rows // CHUNK * (CHUNK // 2) + rows % CHUNK // 2
        return _within(int(noisy[0]) / (max(pairs, 1) * GRID), self.diameter2)

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


@dataclass(frozen=True)
class Spread:
    """Σx and Σ|x|² on the grid, the latter divided by √reach so that both parts reach equally far."""

    tops: tuple[int, ...]
    columns: tuple[int, ...]
    one_hot: tuple[bool, ...]
    reach: int
    weight: float
    family = "spread"
    classes = 1
    peak = GRID

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.tops) + sum(self.columns) + 1,)

    @property
    def norm2(self) -> int:
        return 2 * self.reach * GRID**2

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """Entries are never negative, so two rows differ by at most |a|² + |b|²."""
        return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2

    @property
    def _shrink(self) -> int:
        return math.isqrt(self.reach - 1) + 1

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        points = _on_grid(rows, self.tops)
        lit = (rows.levels != 0) | np.array(self.one_hot)
        lengths = (points**2 // GRID).sum(axis=1) + GRID * lit.sum(axis=1)
        levels = [
            GRID * np.bincount(rows.levels[lit[:, place], place], minlength=size) for place, size in enumerate(self.columns)
        ]
        return np.concatenate([points.sum(axis=0), *levels, [(lengths // self._shrink).sum()]]).astype(np.int64)

    def estimate(self, noisy: NDArray[np.int64], sigma: int, rows: float) -> float:
        """√(2 tr Cov) with the noise's own share of |mean|² taken off, kept within what is possible."""
        rows = max(rows, 1.0)
        mean = noisy[:-1] / (GRID * rows)
        square = noisy[-1] * self._shrink / (GRID * rows)
        trace = square - (float((mean**2).sum()) - len(mean) * (sigma / (GRID * rows)) ** 2)
        return _within(math.sqrt(max(2 * trace, 0.0)), 2 * self.reach)

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


def _within(distance: float, diameter2: int) -> float:
    """A distance that noise cannot push to nonsense: between a twentieth of the diameter and all of it."""
    diameter = math.sqrt(diameter2)
    return min(max(distance, diameter / 20), diameter)


def pairwise_distance(codec: Codec, weight: float) -> PairwiseDistance:
    """Two levels are √2 apart, a value and a level at most √2, two pictures √pixels, or √(pixels + 1)."""
    features = codec.features.values()
    diameter2 = sum(max(column.coordinates, 1) + 1 for column in features)
    return PairwiseDistance(
        tuple(int(top) for top in codec.tops), tuple(column.one_hot for column in features), diameter2, weight
    )


def spread(codec: Codec, weight: float) -> Spread:
    """Additive moments of the encoded rows."""
    features = codec.features.values()
    return Spread(
        tuple(int(top) for top in codec.tops),
        tuple(column.levels for column in features),
        tuple(column.one_hot for column in features),
        reach(codec),
        weight,
    )


def uniform_spread(codec: Codec) -> float:
    """What √(2 tr Cov) would be if every column were uniform and independent: public, from the schema alone."""
    trace = 0.0
    for column in codec.features.values():
        trace += column.coordinates / 12 + ((1 - 1 / column.levels) if column.one_hot else 0.0)
    return math.sqrt(2 * trace)
