"""What noisy histograms say of single columns: counts that are possible, agree between resolutions, and hold little noise.

Everything here is a function of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dpearl.embeddings.marginals import Singles
from dpearl.grid import Grid, Ladder, made_of
from dpearl.measurement import Measurement

Floats = NDArray[np.float64]

Rung = tuple[Floats, Floats]
"""Noisy counts of the cells of a rung, and the standard deviation of each one's noise."""

_SEEN, _ROUNDS = 8.0, 100
"""A count of eight times its noise is certainly there. After a hundred rounds a prior hardly moves; 300 change no figure."""

_RAKED = 30
"""Rounds of raking, after which margins hardly move."""


def simplex(noisy: Floats, total: float) -> Floats:
    """The nearest counts that are not negative and add up to the total (Euclidean projection)."""
    if total <= 0:
        return np.zeros_like(noisy)
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    return np.asarray(np.maximum(noisy - over[np.flatnonzero(falling > over)[-1]], 0))


def column_counts(measured: Measurement, rows: float) -> dict[str, Floats]:
    """Rows in every finest cell of every column, from coarse to fine."""
    block = measured.design.block("singles")
    assert isinstance(block, Singles)
    return {name: down(block.ladders[name], rungs, max(rows, 1.0)) for name, rungs in rungs_of(measured).items()}


def rungs_of(measured: Measurement) -> dict[str, list[Rung]]:
    """Every column's counts at all its resolutions, as they were measured."""
    block = measured.design.block("singles")
    assert isinstance(block, Singles)
    noisy, noise = measured.sums["singles"] / block.units, measured.sigmas["singles"] / block.units
    found: dict[str, list[Rung]] = {name: [] for name in block.ladders}
    for (name, _), place in block.places.items():
        found[name].append((noisy[place], noise[place]))
    return found


def down(ladder: Ladder, rungs: Sequence[Rung], rows: float) -> Floats:
    """Counts from those of every rung: the coarsest as a whole, then each cell's rows over those inside it."""
    (noisy, noise), *finer = upwards(ladder, rungs)
    if ladder.column.one_hot:
        return _shared(np.array([rows]), np.maximum(likely(noisy, noise, 0.0), 0), np.zeros(len(noisy), np.int64))
    counts = simplex(_smooth(noisy, ladder.lines[0], noise), rows)
    for rung, (noisy, noise) in enumerate(finer, start=1):
        line = ladder.lines[rung]
        drafts = _standing_out(noisy, line, noise) if line == ladder.points else _smooth(noisy, line, noise)
        counts = _shared(counts, np.maximum(drafts, 0), ladder.parents(rung))
    return counts


def upwards(ladder: Ladder, rungs: Sequence[Rung]) -> list[Rung]:
    """Every rung with what finer ones add up to in its cells, each by its precision: least squares from the leaves of a tree (Hay
    et al. 2010)."""
    found = [rungs[-1]]
    for rung in reversed(range(len(rungs) - 1)):
        found.insert(0, joined(rungs[rung], gathered(found[0], ladder.parents(rung + 1), ladder.sizes[rung])))
    return found


def gathered(cells: Rung, parents: NDArray[np.int64], size: int) -> Rung:
    """What cells add up to in those that they lie in; noise that is independent adds up by its squares. Nothing is told of those
    that no cell lies in."""
    counts, noise = cells
    variances = np.bincount(parents, noise**2, size)
    return np.bincount(parents, counts, size).astype(np.float64), np.sqrt(np.where(variances > 0, variances, np.inf))


def joined(one: Rung, other: Rung) -> Rung:
    """Two measurements of the same cells."""
    precisions = [1 / noise**2 for _, noise in (one, other)]
    together = precisions[0] + precisions[1]
    return (one[0] * precisions[0] + other[0] * precisions[1]) / together, 1 / np.sqrt(together)


@dataclass(frozen=True, eq=False)
class Pieces:
    """What bins and coarse cells of a line share: the piece of each finest cell, the bin of each piece, and what is known of its
    rows, as the inverse of a covariance and that times counts. Measurements add up in these (least squares)."""

    place: NDArray[np.int64]
    owner: NDArray[np.int64]
    precision: Floats
    told: Floats

    def known(self, other: Rung) -> Pieces:
        """With another measurement of every piece."""
        precisions = other[1] ** -2.0
        return replace(self, precision=self.precision + np.diag(precisions), told=self.told + other[0] * precisions)

    def on_bins(self) -> tuple[Floats, Floats]:
        """Rows of bins, and the inverse of the covariance of their noise."""
        covariance, bins = np.linalg.inv(self.precision), self._bins
        return bins.T @ covariance @ self.told, np.asarray(np.linalg.inv(bins.T @ covariance @ bins), np.float64)

    def given(self, held: Floats) -> Floats:
        """Rows of pieces where bins hold so many, and none holds less than nothing."""
        covariance, bins = np.linalg.inv(self.precision), self._bins
        found = covariance @ self.told
        across = covariance @ bins
        found += across @ np.linalg.solve(bins.T @ across, held - bins.T @ found)
        for own, total in enumerate(held):
            found[self.owner == own] = simplex(found[self.owner == own], total)
        return np.asarray(found)

    @cached_property
    def _bins(self) -> Floats:
        """1 where a piece lies in a bin."""
        return np.asarray(self.owner[:, None] == np.arange(self.owner.max() + 1), np.float64)


def pieces_of(ladder: Ladder, grid: Grid, rungs: Sequence[Rung]) -> Pieces:
    """Finer rungs tell of every piece, the coarsest of what those of a cell add up to."""
    kinds, place = np.unique(ladder.ancestors(0) * np.int64(2**32) + grid.bins, return_inverse=True)
    cells, (noisy, noise) = (kinds // 2**32)[:, None] == np.arange(ladder.sizes[0]), rungs[0]
    coarse = Pieces(place, kinds % 2**32, (cells / noise**2) @ cells.T, cells @ (noisy / noise**2))
    return coarse.known(_finer(made_of(ladder, place), rungs[1:], len(kinds))) if len(rungs) > 1 else coarse


def _finer(made: Sequence[NDArray[np.int64]], rungs: Sequence[Rung], size: int) -> Rung:
    """Pieces, each from the fewest cells that make it up."""
    owner, noisy, noise = (np.concatenate(own) for own in (made, *zip(*rungs, strict=True)))
    return gathered((noisy[owner >= 0], noise[owner >= 0]), owner[owner >= 0], size)


def on_bins(ladder: Ladder, grid: Grid, rungs: Sequence[Rung]) -> tuple[Floats, Floats]:
    """Rows of bins as all rungs together have them, and the inverse of the covariance of their noise."""
    if ladder.column.one_hot:
        counts, noise = gathered(rungs[0], grid.bins.astype(np.int64), grid.size)
        return counts, np.diag(noise**-2.0)
    return pieces_of(ladder, grid, rungs).on_bins()


def _standing_out(noisy: Floats, line: int, noise: Floats) -> Floats:
    """Counts of single values: what is smooth along the line, and what stands out of it."""
    usual = float(np.median(noise[:line]))
    base = np.maximum(denoised(_apart(noisy[:line], usual)[1], usual), 0)
    return np.concatenate([base + likely(noisy[:line] - base, noise[:line], -_SEEN), noisy[line:]])


def likely(noisy: Floats, noise: Floats | float, least: float) -> Floats:
    """Expected counts under the prior that makes all of them together most likely: empirical Bayes (Robbins 1956), on a grid from
    `least` noises up. What is certainly there is left as it is."""
    found, kept = noisy / noise, np.abs(noisy) <= _SEEN * noise
    if not kept.any():
        return noisy
    seen, places, counts = np.unique(np.round(found[kept] * 8) / 8, return_inverse=True, return_counts=True)
    truth = np.linspace(least, _SEEN, 129)
    chances = np.exp(-((seen[:, None] - truth) ** 2) / 2)
    prior = likeliest(chances, np.full(len(truth), 1 / len(truth)), counts.astype(np.float64))
    found[kept] = ((chances * prior) @ truth / (chances @ prior))[places]
    return found * noise


def likeliest(chances: Floats, prior: Floats, counts: Floats | float = 1.0) -> Floats:
    """The prior over kinds, found from this one, that makes values together most likely: the nonparametric maximum likelihood of
    Kiefer & Wolfowitz (1956), by expectation-maximisation. `chances` are those of each value to be seen if it is of each kind
    (value × kind), in whatever unit, `counts` how many values are like it."""
    weights = counts * np.ones(len(chances))
    for _ in range(_ROUNDS):
        joint = chances * prior
        prior = weights @ (joint / joint.sum(axis=1, keepdims=True)) / weights.sum()
    return np.asarray(prior)


def _smooth(noisy: Floats, line: int, noise: Floats) -> Floats:
    """Counts along a line without what noise explains; values that stand out of their neighbours stay as they are, and so do
    the levels, which come after the line."""
    usual = float(np.median(noise[:line]))
    lone, counts = _apart(noisy[:line], usual)
    return np.concatenate([np.where(lone, noisy[:line], denoised(counts, usual)), noisy[line:]])


def _apart(counts: Floats, noise: float) -> tuple[NDArray[np.bool_], Floats]:
    """Values that stand out of their neighbours by more than noise would, and a line on which they do not."""
    if len(counts) <= 4:
        return np.zeros(len(counts), bool), counts
    around = np.median(sliding_window_view(np.pad(counts, 2, mode="symmetric"), 5), axis=1)
    lone = counts - around > noise * math.sqrt(2 * math.log(len(counts)))
    return lone, np.where(lone, around, counts)


def denoised(noisy: Floats, noise: float) -> Floats:
    """Translation-invariant Haar shrinkage (Coifman & Donoho): differences between neighbouring stretches, of every length and
    at every place, count only where they are larger than noise would make the largest of them."""
    padded = np.pad(noisy, (0, len(noisy)), mode="symmetric")
    limit, means, differences = noise * math.sqrt(2 * math.log(len(noisy))), padded, []
    for width in (2**level for level in range(max(len(noisy).bit_length() - 1, 0))):
        ahead = np.roll(means, -width)
        step = (means - ahead) / 2
        differences.append((width, np.where(np.abs(step) > limit / math.sqrt(2 * width), step, 0)))
        means = (means + ahead) / 2
    for width, step in reversed(differences):
        means = (means + step + np.roll(means - step, width)) / 2
    return np.asarray(means[: len(noisy)])


def _shared(coarse: Floats, drafts: Floats, parents: NDArray[np.int64]) -> Floats:
    """Each cell's rows over its children, in proportion to the drafts; evenly where these are nothing."""
    total = np.bincount(parents, drafts, len(coarse))
    even = (coarse / np.maximum(np.bincount(parents, minlength=len(coarse)), 1))[parents]
    return np.asarray(np.where(total[parents] > 0, drafts * (coarse / np.maximum(total, 1e-9))[parents], even))


def raked(table: NDArray[np.floating], down: Floats, across: Floats) -> Floats:
    """A table of these margins, as far as its empty cells let it have them (iterative proportional fitting)."""
    for _ in range(_RAKED):
        table = table * (down / np.maximum(table.sum(axis=1), 1e-9))[:, None]
        table = table * (across / np.maximum(table.sum(axis=0), 1e-9))
    return np.asarray(table, np.float64)
