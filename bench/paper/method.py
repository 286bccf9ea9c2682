"""Every method of the paper's tables on the same rows: one way in, synthetic rows on the schema's grid out.

Two privacy settings of ours. `printed` is the paper's: replace-one, half of μ² for the mean pairwise distance, half for the
characteristic functions, and the noise that Rényi accounting asks for. `ours` spends 5% on the distance and composes exactly.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dpearl.coded import Coded
from dpearl.design import RECIPES, Recipe
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget, Relation, epsilon_of
from dpearl.schema import Schema
from dpearl.settings import Omega, Settings

DELTA = 1e-5


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

    @property
    def embeds(self) -> bool:
        """Whether it trains a generator towards one release."""
        return self in (Method.MERF, Method.PRINTED_PLAIN, Method.PRINTED, Method.PLAIN, Method.OURS)

    @property
    def recipe(self) -> Recipe:
        """The paper's, at its own shares or at ours."""
        printed = self in (Method.PRINTED, Method.PRINTED_PLAIN)
        return replace(RECIPES["paper"], auxiliary_share=0.5) if printed else RECIPES["paper"]

    def budget(self, epsilon: float) -> Budget:
        """What may be spent: as printed, ε by Rényi accounting, which is somewhat less by an exact one."""
        printed = self in (Method.PRINTED, Method.PRINTED_PLAIN)
        return Budget(printed_epsilon(epsilon, DELTA), DELTA) if printed else Budget(epsilon, DELTA)


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
    start = time.process_time()
    if method is Method.INDEPENDENT:
        from bench.baselines.independent import independent

        made = independent(task.coded, method.budget(epsilon), Relation.REPLACE_ONE, task.wanted, seed)
        return Made(made, time.process_time() - start)
    if method in (Method.DPGAN, Method.DPCGAN):
        from bench.baselines.gan import gan

        conditional = method is Method.DPCGAN
        return Made(gan(task.coded, method.budget(epsilon), conditional, task.wanted, seed), time.process_time() - start)
    return _embedded(method, task, epsilon, seed)


def _embedded(method: Method, task: Task, epsilon: float, seed: int) -> Made:
    from bench.baselines.merf import merf
    from dpearl.train import fit

    budget, start = method.budget(epsilon), time.process_time()
    if method is Method.MERF:
        model = merf(task.rows, task.schema, budget, task.frequencies, task.settings, seed)
    else:
        recipe = replace(method.recipe, frequencies=task.frequencies)
        release = release_rows(task.rows, Offer(task.schema, recipe, budget, seed=seed), threads=1)
        plain = method in (Method.PLAIN, Method.PRINTED_PLAIN)
        start = time.process_time()
        chosen = replace(task.settings, omega=Omega.NONE if plain else Omega.SIGMA)
        model = fit(release, chosen, seed, device="cpu", threads=1)
    spent = time.process_time() - start
    codes = [*model.codes(task.wanted, seed=seed)]
    return Made(Coded(model.codec, {name: np.concatenate([part[name] for part in codes]) for name in codes[0]}), spent)
