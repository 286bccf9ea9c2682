"""Marginals: how many rows fall in each cell of some columns, looked at together.

A row falls in one cell of every marginal, so over m of them its counts have length √m, whatever their number of cells: splitting
one by class, or into finer cells, costs nothing more. Counts of discrete columns are characteristic functions at lattice
frequencies; these are the paper's embedding where it is sharpest.

`Singles` are single columns at every rung of their ladders; from them the grids of `Pairs` may be chosen. A pair is centred along
both of its columns: of single columns it would only repeat, at a price, what is measured by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.grid import Grid, Ladder, ladders, public_grid
from dpearl.privacy import Relation

SIDE = 2**8
"""The integer that stands for one row along a column of a pair."""

UNIT = SIDE**2
"""The integer that stands for one row: fine enough for rounding σ up to cost nothing."""


class _Counts:
    """What all marginals share: a row adds one unit to one cell of each column."""

    family: str
    weight: float
    classes = 1
    peak = UNIT

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight}


@dataclass(frozen=True, eq=False)
class Singles(_Counts):
    """Single columns at each of their resolutions."""

    ladders: Mapping[str, Ladder]
    weight: float
    family = "singles"

    @cached_property
    def places(self) -> dict[tuple[str, int], slice]:
        """Where each column's rungs lie in the vector."""
        sizes = {(name, rung): size for name, ladder in self.ladders.items() for rung, size in enumerate(ladder.sizes)}
        stops = np.cumsum(list(sizes.values())).tolist()
        return {key: slice(stop - size, stop) for (key, size), stop in zip(sizes.items(), stops, strict=True)}

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(place.stop for place in self.places.values()),)

    @property
    def norm2(self) -> int:
        return len(self.places) * UNIT**2

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """A replaced row leaves one cell of each marginal and enters another."""
        return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        for (name, rung), place in self.places.items():
            cells = self.ladders[name].cells(rows.codes[name], rung)
            sums[place] = np.bincount(cells, minlength=place.stop - place.start)
        return sums * UNIT

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


@dataclass(frozen=True)
class Side:
    """A column of a pair: a row in bin x adds SIDE·e_x - centre along it, shorter than e_x by a factor √(1 - 1/size).

    Two such sides make (e_x - 1/m)(e_y - 1/m')ᵀ, the interaction of both columns alone: the residual basis of Xiao et al. (2023),
    which is the best one for marginals under Gaussian noise.
    """

    size: int

    @property
    def centre(self) -> int:
        return round(SIDE / self.size)

    @property
    def length2(self) -> int:
        """Of every row's vector."""
        return (SIDE - self.centre) ** 2 + (self.size - 1) * self.centre**2

    @property
    def turned(self) -> int:
        """How far two rows in different bins point away from each other: minus their inner product, never negative."""
        return 2 * SIDE * self.centre - self.size * self.centre**2 if self.size > 1 else 0


def _centred(counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
    """Counts along a column as its rows' vectors add up."""
    return np.asarray(SIDE * counts - Side(counts.shape[axis]).centre * counts.sum(axis=axis, keepdims=True))


@dataclass(frozen=True, eq=False)
class Pairs(_Counts):
    """Every column by class, and pairs of columns on their grids, centred, by class where there are few."""

    classes_seen: int
    ladders: Mapping[str, Ladder]
    grids: Mapping[str, Grid]
    pairs: NDArray[np.int64]
    weight: float
    family = "interactions"

    @property
    def groups(self) -> int:
        """Classes that pairs are counted by, or one for all."""
        return self.classes_seen if self.classes_seen <= _FEW_CLASSES else 1

    @cached_property
    def names(self) -> list[str]:
        return list(self.grids)

    @cached_property
    def sizes(self) -> list[int]:
        """Bins of each column."""
        return [grid.size for grid in self.grids.values()]

    @cached_property
    def places(self) -> list[slice]:
        """Where each marginal lies in the vector: the columns, then the pairs."""
        cells = [self.classes_seen * size for size in self.sizes]
        cells += [self.groups * self.sizes[one] * self.sizes[other] for one, other in self.pairs]
        stops = np.cumsum(cells).tolist()
        return [slice(stop - size, stop) for size, stop in zip(cells, stops, strict=True)]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.places[-1].stop,)

    @property
    def norm2(self) -> int:
        """One cell for each column; for a pair the product of two sides."""
        return len(self.sizes) * UNIT**2 + sum(one.length2 * other.length2 for one, other in self._sides)

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """A replaced row's two vectors are orthogonal in every column; in a pair they are furthest apart, |a|² + |b|² - 2a·b,
        where one side turns and the other stays."""
        if relation is Relation.ADD_REMOVE:
            return self.norm2
        apart = sum(max(one.turned * other.length2, one.length2 * other.turned) for one, other in self._sides)
        return 2 * (self.norm2 + apart)

    @cached_property
    def _sides(self) -> list[tuple[Side, Side]]:
        """Of every pair."""
        return [(Side(self.sizes[one]), Side(self.sizes[other])) for one, other in self.pairs.tolist()]

    @property
    def centres(self) -> list[float]:
        """What is taken off a row's bins in each column of a pair."""
        return [Side(size).centre / SIDE for size in self.sizes]

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        for place, joint in zip(self.places, self._joint(rows), strict=True):
            sums[place] = np.bincount(joint, minlength=place.stop - place.start)
        alone = self.places[len(self.sizes) - 1].stop
        sums[:alone] *= UNIT
        for (one, other), place in zip(self.pairs, self.places[len(self.sizes) :], strict=True):
            counts = sums[place].reshape(-1, self.sizes[one], self.sizes[other])
            sums[place] = _centred(_centred(counts, 1), 2).ravel()
        return sums

    def _joint(self, rows: Rows) -> Iterator[NDArray[np.int64]]:
        """The cell of every row in each marginal."""
        bins = [grid.bins[self.ladders[name].cells(rows.codes[name])].astype(np.int64) for name, grid in self.grids.items()]
        for own, size in zip(bins, self.sizes, strict=True):
            yield rows.label * size + own
        group = rows.label if self.groups > 1 else np.zeros(len(rows), np.int64)
        for one, other in self.pairs:
            yield (group * self.sizes[one] + bins[one]) * self.sizes[other] + bins[other]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"bins": np.concatenate([grid.bins for grid in self.grids.values()]), "pairs": self.pairs}


def singles(codec: Codec, weight: float) -> Singles:
    """All columns, at the resolutions that the schema suggests."""
    return Singles(ladders(codec), weight)


_FEW_CLASSES = 6
"""Classes, other and missing among them, by which pairs are split at most: each divides the rows of a cell, and none of its
noise. On Adult with noise as at ε = 1 splitting gave boosting AUC .910 against .904, at TV .0214 of pairs against .0205."""

MOST_PAIRS = 2**13
"""Pairs that are counted at most: the noise grows with their number, and each of 128 columns still meets all others."""


def all_pairs(columns: int) -> NDArray[np.int64]:
    """Pairs of columns, by rank, those of the first columns first where there are too many."""
    pairs = sorted(combinations(range(columns), 2), key=lambda pair: (pair[0] + pair[1], pair))
    return np.array(sorted(pairs[:MOST_PAIRS]), np.int64).reshape(-1, 2)


def public_pairs(codec: Codec, weight: float) -> Pairs:
    """Pairs on grids that hang on the schema alone."""
    rungs = ladders(codec)
    grids = {name: public_grid(ladder) for name, ladder in rungs.items()}
    return Pairs(codec.classes, rungs, grids, all_pairs(len(rungs)), weight)


def load_pairs(codec: Codec, weight: float, bins: NDArray[np.uint16], pairs: NDArray[np.int64]) -> Pairs:
    """A block from its file form; what does not fit the schema is refused."""
    rungs = ladders(codec)
    sizes = [ladder.sizes[-1] for ladder in rungs.values()]
    known = bins.dtype == np.uint16 and pairs.dtype == np.int64
    if not known or bins.shape != (sum(sizes),) or pairs.shape[1:] != (2,) or len(np.unique(pairs, axis=0)) < len(pairs):
        raise ValueError("marginals")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= len(sizes) or (pairs[:, 0] >= pairs[:, 1]).any()):
        raise ValueError("pairs")
    parts = np.split(bins, np.cumsum(sizes)[:-1])
    grids = {name: Grid(part) for name, part in zip(rungs, parts, strict=True)}
    return Pairs(codec.classes, rungs, grids, pairs, weight)
