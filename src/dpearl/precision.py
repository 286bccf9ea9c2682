"""How precisely a release knows what it measures: the noise of every block, and 95% intervals for shares.

All of it follows from the noise that the release states; nothing here needs rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpearl.embeddings import Block
from dpearl.embeddings.count import Count
from dpearl.embeddings.marginals import Pairs, Singles
from dpearl.grid import BINS, FEWEST_BINS
from dpearl.measurement import Measurement
from dpearl.release import Release

Z = NormalDist().inv_cdf(0.975)
"""95% of a Gaussian lie within so many standard deviations."""

_WORDS = ((0.02, "sharp"), (0.1, "good"), (0.3, "coarse"), (1.0, "faint"), (math.inf, "lost in noise"))


@dataclass(frozen=True)
class Noise:
    """One block: the noise's standard deviation on an average over all rows, as a fraction of a row's largest value.

    `relative` is the same over the rows of one part, a class or a coarse bin, were all of one size; `share` is of μ².
    """

    stage: str
    family: str
    values: int
    share: float
    average: float
    relative: float

    @property
    def verdict(self) -> str:
        return sharpness(self.relative)


def sharpness(noise: float) -> str:
    """A word for noise that is such a part of the largest signal."""
    return next(word for limit, word in _WORDS if noise <= limit)


def noises(release: Release) -> list[Noise]:
    """Every block of every stage, in the order they were measured."""
    rows = estimated_rows(release)
    found = []
    for name, stage in release.measurements.items():
        budget = release.mus[name] ** 2 / release.mu**2
        shares = stage.design.shares(stage.sigmas, release.unit)
        for block in stage.design.blocks:
            average = stage.sigmas[block.family] / (block.peak * rows) if rows > 0 else math.inf
            relative = average * parts(block)
            found.append(Noise(name, block.family, math.prod(block.shape), budget * shares[block.family], average, relative))
    return found


def parts(block: Block) -> int:
    """Parts of the rows that a block must tell apart to be of use: declared classes, or the fewest bins of a marginal."""
    return FEWEST_BINS if isinstance(block, (Singles, Pairs)) else max(block.classes - 2, 1)


def estimated_rows(release: Release) -> float:
    """The number of rows: exact where the relation makes it public, else as noisy as it was released."""
    return max(release.embedding.noisy_rows, 0.0) if release.rows is None else float(release.rows)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Values, and the ends between which the truth lies in 95% of releases; one for each bin of a column."""

    values: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def errors(self) -> NDArray[np.float64]:
        """Half-widths below and above."""
        return np.stack([self.values - self.lower, self.upper - self.values])


def measured_counts(release: Release, name: str) -> Intervals | None:
    """Rows in each bin of a column, where the release counts them: the label's classes, or bins of a column (`bins_of`).

    The noise is Gaussian with a standard deviation that the release states, so ±1.96σ is exact.
    """
    measured = release.embedding
    count = measured.design.block("count")
    assert isinstance(count, Count)
    if name == measured.design.schema.label and count.classes > 1:
        values, half = count.rows(measured.sums["count"]), Z * float(count.rows(np.array(measured.sigmas["count"])))
        return Intervals(values, values - half, values + half)
    looked = _singles(release)
    if looked is None or name not in looked[1].ladders:
        return None
    stage, block = looked
    place = block.places[name, 0]
    values, ends = (own / block.units[place] for own in (stage.sums["singles"][place], Z * stage.sigmas["singles"]))
    return Intervals(values, values - ends, values + ends)


def bins_of(release: Release, name: str) -> int:
    """Most bins along a column's line where its rows are counted: those of its coarsest rung, else as people look at it."""
    looked = _singles(release)
    return looked[1].ladders[name].lines[0] or BINS if looked is not None and name in looked[1].ladders else BINS


def _singles(release: Release) -> tuple[Measurement, Singles] | None:
    """Where single columns were counted, if they were."""
    for stage in release.stages.values():
        block = stage.design.find(Singles)
        if block is not None:
            return stage, block
    return None


def measured_shares(release: Release, name: str) -> Intervals | None:
    """Shares of all rows in each bin of a column, where the release measures them.

    Where the number of rows n is public, counts over n. Else the total N is as noisy as the counts c, and Fieller's
    theorem gives the interval: all p between 0 and 1 with (c - pN)² ≤ (1.96σ)²·((1 - p)² + (classes - 1)p²), for
    c - pN is Gaussian with that variance whatever the truth.
    """
    counts = measured_counts(release, name)
    if counts is None:
        return None
    if release.rows is not None:
        rows = max(release.rows, 1)
        return _possible(counts.values / rows, counts.lower / rows, counts.upper / rows)
    return _fieller(counts.values, float(counts.upper[0] - counts.values[0]) ** 2)


def _fieller(counts: NDArray[np.float64], square: float) -> Intervals:
    """Roots of p²(N² - classes·q) - 2p(cN - q) + c² - q, where q is the square of a count's half-width."""
    total = float(counts.sum())
    lead = total**2 - len(counts) * square
    if lead <= 0 or total <= 0:
        return _possible(np.full(len(counts), 1 / len(counts)), np.zeros(len(counts)), np.ones(len(counts)))
    middle = counts * total - square
    root = np.sqrt(np.maximum(middle**2 - lead * (counts**2 - square), 0))
    return _possible(counts / total, (middle - root) / lead, (middle + root) / lead)


def _possible(values: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]) -> Intervals:
    """Shares lie between 0 and 1, which takes no truth out of any interval."""
    return Intervals(*(np.clip(part, 0, 1) for part in (values, lower, upper)))
