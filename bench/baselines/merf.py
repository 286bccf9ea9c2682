"""DP-MERF (Harder, Adamczewski & Park 2021) as the paper compares with it: fixed frequencies, no critic, our generator.

Its random features are the cosines and sines of our embedding at frequencies from N(0, I), on rows scaled to [0, 1] with
one-hot levels; nothing is spent on their scale, so all of the budget goes to the class-conditional mean embedding. So it
is our own release with another design, and its training is ours with equal weights.

Accounting: the release's own. Replace-one, one Gaussian mechanism on a vector of L2 sensitivity 2√k in units of a row's
(cos, sin), calibrated exactly (Balle & Wang 2018, Theorem 8); class counts ride along as in every release of ours.
Training is post-processing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpearl.design import Design, Recipe, Scale, embedding_design
from dpearl.embed import embed
from dpearl.engines.local import Local
from dpearl.owner import Offer, release_sums
from dpearl.privacy import Budget, Relation
from dpearl.read import open_sources
from dpearl.schema import Schema
from dpearl.settings import Omega, Settings
from dpearl.synthesizer import Synthesizer
from dpearl.train import fit


def recipe(frequencies: int) -> Recipe:
    """A public scale leaves the whole budget to the embedding."""
    return Recipe("merf", Relation.REPLACE_ONE, Scale.PUBLIC, frequencies)


def design(schema: Schema, frequencies: int, seed: int) -> Design:
    """Frequencies from N(0, 1/scale²) at scale 1: the paper's N(0, diag(1)) for DP-MERF."""
    return embedding_design(schema, recipe(frequencies), scale=1.0, seed=seed)


def merf(rows: Any, schema: Schema, budget: Budget, frequencies: int, settings: Settings, seed: int) -> Synthesizer:
    """A generator from one release at fixed frequencies; `rows` is anything that dpearl reads."""
    fixed = design(schema, frequencies, seed)
    offer = Offer(schema, recipe(frequencies), budget, seed, sums=fixed)
    release = release_sums(embed(open_sources(rows), fixed, Local(threads=1)), offer)
    return fit(release, replace(settings, omega=Omega.NONE), seed, device="cpu", threads=1)
