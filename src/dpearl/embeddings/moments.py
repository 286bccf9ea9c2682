"""Means and second moments of pictures, for each class: what strokes and shapes look like, and how they vary.

A picture is seen through a public map: its low cosine waves (family `moments`), or its changes towards neighbours in
coarse cells (family `edges`). The map's values lie on an integer grid and are cut to a length of at most GRID. A row v adds
(MEAN·v, SQUARE·vᵢ², CROSS·vᵢvⱼ), whose squared length is MEAN²|v|² + SQUARE²·Σvᵢ⁴ + CROSS²·Σ_{i<j} vᵢ²vⱼ². As CROSS² ≤ 2·SQUARE²,
that is at most MEAN²|v|² + SQUARE²|v|⁴: cross products count nearly √2 times, at no cost.

Everything is integers, in float64 matmuls below 2^53 that never round: the same for every batch and BLAS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.privacy import Relation
from dpearl.schema import Image

GRID = 2**12
"""The integer that stands for the longest row."""

MEAN, SQUARE, CROSS = 3 * GRID // 2, 5, 7
"""What means, squares and cross products are multiplied by: (7/5)² ≤ 2, and 3/2 of the 5 gives means 8% of the block's share."""

WAVES, COLOUR_WAVES = 10, 6
"""Waves along an axis: more would be noise at 6,000 pictures a class and ε = 1, fewer lose the strokes."""

CELLS, CELL = 6, 4
"""Cells along an axis, at most, and the fewest pixels that a cell spans."""

BRIGHTNESS, STEEPNESS = 6.5 / 28, 15 * 6 / 28
"""Lengths at which rows are cut: the root mean square of a picture's values, and of the changes that a cell of one pixel sums up.
About a fifth of written digits are shorter. Cutting costs little, since what is left says the shape, and noise grows with it."""

_WAVE, _CELL_WAVE, _POOL = 2**12, 2**6, 2**5
"""Integers that stand for 1 in the two tables of cosines and in a pixel's part of a cell."""

DIRECTIONS = ((0, 1), (1, 1), (1, 0), (1, -1))
"""Neighbours that a pixel is compared with, by angle: right, lower right, below, lower left."""

_TILE = 2**9
"""Pictures at a time: their maps stay near a core."""

Table = NDArray[np.float64]
"""Whole numbers; pictures are (pictures, channels, height, width), 0..255."""


@cache
def cosines(waves: int, points: int, unit: int) -> Table:
    """The lowest waves of the orthonormal cosine transform (DCT-II) in whole units, nearest by ball arithmetic."""
    with ctx.workprec(128):
        root, half = (arb(2) / points).sqrt() * unit, arb(fmpq(1, 2))
        rows = [[root * arb.cos_pi_fmpq(fmpq((2 * x + 1) * k, 2 * points)) for x in range(points)] for k in range(waves)]
        rows[0] = [value / arb(2).sqrt() for value in rows[0]]
        return np.array([[int((value + half).floor().unique_fmpz() or 0) for value in row] for row in rows], np.float64)


def pooling(cells: int, points: int) -> Table:
    """How far each point belongs to each cell: triangles that add up to one everywhere, in units of 1/_POOL."""
    twice, place = (2 * np.arange(cells)[:, None] + 1) * points, (2 * np.arange(points)[None] + 1) * cells
    near = np.clip(2 * points - abs(place - twice), 0, 2 * points)
    near[0] = np.where(place[0] < twice[0], 2 * points, near[0])
    near[-1] = np.where(place[0] > twice[-1], 2 * points, near[-1])
    return np.asarray((near * _POOL + points) // (2 * points), np.float64)


def _towards_zero(values: Table, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    whole = values.astype(np.int64)
    return np.asarray(np.sign(whole) * (abs(whole) // steps))


@dataclass(frozen=True)
class Waves:
    """The lowest cosine waves of every channel. Brightness, the largest of them and nearly known, counts two fifths."""

    picture: Image

    @property
    def counts(self) -> tuple[int, int]:
        """Waves down and across."""
        most = WAVES if self.picture.channels == 1 else COLOUR_WAVES
        return min(most, self.picture.height), min(most, self.picture.width)

    @property
    def size(self) -> int:
        return math.prod(self.counts) * self.picture.channels

    @property
    def tables(self) -> tuple[Table, Table]:
        """The waves down and across, in units of 1/2^12."""
        down, across = self.counts
        return cosines(down, self.picture.height, _WAVE), cosines(across, self.picture.width, _WAVE)

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """What one on the grid stands for, in the units of pixels and tables."""
        length = BRIGHTNESS * math.sqrt(self.picture.pixels)
        steps = np.full((self.picture.channels, *self.counts), round(length * 255 * _WAVE**2 / GRID), np.int64)
        steps[:, 0, 0] = steps[:, 0, 0] * 5 // 2
        return steps.ravel()

    @property
    def patterns(self) -> Table:
        """The waves as pictures, in units of 1/2^24: one in a row, pixels by channel, height and width."""
        down, across = self.tables
        wave = np.einsum("ai,bj->abij", down, across).reshape(len(down) * len(across), -1)
        return np.kron(np.eye(self.picture.channels), wave)

    @property
    def factors(self) -> Table:
        """What a wave of length 1 in a picture with values in [0, 1] becomes, in units of GRID."""
        return np.asarray(255 * _WAVE**2 / (self.steps * GRID))

    def __call__(self, pixels: Table) -> NDArray[np.int64]:
        down, across = self.tables
        return _towards_zero((down @ pixels @ across.T).reshape(len(pixels), -1), self.steps)


@dataclass(frozen=True)
class Edges:
    """How grey changes from a pixel to four of its neighbours, and how much: d and |d|, summed in cells.

    Sizes of changes tell a sharp stroke from a blurred one, which waves cannot. The sums are taken as waves over directions and
    cells. What all directions share is mostly that pictures have something in the middle: it counts half, and its sum over all
    cells three tenths.
    """

    picture: Image

    @property
    def cells(self) -> tuple[int, int]:
        """Cells down and across."""
        down, across = (min(CELLS, -(-size // CELL)) for size in (self.picture.height, self.picture.width))
        return down, across

    @property
    def size(self) -> int:
        return 2 * len(DIRECTIONS) * math.prod(self.cells)

    @property
    def tables(self) -> tuple[Table, Table]:
        """Parts of cells down and across, in units of 1/2^5."""
        down, across = self.cells
        return pooling(down, self.picture.height), pooling(across, self.picture.width)

    @property
    def mixing(self) -> tuple[Table, Table, Table]:
        """Waves over directions, and over cells down and across, in units of 1/2^6."""
        down, across = self.cells
        return cosines(4, 4, _CELL_WAVE), cosines(down, down, _CELL_WAVE), cosines(across, across, _CELL_WAVE)

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """What one on the grid stands for, in the units of grey and tables."""
        span = math.sqrt(self.picture.height * self.picture.width / math.prod(self.cells))
        length = STEEPNESS * span * 255 * self.picture.channels
        step = round(length * _POOL**2 * _CELL_WAVE**3 * math.sqrt(2) / GRID)
        steps = np.full((2, len(DIRECTIONS), *self.cells), step, np.int64)
        steps[0, 0] *= 2
        steps[0, 0, 0, 0] = step * 10 // 3
        return steps.ravel()

    @property
    def factors(self) -> Table:
        """What a sum of 1 over tables becomes, for pictures with values in [0, 1], in units of GRID."""
        return np.asarray(255 / (self.steps * GRID))

    def __call__(self, pixels: Table) -> NDArray[np.int64]:
        framed = np.pad(pixels.sum(axis=1), ((0, 0), (1, 1), (1, 1)))
        height, width = self.picture.height, self.picture.width
        inner = framed[:, 1:-1, 1:-1]
        changes = [framed[:, 1 + y : 1 + y + height, 1 + x : 1 + x + width] - inner for y, x in DIRECTIONS]
        return self._mixed(np.stack([[abs(change) for change in changes], changes]))

    def _mixed(self, changes: Table) -> NDArray[np.int64]:
        """Maps (sizes or changes, directions, pictures, height, width) as waves over directions and cells."""
        (down, across), (turns, rows, columns) = self.tables, self.mixing
        waves = (rows @ down) @ changes @ (columns @ across).T
        mixed = np.tensordot(waves, turns, (1, 1))
        return _towards_zero(np.moveaxis(mixed, (1, 4), (0, 2)).reshape(changes.shape[2], -1), self.steps)


_VIEWS: dict[str, type[Waves] | type[Edges]] = {"moments": Waves, "edges": Edges}


def clipped(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows no longer than GRID: longer ones are multiplied by GRID over their length rounded up, and cut towards zero."""
    squares = (values * values).sum(axis=1)
    lengths = np.sqrt(squares).astype(np.int64)
    lengths += lengths * lengths < squares
    lengths = np.maximum(lengths, GRID)[:, None]
    return np.asarray(np.sign(values) * (abs(values) * GRID // lengths))


@dataclass(frozen=True)
class Moments:
    """Σ of means and second moments of a view of one picture column, for each class."""

    family: str
    classes: int
    start: int
    picture: Image
    weight: float
    peak = SQUARE * GRID**2

    @cached_property
    def view(self) -> Waves | Edges:
        return _VIEWS[self.family](self.picture)

    @property
    def shape(self) -> tuple[int, ...]:
        """For each class, the means, and then the upper triangle row by row."""
        size = self.view.size
        return (self.classes, size + size * (size + 1) // 2)

    @property
    def norm2(self) -> int:
        return MEAN**2 * GRID**2 + SQUARE**2 * GRID**4

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        """Means of two rows may be opposite, so within a class the triangle inequality is all there is."""
        if relation is Relation.ADD_REMOVE:
            return self.norm2
        return (4 if same_class else 2) * self.norm2

    def values(self, rows: Rows) -> NDArray[np.int64]:
        """Rows as the block sees them, no longer than GRID."""
        pixels = rows.coordinates[:, self.start : self.start + self.picture.pixels].astype(np.float64)
        shaped = pixels.reshape(len(rows), self.picture.height, self.picture.width, self.picture.channels)
        return clipped(self.view(np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))))

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        for start in range(0, len(rows), _TILE):
            part = slice(start, start + _TILE)
            values = self.values(Rows(rows.label[part], rows.coordinates[part], rows.levels[part]))
            for label in np.unique(rows.label[part]):
                sums[label] += self._row_sum(values[rows.label[part] == label].astype(np.float64))
        return sums

    def _row_sum(self, values: Table) -> NDArray[np.int64]:
        products = (values.T @ values).astype(np.int64)
        upper = np.triu_indices(self.view.size)
        factors = np.where(upper[0] == upper[1], SQUARE, CROSS)
        return np.concatenate([MEAN * values.sum(axis=0).astype(np.int64), factors * products[upper]])

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


def picture_moments(codec: Codec, family: str, weight: float) -> Moments:
    """The block of this family over the first picture of a schema."""
    start = 0
    for name, column in codec.features.items():
        declared = codec.schema.columns[name]
        if isinstance(declared, Image):
            return Moments(family, codec.classes, start, declared, weight)
        start += column.coordinates
    raise ValueError("no picture")
