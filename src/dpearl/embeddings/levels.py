"""Levels that enough people share: noisy counts of the texts that occur, kept where they reach a threshold.

The texts of a column have no public list, so which of them are counted tells of the people. Guarantee: all counts together are
(ε, δ_gauss(ε) + δ_levels)-DP, where δ_gauss is that of a Gaussian mechanism with the sensitivity below. Reason (stability, as in
Korolova et al. 2009; Wilson et al. 2020, Theorem 2; Swanberg et al. 2023): texts with at most `few` rows are left out before
noise. Take neighbours D and D′, and call a text new where it is left out in the one and not in the other.
  - Texts that are in both, or in neither, are a Gaussian mechanism on one and the same list: a person with m rows moves the
    counts of each of q columns by at most m, replaced by at most √2·m, so together by √q·m, or √(2q)·m.
  - New texts leave the release as it was unless one of them reaches the threshold T. A new text holds at most `few` rows of
    others, so with c of the person's rows it does so with probability at most f(c) = P(few + c + noise ≥ T). The person brings
    at most m rows for a column, spread over texts: f is convex up to T - few ≥ m, so Σf(c) is largest for one text of m rows or
    m of one. Over q columns: δ_levels = q·max(f(m), m·f(1)). So the new texts' part is (0, δ_levels)-DP (their total variation
    distance), both ways: when a person is replaced the texts that go and those that come are different outcomes, and the
    distance is the larger of both sides', not their sum.
  - (ε, δ_gauss) and (0, δ_levels) compose to the sum of the δ (Dwork & Roth 2014, Theorem 3.16), also with stages that
    follow and depend on what was found. Tests hold this against dp-accounting's privacy loss distributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.embeddings.marginals import UNIT
from dpearl.privacy import Relation, Unit
from dpearl.schema import AskedCategory

_FEW = 4
"""A part of the noise that the threshold grows by, so that texts which next to nobody shares need neither noise nor memory."""


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels found in each column, and the count that a text had to reach. Before they are found there are none."""

    columns: tuple[str, ...]
    weight: float
    delta: float
    threshold: int = 0
    found: Mapping[str, Sequence[str]] | None = None
    family = "levels"
    classes = 1
    peak = UNIT

    @property
    def norm2(self) -> int:
        return len(self.columns) * UNIT**2

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each column's levels lie in the vector."""
        sizes = [len((self.found or {}).get(name, ())) for name in self.columns]
        stops = np.cumsum(sizes).tolist()
        return {name: slice(stop - size, stop) for name, size, stop in zip(self.columns, sizes, stops, strict=True)}

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(place.stop for place in self.places.values()),)

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2

    def few(self, sigma: int) -> int:
        """Rows up to which a text is left out before noise."""
        return sigma // (_FEW * UNIT)

    def lost(self, sigma: int, unit: Unit) -> float:
        """δ_levels of this threshold, rounded up; certain failure where the argument above does not hold."""
        return _lost(self.threshold - self.few(sigma) * UNIT, sigma, unit.rows_per_person, len(self.columns))

    def passing(self, sigma: int, unit: Unit) -> Levels:
        """The smallest threshold whose δ_levels is at most `delta`."""
        beyond = _reach(self.delta, sigma, unit.rows_per_person, len(self.columns))
        return replace(self, threshold=beyond + self.few(sigma) * UNIT)

    def asked(self) -> Levels:
        """The question, without what was found."""
        return replace(self, threshold=0, found=None)

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        raise TypeError("levels that are not known are counted by `tally`")

    def to_dict(self) -> dict[str, Any]:
        told = {"family": self.family, "weight": self.weight, "delta": self.delta, "threshold": self.threshold}
        return {**told, "found": None if self.found is None else {name: list(texts) for name, texts in self.found.items()}}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


@cache
def _reach(delta: float, sigma: int, rows: int, columns: int) -> int:
    """How far beyond those left out a count must reach, by bisection."""
    low, high = 0, UNIT
    while _lost(high, sigma, rows, columns) > delta:
        low, high = high, 2 * high
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _lost(middle, sigma, rows, columns) <= delta else (middle, high)
    return high


def _lost(beyond: int, sigma: int, rows: int, columns: int) -> float:
    """columns · max(f(m), m·f(1)), f(c) the chance that c rows and noise, rounded, reach so far."""
    if beyond < rows * UNIT:
        return 1.0
    with ctx.workprec(128):
        one, all_rows = ((arb(2 * (beyond - c * UNIT) - 1) / (2 * sigma * arb(2).sqrt())).erfc() / 2 for c in (1, rows))
        worst = max(float((columns * rows * one).upper()), float((columns * all_rows).upper()))
    return min(math.nextafter(worst, math.inf), 1.0)


def levels(
    codec: Codec, weight: float, delta: float, threshold: int = 0, found: Mapping[str, Sequence[str]] | None = None
) -> Levels:
    """All categories whose levels are asked for."""
    columns = tuple(name for name, column in codec.schema.columns.items() if isinstance(column, AskedCategory))
    if found is not None and set(found) != set(columns):
        raise ValueError("levels")
    return Levels(columns, float(weight), float(delta), int(threshold), found)
