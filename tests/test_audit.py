"""The audit passes the mechanism that is installed and goes red for every way we know to break it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpearl.audit import BUDGET, Finding, Sanitize, SanitizeLevels, audit, audit_blocks, audit_levels
from dpearl.design import Design
from dpearl.embed import Embedding
from dpearl.embeddings.count import Count
from dpearl.embeddings.levels import Levels
from dpearl.embeddings.mixtures import Mixtures
from dpearl.embeddings.spread import PairwiseDistance, Spread
from dpearl.noise import rounded_gaussian
from dpearl.privacy import Relation, Unit
from dpearl.release import Measurement
from dpearl.sanitize import sanitize, sanitize_levels
from dpearl.tally import Tally

TRIALS = 800


def failures(sanitizer: Sanitize = sanitize) -> set[tuple[Relation, int, str]]:
    return reds(audit_blocks(TRIALS, sanitizer))


def level_failures(sanitizer: SanitizeLevels = sanitize_levels) -> set[tuple[Relation, int, str]]:
    return reds(audit_levels(TRIALS, sanitizer))


def reds(found: list[Finding]) -> set[tuple[Relation, int, str]]:
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
    if "characteristic" not in embedding.sums:
        return measured
    noisy = measured.sums["characteristic"].copy()
    noisy[1, 0, 0] = embedding.sums["characteristic"][1, 0, 0]
    return with_sums(measured, {"characteristic": noisy})


def one_draw_for_a_block(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    sigmas = embedding.design.sigmas(mu, unit)
    shared = {family: sums + rounded_gaussian(sigmas[family]) for family, sums in embedding.sums.items()}
    return with_sums(sanitize(embedding, mu, unit), shared)


def one_draw_for_two_entries(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    """The sine's noise is the cosine's again."""
    measured = sanitize(embedding, mu, unit)
    if "characteristic" not in embedding.sums:
        return measured
    drawn = measured.sums["characteristic"] - embedding.sums["characteristic"]
    return with_sums(measured, {"characteristic": embedding.sums["characteristic"] + drawn[..., :1]})


def the_same_noise_each_time(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    sigmas, seeded = embedding.design.sigmas(mu, unit), np.random.default_rng(7)
    sums = {f: s + np.rint(seeded.normal(0, sigmas[f], s.shape)).astype(np.int64) for f, s in embedding.sums.items()}
    return with_sums(sanitize(embedding, mu, unit), sums)


def rows_per_person_ignored(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    return sanitize(embedding, mu, Unit(unit.relation))


def replacing_treated_as_adding(embedding: Embedding, mu: float, unit: Unit) -> Measurement:
    pairs = "pairwise-distance" in embedding.sums
    return sanitize(embedding, mu, unit if pairs else Unit(Relation.ADD_REMOVE, unit.rows_per_person))


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
    found = audit(1500)
    assert [finding for finding in found if not finding.passed] == []
    joint = [finding for finding in found if finding.part.startswith("all blocks")]
    assert {(finding.unit.relation, finding.unit.rows_per_person) for finding in joint} == {ONE, REPLACED, THREE}
    assert all(finding.stated == BUDGET.mu and finding.seen > 0.7 * BUDGET.mu for finding in joint), "the pair is a worst case"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: str(getattr(mutation, "__name__", mutation)))
def test_a_broken_sanitizer_is_caught(mutation: Sanitize) -> None:
    red = failures(mutation)
    for unit in MUTATIONS[mutation]:
        assert {(*unit, "all blocks"), (*unit, "all blocks, class changed")} & red
    assert {(relation, rows) for relation, rows, _ in red} == set(MUTATIONS[mutation]), "and nothing else is blamed"


def test_half_the_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Design.sensitivity
    monkeypatch.setattr(Design, "sensitivity", lambda design, unit: honest(design, unit) / 2)
    assert {(*unit, "all blocks") for unit in (ONE, REPLACED, THREE)} <= failures()


def test_a_count_left_out_of_the_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Count, "sensitivity2", lambda count, relation, same_class: 0)
    assert {(*unit, "all blocks") for unit in (ONE, THREE)} <= failures()


def test_a_replacement_that_counts_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that leaves and the row that comes may point in opposite directions."""
    honest, adding = Design.sensitivity2, Unit(Relation.ADD_REMOVE)
    monkeypatch.setattr(
        Design,
        "sensitivity2",
        lambda design, unit, scales: honest(design, adding if len(design.blocks) > 1 else unit, scales),
    )
    assert {(*REPLACED, "all blocks"), (*REPLACED, "all blocks, class changed")} <= failures()


@pytest.mark.parametrize(("block", "unit"), [(Spread, ONE), (PairwiseDistance, REPLACED)])
def test_a_scale_that_reaches_farther_than_it_says_is_caught(
    block: type[Spread] | type[PairwiseDistance], unit: tuple[Relation, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = block.sensitivity2
    monkeypatch.setattr(block, "sensitivity2", lambda own, relation, same: honest(own, relation, same) // 10_000)
    assert (*unit, "all blocks, scale") in failures()


def test_modes_that_reach_farther_than_they_say_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mixtures, "norm2", property(lambda own: 2**28))
    assert {(*unit, "all blocks, modes") for unit in (ONE, REPLACED, THREE)} <= failures()


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
        return replace(passing, threshold=passing.threshold - 2 * block.few(sigma) * 2**16)

    monkeypatch.setattr(Levels, "passing", too_low)
    red = level_failures()
    assert {(*unit, "delta of levels, 1 new") for unit in (ONE, REPLACED, THREE)} <= red


def test_texts_that_pass_without_a_threshold_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Levels, "passing", lambda block, sigma, unit: replace(block, threshold=0))
    assert {(*unit, "delta of levels, 1 new") for unit in (ONE, REPLACED, THREE)} <= level_failures()
