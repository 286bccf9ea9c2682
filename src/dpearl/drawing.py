"""Rows of a mixture in which pairs of columns are as common as the mixture says.

Independent draws scatter: among as many rows as Adult has half as far as the noise of a release at ε = 1 moves what is learnt.
So rows are drawn one by one first, and then again, column by column, given all others: by the probabilities of their component,
and the less likely a bin, the more rows its pairs have already. That is Gibbs sampling of the mixture with an energy: squares of
what counts of pairs differ by, each over the root of what is expected: by the mixture, and by what the release says beyond it
(`remainder`), cells that no row is in among them. What is left over is made good by rows that come after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpearl.codec import Codes
from dpearl.density import Floats, raked
from dpearl.grid import Grid, Ladder
from dpearl.mixture import Mixture, inverse
from dpearl.remainder import Remainder
from dpearl.withheld import Places

Matrix = NDArray[np.float32]

_PULL = 0.3
"""Nats for each unit of energy; on Adult the scatter that is left is the same from .3 to 1, at .1 a third larger."""

_AT_ONCE = 64
"""Rows that are drawn again at a time: more would all go where rows are wanting, and overshoot."""

_DEAR = 10.0
"""Energy of a row where none is."""

_TIMES = 2
"""How often every column is drawn again: on Adult four times take boosting AUC on training rows from .9143 to .9149 and the TV of
three columns from .0476 to .0475 (five releases), twice is a good part of that for half of the price."""

_STEEPEST, _PLAIN = 3.0, 0.1
"""Most nats that a component's rows may lean over a bin, and the part of each component that is taken to be like all rows, so
that hardly any rows next door are not taken for a wall."""


class Sampler:
    """Rows of one sample, some at a time, and what these owe to those that come after."""

    def __init__(self, mixture: Mixture, rest: Remainder, chance: torch.Generator) -> None:
        self._mixture = mixture
        self._chance = np.random.default_rng(int(torch.randint(2**62, (1,), generator=chance)))
        with torch.no_grad():
            parts = [part.numpy() for part in mixture.probabilities()]
        self._free = [column for column in range(len(parts)) if column not in mixture.tables]
        self._parts = [parts[column] for column in self._free]
        self._starts = np.cumsum([0, *(part.shape[1] for part in self._parts)])
        with np.errstate(divide="ignore"):
            self._logs = [np.log(part) for part in self._parts]
        self._owners = mixture.owners.numpy()
        columns = zip(mixture.block.grids.items(), rest.insides, strict=True)
        self._inside = [[Inside.of(mixture.block.ladders[name], grid, own) for own in counts] for (name, grid), counts in columns]
        grids = zip(mixture.block.grids.items(), parts, strict=True)
        along = [(_stretches(mixture.block.ladders[name], grid), part) for (name, grid), part in grids]
        self._lean = [leaning(own, part, mixture.weights.numpy()) for own, part in along]
        places = np.concatenate([np.arange(*mixture.target.starts[column : column + 2]) for column in self._free])
        self._beyond = rest.pairs[:, places[:, None], places].astype(np.float32)
        self._never = rest.never[places[:, None], places]
        self._owed = np.zeros_like(self._beyond)

    def draw(self, classes: Tensor) -> dict[str, Codes]:
        """A row for each class that is asked for."""
        asked = classes.numpy()
        component = np.empty(len(asked), np.int64)
        for place in np.unique(asked):
            rows, own = np.flatnonzero(asked == place), np.flatnonzero(self._owners == place)
            component[rows] = own[(self._even(np.zeros(len(rows), np.int64)) * len(own)).astype(np.int64)]
        bins = [np.empty(0, np.int64)] * len(self._inside)
        for column, own in zip(self._free, self._balanced(asked, component).T, strict=True):
            bins[column] = own
        for column, table in self._mixture.tables.items():
            given = bins[int(self._mixture.parents[column])]
            bins[column] = inverse(table.numpy()[given], self._even(given))
        group = asked if len(self._owed) > 1 else np.zeros_like(asked)
        columns = zip(self._mixture.block.names, self._inside, self._lean, bins, strict=True)
        return {name: self._placed(inside, own, group, lean[component, own]) for name, inside, lean, own in columns}

    def _placed(self, inside: list[Inside], bins: Places, group: Places, lean: Matrix) -> Codes:
        """A code for every row, inside its bin as its group lies there; rows that lean to one end have codes nearer to it."""
        share = self._even(bins * len(inside) + group, _leant(self._chance.random(len(bins)), lean))
        codes = inside[0].place(bins, share)
        for place, own in enumerate(inside[1:], start=1):
            rows = np.flatnonzero(group == place)
            codes[rows] = own.place(bins[rows], share[rows])
        return codes

    def _even(self, group: Places, order: Floats | None = None) -> Floats:
        """A share of the unit interval for each row, spread evenly over the rows of its group, in this order or in none."""
        ranked = np.lexsort((self._chance.random(len(group)) if order is None else order, group))
        sizes = np.bincount(group, minlength=1)
        rank = np.empty(len(group))
        rank[ranked] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray((rank + self._chance.random(len(group))) / sizes[group])

    def _balanced(self, classes: Places, component: Places) -> Places:
        """The bins of every row in free columns."""
        bins = np.stack([inverse(part[component], self._chance.random(len(component))) for part in self._parts], axis=1)
        counted = classes if len(self._owed) > 1 else np.zeros_like(classes)
        for group in np.unique(counted):
            rows = np.flatnonzero(counted == group)
            bins[rows] = self._again(group, component[rows], bins[rows])
        return bins

    def _again(self, group: int, component: Places, bins: Places) -> Places:
        """Bins of rows whose pairs are counted together, drawn again in every column."""
        starts = self._starts
        hot = np.zeros((len(bins), starts[-1]), np.float32)
        hot[np.arange(len(bins))[:, None], bins + starts[:-1]] = 1
        expected = self._expected(group, component)
        over = self._owed[group] + hot.T @ hot - expected
        prices = np.asarray(np.where(self._never, _DEAR, 1 / np.sqrt(expected + 1)), np.float32)
        for start, stop in pairwise(starts):
            prices[start:stop, start:stop] = 0
        for column in np.concatenate([self._chance.permutation(len(self._parts)) for _ in range(_TIMES)]):
            own = slice(starts[column], starts[column + 1])
            self._column(hot, own, prices[:, own], over[:, own], self._logs[column][component])
            over[own] = over[:, own].T
        self._owed[group] = over
        return np.stack([hot[:, start:stop].argmax(axis=1) for start, stop in pairwise(starts)], axis=1)

    def _expected(self, group: int, component: Places) -> Matrix:
        """Counts of pairs among rows that are spread evenly over the components of their classes, and what stands out beyond."""
        owners = self._owners[component]
        weights = (np.bincount(owners, minlength=self._owners.max() + 1) / np.maximum(np.bincount(self._owners), 1))[self._owners]
        parts = np.concatenate(self._parts, axis=1)
        share = self._mixture.target.shares[group] if len(self._beyond) > 1 else 1.0
        of_all = len(component) / max(self._mixture.target.rows * share, 1)
        counts = (parts * weights[:, None].astype(np.float32)).T @ parts + np.float32(of_all) * self._beyond[group]
        return self._raked(np.where(self._never, 0, np.maximum(counts, 0)), weights @ parts)

    def _raked(self, counts: Matrix, columns: Floats) -> Matrix:
        """Pairs with cells that no row is in: their rows go to others of the same bins."""
        for down, across in combinations([slice(*ends) for ends in pairwise(self._starts)], 2):
            if self._never[down, across].any():
                counts[down, across] = raked(counts[down, across], columns[down], columns[across])
                counts[across, down] = counts[down, across].T
        return counts

    def _column(self, hot: Matrix, own: slice, prices: Matrix, over: Matrix, logs: Matrix) -> None:
        """A column's bins drawn again, some rows at a time, in `hot`; `over` is what its pairs have beyond what is expected."""
        for rows in self._portions(len(hot)):
            now = hot[rows, own]
            others = hot[rows]
            step = others @ prices
            energy = 2 * (others @ (prices * over)) + step - 2 * now * step
            odds = logs[rows] - _PULL * energy
            chances = np.exp(odds - odds.max(axis=1, keepdims=True))
            new = np.zeros_like(now)
            new[np.arange(len(rows)), inverse(chances, self._chance.random(len(rows)))] = 1
            over += others.T @ (new - now)
            hot[rows, own] = new

    def _portions(self, rows: int) -> Iterator[Places]:
        yield from np.array_split(self._chance.permutation(rows), math.ceil(rows / _AT_ONCE))


def _stretches(ladder: Ladder, grid: Grid) -> Places:
    """Bins of several values of a line, in its order."""
    along = grid.along(ladder)
    return np.asarray(along[np.bincount(grid.bins)[along] > 1])


def leaning(along: Places, parts: Matrix, weights: Matrix) -> Matrix:
    """How steeply the rows of each component lean over each bin, in nats from its lower to its upper end.

    A component that is commoner in the bin above than in the one below is commoner at the upper end than at the lower, too: its
    density over that of all rows is taken to be as steep inside a bin as from the bin before to the one after.
    """
    lean = np.zeros_like(parts)
    if len(along) > 1:
        usual = np.maximum(weights @ parts / weights.sum(), 1e-12)
        logs = np.log((1 - _PLAIN) * parts / usual + _PLAIN)[:, along]
        lean[:, along] = np.clip(np.gradient(logs, axis=1), -_STEEPEST, _STEEPEST)
    return lean


def _leant(even: Floats, lean: Matrix) -> Floats:
    """Even shares of the unit interval moved to a density of exp(lean · share)."""
    steep = np.where(np.abs(lean) > 1e-6, lean, 1e-6)
    return np.asarray(np.log1p(even * np.expm1(steep)) / steep)


@dataclass(frozen=True, eq=False)
class Inside:
    """A column's bins from inside: cells sorted by bin, and how much of all bins each reaches."""

    ladder: Ladder
    cells: Places
    reached: Floats
    open: NDArray[np.bool_]

    @classmethod
    def of(cls, ladder: Ladder, grid: Grid, counts: Floats) -> Inside:
        """By the released histogram, over cells that may come back; evenly where it holds nothing."""
        bins, size = grid.bins, grid.size
        held = np.where(ladder.returned, counts, 0)
        empty = np.bincount(bins, held, size) <= 0
        held = np.where(empty[bins], ladder.returned.astype(float), held)
        order = np.argsort(bins, kind="stable")
        shares = held / np.maximum(np.bincount(bins, held, size), 1e-300)[bins]
        return cls(ladder, order, np.cumsum(shares[order]), grid.open(ladder))

    def place(self, bins: Places, share: Floats) -> Codes:
        """A code inside each bin: the bins before it hold one each, as far as they are open."""
        before: Places = np.cumsum(self.open) - self.open
        places = np.searchsorted(self.reached, before[bins] + share * (1 - 1e-9), side="right")
        cells = self.cells[np.minimum(places, len(self.cells) - 1)]
        left = np.concatenate([[0.0], self.reached])[np.minimum(places, len(self.cells) - 1)]
        width = np.maximum(self.reached[np.minimum(places, len(self.cells) - 1)] - left, 1e-12)
        return self.ladder.place(cells, np.clip((before[bins] + share - left) / width, 0, 1))
