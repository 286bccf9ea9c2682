"""How well a generator fits its release, against the noise: χ² of every block over its number of values.

For each released value, (noisy sum - the generator's expectation)² / σ². The truth itself would give 1 on average,
for it differs from the release by noise alone: 1 is as near as the noise lets one see, less means that noise has been
learnt too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.coded import Coded, bin_names
from dpearl.distance import learnable_rows, proportions
from dpearl.embeddings import Block
from dpearl.embeddings.count import Count
from dpearl.release import Measurement, Release

BATCHES = 16
"""Parts of the synthetic rows that are summed apart, to see how much their sum owes to chance."""


@dataclass(frozen=True)
class Fit:
    """χ² over the number of values; `noise` is the σ of a value as an average over all rows, of at most 1."""

    values: int
    chi2: float
    noise: float

    @property
    def chance(self) -> float:
        """Two standard deviations of what the truth itself would have: χ² of d values over d has variance 2/d."""
        return 2 * math.sqrt(2 / self.values)

    @property
    def off(self) -> float:
        """How far the generator's averages lie from the true ones, in root mean square, as far as noise lets one see."""
        return self.noise * math.sqrt(max(self.chi2 - 1, 0.0))

    @property
    def verdict(self) -> str:
        if self.chi2 < 1 - self.chance:
            return "nearer than the truth would be: noise has been learnt too"
        if self.chi2 <= 1 + self.chance:
            return "as near as the noise lets one see"
        return f"off by {math.sqrt(self.chi2 - 1):.1f} times the noise"


@dataclass(frozen=True)
class BlockFit:
    """A block over all classes that rows may come back with, and over each of them where it holds many values."""

    stage: str
    family: str
    whole: Fit
    classes: Mapping[str, Fit]


def block_fits(release: Release, synthetic: Coded) -> list[BlockFit]:
    """Every block of a release against many rows of its generator."""
    return [
        _block_fit(release, name, block, synthetic) for name, stage in release.stages.items() for block in stage.design.blocks
    ]


def _block_fit(release: Release, stage: str, block: Block, synthetic: Coded) -> BlockFit:
    measured, codec = release.stages[stage], synthetic.codec
    found = _squares(release, measured, block, synthetic)
    noise = measured.sigmas[block.family] / (block.peak * learnable_rows(release))
    back = list(codec.labels) if block.classes > 1 else slice(None)
    classes = {name: Fit(found[place].size, float(found[place].mean()), noise) for place, name in _classes(block, codec)}
    return BlockFit(stage, block.family, Fit(found[back].size, float(found[back].mean()), noise), classes)


def _classes(block: Block, codec: Codec) -> list[tuple[int, str]]:
    """Places and names of the classes that a block is kept by, those that may come back; a count says one thing of each."""
    if block.classes == 1 or isinstance(block, Count):
        return []
    names = bin_names(codec.columns[str(codec.schema.label)])
    return [(place, names[place]) for place in codec.labels]


def _squares(release: Release, measured: Measurement, block: Block, synthetic: Coded) -> NDArray[np.float64]:
    """(noisy - expected)² / σ² of every value, with the synthetic rows' own chance taken off."""
    expected, chance = _expectation(release, block, synthetic)
    noisy, sigma = measured.sums[block.family], measured.sigmas[block.family]
    return np.asarray(((noisy - expected) ** 2 - chance) / sigma**2)


def _expectation(release: Release, block: Block, synthetic: Coded) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What so many rows of the generator add up to, and the variance of that estimate.

    Sums of BATCHES parts, each brought to the release's number of rows: their mean, and the variance between them
    over BATCHES, whose subtraction leaves no bias. Labels are drawn by known shares, so counts need no rows.
    """
    rows = learnable_rows(release)
    if isinstance(block, Count):
        return rows * block.peak * proportions(release), np.zeros(block.shape)
    parts = np.array_split(np.arange(len(synthetic)), BATCHES)
    sums = np.stack([block.sum(synthetic.codec.rows(synthetic.take(part).codes)) * (rows / len(part)) for part in parts])
    return sums.mean(axis=0), sums.var(axis=0, ddof=1) / BATCHES
