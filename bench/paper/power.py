"""Fig. 2: the power of a two-sample test by characteristic functions, before and after re-weighting its frequencies.

N(0, I) against N((1, 0, ...), I), 1,000 rows each, 20 frequencies (App. C). `unoptimized`: only the first of them sees the one
dimension that differs. `normal`: all are drawn from N(0, I). `optimized`: the unoptimized ones, of which the first has all
the weight. The paper names no test; this is a permutation test at 5%, which is exact whatever the weights.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.cache import Run

ROWS, COUNT, SHUFFLES, LEVEL = 1000, 20, 99, 0.05
TRIALS, REPETITIONS = 100, 5
DIMENSIONS = (2, 3, 4, 5, 6, 8, 10)
EVENLY, FIRST = np.full(COUNT, 1 / COUNT), np.eye(COUNT)[0]
SORTS = ("unoptimized", "normal", "optimized")

Floats = NDArray[np.float64]


@cache
def splits() -> NDArray[np.float32]:
    """The true split of 2,000 rows into two samples, then random ones: each row takes the difference of two means."""
    rng, true = np.random.default_rng(0), np.repeat([1 / ROWS, -1 / ROWS], ROWS)
    return np.stack([true, *(rng.permutation(true) for _ in range(SHUFFLES))]).astype(np.float32)


def two_samples(rng: np.random.Generator, dimensions: int, shift: float = 1.0) -> tuple[Floats, Floats]:
    """The two samples, which differ along the first dimension."""
    left, right = rng.standard_normal((2, ROWS, dimensions))
    right[:, 0] += shift
    return left, right


def unoptimized(rng: np.random.Generator, dimensions: int) -> Floats:
    """Frequencies that are blind to the first dimension, but for one."""
    frequencies = rng.standard_normal((dimensions, COUNT))
    frequencies[0, 1:] = 0
    return frequencies


def split_distances(samples: tuple[Floats, Floats], frequencies: Floats) -> Floats:
    """|Φ - Φ'|² of each frequency, for the true split and for the random ones."""
    phases = (np.concatenate(samples) @ frequencies).astype(np.float32)
    return np.asarray((splits() @ np.cos(phases)) ** 2 + (splits() @ np.sin(phases)) ** 2)


def rejects(distances: Floats, weights: Floats) -> bool:
    """The permutation test at 5% on the weighted distance: exact, whatever the weights, unless they have seen these rows."""
    statistics = distances @ weights
    return bool((statistics >= statistics[0]).mean() <= LEVEL)


def powers(dimensions: int, trials: int, seed: int) -> Floats:
    """How often each sort of frequencies tells the samples apart."""
    rng, rejected = np.random.default_rng((dimensions, seed)), []
    for _ in range(trials):
        samples, frequencies = two_samples(rng, dimensions), unoptimized(rng, dimensions)
        normal = split_distances(samples, rng.standard_normal((dimensions, COUNT)))
        blind = split_distances(samples, frequencies)
        rejected.append([rejects(blind, EVENLY), rejects(normal, EVENLY), rejects(blind, FIRST)])
    return np.asarray(np.mean(rejected, axis=0))


def runs() -> list[Run]:
    """One for each number of dimensions."""
    return [{"bench": "power", "dimensions": own, "trials": TRIALS, "repetitions": REPETITIONS} for own in DIMENSIONS]


def work(run: Run) -> Run:
    """Rejection rates of every repetition, by sort of frequencies."""
    found = np.array([powers(run["dimensions"], run["trials"], seed) for seed in range(run["repetitions"])])
    return dict(zip(SORTS, found.T.tolist(), strict=True))
