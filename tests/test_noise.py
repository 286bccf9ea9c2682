"""The noise is an exactly rounded Gaussian, independent, from the operating system's entropy, with no seed.

Every threshold is set for a false alarm of about one in a million; every statistic is also shown
to turn red when σ is 5% off, so that a green test means something.
"""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import opendp.prelude as opendp
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray
from scipy import stats

from dpearl import noise
from dpearl.noise import add_noise, decided

FALSE_ALARM = 1e-6
DRAWS = 60_000


@cache
def draws(sigma: int) -> NDArray[np.int64]:
    return add_noise(np.zeros(DRAWS, np.int64), sigma)


def cell_p_value(sample: NDArray[np.int64], sigma: float, width: int) -> float:
    """Chi-square of the sample against the exact probabilities of runs of `width` integers."""
    top = int(3.4 * sigma) // width * width
    edges = np.arange(-top, top + 1, width) - 0.5
    bounds = np.concatenate([[-np.inf], edges, [np.inf]])
    expected = np.diff(stats.norm.cdf(bounds / sigma))
    seen = np.bincount(np.searchsorted(edges, sample), minlength=len(expected))
    wanted = expected * len(sample)
    assert wanted.min() > 5
    return float(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


def moment_alarms(sample: NDArray[np.int64], sigma: float) -> list[str]:
    """Which of mean, variance and kurtosis lie further off than chance allows. Rounding adds 1/12 to σ²."""
    size, variance, limit = len(sample), sigma**2 + 1 / 12, float(stats.norm.isf(FALSE_ALARM / 100))
    scores = {
        "mean": sample.mean() / np.sqrt(variance / size),
        "variance": (sample.var() / variance - 1) / np.sqrt(2 / size),
        "kurtosis": stats.kurtosis(sample) / np.sqrt(24 / size),
    }
    return [name for name, score in scores.items() if abs(score) > limit]


@pytest.mark.parametrize("sigma", [3, 1000])
def test_moments_are_those_of_a_gaussian(sigma: int) -> None:
    assert moment_alarms(draws(sigma), sigma) == []
    assert "variance" in moment_alarms(draws(sigma), 1.05 * sigma)
    assert "variance" in moment_alarms(draws(sigma), 0.95 * sigma)


@pytest.mark.parametrize(("sigma", "width"), [(1, 1), (3, 1), (1000, 100)])
def test_every_integer_has_the_probability_of_its_unit_interval(sigma: int, width: int) -> None:
    assert cell_p_value(draws(sigma), sigma, width) > FALSE_ALARM
    for wrong in (0.95, 1.05):
        assert cell_p_value(draws(sigma), wrong * sigma, width) < FALSE_ALARM


def test_a_sigma_that_is_off_by_a_twentieth_is_seen_in_fresh_draws() -> None:
    assert cell_p_value(add_noise(np.zeros(DRAWS, np.int64), 105), 100, 10) < FALSE_ALARM


def test_draws_are_independent_in_time_and_between_coordinates() -> None:
    sample = add_noise(np.zeros((DRAWS // 6, 6), np.int64), 50).astype(float)
    flat, limit = sample.ravel() / 50, float(stats.norm.isf(FALSE_ALARM / 100))
    for series in (flat, flat**2 - 1):
        spread = np.sqrt(len(series)) * series.var()
        assert all(abs((series[lag:] * series[:-lag]).sum() / spread) < limit * 1.05 for lag in range(1, 11))
    between = np.corrcoef(sample.T)[np.triu_indices(6, 1)]
    assert np.abs(between).max() * np.sqrt(len(sample)) < limit


@pytest.mark.parametrize("sigma", [20, 1000])
def test_agrees_with_the_discrete_gaussian_of_opendp(sigma: int) -> None:
    """An independent oracle: from σ = 20 on, rounded and discrete Gaussians differ by less than a sample can tell."""
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T=float)
    oracle = np.array(opendp.m.make_gaussian(*space, scale=float(sigma))([0] * DRAWS))
    assert stats.ks_2samp(draws(sigma), oracle).pvalue > FALSE_ALARM
    bins = np.array([-np.inf, *np.arange(-2.5, 2.51, 0.25) * sigma + 0.25, np.inf])
    table = [np.histogram(sample, bins)[0] for sample in (draws(sigma), oracle)]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    wrong = np.histogram(np.rint(1.05 * oracle), bins)[0]
    assert stats.chi2_contingency([table[0], wrong]).pvalue < FALSE_ALARM


def scripted(*words: int) -> Callable[[int], bytes]:
    """An entropy source that gives these 64-bit words and then fails."""
    remaining: Iterator[int] = iter(words)
    return lambda size: next(remaining).to_bytes(size, "big")


def test_an_interval_across_a_rounding_edge_is_refined_by_appended_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 64-bit word that holds the edge between 0 and 1 cannot decide; the next word must, on either side."""
    sigma = 2**70
    edge = 1 << 63
    zero_or_up = []
    for following in (0, (1 << 64) - 1):
        monkeypatch.setattr(os, "urandom", scripted(following, 1 << 63, 1 << 63))
        zero_or_up.append(decided(edge, sigma))
    assert 0 <= zero_or_up[0] < zero_or_up[1] < 2 * sigma / 2**62, "the first word's digits are kept in both"


def test_a_word_that_decides_is_not_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [int(word) << 32 for word in np.random.default_rng(0).integers(1, 2**32, 50)]
    for word in words:
        monkeypatch.setattr(os, "urandom", scripted())
        expected = stats.norm.ppf(word / 2**64) * 10
        assert abs(decided(word, 10) - expected) <= 0.5 + 1e-9


@pytest.mark.parametrize("word", [0, 2**64 - 1], ids=["all zero bytes", "all one bytes"])
def test_extreme_entropy_is_refined_to_a_finite_draw(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", scripted(1 << 62, 0, 0))
    extreme = decided(word, 1000)
    assert 9000 < abs(extreme) < 10_000
    assert (extreme < 0) == (word == 0)


def words_about(sigma: int, integer: int) -> list[int]:
    """Those next to where draws go over from an integer to the one above, on both sides of it."""
    with ctx.workprec(256):
        share = (1 + ((arb(integer) + arb("0.5")) / (arb(sigma) * arb(2).sqrt())).erf()) / 2
        edge = int((share * 2**64).mid().floor().unique_fmpz() or 0)
    return [word for word in range(edge - 3, edge + 4) if 0 <= word < 2**64]


@given(
    some.one_of(some.integers(1, 2**45), some.sampled_from([1, 2, 4_000_000])),
    some.floats(-9, 9),
    some.lists(some.integers(0, 2**64 - 1), max_size=20),
)
def test_words_that_are_settled_together_are_the_draws_that_ball_arithmetic_decides(
    sigma: int, where: float, words: list[int]
) -> None:
    """Next to every edge, too, in the far tails, at the middle, and where floats can settle nothing."""
    words = [*words, *words_about(sigma, round(where * sigma)), 0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    together = b"".join(word.to_bytes(8, "big") for word in words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", lambda size: together if size == len(together) else b"\x5a" * size)
        assert add_noise(np.zeros(len(words), np.int64), sigma).tolist() == [decided(word, sigma) for word in words]


def test_the_tail_is_closer_to_the_true_one_than_is_claimed() -> None:
    """The margin that settles a draw is 32 times the claim."""
    away = np.concatenate([np.random.default_rng(0).uniform(0, 11, 3000), (np.arange(1408) + 0.5) / 128, np.arange(1409) / 128])
    with ctx.workprec(128):
        errors = [
            float(abs(arb(found) / ((arb(own) / arb(2).sqrt()).erfc() / 2) - 1))
            for own, found in zip(away.tolist(), noise._tail(away).tolist(), strict=True)
        ]
    assert max(errors) < 2.0**-45 == noise._MARGIN / 32


def test_at_the_sigma_of_a_release_hardly_any_draw_needs_ball_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "decided", lambda word, sigma: 2**62)
    assert (add_noise(np.zeros(100_000, np.int64), 4_000_000) == 2**62).sum() < 30


def test_there_is_no_seed_to_give() -> None:
    for function in (decided, add_noise):
        assert not {"seed", "rng", "random_state", "generator"} & set(inspect.signature(function).parameters)
    assert "random" not in vars(noise)


def test_seeding_other_generators_changes_nothing_and_no_two_draws_are_equal() -> None:
    seen: set[Any] = set()
    for _ in range(20):
        random.seed(0)
        np.random.seed(0)
        seen.add(add_noise(np.zeros(8, np.int64), 10**6).tobytes())
    assert len(seen) == 20


def test_nothing_gets_no_noise() -> None:
    assert add_noise(np.zeros(0, np.int64), 5).shape == (0,)


def test_noise_keeps_shape_and_adds_to_the_sums() -> None:
    sums = np.arange(24, dtype=np.int64).reshape(2, 3, 4) * 10**9
    noisy = add_noise(sums, 5)
    assert noisy.shape == sums.shape
    assert noisy.dtype == np.int64
    assert np.abs(noisy - sums).max() < 100
