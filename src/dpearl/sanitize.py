"""The door: the only place where anything made of private rows becomes public.

Guarantee: the result is μ-GDP for the unit. Reason: neighbouring data move the integer sums of
all blocks, each divided by its σ, by at most μ together (`Design.mu`, from row norms that tests
search for counterexamples); every integer gets an independent exactly rounded Gaussian
(`noise`), which is post-processing of the Gaussian mechanism (Balle & Wang 2018, Theorem 8).
Nothing else of the embedding passes: not its row count, not its shards.
"""

from __future__ import annotations

from dpearl.embed import Embedding
from dpearl.noise import add_noise
from dpearl.privacy import Unit
from dpearl.release import Measurement


def sanitize(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    """Add to every sum the noise that makes the whole vector at most μ-GDP."""
    design = embedding.design
    sigmas = design.sigmas(mu, unit)
    noisy = {block.family: add_noise(embedding.sums[block.family], sigmas[block.family]) for block in design.blocks}
    return Measurement(design, noisy, sigmas)
