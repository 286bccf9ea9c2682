"""Sanity checks: copies are counted exactly, rows too near to training rows are noticed, fresh rows are left in peace."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpearl import disclosure
from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.disclosure import Closest, Copies, Hits, Skipped, closest, copies, interval, log10_domain, row_ranks
from dpearl.errors import DataError
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema

PLAIN = Schema(columns={"x": Number(lower=0, upper=10, step=1), "c": Category(levels=("a", "b"), missing=True)})
WIDE = Schema(columns={"x": Number(lower=0, upper=1), "y": Number(lower=0, upper=1), "c": Category(levels=("a", "b", "c"))})
KINDS: dict[str, Column] = {
    "stepped": Number(lower=0, upper=10, step=0.5, spikes=(0, 99), missing=True),
    "log": Number(lower=1, upper=1e6, log=True, missing=True),
    "when": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2024, 1, 1), step="1h", missing=True),
    "kind": Category(levels=("a", "b", "c"), other="else", missing=True),
    "flag": Boolean(missing=True),
}
EVERY_KIND = Schema(label="kind", columns=KINDS)
PICTURES = Schema(label="digit", columns={"picture": Image(height=2, width=2), "digit": Category(levels=(0, 1))})


def plain(*rows: tuple[int | None, str | None]) -> Coded:
    x, c = zip(*rows, strict=True)
    return Coded.of(pa.table({"x": pa.array(x, pa.int64()), "c": pa.array(c, pa.string())}), PLAIN)


def wide(size: int, seed: int) -> Coded:
    chance = np.random.default_rng(seed)
    cells = {"x": chance.beta(2, 5, size), "y": chance.random(size), "c": chance.choice(list("abc"), size)}
    return Coded.of(pa.table(cells), WIDE)


def every_kind(size: int, seed: int) -> Coded:
    chance = np.random.default_rng(seed)

    def some(*cells: Any) -> pa.Array:
        return pa.array([cells[place] for place in chance.integers(len(cells), size=size)])

    moments = [datetime(2020, 1, 1) + timedelta(hours=int(hour)) for hour in chance.integers(0, 30_000, 50)]
    cells = {
        "stepped": some(0.0, 99.0, None, 0.5, 1.0, 7.5),
        "log": some(None, *np.exp(chance.uniform(0, 13, 50))),
        "when": some(None, *moments),
        "kind": some("a", "b", "c", "something", None),
        "flag": some(True, False, None),
    }
    return Coded.of(pa.table(cells), EVERY_KIND)


def pictures(pixels: Any, digits: Sequence[int | None]) -> Coded:
    own = pa.array([None if digit is None else bytes(row) for row, digit in zip(pixels, digits, strict=True)], pa.binary(4))
    return Coded.of(pa.table({"picture": own, "digit": pa.array(digits, pa.int64())}), PICTURES)


def random_pictures(size: int, seed: int) -> Coded:
    chance = np.random.default_rng(seed)
    return pictures(chance.integers(0, 256, (size, 4), dtype=np.uint8), chance.integers(0, 2, size).tolist())


Maker = Callable[[int, int], Coded]
MAKERS: dict[str, Maker] = {"wide": wide, "every kind": every_kind, "pictures": random_pictures}


def measured(made: Coded, train: Coded, held: Coded, seed: int = 0) -> Closest:
    found = closest(made, train, held, seed)
    assert isinstance(found, Closest)
    return found


def shuffled(rows: Coded, seed: int) -> Coded:
    return rows.take(np.random.default_rng(seed).permutation(len(rows)))


# Copies


A, B, C, D, E = (1, "a"), (1, "b"), (2, "a"), (None, "a"), (2, None)


def test_copies_known_by_hand() -> None:
    found = copies(plain(A, B, B, E, (9, "a")), plain(A, A, B, C, E), plain(A, C, D))
    assert (found.made, found.fresh, found.held_out) == (Hits(5, 4, 3), Hits(3, 2, 1), True)
    assert found.log10_domain == pytest.approx(math.log10(11 * 3))


def test_missing_cells_are_equal_to_missing_cells_alone() -> None:
    found = copies(plain((0, "a"), D, (None, None), (2, None)), plain(D, (2, "a"), (2, "b")))
    assert found.made == Hits(4, 1, 1)


def test_without_held_out_rows_each_training_row_is_compared_with_all_others() -> None:
    train = plain(A, A, B, C, C, C)
    for held in (None, train.take(np.arange(0))):
        found = copies(plain(A), train, held)
        assert (found.fresh, found.held_out) == (Hits(6, 5, 2), False)


def test_what_chance_makes_likely_is_estimated_alike_with_and_without_held_out_rows() -> None:
    """Twelve thousand rows on a grid of a thousand points: some points are hit once, some often."""
    schema = Schema(columns={"x": Number(lower=0, upper=999, step=1), "y": Boolean()})
    chance = np.random.default_rng(0)
    train, held = (
        Coded.of(pa.table({"x": 999 * chance.beta(1, 12, 12_000), "y": chance.random(12_000) < 0.5}), schema) for _ in range(2)
    )
    by_held, by_train = copies(train, train, held).fresh, copies(train, train).fresh
    assert by_train.copies == pytest.approx(by_held.copies, rel=0.01)
    assert by_train.unique == pytest.approx(by_held.unique, rel=0.3)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_a_model_that_gives_its_rows_back_is_noticed(maker: Maker) -> None:
    train, held = maker(400, 1), maker(300, 2)
    found, near = copies(train, train, held), measured(train, train, held)
    assert found.made.copies == 400
    assert not found.passed
    assert not near.passed
    assert near.median_train <= near.median_held


def test_rows_given_back_lie_on_the_training_rows() -> None:
    near = measured(wide(500, 1), wide(500, 1), wide(500, 2))
    assert (near.share, near.median_train) == (1, 0)
    assert near.low > 0.98


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_fresh_rows_of_the_same_kind_are_left_in_peace(maker: Maker) -> None:
    made, train, held = (maker(400, seed) for seed in (1, 2, 3))
    near = measured(made, train, held)
    assert copies(made, train, held).passed
    assert near.passed
    assert near.low <= 0.5 <= near.high


def test_a_few_copies_among_many_rows_are_noticed() -> None:
    train, held = wide(2000, 1), wide(2000, 2)
    found = copies(Coded.join([wide(1980, 3), train.take(np.arange(20))]), train, held)
    assert found.made == Hits(2000, 20, 20)
    assert not found.passed


def test_many_typical_rows_give_nobody_away() -> None:
    train = plain(*[A] * 50, *[B] * 30, *[(x, "a") for x in range(2, 11)])
    found = copies(plain(*[A] * 1000), train, train)
    assert found.made == Hits(1000, 1000, 0)
    assert found.passed


def test_copies_of_rows_that_occur_only_once_are_compared_with_their_like() -> None:
    assert not Copies(Hits(1000, 500, 100), Hits(1000, 500, 1), True, 3.0).passed
    assert Copies(Hits(1000, 500, 100), Hits(1000, 100, 100), True, 3.0).passed


def test_pictures_are_copies_only_with_every_pixel_and_their_label() -> None:
    train = pictures([[0, 1, 2, 3], [0, 0, 0, 0]], [0, None])
    made = pictures([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 4], [0, 0, 0, 0], [0, 0, 0, 0]], [0, 1, 0, 0, None])
    assert copies(made, train).made == Hits(5, 2, 2)


HUGE: dict[str, Column] = {f"x{place}": Number(lower=0, upper=2**48 - 1, step=1) for place in range(3)}
HUGE["picture"] = Image(height=1, width=2)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 2**32, 2**47, 2**48 - 1])] * 3, st.integers(0, 2)), min_size=1, max_size=30))
def test_ranks_are_those_of_sorted_distinct_rows_whatever_the_size_of_codes(rows: list[tuple[int, ...]]) -> None:
    codes: dict[str, Any] = {f"x{place}": np.array([row[place] for row in rows]) for place in range(3)}
    codes["picture"] = np.array([(0, row[3], 0) for row in rows], np.uint8)
    order = {row: rank for rank, row in enumerate(sorted(set(rows)))}
    assert row_ranks(Coded(Codec(Schema(columns=HUGE)), codes)).tolist() == [order[row] for row in rows]


def test_the_domain_counts_what_may_come_back() -> None:
    hours = 4 * 365 * 24 + 24 + 1
    expected = math.log10(21 + 2 + 1) + math.log10(2**16 + 1) + math.log10(hours + 1) + math.log10(5) + math.log10(3)
    assert log10_domain(every_kind(1, 0).codec) == pytest.approx(expected)
    assert log10_domain(random_pictures(1, 0).codec) == pytest.approx(4 * math.log10(256) + math.log10(2))


# Distance to the closest record


def line(*x: float) -> Coded:
    schema = Schema(columns={"x": Number(lower=0, upper=1, step=0.1), "c": Category(levels=("a", "b"))})
    return Coded.of(pa.table({"x": x, "c": ["a"] * len(x)}), schema)


def test_distances_known_by_hand() -> None:
    """Nearer, farther, a tie; numbers lie on [-1, 1], so that distances are twice those of x."""
    near = measured(line(0.0, 0.5, 1.0), line(0.0, 0.4, 0.4), line(0.1, 0.6, 0.9))
    assert (near.made, near.real, near.share) == (3, 3, 0.5)
    assert (near.median_train, near.median_held) == (0.2, 0.2)
    assert (near.low, near.high) == interval(2, 3)


def test_distances_of_pictures_are_those_of_pixels_in_0_to_1() -> None:
    made, train, held = (pictures([[own, 0, 0, 0]], [digit]) for own, digit in ((0, 1), (51, 0), (255, 1)))
    near = measured(made, train, held)
    assert (near.median_train, near.median_held, near.share) == (0.2, 1, 1)


def test_equal_distances_are_ties_even_where_floats_round() -> None:
    rows = random_pictures(300, 4)
    near = measured(rows, rows, shuffled(rows, 1))
    assert (near.share, near.median_train) == (0.5, 0)


def test_sides_are_equally_large_so_that_more_training_rows_are_not_nearer() -> None:
    near = measured(wide(400, 1), wide(5000, 2), wide(400, 3))
    assert (near.real, near.low <= 0.5 <= near.high) == (400, True)


def false_alarms(made: int, real: int, repeats: int) -> list[float]:
    """How often the interval leaves out one half: for as many different rows, and where the model makes but a few."""
    found = np.zeros((repeats, 2))
    for seed in range(repeats):
        fresh, train, held = wide(made, 3 * seed), wide(real, 3 * seed + 1), wide(real, 3 * seed + 2)
        few = fresh.take(np.arange(made) % 5)
        for place, rows in enumerate((fresh, few)):
            near = measured(rows, train, held, seed)
            found[seed, place] = not near.low <= 0.5 <= near.high
    return list(found.mean(axis=0))


@pytest.mark.parametrize(("made", "real"), [(300, 40), (60, 300)])
def test_the_interval_holds_also_where_many_rows_share_a_neighbour(made: int, real: int) -> None:
    assert max(false_alarms(made, real, 60)) <= 0.08


def test_without_held_out_rows_distances_say_nothing_and_say_so() -> None:
    rows = wide(20, 0)
    for held in (None, rows.take(np.arange(0))):
        found = closest(rows, rows, held)
        assert isinstance(found, Skipped)
        assert "held-out" in found.verdict


# Laws for both


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_the_order_of_rows_does_not_matter(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disclosure, "_MADE", 50)
    monkeypatch.setattr(disclosure, "_REAL", 70)
    tables = maker(90, 1), maker(120, 2), maker(100, 3)
    again = shuffled(tables[0], 7), shuffled(tables[1], 8), shuffled(tables[2], 9)
    assert copies(*tables) == copies(*again)
    assert measured(*tables, seed=5) == measured(*again, seed=5)
    assert measured(*tables, seed=5) != measured(*tables, seed=6)
    assert (measured(*tables).made, measured(*tables).real) == (50, 70)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_one_row_each_is_enough(maker: Maker) -> None:
    one, other = maker(1, 1), maker(1, 2)
    assert copies(one, one, other).made == Hits(1, 1, 1)
    assert copies(one, one).fresh == Hits(1, 0, 0)
    near = measured(one, one, other)
    assert near.share in (0.5, 1)
    assert near.passed


@pytest.mark.parametrize("cell", [(3, "a"), (None, None)])
def test_constant_and_missing_columns(cell: tuple[int | None, str | None]) -> None:
    rows = plain(*[cell] * 40)
    found, near = copies(rows, rows, rows), measured(rows, rows, rows)
    assert (found.made, found.fresh, found.passed) == (Hits(40, 40, 0), Hits(40, 40, 0), True)
    assert (near.share, near.median_train, near.median_held, near.passed) == (0.5, 0, 0, True)


def test_tables_without_rows_are_refused_by_name() -> None:
    rows = wide(5, 0)
    nothing = rows.take(np.arange(0))
    for check in (copies, closest):
        with pytest.raises(DataError, match="synthetic table has no rows"):
            check(nothing, rows, rows)
        with pytest.raises(DataError, match="training table has no rows"):
            check(rows, nothing, rows)


def test_interval_is_that_of_clopper_and_pearson() -> None:
    assert interval(0, 10) == pytest.approx((0, 1 - 0.025**0.1))
    assert interval(10, 10) == pytest.approx((0.025**0.1, 1))


# Words


def test_verdicts_in_plain_words() -> None:
    found = Copies(Hits(10_000, 12, 3), Hits(20_000, 30, 5), True, 22.7)
    assert found.verdict == (
        "12 of 10,000 synthetic rows equal a training row; of as many fresh real rows 15 would. "
        "3 equal one that occurs only once there; of as many fresh real rows 2.5 would. "
        "The schema allows about 10^23 different rows."
    )
    near = Closest(2000, 5000, 0.512, 0.49, 0.534, 1.2345, 1.2)
    assert near.verdict == (
        "51.2% of 2,000 synthetic rows lie nearer to one of 5,000 training rows than to one of 5,000 held-out rows "
        "(95% interval 49.0% to 53.4%; median distance 1.23 against 1.2); "
        "50% is expected of rows that hold nothing of single people."
    )


def test_verdicts_raise_alarm_where_a_check_does_not_pass() -> None:
    bad = Copies(Hits(100, 100, 100), Hits(100, 0, 0), True, math.log10(16)), Closest(2000, 5000, 0.6, 0.58, 0.62, 1, 2)
    for found in bad:
        assert not found.passed
        assert found.verdict.endswith("more than chance explains: look at these rows.")
    assert "allows about 16 different rows" in bad[0].verdict


def test_these_are_sanity_checks_and_know_little() -> None:
    source = Path(disclosure.__file__).read_text(encoding="utf-8")
    assert "score" not in source.lower()
    assert "The guarantee is epsilon" in disclosure.NOTE
    names = [ast.unparse(node).split()[1] for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    own = {name for name in names if name.startswith("dpearl")}
    assert own == {"dpearl.codec", "dpearl.coded", "dpearl.errors", "dpearl.schema"}
