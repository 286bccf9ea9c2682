"""Relation, unit of protection, budget, and μ ↔ (ε, δ). Pure arithmetic.

Every mechanism here is Gaussian, and Gaussian mechanisms compose exactly: parts with
μᵢ = Δᵢ/σᵢ are together μ-GDP with μ² = Σ μᵢ² (Dong, Roth & Su, Corollary 3.3), also when
a part is chosen after seeing an earlier one. The analytic formula of Balle & Wang (2018,
Theorem 8) turns μ into (ε, δ) exactly; the classical √(2 ln 1.25/δ)/ε is never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dpearl.errors import BudgetError, UsageError


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
        if self.rows_per_person < 1:
            raise UsageError("rows per person must be at least 1")

    def __str__(self) -> str:
        rows = "one row" if self.rows_per_person == 1 else f"up to {self.rows_per_person} rows"
        verb = "adding or removing" if self.relation is Relation.ADD_REMOVE else "replacing"
        return f"{verb} one person's data ({rows})"


@dataclass(frozen=True)
class Budget:
    """The ε and δ that everything released together may cost."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise BudgetError("epsilon must be a positive finite number, such as --epsilon 1")
        if not 0 < self.delta < 1:
            raise BudgetError("delta must lie strictly between 0 and 1, such as --delta 1e-5")

    @property
    def mu(self) -> float:
        """The largest μ that this budget covers, rounded so that it never promises too much."""
        from dp_accounting.gaussian_mechanism import get_sigma_gaussian

        mu = 1 / float(get_sigma_gaussian(self.epsilon, self.delta))
        while epsilon_of(mu, self.delta) > self.epsilon:
            mu *= 1 - 1e-12
        return mu


def epsilon_of(mu: float, delta: float) -> float:
    """The ε of a μ-GDP mechanism at δ (Balle & Wang 2018, Theorem 8)."""
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    return float(get_epsilon_gaussian(1 / mu, delta)) if mu > 0 else 0.0


def compose(mus: Iterable[float]) -> float:
    """μ of all parts together, exactly √Σμ², rounded up."""
    total = math.hypot(*mus)
    return math.nextafter(total, math.inf) if total else 0.0
