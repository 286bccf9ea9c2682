"""Mixtures of Gaussians from released statistics: a first one from a noisy histogram, then steps of DP-EM.

Lines run from 0 to 1. Everything here is a function of released numbers. Results are rounded, so that another machine's
`exp` finds the same.
"""

from __future__ import annotations

import math

import numpy as np

from dpearl.density import denoised
from dpearl.embeddings.mixtures import CUT, Floats, Mixture

ROUNDS = 1
"""Rounds of DP-EM after the histogram. More share the same budget: `bench.auxiliary` tells what none and two would do."""

MOST = 8
"""Modes that are tried where their number is asked for."""

_STEPS = 200
_NARROWEST = 2.0**-11
_DIGITS = 7
_SEEN = 3.0
"""Noises that a mode's rows must exceed for a step to move it."""


def first_mixture(noisy: Floats, noise: float, modes: int | None) -> Mixture:
    """A mixture for noisy counts in equal stretches; where no number of modes is given, as many as noise cannot explain."""
    smooth = denoised(noisy, noise) if len(noisy) > 2 else noisy
    counts = np.where(smooth > noise, smooth, 0.0)
    if not counts.any():
        counts = np.ones(len(noisy))
    points = (np.arange(len(noisy)) + 0.5) / len(noisy)
    if modes is not None:
        return _best(points, counts, modes)
    tried = [_best(points, counts, size) for size in range(1, MOST + 1)]
    return min(tried, key=lambda made: _misfit(made, points, noisy, noise))


def _misfit(made: Mixture, points: Floats, noisy: Floats, noise: float) -> float:
    """χ² of the noisy counts, whose variance is known: noise, and the chance of people; with BIC's price for each mode."""
    dense = _density(made, points)
    expected = dense * max(float(noisy.sum()), 1.0) / max(float(dense.sum()), 1e-300)
    square = float(((noisy - expected) ** 2 / (noise**2 + expected)).sum())
    return square + (3 * made.size - 1) * math.log(len(noisy))


def _best(points: Floats, counts: Floats, size: int) -> Mixture:
    """The likelier of two starts: means at equal shares of the rows, and at equal steps of the line's filled part."""
    shares = np.cumsum(counts) / counts.sum()
    at = (np.arange(size) + 0.5) / size
    filled = np.interp([0.01, 0.99], shares, points)
    starts = (np.interp(at, shares, points), filled[0] + at * (filled[1] - filled[0]))
    return max((_fitted(points, counts, means) for means in starts), key=lambda made: _likelihood(made, points, counts))


def _fitted(points: Floats, counts: Floats, means: Floats) -> Mixture:
    """Ordinary EM on a histogram."""
    size, middle = len(means), counts @ points / counts.sum()
    wide = math.sqrt(counts @ (points - middle) ** 2 / counts.sum()) / size
    made = _sane(means, np.full(size, wide), np.ones(size))
    for _ in range(_STEPS):
        part = made.responsibilities(points) * counts[:, None]
        rows = np.maximum(part.sum(axis=0), 1e-9)
        mean = part.T @ points / rows
        square = (part * (points[:, None] - mean) ** 2).sum(axis=0) / rows
        made = _sane(mean, np.sqrt(square), rows)
    return made


def _likelihood(made: Mixture, points: Floats, counts: Floats) -> float:
    return float(counts @ np.log(np.maximum(_density(made, points), 1e-300)))


def _density(made: Mixture, points: Floats) -> Floats:
    mean, spread, weight = made.table
    return np.asarray((weight / spread * np.exp(-(((points[:, None] - mean) / spread) ** 2) / 2)).sum(axis=1))


def next_mixture(made: Mixture, noisy: Floats, noise: float) -> Mixture:
    """An M-step from noisy statistics in units of rows: modes that noise hides stay as they are."""
    rows, first, second = noisy.reshape(made.size, 3).T
    mean, spread, weight = made.table
    seen = rows > _SEEN * noise
    held = np.where(seen, rows, 1.0)
    shift = np.clip(first / held, -1, 1)
    square = np.clip(second / held - shift**2, (0.5 / CUT) ** 2, 1.0)
    moved = np.where(seen, mean + CUT * spread * shift, mean)
    grown = np.where(seen, CUT * spread * np.sqrt(square), spread)
    return _sane(moved, grown, np.where(seen, rows, weight * max(float(rows[seen].sum()), 1.0)))


def _sane(mean: Floats, spread: Floats, rows: Floats) -> Mixture:
    weight = np.maximum(rows / rows.sum(), 1e-4)
    table = np.stack([np.clip(mean, 0, 1), np.clip(spread, _NARROWEST, 1.0), weight / weight.sum()])
    return Mixture(np.round(table, _DIGITS))
