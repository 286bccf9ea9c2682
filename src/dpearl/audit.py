"""A statistical test of the mechanism that is installed here.

A worst-case pair of neighbouring tables goes through the real `embed` and `sanitize` many
times. Some of the draws teach an attacker the covariance of the noise, so that noise which is
missing in a coordinate or shared between two is found too; the others judge his best linear
test. No test between neighbours under μ-GDP is right more often than Φ(μ/2), so how often he is
right bounds μ from below (Clopper-Pearson). The audit fails if that bound exceeds the stated μ.

Levels that nobody declared have a δ of their own: a person brings texts that are new, or that just too few others share, and how
often one of them shows bounds it from below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.design import Design, asking
from dpearl.embed import Embedding, embed
from dpearl.embeddings.characteristic import draw_characteristic
from dpearl.embeddings.count import Count
from dpearl.embeddings.levels import Levels, levels
from dpearl.embeddings.marginals import UNIT, public_pairs, singles
from dpearl.embeddings.mixtures import Mixture, mixtures
from dpearl.embeddings.octaves import stretches
from dpearl.embeddings.spread import pairwise_distance, spread
from dpearl.engines.local import Local
from dpearl.privacy import Budget, Relation, Unit
from dpearl.read import open_sources
from dpearl.release import Measurement
from dpearl.sanitize import sanitize, sanitize_levels
from dpearl.schema import parse_declaration, parse_schema
from dpearl.sums import Progress
from dpearl.tally import Tally, tally

BUDGET = Budget(16.0, 1e-5)
"""μ near 3, where a given error in σ shows in the fewest trials: a tenth within thousands."""

_FALSE_ALARM = 1e-7
_TINY = 1e-6
Sanitize = Callable[[Embedding, float, Unit], Measurement]
SanitizeLevels = Callable[[Tally, float, Unit], Measurement]
Row = tuple[float | None, bool]

_COUNTED = parse_schema(
    {"label": "y", "columns": {"x": {"kind": "number", "lower": 0, "upper": 1, "step": 1}, "y": {"kind": "boolean"}}}
)
_SCHEMA = parse_schema({"label": "y", "columns": {"x": {"kind": "number", "lower": 0, "upper": 1}, "y": {"kind": "boolean"}}})


@dataclass(frozen=True)
class Case:
    """A design, who is protected, and two tables as far apart as one person can make them."""

    design: Design
    unit: Unit
    others: tuple[Row, ...]
    person: Row
    instead: Row | None = None
    note: str = ""

    @property
    def tables(self) -> tuple[Embedding, Embedding]:
        """The table with the other row, or none, in the person's place; and the table with the person."""
        return self._embedded(self.instead), self._embedded(self.person)

    def _embedded(self, row: Row | None) -> Embedding:
        x, y = zip(*self.others, *([row] * self.unit.rows_per_person if row else []), strict=True)
        return embed(open_sources(pa.table({"x": x, "y": y})), self.design, Local(threads=1))


def _cases() -> list[Case]:
    """Every block under every relation it serves."""
    others: tuple[Row, ...] = ((0.25, True), (0.5, False), (0.75, True))
    absent, replaced, several = Unit(Relation.ADD_REMOVE), Unit(Relation.REPLACE_ONE), Unit(Relation.ADD_REMOVE, 3)
    frequencies, codec = _frequencies(), Codec(_SCHEMA)
    apart = Design(_SCHEMA, (Count(codec.classes, 1.0), spread(codec, 1.0)))
    distance = Design(_SCHEMA, (pairwise_distance(codec, 1.0),))
    return [
        Case(frequencies, absent, others, (0.0, True)),
        Case(frequencies, replaced, others, (0.0, True), (1.0, True)),
        Case(frequencies, replaced, others, (0.0, True), (1.0, False), ", class changed"),
        Case(frequencies, several, others, (0.0, True)),
        Case(apart, absent, others, (1.0, True), note=", scale"),
        Case(distance, replaced, ((1.0, True),), (1.0, True), (None, True), ", scale"),
        Case(_marginals(), absent, others, (0.0, True), note=", marginals"),
        Case(_marginals(), replaced, others, (0.0, True), (1.0, False), ", marginals"),
        Case(_ranges(), absent, others, (1e300, True), note=", ranges"),
        Case(_ranges(), replaced, others, (1e300, True), (-1e300, True), ", ranges"),
        Case(_modes(), absent, others, (0.5, True), note=", modes"),
        Case(_modes(), several, others, (0.5, True), note=", modes"),
        Case(_modes(), replaced, others, (0.5, True), (0.97, True), ", modes"),
    ]


def _frequencies() -> Design:
    """Count and frequencies weigh the same, so that an error in either shows; half a turn apart at x = 0 and 1."""
    codec = Codec(_SCHEMA)
    frequencies = draw_characteristic(codec, 2, 1.0, 0, 1.0)
    half_turn = np.full_like(frequencies.lines, 2**31 // int(codec.tops[0]) + 1)
    return Design(_SCHEMA, (Count(codec.classes, 1.0), replace(frequencies, lines=half_turn)))


def _marginals() -> Design:
    """Single columns and columns by class, on so few cells that an attacker can learn the noise of each."""
    codec = Codec(_COUNTED)
    return Design(_COUNTED, (Count(codec.classes, 1.0), singles(codec, 1.0), public_pairs(codec, 1.0)))


def _ranges() -> Design:
    """Stretches of a line, at whose end an extreme value lies."""
    return asking(_SCHEMA, stretches, columns=["x"], line=4)


def _modes() -> Design:
    """Two modes, narrow and far apart: a row at the end of a mode's frame belongs to it alone, and adds all that it can."""
    return asking(_SCHEMA, mixtures, found={"x": Mixture(np.array([[0.2, 1.0], [0.1, 0.01], [0.5, 0.5]]))})


@dataclass(frozen=True)
class Finding:
    """What one test saw: μ is at least `seen`, with near certainty, where `stated` was promised. Of levels, δ."""

    unit: Unit
    part: str
    stated: float
    seen: float

    @property
    def passed(self) -> bool:
        return self.seen <= self.stated

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"unit": str(self.unit), "part": self.part, "stated": self.stated, "seen": self.seen, "passed": self.passed}


def audit(trials: int = 4000, steps: Callable[[str, int], Progress] | None = None) -> list[Finding]:
    """Test all that is installed; `steps` is told of each test."""
    tests = [*_block_tests(trials, sanitize), *_level_tests(trials, sanitize_levels)]
    done = steps("auditing", len(tests)) if steps else None
    found = []
    for test in tests:
        found += test()
        if done is not None:
            done(1)
    return found


def audit_blocks(trials: int, sanitizer: Sanitize = sanitize) -> list[Finding]:
    """Test both relations, one and several rows per person, each block alone and all together."""
    return [finding for test in _block_tests(trials, sanitizer) for finding in test()]


def audit_levels(trials: int, sanitizer: SanitizeLevels = sanitize_levels) -> list[Finding]:
    """Test levels that nobody declared, for both relations, one and several rows per person."""
    return [finding for test in _level_tests(trials, sanitizer) for finding in test()]


def _block_tests(trials: int, sanitizer: Sanitize) -> list[Callable[[], list[Finding]]]:
    return [partial(_audit_case, case, trials, sanitizer) for case in _cases()]


def _level_tests(trials: int, sanitizer: SanitizeLevels) -> list[Callable[[], list[Finding]]]:
    units = (Unit(Relation.ADD_REMOVE), Unit(Relation.REPLACE_ONE), Unit(Relation.ADD_REMOVE, 3))
    return [partial(_audit_levels, unit, trials, sanitizer) for unit in units]


_LOST, _FAINT, _CROWD = 0.05, 0.05, 400
"""δ that shows within hundreds of trials; a μ at which some rows are few; and how many people share a level."""


def _asked(unit: Unit) -> Design:
    declared = {"columns": {"x": {"kind": "category", "levels": "estimate"}, "y": {"kind": "boolean"}}}
    return asking(parse_declaration({**declared, "rows_per_person": unit.rows_per_person}), levels, delta=_LOST)


def _audit_levels(unit: Unit, trials: int, sanitizer: SanitizeLevels) -> list[Finding]:
    """A level that one person alone adds to what few others share, in one row or in all; and one that a crowd shares."""
    design = _asked(unit)
    block, sigma = design.block("levels"), design.sigmas(_FAINT, unit)["levels"]
    assert isinstance(block, Levels)
    few, rows = block.few(sigma), unit.rows_per_person
    alone = []
    for texts in ([f"new {place}" for place in range(rows)], ["new 0"] * rows):
        with_others = [*texts, *(text for text in set(texts) for _ in range(few))]
        private = _tallied(design, [*with_others, *["shared"] * _CROWD], few)
        shown = sum(any(text in _found(sanitizer(private, _FAINT, unit)) for text in texts) for _ in range(trials))
        alone.append(Finding(unit, f"delta of levels, {len(set(texts))} new", _LOST, _at_least(shown, trials)))
    return [*alone, _audit_crowd(design, unit, trials, sanitizer)]


def _audit_crowd(design: Design, unit: Unit, trials: int, sanitizer: SanitizeLevels) -> Finding:
    """The counts of levels that are shared by many, with and without a person's rows, or with these rows in another of them."""
    sigma, rows = design.sigmas(BUDGET.mu, unit)["levels"], unit.rows_per_person
    here, there = (rows, 0), (0, rows if unit.relation is Relation.REPLACE_ONE else 0)
    crowds = [["a"] * (_CROWD + one) + ["b"] * (_CROWD // 2 + other) for one, other in (there, here)]
    sides = [_tallied(design, crowd, 0) for crowd in crowds]
    draws = np.array([[_counts(sanitizer(side, BUDGET.mu, unit)) for _ in range(trials)] for side in sides]) / sigma
    exact = [np.array([side.counts["x"]["a"], side.counts["x"]["b"]]) * UNIT / sigma for side in sides]
    return Finding(unit, "levels of many", BUDGET.mu, _seen(draws - exact[0], exact[1] - exact[0]))


def _tallied(design: Design, texts: list[str], few: int) -> Tally:
    return tally(open_sources(pa.table({"x": texts, "y": [True] * len(texts)})), design, ["x"], few)


def _found(measured: Measurement) -> dict[str, int]:
    block = measured.design.block("levels")
    assert isinstance(block, Levels)
    return dict(zip((block.found or {})["x"], measured.sums["levels"].tolist(), strict=True))


def _counts(measured: Measurement) -> list[int]:
    found = _found(measured)
    return [found["a"], found["b"]]


def _audit_case(case: Case, trials: int, sanitizer: Sanitize) -> list[Finding]:
    unit, note = case.unit, case.note
    without, with_person = case.tables
    sigmas = case.design.sigmas(BUDGET.mu, unit)

    def coordinates(family: str, sums: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
        return (sums[family] - without.sums[family]).ravel() / sigmas[family]

    sides = [[sanitizer(embedding, BUDGET.mu, unit).sums for _ in range(trials)] for embedding in (without, with_person)]
    draws = {family: np.array([[coordinates(family, sums) for sums in side] for side in sides]) for family in sigmas}
    shift = {family: coordinates(family, with_person.sums) for family in sigmas}
    joint = _seen(np.concatenate(list(draws.values()), axis=2), np.concatenate(list(shift.values())))
    alone = [
        Finding(unit, family + note, float(np.linalg.norm(shift[family])), _seen(draws[family], shift[family]))
        for family in sigmas
        if shift[family].any()
    ]
    return [Finding(unit, "all blocks" + note, BUDGET.mu, joint), *alone]


def _seen(draws: NDArray[np.float64], shift: NDArray[np.float64]) -> float:
    """A lower bound of μ. Draws are (side, trial, coordinate) in units of σ; the sides lie `shift` apart."""
    study = draws.shape[1] // 3
    noise = np.concatenate([draws[0, :study], draws[1, :study] - shift])
    covariance = noise.T @ noise / len(noise)
    direction = np.linalg.solve(covariance + _TINY * np.eye(len(shift)), shift)
    says_with = draws[:, study:] @ direction > shift @ direction / 2
    return 2 * NormalDist().inv_cdf(_at_least(int(says_with[1].sum() + (~says_with[0]).sum()), says_with.size))


def _at_least(hits: int, trials: int) -> float:
    """Clopper-Pearson lower bound of a probability, kept inside (0, 1)."""
    from scipy.stats import beta

    return float(beta.ppf(_FALSE_ALARM, hits, trials - hits + 1)) if hits else 1e-12
