"""Marginals: how many rows fall in each cell of some columns, looked at together.

A row falls in one cell of every marginal, so over m of them its counts have length √m, or that of what it counts for in each,
however many cells there are: splitting one by class, or into finer cells, costs nothing more. Counts of discrete columns are
characteristic functions at lattice frequencies; these are the paper's embedding where it is sharpest.

`Singles` are single columns at every rung of their ladders; from them the grids of `Pairs` may be chosen, and what is expected of
a row. Of that pairs hold only what rows differ by: what is known already would be repeated at a price. Rows that are like most
others are short then, and those few that are longer than a limit count for less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.grid import MOST_BINS, Grid, Ladder, ladders, public_grid
from dpearl.privacy import Relation

SIDE = 2**8
"""The integer that stands for one row along a column of a pair."""

UNIT = SIDE**2
"""The integer that stands for one row: fine enough for rounding σ up to cost nothing."""

FINER = 0.5
"""Part of a row's count in a column's coarsest cells that it has where the column is seen more finely: people look at the coarse,
and whatever a row adds to others makes all of them noisier. On Adult at ε = 1 TV of single columns is 7%, of pairs 2.5% lower
than with all of it (24,000 of the training rows, six releases)."""

WHOLE = 2**7
"""What a row counts for in pairs, unless it is too long."""

EACH = UNIT // 4
"""What every row adds to the last value, as often as it counts: rows are next to no longer for it, and four times a cell's
noise is spread over all cells of a table, by what is expected in each."""

MOST_LIMIT, MOST_SHARP = 2**48, 2**12
"""Ends of what is computed in 64 bits: WHOLE² times the longest row, and squares of what makes a column sharper."""

Whole = NDArray[np.int64]


class _Counts:
    """What all marginals share: a row adds one unit to one cell of each column."""

    family: str
    weight: float
    classes = 1

    @property
    def peak(self) -> int:
        return UNIT

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight}


@dataclass(frozen=True, eq=False)
class Rungs(_Counts):
    """Columns one by one, at each resolution of their ladders."""

    ladders: Mapping[str, Ladder]
    weight: float

    @cached_property
    def places(self) -> dict[tuple[str, int], slice]:
        """Where each column's rungs lie in the vector."""
        sizes = {(name, rung): size for name, ladder in self.ladders.items() for rung, size in enumerate(ladder.sizes)}
        stops = np.cumsum(list(sizes.values())).tolist()
        return {key: slice(stop - size, stop) for (key, size), stop in zip(sizes.items(), stops, strict=True)}

    @property
    def counted(self) -> list[int]:
        """The integer that stands for one row at each resolution of each column."""
        return [UNIT for _ in self.places]

    @cached_property
    def units(self) -> Whole:
        """The same in each cell."""
        return np.repeat(self.counted, [place.stop - place.start for place in self.places.values()])

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(place.stop for place in self.places.values()),)

    @property
    def norm2(self) -> int:
        return sum(unit**2 for unit in self.counted)

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """A replaced row leaves one cell of each marginal and enters another."""
        return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        for (name, rung), place in self.places.items():
            cells = self.ladders[name].cells(rows.codes[name], rung)
            sums[place] = np.bincount(cells, minlength=place.stop - place.start)
        return sums * self.units

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


@dataclass(frozen=True, eq=False)
class Singles(Rungs):
    """All columns, at the resolutions that the schema suggests.

    The error of a column is that of its k cells together, and goes with k over what a row counts for there; all share one length.
    So the sum of errors is least where a row counts ∛k: up to as many cells as pairs may have bins, since of more most are empty.
    On Adult at ε = 1 TV of single columns is 5% lower than where all columns count alike (24,000 of the training rows, eight
    releases), with √k it is no lower.
    """

    family = "singles"

    @cached_property
    def counted(self) -> list[int]:
        return [self._counted(name, FINER if rung else 1) for name, rung in self.places]

    def _counted(self, name: str, part: float) -> int:
        return round(UNIT * part * math.cbrt(min(self.ladders[name].sizes[0], MOST_BINS)))

    @property
    def peak(self) -> int:
        """In the column that is seen least sharply."""
        return min(self.counted[place] for place, (_, rung) in enumerate(self.places) if rung == 0)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "counted": self.counted}


@dataclass(frozen=True, eq=False)
class Side:
    """A column as pairs see it. A row in bin x adds SIDE·e_x - centres along it: e_x less the share of rows that is expected in
    each bin, so that a row like most others is short. In a cell of several that make up its bin it adds SIDE·e - inner alike.

    Two sides make (e_x - p)(e_y - p')ᵀ, the interaction of both columns alone (with even shares the residual basis of Xiao et al.
    2023). By class, a row's bin is seen `sharp` / SIDE times as sharply, its cell `finer` / SIDE times; where a cell holds
    several values, rows that share one are counted `finest` / SIDE times as sharply, whatever their class.
    """

    grid: Grid
    cells: Grid
    centres: Whole
    inner: Whole
    sharp: int
    finer: int
    finest: int

    @cached_property
    def owner(self) -> Whole:
        """The bin that each cell lies in."""
        owner = np.zeros(self.cells.size, np.int64)
        owner[self.cells.bins] = self.grid.bins
        return owner

    @property
    def sound(self) -> bool:
        """Whether cells lie in one bin each, and shares add up to no more than twice a whole: lengths stay below 2^19 then."""
        within = np.bincount(self.owner, self.inner)
        nested = bool((self.owner[self.cells.bins] == self.grid.bins).all())
        return nested and max(int(self.centres.sum()), int(within.max())) <= 2 * SIDE

    @cached_property
    def lengths2(self) -> Whole:
        """Squared length of a row's vector over the bins, by bin."""
        return np.asarray(UNIT - 2 * SIDE * self.centres + (self.centres**2).sum())

    @cached_property
    def within2(self) -> Whole:
        """Squared length of a row's vector over the cells of its bin, by cell."""
        squares = np.zeros(self.grid.size, np.int64)
        np.add.at(squares, self.owner, self.inner**2)
        return np.asarray(UNIT - 2 * SIDE * self.inner + squares[self.owner])

    @cached_property
    def alone2(self) -> Whole:
        """Squared length of what a row adds to its column alone, by cell."""
        values2 = self.finest**2 * UNIT * self.several
        return np.asarray(self.sharp**2 * self.lengths2[self.owner] + self.finer**2 * self.within2 + values2)

    @cached_property
    def several(self) -> NDArray[np.bool_]:
        """Which cells hold more than one value."""
        return np.asarray(np.bincount(self.cells.bins, minlength=self.cells.size) > 1)

    @cached_property
    def usual2(self) -> Whole:
        """The same by bin, as long as nothing is known but what is expected inside it."""
        expected = np.bincount(self.owner, self.inner * self.alone2) / np.maximum(np.bincount(self.owner, self.inner), 1)
        return np.asarray(np.rint(expected), np.int64)


def even_side(grid: Grid) -> Side:
    """A column of which nothing is known yet."""
    return Side(grid, grid, np.full(grid.size, round(SIDE / grid.size)), np.full(grid.size, SIDE), SIDE, 0, 0)


@dataclass(frozen=True, eq=False)
class Pairs(_Counts):
    """Every column by class, and pairs of columns on their grids, by class where there are few, as `Side`s see them; and EACH
    for every row, which tells what rows count for.

    A row whose vector is longer than the `limit` allows counts for less than WHOLE: its weight is the largest integer a such that
    a² · length² ≤ WHOLE² · limit, computed in integers. So no row whatever is longer than WHOLE·√limit, and neither centres nor
    weights have any part in the guarantee.
    """

    classes_seen: int
    ladders: Mapping[str, Ladder]
    sides: Mapping[str, Side]
    pairs: Whole
    limit: int
    weight: float
    family = "interactions"

    @property
    def peak(self) -> int:
        return WHOLE * UNIT

    @property
    def groups(self) -> int:
        """Classes that pairs and cells inside bins are counted by, or one for all."""
        return self.classes_seen if self.classes_seen <= _FEW_CLASSES else 1

    @cached_property
    def names(self) -> list[str]:
        return list(self.sides)

    @cached_property
    def grids(self) -> dict[str, Grid]:
        return {name: side.grid for name, side in self.sides.items()}

    @cached_property
    def sizes(self) -> list[int]:
        """Bins of each column."""
        return [grid.size for grid in self.grids.values()]

    @cached_property
    def places(self) -> list[slice]:
        """Where each marginal lies in the vector: the columns, what is inside their bins and cells, the pairs, and all rows."""
        cells = [self.classes_seen * size for size in self.sizes]
        cells += [self.groups * side.cells.size if side.finer else 0 for side in self.sides.values()]
        cells += [len(side.cells.bins) if side.finest else 0 for side in self.sides.values()]
        cells += [*(self.groups * self.sizes[one] * self.sizes[other] for one, other in self.pairs), 1]
        stops = np.cumsum(cells).tolist()
        return [slice(stop - size, stop) for size, stop in zip(cells, stops, strict=True)]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.places[-1].stop,)

    @property
    def norm2(self) -> int:
        return WHOLE**2 * self.limit

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """Two rows are at most twice as far apart as the longer of them is long (triangle inequality)."""
        return self.norm2 if relation is Relation.ADD_REMOVE else 4 * self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        values = [self.ladders[name].cells(rows.codes[name]) for name in self.sides]
        cells = [side.cells.bins[own].astype(np.int64) for side, own in zip(self.sides.values(), values, strict=True)]
        bins = [side.owner[own] for side, own in zip(self.sides.values(), cells, strict=True)]
        alone2 = np.sum([side.alone2[own] for side, own in zip(self.sides.values(), cells, strict=True)], axis=0)
        counted = self.counted(bins, alone2)
        group = rows.label if self.groups > 1 else np.zeros(len(rows), np.int64)
        alone, inside, single, pairs = self._parts()
        for side, own, place in zip(self.sides.values(), bins, alone, strict=True):
            counts = _counts((rows.label, own), (self.classes_seen, side.grid.size), counted)
            sums[place] = side.sharp * _centred(counts, side.centres, 1).ravel()
        for side, own, place in zip(self.sides.values(), cells, inside, strict=True):
            if side.finer:
                counts = _counts((group, own), (self.groups, side.cells.size), counted)
                sums[place] = side.finer * (SIDE * counts - side.inner * _held(counts, side)).ravel()
        for side, own, cell, place in zip(self.sides.values(), values, cells, single, strict=True):
            if side.finest:
                sums[place] = side.finest * SIDE * _counts((own,), (len(side.cells.bins),), counted * side.several[cell])
        centres = [side.centres for side in self.sides.values()]
        for (one, other), place in zip(self.pairs, pairs, strict=True):
            counts = _counts((group, bins[one], bins[other]), (self.groups, self.sizes[one], self.sizes[other]), counted)
            sums[place] = _centred(_centred(counts, centres[one], 1), centres[other], 2).ravel()
        sums[-1] = EACH * counted.sum()
        return sums

    def usually_counted(self, bins: Sequence[Whole]) -> Whole:
        """What rows in these bins count for, at least about: where inside them they lie is not known."""
        return self.counted(bins, np.sum([side.usual2[own] for side, own in zip(self.sides.values(), bins, strict=True)], axis=0))

    def counted(self, bins: Sequence[Whole], alone2: Whole) -> Whole:
        """What each row counts for, at most WHOLE, given its bins and the squared length of all that it adds by class.

        Lengths are integers below 2^53, so that products of floats are exact, whatever the order of their sums.
        """
        lengths2 = np.stack([side.lengths2[own] for side, own in zip(self.sides.values(), bins, strict=True)], axis=1)
        floats = lengths2.astype(np.float64)
        length2 = EACH**2 + alone2 + ((floats @ self._met) * floats).sum(axis=1).astype(np.int64)
        return np.asarray(np.sqrt(np.minimum(self.norm2 // length2, WHOLE**2)), np.int64)

    @cached_property
    def _met(self) -> NDArray[np.float64]:
        """1 where a pair of columns is counted."""
        met = np.zeros((len(self.sizes), len(self.sizes)))
        met[self.pairs[:, 0], self.pairs[:, 1]] = 1
        return met

    @property
    def longest2(self) -> int:
        """No row's vector is longer, whatever the limit."""
        sides = list(self.sides.values())
        most = np.array([int(side.lengths2.max()) for side in sides])
        return EACH**2 + sum(int(side.alone2.max()) for side in sides) + int(most @ self._met.astype(np.int64) @ most)

    @property
    def limited(self) -> bool:
        """Whether some row may count for less than another."""
        return self.limit < self.longest2

    def _parts(self) -> tuple[list[slice], list[slice], list[slice], list[slice]]:
        """The places of columns, of what is inside their bins, of values inside cells, and of pairs."""
        ends = [0, *(len(self.sizes) * part for part in (1, 2, 3)), len(self.places) - 1]
        alone, inside, single, pairs = (self.places[start:stop] for start, stop in pairwise(ends))
        return alone, inside, single, pairs

    def columns(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """Of a vector of this shape, each column: class × bin."""
        return [vector[place].reshape(self.classes_seen, -1) for place in self._parts()[0]]

    def insides(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """What is inside each column's bins: group × cell, or nothing."""
        return [vector[place].reshape(self.groups, -1) for place in self._parts()[1]]

    def values(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """Rows that share each value, where a cell holds several, or nothing."""
        return [vector[place] for place in self._parts()[2]]

    def tables(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """Each pair: group × bin × bin."""
        found = zip(self.pairs.tolist(), self._parts()[3], strict=True)
        return [vector[place].reshape(-1, self.sizes[one], self.sizes[other]) for (one, other), place in found]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "limit": self.limit}

    def arrays(self) -> dict[str, NDArray[Any]]:
        sides = self.sides.values()
        return {
            "bins": np.concatenate([side.grid.bins for side in sides]),
            "cells": np.concatenate([side.cells.bins for side in sides]),
            "centres": np.concatenate([side.centres for side in sides]),
            "inner": np.concatenate([side.inner for side in sides]),
            "sharpness": np.array([(side.sharp, side.finer, side.finest) for side in sides], np.int64),
            "pairs": self.pairs,
        }


def _counts(places: tuple[Whole, ...], shape: tuple[int, ...], counted: Whole) -> Whole:
    """Rows in each cell, by what they count for: sums of small integers, which floats hold exactly."""
    joint = places[0]
    for own, size in zip(places[1:], shape[1:], strict=True):
        joint = joint * size + own
    return np.bincount(joint, counted, minlength=math.prod(shape)).astype(np.int64).reshape(shape)


def _centred(counts: Whole, centres: Whole, axis: int) -> Whole:
    """Counts along a column as its rows' vectors add up."""
    along = centres.reshape([-1 if place == axis else 1 for place in range(counts.ndim)])
    return np.asarray(SIDE * counts - along * counts.sum(axis=axis, keepdims=True))


def _held(counts: Whole, side: Side) -> Whole:
    """Rows in the bin of each cell."""
    held = np.zeros((side.grid.size, len(counts)), np.int64)
    np.add.at(held, side.owner, counts.T)
    return np.asarray(held[side.owner].T)


def singles(codec: Codec, weight: float) -> Singles:
    """Those of a schema."""
    return Singles(ladders(codec), weight)


def load_singles(codec: Codec, weight: float, counted: list[int]) -> Singles:
    """The same from its file form."""
    made = singles(codec, weight)
    if counted != made.counted:
        raise ValueError("counted")
    return made


_FEW_CLASSES = 6
"""Classes, other and missing among them, by which pairs are split at most: each divides the rows of a cell, and none of its
noise. On Adult with noise as at ε = 1 splitting gave boosting AUC .910 against .904, at TV .0214 of pairs against .0205."""

MOST_PAIRS = 2**13
"""Pairs that are counted at most: the noise grows with their number, and each of 128 columns still meets all others."""


def all_pairs(columns: int) -> NDArray[np.int64]:
    """Pairs of columns, by rank, those of the first columns first where there are too many."""
    pairs = sorted(combinations(range(columns), 2), key=lambda pair: (pair[0] + pair[1], pair))
    return np.array(sorted(pairs[:MOST_PAIRS]), np.int64).reshape(-1, 2)


def pairs_of(codec: Codec, rungs: Mapping[str, Ladder], sides: Mapping[str, Side], weight: float) -> Pairs:
    """All pairs of these columns; every row counts in full."""
    made = Pairs(codec.classes, rungs, sides, all_pairs(len(rungs)), 1, weight)
    return replace(made, limit=made.longest2)


def public_pairs(codec: Codec, weight: float) -> Pairs:
    """Pairs on grids that hang on the schema alone."""
    rungs = ladders(codec)
    return pairs_of(codec, rungs, {name: even_side(public_grid(ladder)) for name, ladder in rungs.items()}, weight)


def load_pairs(
    codec: Codec,
    weight: float,
    limit: int,
    bins: NDArray[np.uint16],
    cells: NDArray[np.uint16],
    centres: Whole,
    inner: Whole,
    sharpness: Whole,
    pairs: Whole,
) -> Pairs:
    """A block from its file form; what does not fit the schema is refused."""
    rungs = ladders(codec)
    finest = [ladder.sizes[-1] for ladder in rungs.values()]
    small, whole = {bins.dtype, cells.dtype}, {centres.dtype, inner.dtype, sharpness.dtype, pairs.dtype}
    if small != {np.dtype(np.uint16)} or whole != {np.dtype(np.int64)} or {bins.shape, cells.shape} != {(sum(finest),)}:
        raise ValueError("marginals")
    if type(limit) is not int or not 1 <= limit < MOST_LIMIT or sharpness.shape != (len(finest), 3):
        raise ValueError("marginals")
    if pairs.shape[1:] != (2,) or len(np.unique(pairs, axis=0)) < len(pairs):
        raise ValueError("pairs")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= len(finest) or (pairs[:, 0] >= pairs[:, 1]).any()):
        raise ValueError("pairs")
    grids, nested = ([Grid(part) for part in np.split(own, np.cumsum(finest)[:-1])] for own in (bins, cells))
    if centres.shape != (sum(grid.size for grid in grids),) or inner.shape != (sum(grid.size for grid in nested),):
        raise ValueError("marginals")
    if min(centres.min(), inner.min(), sharpness.min()) < 0 or sharpness.max() > MOST_SHARP or len(pairs) > MOST_PAIRS:
        raise ValueError("marginals")
    expected = np.split(centres, np.cumsum([grid.size for grid in grids])[:-1])
    within = np.split(inner, np.cumsum([grid.size for grid in nested])[:-1])
    told = zip(rungs, grids, nested, expected, within, sharpness.tolist(), strict=True)
    sides = {name: Side(grid, own, centre, part, *weights) for name, grid, own, centre, part, weights in told}
    if not all(side.sound for side in sides.values()):
        raise ValueError("marginals")
    return Pairs(codec.classes, rungs, sides, pairs, limit, weight)
