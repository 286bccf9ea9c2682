"""The door: the only place where anything made of private rows becomes public.

Guarantee: the result is μ-GDP for the unit. Reason: neighbouring data move the integer sums of
all blocks, each divided by its σ, by at most μ together (`Design.mu`, from row norms that tests
search for counterexamples); every integer gets an independent exactly rounded Gaussian
(`noise`), which is post-processing of the Gaussian mechanism (Balle & Wang 2018, Theorem 8).
Nothing else of the embedding passes: not its row count, not its shards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpearl.embed import Embedding
from dpearl.errors import BudgetError
from dpearl.noise import add_noise, rounding_gap
from dpearl.privacy import Budget, Unit, covered
from dpearl.release import Measurement


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
