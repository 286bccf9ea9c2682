"""Rows that share a few of many values are found in noisy counts, and nothing is found where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpearl.clumps import Values, weighed
from dpearl.schema import parse_schema
from dpearl.settings import MIXTURE
from dpearl.train import fit
from test_remainder import released

CELLS, NOISE = 800, 10.0


def scattered(seed: int, clumps: int = 30, rows: int = 60) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """True counts of two groups, each clump of one of them alone, and noisy ones."""
    chance = np.random.default_rng(seed)
    true = np.zeros((CELLS, 2))
    true[chance.choice(CELLS, clumps, replace=False), chance.integers(0, 2, clumps)] = rows
    return true, true + chance.normal(0, NOISE, true.shape)


def nothing(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is told by others."""
    return np.zeros((CELLS, len(totals)))


def test_clumps_are_told_from_noise() -> None:
    """Nearly all rows are put where they are, in the right group; plain counts, cut at zero, put most of them elsewhere."""
    true, seen = scattered(0)
    found = weighed(seen, np.full_like(seen, NOISE), nothing).given(np.arange(CELLS), true.sum(axis=0))
    assert np.abs(found - true).sum() / 2 < 0.2 * true.sum()
    plain = np.maximum(seen, 0)
    assert np.abs(plain * true.sum() / plain.sum() - true).sum() / 2 > 0.5 * true.sum()


def test_a_doubtful_count_is_believed_where_rows_are_wanting_and_nowhere_else() -> None:
    true, seen = scattered(1)
    doubtful = int(np.flatnonzero(true.sum(axis=1) == 0)[0])
    seen[doubtful] = 3.2 * NOISE, 0
    clumps, cells = weighed(seen, np.full_like(seen, NOISE), nothing), np.flatnonzero(true.sum(axis=1) == 0)[:50]
    wanting = clumps.given(cells, np.array([32.0, 0.0]))[0]
    assert wanting[0] > 20
    assert wanting[1] < 1
    assert clumps.given(cells, np.array([1.0, 32.0]))[0, 0] < 1


@given(seed=st.integers(0, 999), total=st.lists(st.floats(0, 5000), min_size=2, max_size=2), cells=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_cells_hold_what_they_are_known_to_hold_together(seed: int, total: list[float], cells: int) -> None:
    """Whatever the total, also one that no prior expects."""
    clumps = weighed(scattered(seed)[1], np.full((CELLS, 2), NOISE), nothing)
    found = clumps.given(np.arange(cells), np.array(total))
    assert found.min() >= 0
    assert found.sum(axis=0) == pytest.approx(total, rel=1e-6, abs=1e-6)


def lined(shared: bool) -> tuple[Values, NDArray[np.float64], NDArray[np.int64]]:
    """Fifty cells of twenty values; rows of each share one of them, or lie evenly."""
    chance = np.random.default_rng(4)
    cells, rows = np.arange(1000) // 20, np.full(50, 100.0)
    own = chance.integers(0, 20, 50) + 20 * np.arange(50)
    true = np.where(np.isin(np.arange(1000), own), 100.0, 0.0) if shared else np.full(1000, 5.0)
    return Values(cells, true + chance.normal(0, 20, 1000), np.full(1000, 20.0)), rows, own


def test_values_tell_how_many_rows_their_cell_holds() -> None:
    """A hundred, in every cell, and not none, though noise hides them among twenty values of an even spread."""
    values, _, _ = lined(shared=True)
    totals = np.array([0.0, 50.0, 100.0, 200.0])
    odds = values.odds(totals)
    assert (odds[:, 0] == 0).all()
    assert (totals[odds.argmax(axis=1)] == 100).mean() > 0.8


def test_the_value_that_rows_share_is_found() -> None:
    values, rows, own = lined(shared=True)
    shares = values.shared(rows, np.full(1000, 0.05))
    assert (shares[own] == 1).mean() > 0.9
    assert np.bincount(values.cells, shares) == pytest.approx(np.ones(50))


def test_several_values_that_rows_share_are_found() -> None:
    """Three in each cell, with 60, 30 and 10 of its hundred rows: these values and no others."""
    chance = np.random.default_rng(6)
    true = np.zeros((50, 20))
    true[:, [3, 8, 15]] = 60, 30, 10
    values = Values(np.arange(1000) // 20, (true + chance.normal(0, 3, true.shape)).ravel(), np.full(1000, 3.0))
    shares = values.shared(np.full(50, 100.0), np.full(1000, 0.05)).reshape(true.shape)
    assert ((shares > 0) == (true > 0)).mean() > 0.98
    assert np.abs(shares[:, 3] - 0.6).max() < 0.15
    assert shares.sum(axis=1) == pytest.approx(np.ones(50))


def test_rows_that_share_no_value_stay_where_they_are() -> None:
    values, rows, _ = lined(shared=False)
    assert (values.shared(rows, np.full(1000, 0.05)) == 0.05).mean() > 0.95


def test_amounts_that_many_share_come_back() -> None:
    """Of forty amounts between 1 and 50,000 most are among the synthetic ones, and few rows have others."""
    schema = parse_schema(
        {
            "label": "y",
            "columns": {
                "paid": {"kind": "number", "lower": 0, "upper": 50_000, "step": 1, "spikes": [0]},
                **{name: {"kind": "category", "levels": [0, 1, 2]} for name in "abc"},
                "y": {"kind": "category", "levels": [0, 1]},
            },
        }
    )
    chance, size = np.random.default_rng(5), 30_000
    amounts = np.sort(chance.choice(np.arange(1, 50_000), 40, replace=False))
    y = chance.integers(0, 2, size)
    paid = np.where(chance.random(size) < 0.85, 0, amounts[2 * chance.integers(0, 20, size) + y])
    rows = {name: chance.integers(0, 3, size) for name in "abc"} | {"paid": paid, "y": y}
    made = fit(released(rows, 3.0, schema), replace(MIXTURE, iterations=100, components=50), seed=0).sample(size).to_pydict()
    drawn, label = np.array(made["paid"]), np.array(made["y"])
    some = drawn > 0
    known = np.isin(drawn, amounts)
    assert known[some].mean() > 0.8
    place = np.searchsorted(amounts, drawn[known])
    assert (place % 2 == label[known]).mean() > 0.95, "each amount in its own class"
