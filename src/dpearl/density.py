"""What noisy histograms say of single columns: counts that are possible, agree between resolutions, and hold little noise.

Everything here is a function of released numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.embeddings.marginals import UNIT, Pairs, Singles, all_pairs
from dpearl.grid import Ladder, bins_along, chosen_grid
from dpearl.measurement import Measurement

Floats = NDArray[np.float64]

_MOST_CELLS = 2**19
"""Cells of all pairs together: 5 s of noise, 4 MB of release."""


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
    noisy, noise = measured.sums["singles"] / UNIT, measured.sigmas["singles"] / UNIT
    found = {}
    for name, ladder in block.ladders.items():
        rungs = [noisy[block.places[name, rung]] for rung in range(len(ladder.lines))]
        found[name] = _down(ladder, rungs, noise, max(rows, 1.0))
    return found


def _down(ladder: Ladder, rungs: list[Floats], noise: float, rows: float) -> Floats:
    """The coarsest rung as a whole, then each cell's rows over the finer cells inside it."""
    if ladder.column.one_hot:
        return _spread(np.array([rows]), rungs[0], np.zeros(len(rungs[0]), np.int64), noise)
    counts = simplex(_smooth(rungs[0], ladder.lines[0], noise), rows)
    for rung, noisy in enumerate(rungs[1:], start=1):
        line, parents = ladder.lines[rung], ladder.parents(rung)
        if line == ladder.points:
            counts = _spread(counts, noisy, parents, noise)
        else:
            counts = _shared(counts, np.maximum(_smooth(noisy, line, noise), 0), parents)
    return counts


def _smooth(noisy: Floats, line: int, noise: float) -> Floats:
    """Counts along a line without what noise explains; values that stand out of their neighbours stay as they are, and so do
    the levels, which come after the line."""
    counts, limit = noisy[:line], noise * math.sqrt(2 * math.log(max(line, 2)))
    around = np.median(sliding_window_view(np.pad(counts, 2, mode="symmetric"), 5), axis=1) if line > 4 else counts
    lone = counts - around > limit
    return np.concatenate([np.where(lone, counts, denoised(np.where(lone, around, counts), noise)), noisy[line:]])


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


def _spread(coarse: Floats, noisy: Floats, parents: NDArray[np.int64], noise: float) -> Floats:
    """Each cell's rows over its children: values that stand out keep what they show, the others share the rest.

    Noise alone reaches √(2 ln cells) times its standard deviation in one of them (Donoho & Johnstone). The others shrink towards
    an even share by as much as noise may explain their spread (James & Stein, with two standard deviations to spare).
    """
    cells = len(coarse)
    flat = (coarse / np.maximum(np.bincount(parents, minlength=cells), 1))[parents]
    lone = noisy - flat > noise * math.sqrt(2 * math.log(len(noisy)))
    free = np.bincount(parents, ~lone, cells)
    left = np.maximum(coarse - np.bincount(parents, np.where(lone, noisy, 0), cells), 0)
    even = (left / np.maximum(free, 1))[parents]
    beyond = np.where(lone, 0, noisy - even)
    most = noise**2 * (free + 2 * np.sqrt(2 * free))
    kept = np.maximum(1 - most / np.maximum(np.bincount(parents, beyond**2, cells), 1e-9), 0)
    return _shared(coarse, np.where(lone, noisy, np.maximum(even + kept[parents] * beyond, 0)), parents)


def chosen_pairs(codec: Codec, measured: Measurement, rows: float, noise: float, weight: float) -> Pairs:
    """Pairs on grids that follow the first measurement.

    `noise` is that of one of their cells, in rows. Bins are made fewer until all cells together are few enough.
    """
    block = measured.design.block("singles")
    assert isinstance(block, Singles)
    counts = column_counts(measured, rows)
    pairs = all_pairs(len(counts))
    along = bins_along(rows, noise)
    while True:
        grids = {
            name: chosen_grid(ladder, counts[name], along, noise * _coarser(along, rows, noise))
            for name, ladder in block.ladders.items()
        }
        made = Pairs(codec.classes, block.ladders, grids, pairs, weight)
        if made.shape[0] <= _MOST_CELLS or along <= 2:
            return made
        along -= 1


def _coarser(along: int, rows: float, noise: float) -> float:
    """Where bins had to be made fewer, the rows that each must hold grow alike."""
    return (bins_along(rows, noise) / along) ** 2
