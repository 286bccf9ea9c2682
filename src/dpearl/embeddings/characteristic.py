"""The paper's embedding: class-conditional characteristic functions at random frequencies.

Σ exp(i t·x) over the rows of each class (Eq. 3), on an integer lattice. A row's phase is
an exact integer sum: coordinates (16 bits) times frequencies (24 bits at that width) are
integers in a float64 matmul that never rounds, whatever the batch or the BLAS; levels add
their own angle by table look-up instead of multiplying one-hot zeros. The phase indexes an
integer cosine table whose entries are truncated towards zero, so that every (cos, sin) has
length at most 1 and a row over k frequencies at most √k, as in Prop. 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from dpearl.codec import Codec, ImageCodec, Rows
from dpearl.privacy import Relation

UNIT = 2**15
"""The integer that stands for 1 in the cosine table."""

_TABLE = 2**14
TURN, FINE = 2**16, 2**32
"""Steps of a whole turn in `angles` and in `lines`."""

_REACH = 2**40
_ROUND = 1.5 * 2**52 + 2
"""Adding this to a float64 leaves the nearest integer, plus 2, in its lowest bits: one pass instead of rint
and a cast. The 2 centres the shift by which 2^16 phases a turn become 2^14 table entries."""

_RAISED = 2
"""Numbers that share a high frequency, on average: with many, the product of their phases would average to nothing."""

_TILE_ROWS, _TILE_FREQUENCIES, _JOINT_LEVELS = 256, 1024, 512
"""Chosen so that a tile of phases and the table stay near a core."""


@cache
def cosine_table() -> NDArray[np.int64]:
    """UNIT·cos and UNIT·sin of 2^14 angles, truncated towards zero, exact by ball arithmetic."""
    quarter = _TABLE // 4
    with ctx.workprec(128):
        inner = [int((UNIT * arb.cos_pi_fmpq(fmpq(2 * i, _TABLE))).floor().unique_fmpz() or 0) for i in range(1, quarter)]
    rising = np.array([0, *reversed(inner), UNIT], np.int64)
    sine = np.concatenate([rising[:-1], rising[:0:-1], -rising[:-1], -rising[:0:-1]])
    return np.stack([np.roll(sine, -quarter), sine])


@cache
def _packed_table() -> NDArray[np.int64]:
    """cos in the upper and sin in the lower 32 bits: one look-up and one addition serve both."""
    cosine, sine = cosine_table()
    packed: NDArray[np.int64] = (cosine << 32) + sine
    return packed


def _unpack(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    sine = ((sums + 2**31) & (2**32 - 1)) - 2**31
    return np.stack([(sums - sine) >> 32, sine], axis=-1)


@dataclass(frozen=True)
class _Scratch:
    """Memory for one tile, used again and again."""

    turns: NDArray[np.float64]
    phases: NDArray[np.uint16]
    angles: NDArray[np.uint16]

    @classmethod
    def empty(cls) -> _Scratch:
        size = _TILE_ROWS * _TILE_FREQUENCIES
        return cls(np.empty(size), np.empty(size, np.uint16), np.empty(size, np.uint16))


@dataclass(frozen=True)
class _Part:
    """A span of frequencies: slopes of the coordinates, angle tables of the level groups."""

    span: slice
    slopes: NDArray[np.float64]
    tables: list[NDArray[np.uint16]]

    def sum(self, coordinates: NDArray[np.float64], codes: dict[int, NDArray[np.int64]], scratch: _Scratch) -> NDArray[np.int64]:
        """Σ (cos, sin) over a tile of rows of one class."""
        shape = len(coordinates), self.slopes.shape[1]
        size = shape[0] * shape[1]
        turns = scratch.turns[:size].reshape(shape)
        phases, angles = scratch.phases[:size].reshape(shape), scratch.angles[:size].reshape(shape)
        np.matmul(coordinates, self.slopes, out=turns)
        turns += _ROUND
        places = turns.view(np.int64)
        phases[...] = places
        for group, code in codes.items():
            phases += self.tables[group].take(code, axis=0, out=angles, mode="clip")
        phases >>= 2
        places[...] = phases
        return _unpack(_packed_table().take(places, out=places, mode="wrap").sum(axis=0))


@dataclass(frozen=True, eq=False)
class Characteristic:
    """k frequencies: `lines` (coordinates × k, 2^-32 turns a step), `angles` (levels × k, 2^-16 turns)."""

    classes: int
    columns: tuple[int, ...]
    weight: float
    scale: float
    seed: int
    lines: NDArray[np.int64]
    angles: NDArray[np.int32]
    family = "characteristic"
    peak = UNIT

    @property
    def frequencies(self) -> int:
        return int(self.angles.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.classes, self.frequencies, 2)

    @property
    def norm2(self) -> int:
        return self.frequencies * UNIT**2

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        if relation is Relation.ADD_REMOVE:
            return self.norm2
        return (4 if same_class else 2) * self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        """Σ (cos, sin) for each class and frequency."""
        sums = np.zeros(self.shape, np.int64)
        order = np.argsort(rows.label, kind="stable")
        coordinates = rows.coordinates[order].astype(np.float64, order="C")
        joint = enumerate(map(rows.joint_levels, self._groups))
        codes = {place: code[order] for place, code in joint if code.any() or not self._silent[place]}
        scratch = _Scratch.empty()
        for label, start, stop in _tiles(rows.label[order]):
            tile = {place: code[start:stop] for place, code in codes.items()}
            for part in self._parts:
                sums[label, part.span] += part.sum(coordinates[start:stop], tile, scratch)
        return sums

    @cached_property
    def _groups(self) -> list[tuple[tuple[int, int], ...]]:
        """Neighbouring level columns whose combinations are few share one table: fewer look-ups a row."""
        return [tuple((column, self.columns[column]) for column in group) for group in _groups(self.columns)]

    @cached_property
    def _silent(self) -> list[bool]:
        """Groups whose first combination adds no angle: where all values are plain they need no look-up."""
        starts = np.cumsum([0, *self.columns])
        return [not any(self.angles[starts[column]].any() for column, _ in group) for group in self._groups]

    @cached_property
    def _parts(self) -> list[_Part]:
        """Frequencies in spans that a tile can hold, as contiguous tables. In 2^-16 turns the slopes are
        still integers times a power of two, so sums stay exact."""
        slopes = self.lines.astype(np.float64) / (FINE // TURN)
        edges = [*range(0, self.frequencies, _TILE_FREQUENCIES), self.frequencies]
        spans = [slice(start, stop) for start, stop in pairwise(edges)]
        tables = [self._table(group) for group in self._groups]
        return [
            _Part(span, np.ascontiguousarray(slopes[:, span]), [np.ascontiguousarray(table[:, span]) for table in tables])
            for span in spans
        ]

    def _table(self, group: tuple[tuple[int, int], ...]) -> NDArray[np.uint16]:
        """Angles of all combinations of a group's levels; the first combination of plain values is zero."""
        starts = np.cumsum([0, *self.columns])
        table = np.zeros((1, self.frequencies), np.uint16)
        for column, size in group:
            own = self.angles[starts[column] : starts[column] + size].astype(np.uint16)
            table = (table[:, None] + own[None]).reshape(-1, self.frequencies)
        return table

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight, "scale": self.scale, "seed": self.seed}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"lines": self.lines, "angles": self.angles}


def draw_characteristic(
    codec: Codec, frequencies: int, scale: float, seed: int, weight: float, octaves: float = 0
) -> Characteristic:
    """Frequencies from N(0, 1/scale²) (Sec. 4.1), drawn from a public seed and laid on the lattice.

    With `octaves`, some numbers are seen at up to so many octaves above the scale: where levels set it, the
    whole range of a number is less than a radian, and nothing but its mean would show.
    """
    columns = tuple(column.levels for column in codec.features.values())
    tops = codec.tops[:, None].astype(np.float64)
    chance = np.random.default_rng(seed)
    normal = chance.standard_normal((len(tops) + sum(columns), frequencies)) / scale
    if octaves:
        normal[: len(tops)] *= _multiples(codec, frequencies, octaves, chance)
    turns = normal / (2 * np.pi)
    limit = _REACH // tops
    lines = np.clip(np.rint(turns[: len(tops)] * FINE / tops), -limit, limit).astype(np.int64)
    angles = np.clip(np.rint(turns[len(tops) :] * TURN), -(2**31), 2**31 - 1).astype(np.int32)
    angles[_plain_levels(codec)] = 0
    return Characteristic(codec.classes, columns, weight, scale, seed, lines, angles)


def _multiples(codec: Codec, frequencies: int, octaves: float, chance: np.random.Generator) -> NDArray[np.float64]:
    """Two numbers at a time, on average, are raised by up to so many octaves; pixels never are."""
    lines = [(not isinstance(column, ImageCodec), column.coordinates) for column in codec.features.values()]
    alone = np.array([single for single, size in lines for _ in range(size)], bool)[:, None]
    raised = alone & (chance.random((len(alone), frequencies)) * max(alone.sum(), 1) < _RAISED)
    return np.where(raised, 2 ** chance.uniform(0, octaves, raised.shape), 1.0)


def load_characteristic(
    codec: Codec, scale: float, seed: int, weight: float, lines: NDArray[np.int64], angles: NDArray[np.int32]
) -> Characteristic:
    """A block from its file form; frequencies that would overrun the lattice are refused."""
    columns = tuple(column.levels for column in codec.features.values())
    fits = lines.shape == (len(codec.tops), angles.shape[1]) and angles.shape[0] == sum(columns)
    limit = _REACH // codec.tops[:, None]
    if not fits or (lines > limit).any() or (lines < -limit).any():
        raise ValueError("frequencies")
    return Characteristic(codec.classes, columns, weight, scale, seed, lines, angles)


def _plain_levels(codec: Codec) -> list[int]:
    """Rows of the level table that stand for a plain value, which its coordinates carry alone."""
    features = list(codec.features.values())
    starts = np.cumsum([0, *(column.levels for column in features)])
    return [int(start) for start, column in zip(starts, features, strict=False) if not column.one_hot]


def _groups(sizes: tuple[int, ...]) -> Iterator[range]:
    start = 0
    while start < len(sizes):
        stop, product = start + 1, sizes[start]
        while stop < len(sizes) and product * sizes[stop] <= _JOINT_LEVELS:
            product, stop = product * sizes[stop], stop + 1
        yield range(start, stop)
        start = stop


def _tiles(labels: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal class in sorted labels, cut into tiles."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    for start, stop in pairwise(edges):
        for tile in range(start, stop, _TILE_ROWS):
            yield int(labels[tile]), tile, min(tile + _TILE_ROWS, stop)
