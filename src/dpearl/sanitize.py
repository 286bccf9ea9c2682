"""The door: the only place where anything made of private rows becomes public.

Guarantee: the result is μ-GDP for the unit. Reason: neighbouring data move the integer sums of
all blocks, each divided by its σ, by at most μ together (`Design.mu`, from row norms that tests
search for counterexamples); every integer gets an independent exactly rounded Gaussian
(`noise`), which is post-processing of the Gaussian mechanism (Balle & Wang 2018, Theorem 8).
Nothing else of the embedding passes: not its row count, not its shards.

Levels that nobody declared pass when their noisy count reaches a threshold: (ε, δ_gauss + δ_levels)-DP, proven in
`embeddings.levels`. Their order is that of the noisy counts: that in which they were met stays behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpearl.design import Design
from dpearl.embed import Embedding
from dpearl.embeddings.levels import Levels
from dpearl.embeddings.marginals import UNIT
from dpearl.errors import BudgetError
from dpearl.measurement import Measurement
from dpearl.noise import add_noise, rounding_gap
from dpearl.privacy import Budget, Unit, covered
from dpearl.tally import Tally


def sanitize(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    """Add to every sum the noise that makes the whole vector at most μ-GDP."""
    design = embedding.design
    sigmas = design.sigmas(mu, unit)
    noisy = {block.family: add_noise(embedding.sums[block.family], sigmas[block.family]) for block in design.blocks}
    return Measurement(design, noisy, sigmas)


def sanitize_part(embedding: Embedding, budget: Budget, mu: float, unit: Unit, honest: int) -> Mapping[str, NDArray[np.int64]]:
    """One site's sums with its part of the noise. NOT public: they must leave the site as secret shares only.

    Guarantee: the total over all sites is (ε, δ)-DP as long as `honest` of them add their part, whatever the others know or do.
    Reason: h parts of ⌈σ/√h⌉ are together, up to `rounding_gap`, a Gaussian mechanism with at least σ, post-processed; the gap
    is counted in δ, and a budget that does not cover it is refused.
    """
    sigmas = embedding.design.sigmas(mu, unit)
    parts = {family: 1 + math.isqrt((sigma**2 - 1) // honest) for family, sigma in sigmas.items()}
    gap = sum((embedding.sums[family].size * rounding_gap(part, honest) for family, part in parts.items()), arb(0))
    if not covered(budget, embedding.design.mu(sigmas, unit), gap):
        raise BudgetError("this budget leaves no room for noise in parts; lower epsilon, or have fewer sites")
    return {family: add_noise(embedding.sums[family], part) for family, part in parts.items()}


def sanitize_levels(tally: Tally, mu: float, unit: Unit) -> Measurement:
    """Add noise to the count of every text that more than a few rows hold, and keep those that reach the threshold."""
    design, sigmas = tally.design, tally.design.sigmas(mu, unit)
    asked = design.block("levels")
    assert isinstance(asked, Levels)
    passing = asked.passing(sigmas["levels"], unit)
    few = asked.few(sigmas["levels"])
    more = {name: {text: count for text, count in own.items() if count > few} for name, own in tally.counts.items()}
    noisy = {name: _passed(counts, sigmas["levels"], passing.threshold) for name, counts in more.items()}
    block = replace(passing, found={name: tuple(text for text, _ in kept) for name, kept in noisy.items()})
    sums = np.array([count for name in block.columns for _, count in noisy[name]], np.int64)
    return Measurement(Design(design.schema, (block,)), {"levels": sums}, sigmas)


def _passed(counts: Mapping[str, int], sigma: int, threshold: int) -> list[tuple[str, int]]:
    """Texts with their noisy counts, the largest first."""
    noisy = add_noise(np.array(list(counts.values()), np.int64) * UNIT, sigma).tolist()
    kept = [(text, count) for text, count in zip(counts, noisy, strict=True) if count >= threshold]
    return sorted(kept, key=lambda level: (-level[1], level[0]))
