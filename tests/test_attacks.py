"""Known attacks, small: controls that keep no secret are broken, and a release at ε = 1 is not beyond what it promises.

`beats` errs with a chance below 1e-6 on either side: a control must be right so often that no release at ε = 1 could be.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.attacks import (
    NO_NOISE,
    OURS,
    Guesses,
    advantage_bound,
    at_least,
    at_most,
    attack_members,
    drawn_again,
    granted,
    infer_attributes,
    member_bound,
    reconstruct_from_counts,
    reconstruct_from_releases,
    reconstruct_from_samples,
    secret_bound,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_an_outlier_is_told_from_real_rows_and_not_from_a_release() -> None:
    bound = member_bound(OURS)
    assert attack_members(OURS, 1, 80, drawn_again).beats(bound)
    assert not attack_members(OURS, 1, 16).beats(bound)


def test_a_secret_is_told_of_those_in_the_data_where_rows_are_copied_and_not_by_a_release() -> None:
    bound = advantage_bound(OURS)
    assert infer_attributes(20, OURS, lambda rows: rows).beats(bound)
    assert not infer_attributes(4, OURS).beats(bound)


def test_many_samples_of_one_model_tell_no_more_than_its_release() -> None:
    """Without noise one sample tells nearly all; with it fifty tell next to nothing."""
    bound = secret_bound(OURS)
    assert reconstruct_from_samples(NO_NOISE, (5,))[5].beats(bound)
    assert not reconstruct_from_samples(OURS, (50,))[50].beats(bound)


def test_many_releases_tell_everything_and_a_ledger_refuses_the_second(tmp_path: Path) -> None:
    bound = secret_bound(OURS)
    one, another = (reconstruct_from_releases(OURS, (1, 250)) for _ in range(2))
    assert not (one[1] + another[1]).beats(bound)
    assert (one[250] + another[250]).beats(bound), "250 releases cost sixteen times the μ of one"
    assert granted(3, tmp_path / "ledger.jsonl") == 1


def test_exact_answers_give_everybody_away() -> None:
    found = reconstruct_from_counts()
    assert found.share == 1
    assert found.beats(secret_bound(OURS))


def test_bounds_and_intervals_are_those_of_theory() -> None:
    assert member_bound(OURS) == pytest.approx(0.5533, abs=1e-4)
    assert advantage_bound(OURS) == pytest.approx(2 * 0.5533 - 1, abs=1e-4)
    assert secret_bound(OURS) == pytest.approx(0.6057, abs=1e-4)
    assert at_least(20, 20, 1e-6) == pytest.approx(1e-6 ** (1 / 20))
    assert at_most(0, 20, 1e-6) == pytest.approx(1 - 1e-6 ** (1 / 20))
    assert not Guesses(20, 20).beats(0.5533)
    assert Guesses(40, 40).beats(0.5533)
