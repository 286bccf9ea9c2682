"""Every method of the paper's tables on the same rows: one way in, synthetic rows on the schema's grid out.

Two privacy settings of ours. `printed` is the paper's: replace-one, half of μ² for the mean pairwise distance, half for the
characteristic functions, and the noise that Rényi accounting asks for. `ours` spends 5% on the distance and composes exactly.
On tables a third one of ours has some frequencies at up to six octaves above that scale, within a reach (`bench.paper.scales`).
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from scipy.optimize import brentq, minimize_scalar

from dpearl.coded import Coded
from dpearl.design import RECIPES, Recipe
from dpearl.engines.local import Local
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget, Relation, epsilon_of
from dpearl.schema import Schema
from dpearl.settings import Omega, Settings
from dpearl.synthesizer import Synthesizer

DELTA = 1e-5

REACH = 12.0
"""Radians that a raised frequency turns a number over its range, typically at most: two turns or so."""


@dataclass(frozen=True)
class Reaching(Recipe):
    """A recipe whose octaves end at a reach.

    A frequency at the scale turns a number by about 1/scale radians over its range. Where rows lie close together, as without
    categories, that is much already: six octaves above it there is nothing but noise to see, and all numbers that share a
    frequency with a raised one are lost with it. And where rows are few, the scale itself is noisy, and octaves multiply that.
    """

    reach: float = REACH

    def octaves_above(self, scale: float) -> float:
        """All of them, or those that are left between the scale and the reach."""
        return min(self.octaves, max(0.0, math.log2(self.reach * scale)))


def reaching(recipe: Recipe, octaves: float) -> Reaching:
    """The same recipe, but for octaves within reach."""
    return Reaching(**{**asdict(recipe), "octaves": octaves})


class Method(StrEnum):
    """Columns of the tables, as they are called there."""

    REAL = "real rows"
    INDEPENDENT = "independent columns"
    DPGAN = "DPGAN"
    DPCGAN = "DPCGAN"
    MERF = "DP-MERF"
    PRINTED_PLAIN = "as printed, no critic"
    PRINTED = "as printed"
    PLAIN = "ours, no critic"
    OURS = "ours"
    OCTAVES = "ours, octaves"

    @property
    def embeds(self) -> bool:
        """Whether it trains a generator towards one release."""
        return self.printed or self in (Method.MERF, Method.PLAIN, Method.OURS, Method.OCTAVES)

    @property
    def printed(self) -> bool:
        """Whether the privacy is the paper's."""
        return self in (Method.PRINTED, Method.PRINTED_PLAIN)

    @property
    def omega(self) -> Omega:
        """What its critic moves."""
        return Omega.SIGMA if self in (Method.PRINTED, Method.OURS, Method.OCTAVES) else Omega.NONE

    @property
    def recipe(self) -> Recipe:
        """The paper's, at its own shares or at ours, at its own scale or at the octaves of our own recipe, within reach."""
        paper = RECIPES["paper"]
        if self is Method.OCTAVES:
            return reaching(paper, RECIPES["auto"].octaves)
        return replace(paper, auxiliary_share=0.5) if self.printed else paper

    def budget(self, epsilon: float) -> Budget:
        """What may be spent: as printed, ε by Rényi accounting, which is somewhat less by an exact one."""
        return Budget(printed_epsilon(epsilon, DELTA), DELTA) if self.printed else Budget(epsilon, DELTA)


def renyi_epsilon(mu: float, delta: float) -> float:
    """ε of Gaussian mechanisms of μ together, by way of Rényi DP as autodp converts it (Balle et al. 2020, Theorem 21)."""

    def at(order: float) -> float:
        return order * mu**2 / 2 + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    found = minimize_scalar(lambda exponent: at(1 + math.exp(exponent)), bounds=(-10, 20), method="bounded")
    return float(found.fun)


def printed_multiplier(epsilon: float, delta: float) -> float:
    """Noise of each of two equal Gaussian releases, in units of its sensitivity: 5.72 at (1, 1e-5), where 5.28 would do."""
    return math.sqrt(2) / float(brentq(lambda mu: renyi_epsilon(mu, delta) - epsilon, 1e-6, 100))


def printed_epsilon(epsilon: float, delta: float) -> float:
    """What the paper's noise for ε truly costs."""
    return epsilon_of(math.sqrt(2) / printed_multiplier(epsilon, delta), delta)


@dataclass(frozen=True)
class Task:
    """What every method is given: rows, as dpearl reads them and on the schema's grid, and how many are wanted."""

    schema: Schema
    rows: Any
    coded: Coded
    frequencies: int
    settings: Settings
    wanted: int


@dataclass(frozen=True)
class Made:
    """Synthetic rows, and the CPU seconds that training took."""

    rows: Coded
    cpu: float


def make(method: Method, task: Task, epsilon: float, seed: int) -> Made:
    """Synthetic rows at (ε, 1e-5), on one thread."""
    import torch

    torch.set_num_threads(1)
    if method is Method.REAL:
        return Made(task.coded, 0.0)
    if method.embeds:
        return _embedded(method, task, epsilon, seed)
    start = time.process_time()
    rows = _independent(task, epsilon, seed) if method is Method.INDEPENDENT else _gan(method, task, epsilon, seed)
    return Made(rows, time.process_time() - start)


def _independent(task: Task, epsilon: float, seed: int) -> Coded:
    from bench.baselines.independent import independent

    return independent(task.coded, Budget(epsilon, DELTA), Relation.REPLACE_ONE, task.wanted, seed)


def _gan(method: Method, task: Task, epsilon: float, seed: int) -> Coded:
    from bench.baselines.gan import gan

    return gan(task.coded, Budget(epsilon, DELTA), method is Method.DPCGAN, task.wanted, seed)


def _embedded(method: Method, task: Task, epsilon: float, seed: int) -> Made:
    """A generator from one release; its CPU seconds are those of training, but for DP-MERF's, which hold its release."""
    if method is not Method.MERF:
        return trained(task, method.recipe, method.omega, method.budget(epsilon), seed)
    from bench.baselines.merf import merf

    start = time.process_time()
    model = merf(task.rows, task.schema, method.budget(epsilon), task.frequencies, task.settings, seed)
    return _sampled(model, task, time.process_time() - start, seed)


def trained(task: Task, recipe: Recipe, omega: Omega, budget: Budget, seed: int) -> Made:
    """Rows of a generator that learnt from a release by this recipe, and the CPU seconds of its training alone."""
    from dpearl.train import fit

    offer = Offer(task.schema, replace(recipe, frequencies=task.frequencies), budget, seed=seed)
    release = release_rows(task.rows, offer, engine=Local(threads=1))
    start = time.process_time()
    model = fit(release, replace(task.settings, omega=omega), seed, device="cpu", threads=1)
    return _sampled(model, task, time.process_time() - start, seed)


def _sampled(model: Synthesizer, task: Task, spent: float, seed: int) -> Made:
    parts = [Coded(model.codec, codes) for codes in model.codes(task.wanted, seed=seed)]
    return Made(Coded.join(parts), spent)
