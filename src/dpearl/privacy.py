"""Relation, unit of protection, budget, and μ ↔ (ε, δ). Pure arithmetic.

Every mechanism here is Gaussian, but for levels that are not declared (`embeddings.levels`), whose own δ is taken off the
budget's. Gaussian mechanisms compose exactly: parts with μᵢ = Δᵢ/σᵢ are together μ-GDP with μ² = Σ μᵢ² (Dong, Roth & Su,
Corollary 3.3), also when a part is chosen after seeing an earlier one, its μᵢ fixed before (a ledger's may be chosen, too:
see there). The analytic formula of Balle & Wang (2018, Theorem 8) turns μ into (ε, δ) exactly; the classical √(2 ln 1.25/δ)/ε
is never used. The formula is evaluated in ball arithmetic: in floats its difference cancels when ε and δ are small, and a
budget would promise too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from flint import arb, ctx

from dpearl.errors import BudgetError, UsageError

MAX_ROWS = 2**31
"""Most rows of one person: beyond that, a row would have to be noised away many times over."""

_EXTREME = 1e6


class Relation(StrEnum):
    """Which two datasets must be hard to tell apart."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


@dataclass(frozen=True)
class Unit:
    """Who is protected: one person with at most so many rows, present, absent or replaced."""

    relation: Relation
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.rows_per_person <= MAX_ROWS:
            raise UsageError(f"rows per person must be at least 1, and at most {MAX_ROWS:,}")

    def __str__(self) -> str:
        rows = "one row" if self.rows_per_person == 1 else f"up to {self.rows_per_person} rows"
        fate = "present or absent" if self.relation is Relation.ADD_REMOVE else "as they are or replaced by others"
        return f"one person ({rows}), {fate}"


@dataclass(frozen=True)
class Budget:
    """The ε and δ that everything released together may cost."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 1 / _EXTREME <= self.epsilon <= _EXTREME:
            raise BudgetError("epsilon must be a positive number between 1e-6 and 1e6, such as --epsilon 1")
        if not 0 < self.delta < 1:
            raise BudgetError("delta must lie strictly between 0 and 1, such as --delta 1e-5")

    @cached_property
    def mu(self) -> float:
        """The largest μ that this budget covers, rounded down."""
        high = _first(lambda mu: not _covers(self.epsilon, self.delta, mu))
        return math.nextafter(high, 0.0)


def epsilon_of(mu: float, delta: float) -> float:
    """The ε of a μ-GDP mechanism at δ, rounded up; infinite where it is beyond any meaning."""
    if delta <= 0:
        return math.inf
    if mu == 0 or _covers(0.0, delta, mu):
        return 0.0
    if not _covers(_EXTREME**2, delta, mu):
        return math.inf
    return _first(lambda epsilon: _covers(epsilon, delta, mu))


def covered(budget: Budget, mu: float, gap: arb) -> bool:
    """Whether a mechanism within total variation `gap` of a μ-GDP one is certainly (ε, δ)-DP.

    For every event S: P[M(D) ∈ S] ≤ P[G(D) ∈ S] + gap ≤ e^ε·P[G(D') ∈ S] + δ_G + gap ≤ e^ε·P[M(D') ∈ S] + δ_G + (1 + e^ε)·gap.
    """
    return _covers(budget.epsilon, budget.delta, mu, gap)


def compose(mus: Iterable[float]) -> float:
    """μ of all parts together, exactly √Σμ², rounded up."""
    total = math.hypot(*mus)
    return math.nextafter(total, math.inf) if total else 0.0


def _covers(epsilon: float, delta: float, mu: float, gap: arb | int = 0) -> bool:
    """Whether μ-GDP is certainly (ε, δ)-DP: Φ(μ/2 - ε/μ) - exp(ε)·Φ(-μ/2 - ε/μ) + (1 + exp(ε))·gap ≤ δ."""
    with ctx.workprec(256):
        centre, half, root = arb(epsilon) / arb(mu), arb(mu) / 2, arb(2).sqrt()
        inside, outside = ((centre - half) / root).erfc(), ((centre + half) / root).erfc()
        growth = arb(epsilon).exp()
        return bool(inside - growth * outside + 2 * (1 + growth) * gap <= 2 * arb(delta))


def _first(holds: Callable[[float], bool]) -> float:
    """The smallest positive float from which on something holds, by bisection down to neighbouring floats."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
