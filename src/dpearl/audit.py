"""A statistical test of the mechanism that is installed here.

A worst-case pair of neighbouring tables goes through the real `embed` and `sanitize` many
times. For a block whose sums move by Δ under noise σ, the best test between the two asks
whether a projection lies beyond the midpoint; its error rates bound μ from below
(Clopper-Pearson). The audit fails if that bound exceeds the μ that is stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.design import Design
from dpearl.embed import Embedding, embed
from dpearl.embeddings.characteristic import draw_characteristic
from dpearl.embeddings.count import Count
from dpearl.privacy import Budget, Relation, Unit
from dpearl.read import open_sources
from dpearl.release import Measurement
from dpearl.sanitize import sanitize
from dpearl.schema import Schema, parse_schema

BUDGET = Budget(4.0, 1e-5)
"""Large enough for errors of a tenth in σ to show within thousands of trials."""

_CONFIDENCE = 1 - 1e-5
Sanitize = Callable[[Embedding, float, Unit], Measurement]


@dataclass(frozen=True)
class Finding:
    """What one test saw: μ is at least `seen`, with near certainty, where `stated` was promised."""

    unit: Unit
    part: str
    stated: float
    seen: float

    @property
    def passed(self) -> bool:
        return self.seen <= self.stated


def audit(trials: int = 4000, sanitizer: Sanitize = sanitize) -> list[Finding]:
    """Test both relations, one and several rows per person, each block alone and all together."""
    units = (Unit(Relation.ADD_REMOVE), Unit(Relation.REPLACE_ONE), Unit(Relation.ADD_REMOVE, 3))
    return [finding for unit in units for finding in _audit_unit(unit, trials, sanitizer)]


def _audit_unit(unit: Unit, trials: int, sanitizer: Sanitize) -> list[Finding]:
    without, with_person = _worst_pair(unit)
    mu = BUDGET.mu
    draws = [[sanitizer(embedding, mu, unit) for _ in range(trials)] for embedding in (without, with_person)]
    shift = {family: (with_person.sums[family] - without.sums[family]).astype(float) for family in without.sums}
    parts = {"all blocks": list(shift)} | {family: [family] for family in shift if shift[family].any()}
    sigmas = without.design.sigmas(mu, unit)
    return [_test(unit, part, families, draws, shift, without, sigmas) for part, families in parts.items()]


def _test(
    unit: Unit,
    part: str,
    families: list[str],
    draws: list[list[Measurement]],
    shift: dict[str, NDArray[np.float64]],
    without: Embedding,
    sigmas: dict[str, int],
) -> Finding:
    """The likelihood-ratio test under the stated noise, at its midpoint, with a threshold fixed in advance."""

    def score(drawn: Measurement) -> float:
        moved = ((drawn.sums[f] - without.sums[f]) * shift[f] / float(sigmas[f]) ** 2 for f in families)
        return math.fsum(float(part.sum()) for part in moved)

    own = math.fsum(float((shift[f] ** 2).sum()) / sigmas[f] ** 2 for f in families)
    hits = [sum(score(drawn) > own / 2 for drawn in side) for side in draws]
    trials = len(draws[0])
    quantile = NormalDist().inv_cdf
    seen = quantile(_at_least(hits[1], trials)) + quantile(_at_least(trials - hits[0], trials))
    stated = BUDGET.mu if part == "all blocks" else math.sqrt(own)
    return Finding(unit, part, stated, seen)


def _at_least(hits: int, trials: int) -> float:
    """Clopper-Pearson lower bound of a probability, kept inside (0, 1)."""
    from scipy.stats import beta

    return float(beta.ppf(1 - _CONFIDENCE, hits, trials - hits + 1)) if hits else 1e-12


def _worst_pair(unit: Unit) -> tuple[Embedding, Embedding]:
    """Two tables that differ in one person as much as a person can make them differ."""
    schema = parse_schema({"label": "y", "columns": {"x": {"kind": "number", "lower": 0, "upper": 1}, "y": {"kind": "boolean"}}})
    design = _equal_weights(schema)
    others: dict[str, list[object]] = {"x": [0.25, 0.5, 0.75], "y": [True, False, True]}
    row: dict[str, list[object]] = {"x": [0.0], "y": [True]}
    opposite: dict[str, list[object]] = {"x": [1.0], "y": [True]}
    if unit.relation is Relation.REPLACE_ONE:
        return _embedded(design, others, opposite, unit), _embedded(design, others, row, unit)
    return _embedded(design, others, {"x": [], "y": []}, unit), _embedded(design, others, row, unit)


def _equal_weights(schema: Schema) -> Design:
    """Count and frequencies weigh the same, so that an error in either shows; half a turn apart at x = 0 and 1."""
    design = Design(schema, ())
    frequencies = draw_characteristic(design.codec, 4, 1.0, 0, 1.0)
    half_turn = np.full_like(frequencies.lines, 2**31 // int(design.codec.tops[0]) + 1)
    return Design(schema, (Count(design.codec.classes, 1.0), replace(frequencies, lines=half_turn)))


def _embedded(design: Design, others: dict[str, list[object]], person: dict[str, list[object]], unit: Unit) -> Embedding:
    rows = {name: others[name] + person[name] * unit.rows_per_person for name in others}
    return embed(open_sources(pa.table(rows)), design, threads=1)
