"""Distances between tables: values known by hand, laws, and tables that nobody would wish for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import chi2_contingency, ks_2samp

from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.errors import DataError
from dpearl.fidelity import MEASURES, Measure, Reading, associations, column_sets, fresh_halves, score, scores
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema
from strategies import COLUMNS

BY_NAME = {measure.name: measure for measure in MEASURES}
QUICK = [replace(measure, resamples=min(measure.resamples, 3)) for measure in MEASURES]
DECIMAL = Number(lower=0, upper=10, step=1, missing=True)
MIXED = Schema(
    columns={
        "x": Number(lower=0, upper=100, step=1, spikes=(0,), missing=True),
        "y": Number(lower=-1, upper=1),
        "when": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2020, 12, 31), step="1d", missing=True),
        "kind": Category(levels=("a", "b", "c"), missing=True),
        "flag": Boolean(),
    }
)


def coded(columns: dict[str, Column], **cells: Any) -> Coded:
    return Coded.of(pa.table(cells), Schema(columns=columns))


def read(name: str, real: Coded, made: Coded, seed: int = 0) -> Reading:
    found = BY_NAME[name].read(real, made, np.random.default_rng(seed))
    assert found is not None
    return found


def mixed(rows: int, seed: int, lean: float = 0.0) -> Coded:
    """Rows of every kind that hang together; `lean` moves all of them."""
    chance = np.random.default_rng(seed)
    hidden = chance.normal(size=rows) + lean
    x = np.clip(np.rint(50 + 20 * hidden), 0, 100)
    days = np.clip(180 + 60 * hidden + 30 * chance.normal(size=rows), 0, 360).astype(int)
    return coded(
        dict(MIXED.columns),
        x=pa.array(np.where(chance.random(rows) < 0.2, 0, x), mask=chance.random(rows) < 0.1),
        y=np.clip(hidden / 4 + chance.normal(size=rows) / 4, -1, 1),
        when=pa.array([datetime(2020, 1, 1) + timedelta(days=int(day)) for day in days], mask=hidden > 2),
        kind=np.array(["a", "b", "c"])[np.digitize(hidden, [-0.5, 0.5])],
        flag=chance.random(rows) < 0.5,
    )


def shuffled(rows: Coded, seed: int = 0) -> Coded:
    return rows.take(np.random.default_rng(seed).permutation(len(rows)))


@pytest.mark.parametrize("measure", QUICK, ids=BY_NAME)
def test_identical_tables_are_not_apart(measure: Measure) -> None:
    real = mixed(400, seed=1)
    found = score(measure, real, shuffled(real), fresh_halves(real))
    assert found is not None
    if measure.name == "mmd":
        assert -0.01 < found.value <= 0
        assert found.extra["p_value"] > 0.9
    else:
        assert found.value == measure.perfect
        assert not any(value for _, value in found.worst)


@pytest.mark.parametrize("measure", QUICK, ids=BY_NAME)
def test_the_order_of_rows_does_not_matter(measure: Measure) -> None:
    real, made, fresh = mixed(150, seed=1), mixed(120, seed=2, lean=0.3), (mixed(90, seed=3), mixed(80, seed=4))
    mixed_up = score(measure, shuffled(real), shuffled(made), (shuffled(fresh[0]), shuffled(fresh[1])))
    assert score(measure, real, made, fresh) == mixed_up


@pytest.mark.parametrize("measure", QUICK[:-1], ids=lambda measure: measure.name)
def test_a_shift_is_seen_and_fresh_rows_are_the_floor(measure: Measure) -> None:
    real, near, far = mixed(600, seed=1), mixed(600, seed=2), mixed(600, seed=3, lean=1.0)
    shift, floor = score(measure, real, far, (real, near)), score(measure, real, near, (real, near))
    assert shift is not None
    assert floor is not None
    assert shift.floor == floor.value
    assert shift.spread is not None
    assert shift.value > floor.value + shift.spread > floor.value


def test_marginals_by_hand() -> None:
    columns: dict[str, Column] = {name: Category(levels=("u", "v")) for name in "abc"}
    real = coded(columns, a=list("uuvv"), b=list("uvuv"), c=list("uuuu"))
    made = coded(columns, a=list("uuuv"), b=list("uuvv"), c=list("uuuv"))
    one, two, three = (read(f"marginals_{size}", real, made) for size in (1, 2, 3))
    assert one.parts == {"a": 0.25, "b": 0, "c": 0.25}
    assert two.parts == {"a × b": 0.25, "a × c": 0.5, "b × c": 0.25}
    assert three.parts == {"a × b × c": 0.5}
    assert one.value == pytest.approx(1 / 6)
    assert one.extra == pytest.approx({"worst": 0.25, "l1_mean": 1 / 3, "l1_worst": 0.5})


def test_bins_of_numbers_missing_values_and_spikes() -> None:
    columns: dict[str, Column] = {"x": Number(lower=0, upper=1000, spikes=(0,), missing=True)}
    plain = coded(columns, x=[10.0, 10.0, 10.0, 990.0])
    assert read("marginals_1", plain, coded(columns, x=[20.0, 30.0, 40.0, 999.0])).value == 0
    assert read("marginals_1", plain, coded(columns, x=[0.0, 10.0, 10.0, 990.0])).value == 0.25
    assert read("marginals_1", plain, coded(columns, x=[None, None, 10.0, 990.0])).value == 0.5


def test_marginals_of_wide_categories_are_those_of_plain_counting() -> None:
    columns: dict[str, Column] = {name: Category(levels=tuple(range(10_000))) for name in "abc"}
    chance = np.random.default_rng(0)
    cells = [{name: chance.integers(0, 40, 500) * 250 for name in "abc"} for _ in range(2)]
    counts = [Counter(zip(*(own[name].tolist() for name in "abc"), strict=True)) for own in cells]
    expected = sum(abs(counts[0][cell] - counts[1][cell]) for cell in counts[0] | counts[1]) / 500 / 2
    real, made = (coded(columns, **own) for own in cells)
    assert read("marginals_3", real, made).value == pytest.approx(expected)


def test_column_sets_are_all_or_the_same_five_hundred() -> None:
    assert column_sets(list("abc"), 2) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert column_sets(["a"], 2) == []
    names = [f"{number:04}" for number in range(300)]
    some = column_sets(names, 3)
    assert some == column_sets(names, 3)
    assert len(set(some)) == 500
    assert all(list(own) == sorted(set(own)) and len(own) == 3 for own in some)
    assert len({own[0] for own in some}) > 100


def test_range_queries_on_levels() -> None:
    """Of two levels and the undeclared, a set of ½ each (one of them if none) holds just one of two with 7/12 probability."""
    columns: dict[str, Column] = {"a": Category(levels=("u", "v"))}
    found = read("range_uniform", coded(columns, a=["u"] * 3), coded(columns, a=["v"] * 5))
    assert found.value == pytest.approx(7 / 12, abs=0.05)


def test_range_queries_never_want_what_is_missing() -> None:
    """Of two levels one is wanted with probability ½, and half of the time when none is: 5/8."""
    columns: dict[str, Column] = {"a": Boolean(missing=True)}
    there, gone = coded(columns, a=[True]), coded(columns, a=pa.nulls(2, pa.bool_()))
    assert read("range_uniform", there, gone).value == pytest.approx(5 / 8, abs=0.03)


def test_range_queries_on_numbers() -> None:
    """A uniform interval holds the middle with probability ½; one between quantiles holds a third of the rows."""
    columns: dict[str, Column] = {"x": Number(lower=0, upper=100, step=1, missing=True)}
    gone = coded(columns, x=pa.array([None, None], pa.float64()))
    assert read("range_uniform", coded(columns, x=[50]), gone).value == pytest.approx(0.5, abs=0.05)
    low = coded(columns, x=np.repeat(np.arange(10), 20))
    assert read("range_uniform", low, gone).value < 0.15
    assert read("range_quantile", coded(columns, x=np.arange(100)), gone).value == pytest.approx(1 / 3, abs=0.04)
    assert read("range_quantile", gone, low).value == 0


def test_range_queries_want_all_of_three_columns() -> None:
    columns: dict[str, Column] = {name: Number(lower=0, upper=1, missing=True) for name in "abcd"}
    real, gone = (coded(columns, **{name: pa.array([cell], pa.float64()) for name in "abcd"}) for cell in (0.5, None))
    assert read("range_uniform", real, gone).value == pytest.approx(1 / 8, abs=0.03)


def test_kolmogorov_smirnov_and_wasserstein_by_hand() -> None:
    columns: dict[str, Column] = {
        "x": DECIMAL,
        "when": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 11), step="1d"),
    }
    real = coded(columns, x=[1, 2, 3, None], when=[datetime(2020, 1, day) for day in (1, 2, 3, 4)])
    made = coded(columns, x=[4, 5, 6, 6], when=[datetime(2020, 1, day) for day in (1, 2, 3, 6)])
    assert read("ks", real, made).parts == {"x": 1, "when": 0.25}
    moved = read("wasserstein", real, made)
    assert moved.parts == pytest.approx({"x": (5.25 - 2) / 10, "when": 2 / 4 / 10})
    assert moved.value == pytest.approx((0.325 + 0.05) / 2)
    assert moved.extra == pytest.approx({"worst": 0.325})


@given(st.lists(st.integers(0, 10), min_size=2, max_size=30), st.lists(st.integers(0, 10), min_size=2, max_size=30))
def test_kolmogorov_smirnov_is_scipys(ours: list[int], theirs: list[int]) -> None:
    found = read("ks", coded({"x": DECIMAL}, x=ours), coded({"x": DECIMAL}, x=theirs))
    assert found.value == pytest.approx(ks_2samp(ours, theirs, method="asymp").statistic)


@pytest.mark.parametrize("name", ["ks", "wasserstein"])
def test_numbers_that_are_all_missing(name: str) -> None:
    there, gone = (coded({"x": DECIMAL}, x=pa.array([cell] * 3, pa.int64())) for cell in (4, None))
    assert [read(name, *pair).value for pair in ((there, gone), (gone, there), (gone, gone))] == [1, 1, 0]


def test_wasserstein_of_spikes_outside_the_bounds_and_of_huge_ranges_stays_within_one() -> None:
    spiked: dict[str, Column] = {"x": Number(lower=0, upper=10, step=1, spikes=(-90,))}
    assert read("wasserstein", coded(spiked, x=[-90]), coded(spiked, x=[10])).value == 1
    assert read("wasserstein", coded(spiked, x=[0]), coded(spiked, x=[10])).value == pytest.approx(0.1)
    huge: dict[str, Column] = {"x": Number(lower=-8e307, upper=8e307, spikes=(1.7e308, -1.7e308))}
    assert read("wasserstein", coded(huge, x=[1.7e308]), coded(huge, x=[-1.7e308])).value == 1


def test_associations_of_numbers_are_pearsons_over_rows_that_have_both() -> None:
    columns: dict[str, Column] = {"x": Number(lower=0, upper=1, missing=True), "y": Number(lower=-5, upper=5, missing=True)}
    chance = np.random.default_rng(0)
    x, y = chance.random(200), chance.normal(size=200)
    rows = coded(columns, x=pa.array(x, mask=chance.random(200) < 0.3), y=pa.array(y + x, mask=chance.random(200) < 0.3))
    values = np.column_stack([rows.values("x"), rows.values("y")])
    expected = np.corrcoef(values[~np.isnan(values).any(axis=1)], rowvar=False)
    np.testing.assert_allclose(associations(rows), expected, atol=1e-12)


def test_associations_of_category_and_number_are_correlation_ratios() -> None:
    """Means 2 and 8 of two levels, variance 1 within: η² = 9 / 10; the missing number does not count."""
    columns: dict[str, Column] = {"kind": Category(levels=("a", "b")), "x": DECIMAL}
    found = associations(coded(columns, kind=list("aabba"), x=[1, 3, 7, 9, None]))
    assert found[0, 1] == found[1, 0] == pytest.approx(math.sqrt(0.9))


def test_associations_of_categories_are_bias_corrected_cramers_v() -> None:
    columns: dict[str, Column] = {"a": Category(levels=tuple("uvw")), "b": Boolean(missing=True)}
    counts = np.array([[20, 5, 2], [8, 30, 1], [4, 9, 21]])
    rows, columns_of_table = np.repeat(np.indices((3, 3)).reshape(2, 9), counts.ravel(), axis=1)
    own = coded(columns, a=np.array(list("uvw"))[rows], b=pa.array(columns_of_table == 1, mask=columns_of_table == 2))
    phi = chi2_contingency(counts, correction=False).statistic / 100 - 4 / 99
    assert associations(own)[0, 1] == pytest.approx(math.sqrt(phi / (2 - 4 / 99)))


def test_associations_of_one_thing_said_twice_are_one_and_of_strangers_near_none() -> None:
    columns: dict[str, Column] = {name: Category(levels=tuple(range(300))) for name in "ab"}
    chance = np.random.default_rng(0)
    one, other = chance.integers(0, 300, (2, 5000))
    assert associations(coded(columns, a=one, b=299 - one))[0, 1] == pytest.approx(1)
    assert associations(coded(columns, a=one, b=other))[0, 1] < 0.05


def test_correlations_by_hand() -> None:
    """r is 1 in one table and -1 in the other; the constant column hangs together with nothing."""
    columns: dict[str, Column] = {"x": DECIMAL, "y": DECIMAL, "z": DECIMAL}
    found = read(
        "correlations", coded(columns, x=[1, 2, 3], y=[1, 2, 3], z=[5] * 3), coded(columns, x=[1, 2], y=[2, 1], z=[5] * 2)
    )
    assert found.parts == pytest.approx({"x × y": 2, "x × z": 0, "y × z": 0})
    assert found.value == pytest.approx(2 / 3)


def test_kernel_distance_is_its_definition() -> None:
    columns: dict[str, Column] = {**MIXED.columns, "kind": Category(levels=("a", "b", "c"), other="rest", missing=True)}
    real, made = (Coded(Codec(Schema(columns=columns)), mixed(rows, rows).codes) for rows in (30, 20))
    pooled = np.concatenate([real.matrix(), made.matrix()])
    squared = cdist(pooled, pooled, "sqeuclidean")
    kernel = np.exp(-squared / 2 / np.median(squared[np.triu_indices(50, 1)]))
    within = [(own.sum() - len(own)) / len(own) / (len(own) - 1) for own in (kernel[:30, :30], kernel[30:, 30:])]
    assert read("mmd", real, made).value == pytest.approx(sum(within) - 2 * kernel[:30, 30:].mean())


def test_kernel_distance_of_one_distribution_is_unbiased_and_its_p_values_uniform() -> None:
    found = [read("mmd", mixed(40, seed), mixed(30, seed + 1000), seed) for seed in range(100)]
    values, p_values = np.array([own.value for own in found]), np.array([own.extra["p_value"] for own in found])
    assert abs(values.mean()) < 3 * values.std() / 10
    assert ks_2samp(p_values, np.arange(1, 202) / 201).pvalue > 0.01
    assert read("mmd", mixed(40, 1), mixed(30, 2, lean=1.0)).extra["p_value"] == pytest.approx(1 / 201)


def test_the_spread_is_that_of_repeated_samples() -> None:
    """Bootstrap of made rows against new made rows, for measures far above their floor."""
    real, fresh = mixed(800, 0), (mixed(10, 1), mixed(10, 2))
    for name in ("marginals_1", "ks", "correlations", "mmd"):
        again = [read(name, real, mixed(300, seed, lean=0.8)).value for seed in range(10, 30)]
        found = score(BY_NAME[name], real, mixed(300, 3, lean=0.8), fresh)
        assert found is not None
        assert found.spread is not None
        assert 0.6 < found.spread / np.std(again) < 1.6


def test_a_classifier_tells_what_differs_and_guesses_what_does_not() -> None:
    real = mixed(400, 1)
    assert 0.5 <= read("c2st", real, mixed(400, 2)).value < 0.57
    assert read("c2st", real, mixed(300, 2, lean=6.0)).value > 0.95


def test_a_classifier_sees_strange_rows_among_copies() -> None:
    """A third of the made rows is strange, two thirds are copies: told apart 1/3 + 2/3 · ½ of the time."""
    columns: dict[str, Column] = {"x": Number(lower=0, upper=1), "y": Number(lower=0, upper=1)}
    chance = np.random.default_rng(0)
    cells, strange = chance.random((2, 1500)), chance.random((2, 1500)) < 0.5
    real = coded(columns, x=cells[0] / 2, y=cells[1])
    made = coded(columns, x=np.where(np.arange(1500) % 3 == 0, 0.75 + strange[0] / 8, cells[0] / 2), y=cells[1])
    assert read("c2st", real, made).value == pytest.approx(2 / 3, abs=0.05)


def test_a_classifier_learns_common_rows_by_themselves() -> None:
    """Few kinds of rows: tables without a kind in common are told apart; equal margins with another pairing, too."""
    columns: dict[str, Column] = {name: Category(levels=tuple(range(4))) for name in "ab"}
    few, many = np.arange(60) % 2, np.arange(600) % 2
    assert read("c2st", coded(columns, a=few, b=few), coded(columns, a=few + 2, b=few)).value == 1
    assert read("c2st", coded(columns, a=many, b=many), coded(columns, a=many, b=1 - many)).value == 1
    assert read("c2st", coded(columns, a=many, b=many), coded(columns, a=1 - many, b=1 - many)).value == 0.5


def test_a_classifier_needs_rows() -> None:
    assert BY_NAME["c2st"].read(mixed(49, 1), mixed(400, 2), np.random.default_rng(0)) is None


def test_missing_patterns_are_joint() -> None:
    """In both tables half of each column is missing: in turns, or together."""
    columns: dict[str, Column] = {"x": DECIMAL, "kind": Category(levels=("a", "b"), missing=True)}
    turns, together = coded(columns, x=[1, None], kind=[None, "a"]), coded(columns, x=[1, None], kind=["a", None])
    assert read("missing", turns, together) == Reading(1.0, {"x": 0, "kind": 0})
    whole = coded(columns, x=[1, 2, 3, 4], kind=list("abab"))
    assert read("missing", whole, together) == Reading(0.5, {"x": 0.5, "kind": 0.5})


def test_missing_patterns_of_very_many_columns() -> None:
    """Each of 70 rows misses another cell; the other table misses the first cell in half of its rows."""
    columns: dict[str, Column] = {f"c{place}": Boolean(missing=True) for place in range(70)}
    each = coded(columns, **{name: pa.array([True] * 70, mask=np.arange(70) == place) for place, name in enumerate(columns)})
    first = coded(columns, **{name: pa.array([True] * 2, mask=np.array([name == "c0", False])) for name in columns})
    assert read("missing", each, shuffled(each)).value == 0
    assert read("missing", each, first).value == pytest.approx(69 / 70)


def test_invalid_rows_are_counted_over_the_whole_table() -> None:
    columns: dict[str, Column] = {"x": Number(lower=0, upper=10, step=1), "kind": Category(levels=("a", "b"))}
    good = coded(columns, x=[1, 2], kind=list("ab"))
    bad = coded(columns, x=[1, 2, 11, None], kind=["a", "z", "z", "b"])
    found = score(BY_NAME["invalid"], good, bad, (good, bad))
    assert found is not None
    assert (found.value, found.spread, found.floor, found.worst) == (0.75, None, None, ())
    clean = score(BY_NAME["invalid"], bad, good, (good, bad))
    assert clean is not None
    assert clean.value == 0


def test_a_score_names_at_most_ten_parts_worst_first() -> None:
    columns: dict[str, Column] = {f"c{place}": Number(lower=0, upper=20, step=1) for place in range(12)}
    real = coded(columns, **{name: [0] for name in columns})
    made = coded(columns, **{name: [place] for place, name in enumerate(columns)})
    found = score(BY_NAME["wasserstein"], real, made, fresh_halves(real))
    assert found is not None
    assert [name for name, _ in found.worst] == [f"c{place}" for place in range(11, 1, -1)]
    assert found.floor is None
    assert found.spread == pytest.approx(0)


def test_large_tables_are_sampled() -> None:
    seen: list[tuple[int, int]] = []

    def spy(real: Coded, made: Coded, chance: np.random.Generator) -> Reading:
        seen.append((len(real), len(made)))
        return Reading(float(made.values("y").mean()))

    rows = mixed(500, 1)
    found = score(Measure("", "", "", spy, rows=200, resamples=2), rows, mixed(150, 2), (mixed(300, 3), mixed(10, 4)))
    assert seen == [(200, 150), (200, 150), (200, 150), (200, 10)]
    assert found is not None
    assert found.value == pytest.approx(mixed(150, 2).values("y").mean())


def test_halves_share_no_row_and_leave_none_out() -> None:
    rows = coded({"x": Number(lower=0, upper=100, step=1)}, x=np.arange(101))
    ours, theirs = (half.values("x") for half in fresh_halves(rows))
    assert (len(ours), len(theirs)) == (50, 51)
    assert sorted([*ours, *theirs]) == [*range(101)]


def test_scores_come_in_order_and_pictures_are_left_to_others() -> None:
    schema = Schema(label="kind", columns={"kind": Boolean(), "picture": Image(height=2, width=2)})
    table = pa.table({"kind": [True, False] * 40, "picture": pa.array([bytes(4)] * 80, pa.binary(4))})
    real, heard = Coded.of(table, schema), list[str]()
    found = [own.name for own in scores(real, real, fresh_halves(real), done=heard.append)]
    assert found == ["marginals_1", "range_uniform", "range_quantile", "mmd", "c2st", "missing", "invalid"]
    assert heard == [*BY_NAME]
    alone = Coded.of(table.select(["picture"]), Schema(columns={"picture": Image(height=2, width=2)}))
    assert [own.name for own in scores(alone, alone, (alone, alone))] == ["invalid"]


def test_a_table_without_rows_is_refused() -> None:
    real, none = mixed(5, 1), mixed(5, 1).take(np.arange(0))
    with pytest.raises(DataError, match="synthetic table has no rows"):
        score(MEASURES[0], real, none, (real, real))
    with pytest.raises(DataError, match="real table has no rows"):
        score(MEASURES[0], none, real, (real, real))


def random_codes(column: Column, levels: int, rows: int, chance: np.random.Generator) -> NDArray[Any]:
    """Any codes that a column can have; at times one and the same, pictures black."""
    if isinstance(column, Image):
        return np.zeros((rows, column.pixels + 1), np.uint8)
    codes = column.points - 1 + levels if isinstance(column, (Number, Datetime)) else levels
    return np.repeat(chance.integers(codes, size=1), rows) if chance.random() < 0.3 else chance.integers(codes, size=rows)


def random_rows(schema: Schema, rows: int, chance: np.random.Generator) -> Coded:
    codec = Codec(schema)
    declared = schema.columns.items()
    return Coded(codec, {name: random_codes(column, codec.columns[name].levels, rows, chance) for name, column in declared})


@patch("dpearl.fidelity.QUERIES", 20)
@settings(max_examples=40, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_any_table_has_numbers_or_none(columns: list[Column], ours: int, theirs: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = Schema(columns={f"c{place}": column for place, column in enumerate(columns)})
    real, made = random_rows(schema, ours, chance), random_rows(schema, theirs, chance)
    for measure in QUICK:
        found = score(measure, real, made, fresh_halves(real))
        if found is not None:
            told = [found.value, found.spread or 0, found.floor or 0, *found.extra.values(), *(value for _, value in found.worst)]
            assert np.isfinite(told).all()
            assert -1 <= found.value <= 2
            assert type(found.value) is float
    if real.names:
        matrix = associations(real)
        assert (matrix == matrix.T).all()
        assert (np.diag(matrix) == 1).all()
        assert np.abs(matrix).max() <= 1


@pytest.mark.parametrize("only", [("x",), ("kind",), ("x", "y", "when"), ("kind", "flag")])
def test_a_single_column_only_numbers_only_categories_and_all_missing(only: tuple[str, ...]) -> None:
    schema = Schema(columns={name: MIXED.columns[name] for name in only})
    rows = mixed(60, 1)
    real = Coded(Codec(schema), {name: rows.codes[name] for name in only})
    empty = Coded.of(pa.table({name: pa.nulls(60, pa.string()) for name in only}), schema)
    for made in (real, empty):
        found = {own.name: own for own in (score(measure, real, made, (real, made)) for measure in QUICK) if own}
        assert {"marginals_1", "range_uniform", "range_quantile", "mmd", "c2st", "missing", "invalid"} <= found.keys()
        assert ("ks" in found) == bool(real.numbers)
        assert ("correlations" in found) == (len(only) > 1)
        assert all(np.isfinite(own.value) for own in found.values())
    assert found["c2st"].value > 0.85
    assert found["marginals_1"].value == pytest.approx(1 - np.mean([real.missing(name).mean() for name in only]))
