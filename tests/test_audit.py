"""The audit passes the mechanism that is installed and goes red for every way we know to break it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pictures

from dpearl import cli
from dpearl.audit import (
    BUDGET,
    SITES,
    Finding,
    Sanitize,
    SanitizeLevels,
    audit,
    audit_case,
    audit_cases,
    audit_levels,
    audit_release,
    through_sites,
)
from dpearl.design import Design
from dpearl.embed import Embedding
from dpearl.embeddings.count import Count
from dpearl.embeddings.levels import Levels
from dpearl.embeddings.mixtures import Mixtures
from dpearl.embeddings.octaves import Octaves
from dpearl.embeddings.spread import PairwiseDistance, Spread
from dpearl.neighbours import Case, cases
from dpearl.noise import add_noise
from dpearl.owner import Offer
from dpearl.privacy import Budget, Relation, Unit
from dpearl.release import Measurement
from dpearl.report.audited import audit_page, audit_picture
from dpearl.sanitize import sanitize, sanitize_levels, sanitize_part
from dpearl.tally import Tally

TRIALS, SUBTLE = 600, 1600
"""Half of the noise shows in the former, but for a chance below 1e-17, and a factor of √2 in the latter, but for 1e-11."""

PAIRS = {case.note: [own for own in cases() if own.note == case.note] for case in cases()}
"""Worst-case neighbours by what is measured of them."""

FREQUENCIES = [*PAIRS[""], *PAIRS[", class changed"]]
"""Those that most mutations are shown on: each takes a second, and these see the count and the frequencies, for all units."""

Red = set[tuple[Relation, int, str]]


def failures(sanitizer: Sanitize = sanitize, chosen: Sequence[Case] = FREQUENCIES, trials: int = TRIALS) -> Red:
    return reds(audit_cases(chosen, trials, sanitizer))


def level_failures(sanitizer: SanitizeLevels = sanitize_levels) -> Red:
    return reds(audit_levels(800, sanitizer))


def reds(found: list[Finding]) -> Red:
    return {(red.unit.relation, red.unit.rows_per_person, red.part) for red in found if not red.passed}


def with_sums(measured: Measurement, sums: Mapping[str, NDArray[np.int64]]) -> Measurement:
    return replace(measured, sums={**measured.sums, **sums})


def half_sigma(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    return sanitize(embedding, 2 * mu, unit)


def exact_count(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    exact = {family: sums for family, sums in embedding.sums.items() if family == "count"}
    return with_sums(sanitize(embedding, mu, unit), exact)


def one_exact_entry(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    measured = sanitize(embedding, mu, unit)
    noisy = measured.sums["characteristic"].copy()
    noisy[1, 0, 0] = embedding.sums["characteristic"][1, 0, 0]
    return with_sums(measured, {"characteristic": noisy})


def one_draw_for_a_block(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    sigmas = embedding.design.sigmas(mu, unit)
    shared = {family: sums + add_noise(np.zeros(1, np.int64), sigmas[family]) for family, sums in embedding.sums.items()}
    return with_sums(sanitize(embedding, mu, unit), shared)


def one_draw_for_two_entries(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    """The sine's noise is the cosine's again."""
    measured = sanitize(embedding, mu, unit)
    drawn = measured.sums["characteristic"] - embedding.sums["characteristic"]
    return with_sums(measured, {"characteristic": embedding.sums["characteristic"] + drawn[..., :1]})


def the_same_noise_each_time(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    sigmas, seeded = embedding.design.sigmas(mu, unit), np.random.default_rng(7)
    sums = {f: s + np.rint(seeded.normal(0, sigmas[f], s.shape)).astype(np.int64) for f, s in embedding.sums.items()}
    return with_sums(sanitize(embedding, mu, unit), sums)


def rows_per_person_ignored(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    return sanitize(embedding, mu, Unit(unit.relation))


def replacing_treated_as_adding(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    return sanitize(embedding, mu, Unit(Relation.ADD_REMOVE, unit.rows_per_person))


ONE, REPLACED, THREE = (Relation.ADD_REMOVE, 1), (Relation.REPLACE_ONE, 1), (Relation.ADD_REMOVE, 3)
MUTATIONS: dict[Sanitize, list[tuple[Relation, int]]] = {
    half_sigma: [ONE, REPLACED, THREE],
    exact_count: [ONE, REPLACED, THREE],
    one_exact_entry: [ONE, REPLACED, THREE],
    one_draw_for_a_block: [ONE, REPLACED, THREE],
    one_draw_for_two_entries: [ONE, REPLACED, THREE],
    the_same_noise_each_time: [ONE, REPLACED, THREE],
    rows_per_person_ignored: [THREE],
    replacing_treated_as_adding: [REPLACED],
}


def test_the_installed_mechanism_passes_and_most_of_its_mu_is_seen() -> None:
    """At 1e-8 for each of 63 tests, chance turns one red in less than one of a million runs."""
    told: list[int] = []
    found = audit(20_000, told.append)
    assert [finding.part for finding in found if not finding.passed] == []
    assert len(found) == 63
    assert abs(sum(told) - 20_000) < 60, "as many releases as were asked for"
    joint = [finding for finding in found if finding.part.startswith("all blocks")]
    assert {(finding.unit.relation, finding.unit.rows_per_person) for finding in joint} == {ONE, REPLACED, THREE}
    assert {finding.part.partition(", ")[2] for finding in joint} == {note[2:] for note in PAIRS} | {"shares of sites"}
    dear = ("all blocks, octaves", "all blocks, pictures")
    assert all(finding.seen > 0.5 * BUDGET.mu for finding in joint if finding.part not in dear), "the pair is a worst case"
    assert all(finding.estimate > 0.3 * BUDGET.mu for finding in joint)


def test_levels_and_frequencies_as_installed_pass() -> None:
    assert failures(chosen=FREQUENCIES[:1]) | level_failures() == set()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: str(getattr(mutation, "__name__", mutation)))
def test_a_broken_sanitizer_is_caught(mutation: Sanitize) -> None:
    red = failures(mutation, trials=SUBTLE if mutation is replacing_treated_as_adding else TRIALS)
    for unit in MUTATIONS[mutation]:
        assert {(*unit, "all blocks"), (*unit, "all blocks, class changed")} & red
    assert {(relation, rows) for relation, rows, _ in red} == set(MUTATIONS[mutation]), "and nothing else is blamed"


def test_half_the_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Design.sensitivity
    monkeypatch.setattr(Design, "sensitivity", lambda design, unit: honest(design, unit) / 2)
    assert {(*unit, "all blocks") for unit in (ONE, REPLACED, THREE)} <= failures()


def test_a_count_left_out_of_the_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Count, "sensitivity2", lambda count, relation, same_class: 0)
    assert {(*unit, "all blocks") for unit in (ONE, THREE)} <= failures(chosen=[FREQUENCIES[0], FREQUENCIES[2]], trials=SUBTLE)


def test_a_replacement_that_counts_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that leaves and the row that comes may point in opposite directions."""
    honest, adding = Design.sensitivity2, Unit(Relation.ADD_REMOVE)
    monkeypatch.setattr(Design, "sensitivity2", lambda design, unit, scales: honest(design, adding, scales))
    red = failures(chosen=[FREQUENCIES[1], FREQUENCIES[3]], trials=SUBTLE)
    assert {(*REPLACED, "all blocks"), (*REPLACED, "all blocks, class changed")} <= red


@pytest.mark.parametrize(("block", "unit"), [(Spread, ONE), (PairwiseDistance, REPLACED)])
def test_a_scale_that_reaches_farther_than_it_says_is_caught(
    block: type[Spread] | type[PairwiseDistance], unit: tuple[Relation, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = block.sensitivity2
    monkeypatch.setattr(block, "sensitivity2", lambda own, relation, same: honest(own, relation, same) // 10_000)
    assert (*unit, "all blocks, scale") in failures(chosen=PAIRS[", scale"], trials=SUBTLE)


def test_modes_that_reach_farther_than_they_say_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mixtures, "norm2", property(lambda own: 2**28))
    assert {(*unit, "all blocks, modes") for unit in (ONE, REPLACED, THREE)} <= failures(chosen=PAIRS[", modes"])


def test_more_rows_of_a_person_than_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpearl.persons.keep", lambda ballots, most: ballots)
    assert (*THREE, "all blocks, persons") in failures(chosen=PAIRS[", persons"])


def test_pictures_that_are_not_cut_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpearl.embeddings.moments.clipped", lambda values: values)
    assert (*ONE, "all blocks, pictures") in failures(chosen=PAIRS[", pictures"])


def test_an_octave_that_counts_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Octaves.sum
    monkeypatch.setattr(Octaves, "sum", lambda block, rows: 3 * honest(block, rows))
    assert (*ONE, "all blocks, octaves") in reds(audit_cases(PAIRS[", octaves"], 2000)), "an eighth of these trials is made"


# Sites, and both stages of a release


def test_parts_of_noise_that_count_a_dishonest_site_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight parts are taken for granted where there are two."""

    def for_eight(embedding: Embedding, budget: Budget, mu: float, unit: Unit, honest: int) -> Mapping[str, NDArray[np.int64]]:
        return sanitize_part(embedding, budget, mu, unit, 4 * honest)

    monkeypatch.setattr("dpearl.audit.sanitize_part", for_eight)
    assert (*ONE, "all blocks, shares of sites") in reds(audit_case(SITES, TRIALS, through_sites))


def test_stages_that_take_too_much_together_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two stages takes twice the whole μ. Of 400 guesses up to three may be wrong; more are with a chance below 1e-8."""
    monkeypatch.setattr(Offer, "targets", property(lambda offer: dict.fromkeys(offer.stages, 2 * offer.whole)))
    assert not replace(audit_release(200), stated=BUDGET.mu).passed


def test_both_stages_together_keep_to_the_budget() -> None:
    found = audit_release(60)
    assert found.passed
    assert found.stated <= BUDGET.mu
    assert found.estimate > 0.25 * BUDGET.mu, "a row that is like others is shorter than the limit, but it shows"


def test_an_audit_can_be_drawn(tmp_path: Path) -> None:
    found = audit_case(PAIRS[", ranges"][0], 60, sanitize)
    page = audit_page(found)
    assert "Passed" in page
    assert "all blocks, ranges" in page
    assert page.count("<svg") == 2
    broken = [replace(finding, seen=9.0) for finding in found]
    assert "FAILED" in audit_page(broken)
    audit_picture(found, tmp_path / "audit.png")
    with Pictures.open(tmp_path / "audit.png") as picture:
        assert picture.size[0] > 500


def test_the_command_prints_and_draws_and_tells_of_a_broken_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def small(runs: int, done: object) -> list[Finding]:
        asked.append(runs)
        return audit_case(PAIRS[", ranges"][0], 30, half_sigma if len(asked) > 1 else sanitize)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["dpearl", "audit", *arguments])
        return cli._run()

    monkeypatch.setattr("dpearl.audit.audit", small)
    assert run("-o", str(tmp_path / "a.html")) == 0
    assert "Passed" in capsys.readouterr().out
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    monkeypatch.setattr(Finding, "passed", property(lambda finding: False))
    assert run("--thorough") == 1
    assert "do not release with it" in capsys.readouterr().err
    assert asked == [10**5, 10**6]


# Levels that nobody declared


def half_the_noise(tally: Tally, mu: float, unit: Unit) -> Measurement:
    return sanitize_levels(tally, 2 * mu, unit)


def one_row_per_person(tally: Tally, mu: float, unit: Unit) -> Measurement:
    return sanitize_levels(tally, mu, Unit(unit.relation))


def test_levels_without_enough_noise_are_caught() -> None:
    red = level_failures(half_the_noise)
    assert {(*unit, "levels of many") for unit in (ONE, REPLACED, THREE)} <= red


def test_levels_that_forget_how_many_rows_a_person_has_are_caught() -> None:
    red = level_failures(one_row_per_person)
    assert (*THREE, "levels of many") in red
    assert (*THREE, "delta of levels, 3 new") in red
    assert {(relation, rows) for relation, rows, _ in red} == {THREE}


def test_a_threshold_that_forgets_those_left_out_before_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person may add to a text that just as many others share as are left out."""
    honest = Levels.passing

    def too_low(block: Levels, sigma: int, unit: Unit) -> Levels:
        passing = honest(block, sigma, unit)
        return replace(passing, threshold=passing.threshold - 4 * block.few(sigma) * 2**16)

    monkeypatch.setattr(Levels, "passing", too_low)
    new = {(*ONE, "delta of levels, 1 new"), (*REPLACED, "delta of levels, 1 new"), (*THREE, "delta of levels, 3 new")}
    assert new <= level_failures()


def test_texts_that_pass_without_a_threshold_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Levels, "passing", lambda block, sigma, unit: replace(block, threshold=0))
    assert {(*unit, "delta of levels, 1 new") for unit in (ONE, REPLACED, THREE)} <= level_failures()
