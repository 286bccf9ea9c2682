"""A statistical test of the mechanism that is installed here.

A worst-case pair of neighbouring tables goes through the real `embed` and `sanitize` many
times. Some of the draws teach an attacker the covariance of the noise, so that noise which is
missing in a coordinate or shared between two is found too; the others judge his best linear
test. No test between neighbours under μ-GDP is right more often than Φ(μ/2) (Dong, Roth & Su), so how often he is
right bounds μ from below (Clopper-Pearson). The audit fails if that bound exceeds the stated μ.

A release of two stages, the second chosen by what came out of the first, goes the whole way of `owner`; its attacker weighs both
by their likelihood. Noise in parts goes through the shares of three sites, one of which adds none.

Levels that nobody declared have a δ of their own: a person brings texts that are new, or that just too few others share, and how
often one of them shows bounds it from below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.codec import Codec, Codes
from dpearl.design import RECIPES, Design, asking
from dpearl.embed import Embedding
from dpearl.embeddings.levels import Levels, levels
from dpearl.embeddings.marginals import UNIT
from dpearl.engines.local import Local
from dpearl.neighbours import ABSENT, COUNTED, OTHERS, REPLACED, SEVERAL, Case, cases, marginals, table
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget, Relation, Unit
from dpearl.read import open_sources
from dpearl.release import Measurement, Release
from dpearl.sanitize import sanitize, sanitize_levels, sanitize_part
from dpearl.schema import parse_declaration
from dpearl.sharing import joined, split
from dpearl.sums import blocks_of, code_sums
from dpearl.tally import Tally, tally

BUDGET = Budget(16.0, 1e-5)
"""μ near 3, where a given error in σ shows in the fewest trials: a tenth within thousands."""

RUNS, THOROUGH = 10**5, 10**6
"""Releases that an audit makes in all: about a minute of one core, and ten."""

_FALSE_ALARM = 1e-8
"""Of one test: below 1e-6 for all of them together."""

_TINY = 1e-6
_WATCHED, _BESIDE, _DEAR = 64, 16, 0.2
"""Coordinates that an attacker can watch together, those beside the ones that the person moves where there are more, and the part
of all trials for the whole way of a release, which takes forty times as long as noise alone."""

Scores = NDArray[np.float64]
"""(side, trial): an attacker's belief that the person is there, in units of its own noise."""

Done = Callable[[int], None]
"""Told of releases as they are made."""

Sanitize = Callable[[Embedding, float, Unit], Measurement]
SanitizeLevels = Callable[[Tally, float, Unit], Measurement]


def _untold(_: int) -> None:
    """Where nobody waits."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What one test saw, where `stated` was promised: about `estimate`, and with near certainty at least `seen`.

    Of μ; of levels, δ. `scores` are the attacker's, for the curve of hits against false alarms.
    """

    unit: Unit
    part: str
    stated: float
    estimate: float
    seen: float
    scores: Scores | None = None

    @property
    def passed(self) -> bool:
        return self.seen <= self.stated

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, without the scores."""
        told = {"stated": self.stated, "estimate": self.estimate, "seen": self.seen, "passed": self.passed}
        return {"unit": str(self.unit), "part": self.part, **told}

    @classmethod
    def of_scores(cls, unit: Unit, part: str, stated: float, scores: Scores) -> Finding:
        """How often belief is right when both sides are equally likely, as μ."""
        right, trials = int((scores[1] > 0).sum() + (scores[0] <= 0).sum()), scores.size
        estimate, seen = (2 * NormalDist().inv_cdf(share) for share in (_share(right, trials), _at_least(right, trials)))
        return cls(unit, part, stated, max(estimate, 0.0), max(seen, 0.0), scores)


def audit(runs: int = RUNS, done: Done = _untold) -> list[Finding]:
    """Test all that is installed with about so many releases."""
    trials = max(round(runs / _sides()), 3)
    return [
        *audit_cases(cases(), trials, sanitize, done),
        *audit_case(SITES, trials, through_sites, done),
        audit_release(max(round(_DEAR * trials), 1), done),
        *audit_levels(trials, sanitize_levels, done),
    ]


def _sides() -> float:
    """Releases for each trial: two sides of every pair, four of each unit's levels."""
    return sum(2 * _share_of(case) for case in (*cases(), SITES)) + 2 * _DEAR + 4 * len(_UNITS)


def _share_of(case: Case) -> float:
    """The part of all trials for a case: fewer where a release holds many integers, each of which takes noise of its own."""
    return min(1.0, _WATCHED / case.integers)


def audit_cases(chosen: Sequence[Case], trials: int, sanitizer: Sanitize = sanitize, done: Done = _untold) -> list[Finding]:
    """Test some pairs, each block alone and all together."""
    return [finding for case in chosen for finding in audit_case(case, trials, sanitizer, done)]


def audit_case(case: Case, trials: int, sanitizer: Sanitize, done: Done = _untold) -> list[Finding]:
    """Test a pair. Draws of a block are (side, trial, coordinate), in units of its σ."""
    unit, note, count = case.unit, case.note, max(round(_share_of(case) * trials), 1)
    without, with_person = case.tables
    sigmas = case.design.sigmas(BUDGET.mu, unit)

    def coordinates(family: str, sums: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
        return (sums[family] - without.sums[family]).ravel() / sigmas[family]

    sides = [[_told(sanitizer(own, BUDGET.mu, unit).sums, done) for _ in range(count)] for own in (without, with_person)]
    shift = {family: coordinates(family, with_person.sums) for family in sigmas}
    watched = {family: _watched(shift[family]) for family in sigmas}
    draws = {
        family: np.array([[coordinates(family, sums)[watched[family]] for sums in side] for side in sides]) for family in sigmas
    }
    moved = {family: shift[family][watched[family]] for family in sigmas}
    together = _scores(np.concatenate(list(draws.values()), axis=2), np.concatenate(list(moved.values())))
    alone = [
        Finding.of_scores(unit, family + note, float(np.linalg.norm(own)), _scores(draws[family], own))
        for family, own in moved.items()
        if own.any()
    ]
    return [Finding.of_scores(unit, "all blocks" + note, BUDGET.mu, together), *alone]


def _told(sums: Mapping[str, NDArray[np.int64]], done: Done) -> Mapping[str, NDArray[np.int64]]:
    done(1)
    return sums


def _watched(shift: NDArray[np.float64]) -> NDArray[np.int64]:
    """All coordinates, where they are few; else those that move, and some beside them."""
    if len(shift) <= _WATCHED:
        return np.arange(len(shift))
    return np.sort(np.concatenate([np.flatnonzero(shift), np.flatnonzero(shift == 0)[:_BESIDE]]))


def _scores(draws: NDArray[np.float64], shift: NDArray[np.float64]) -> Scores:
    """The attacker's belief in each trial that is not used for learning: the sides lie `shift` apart."""
    study = draws.shape[1] // 3
    noise = np.concatenate([draws[0, :study], draws[1, :study] - shift])
    covariance = noise.T @ noise / max(len(noise), 1) + _TINY * np.eye(len(shift))
    direction = np.linalg.solve(covariance, shift)
    return np.asarray((draws[:, study:] @ direction - shift @ direction / 2) / np.sqrt(shift @ direction))


# Sites that share their sums

SITES = Case(marginals(COUNTED), ABSENT, OTHERS, (0.0, True), note=", shares of sites")


def through_sites(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    """The total of three sites' shares: one has the rows, one has none, and one is dishonest and adds no noise."""
    design, others = embedding.design, {family: np.zeros_like(sums) for family, sums in embedding.sums.items()}
    honest = (embedding, replace(embedding, sums=others))
    vectors = [_flat(design, sanitize_part(own, BUDGET, mu, unit, len(honest))) for own in honest]
    sent = [split(vector, 3) for vector in [*vectors, _flat(design, others)]]
    total = joined([joined(held) for held in zip(*sent, strict=True)]).view(np.int64)
    return Measurement(design, blocks_of(np.concatenate([[0], total]), design), design.sigmas(mu, unit))


def _flat(design: Design, sums: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([sums[block.family].ravel() for block in design.blocks])


# A release of two stages


def audit_release(trials: int, done: Done = _untold) -> Finding:
    """Test the whole way of `auto`: single columns, then pairs on grids that follow them."""
    offer = Offer(COUNTED, RECIPES["auto"], BUDGET)
    tables = [table(COUNTED, OTHERS, own) for own in ([], [(0.0, True)])]
    codes = [Codec(COUNTED).encode(own) for own in tables]
    sides = [[_log_odds(_whole_way(own, offer, done), codes) for _ in range(trials)] for own in tables]
    return Finding.of_scores(offer.unit, "both stages of a release", offer.mu, np.array(sides) / offer.mu)


def _whole_way(rows: pa.Table, offer: Offer, done: Done) -> Release:
    made = release_rows(rows, offer, engine=Local(threads=1))
    done(1)
    return made


def _log_odds(release: Release, codes: Sequence[Mapping[str, Codes]]) -> float:
    """How much likelier a release is with the person than without: designs are public, and he knows all other rows."""
    odds = 0.0
    for stage in release.stages.values():
        without, with_person = (blocks_of(code_sums(own, stage.design), stage.design) for own in codes)
        for family, sigma in stage.sigmas.items():
            shift = (with_person[family] - without[family]) / sigma
            odds += float((((stage.sums[family] - without[family]) / sigma - shift / 2) * shift).sum())
    return odds


# Levels that nobody declared

_UNITS = (ABSENT, REPLACED, SEVERAL)
_LOST, _FAINT, _CROWD = 0.05, 0.05, 400
"""δ that shows within hundreds of trials; a μ at which some rows are few; and how many people share a level."""


def audit_levels(trials: int, sanitizer: SanitizeLevels = sanitize_levels, done: Done = _untold) -> list[Finding]:
    """Test levels that nobody declared, for both relations, one and several rows per person."""
    return [finding for unit in _UNITS for finding in _audit_levels(unit, trials, sanitizer, done)]


def _asked(unit: Unit) -> Design:
    declared = {"columns": {"x": {"kind": "category", "levels": "estimate"}, "y": {"kind": "boolean"}}}
    return asking(parse_declaration({**declared, "rows_per_person": unit.rows_per_person}), levels, delta=_LOST)


def _audit_levels(unit: Unit, trials: int, sanitizer: SanitizeLevels, done: Done) -> list[Finding]:
    """A level that one person alone adds to what few others share, in one row or in all; and one that a crowd shares."""
    design = _asked(unit)
    block, sigma = design.block("levels"), design.sigmas(_FAINT, unit)["levels"]
    assert isinstance(block, Levels)
    few, rows = block.few(sigma), unit.rows_per_person
    alone = []
    for texts in ([f"new {place}" for place in range(rows)], ["new 0"] * rows):
        with_others = [*texts, *(text for text in set(texts) for _ in range(few))]
        found = partial(_found, sanitizer, _tallied(design, [*with_others, *["shared"] * _CROWD], few), _FAINT, unit, done)
        shown = sum(not found().keys().isdisjoint(texts) for _ in range(trials))
        part = f"delta of levels, {len(set(texts))} new"
        alone.append(Finding(unit, part, _LOST, shown / trials, _at_least(shown, trials)))
    return [*alone, _audit_crowd(design, unit, trials, sanitizer, done)]


def _audit_crowd(design: Design, unit: Unit, trials: int, sanitizer: SanitizeLevels, done: Done) -> Finding:
    """The counts of levels that are shared by many, with and without a person's rows, or with these rows in another of them."""
    sigma, rows = design.sigmas(BUDGET.mu, unit)["levels"], unit.rows_per_person
    here, there = (rows, 0), (0, rows if unit.relation is Relation.REPLACE_ONE else 0)
    crowds = [["a"] * (_CROWD + one) + ["b"] * (_CROWD // 2 + other) for one, other in (there, here)]
    sides = [_tallied(design, crowd, 0) for crowd in crowds]
    counts = [[_found(sanitizer, side, BUDGET.mu, unit, done) for _ in range(trials)] for side in sides]
    draws = np.array([[[found["a"], found["b"]] for found in side] for side in counts]) / sigma
    exact = [np.array([side.counts["x"]["a"], side.counts["x"]["b"]]) * UNIT / sigma for side in sides]
    return Finding.of_scores(unit, "levels of many", BUDGET.mu, _scores(draws - exact[0], exact[1] - exact[0]))


def _tallied(design: Design, texts: list[str], few: int) -> Tally:
    return tally(open_sources(pa.table({"x": texts, "y": [True] * len(texts)})), design, ["x"], few)


def _found(sanitizer: SanitizeLevels, private: Tally, mu: float, unit: Unit, done: Done) -> dict[str, int]:
    """The levels that pass, and their counts."""
    measured = sanitizer(private, mu, unit)
    done(1)
    block = measured.design.block("levels")
    assert isinstance(block, Levels)
    return dict(zip((block.found or {})["x"], measured.sums["levels"].tolist(), strict=True))


def _share(hits: int, trials: int) -> float:
    """Kept inside (0, 1)."""
    return min(max(hits, 0.5), trials - 0.5) / trials


def _at_least(hits: int, trials: int) -> float:
    """Clopper-Pearson lower bound of a probability, kept inside (0, 1)."""
    from scipy.stats import beta

    return float(beta.ppf(_FALSE_ALARM, hits, trials - hits + 1)) if hits else 1e-12
