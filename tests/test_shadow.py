"""The membership attack: it tells what can be told, nothing more, and is fair to the relation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from dpearl import shadow
from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.design import RECIPES, Recipe
from dpearl.disclosure import Skipped, interval
from dpearl.errors import UsageError
from dpearl.owner import Offer
from dpearl.privacy import Budget
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema
from dpearl.shadow import Membership, Pipeline, membership
from dpearl.statement import best_guess

BUDGET = Budget(1.0, 1e-5)
AUTO, PAPER = (replace(recipe, frequencies=32) for recipe in RECIPES.values())
KINDS: dict[str, Column] = {
    "x": Number(lower=0, upper=100, step=1, spikes=(0,), missing=True),
    "when": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1), step="1d", missing=True),
    "job": Category(levels=("a", "b", "c")),
    "flag": Boolean(missing=True),
    "nothing": Number(lower=0, upper=1, missing=True),
    "constant": Category(levels=("only", "never")),
}
SCHEMA = Schema(label="job", columns=KINDS)
OUTLIER = {"x": 100, "when": datetime(2020, 12, 31), "job": "c", "flag": None, "nothing": 1.0, "constant": "never"}


pytestmark = pytest.mark.usefixtures("one_thread")


def people(size: int, seed: int = 0) -> pa.Table:
    """Rows that lie near each other, and one that does not, somewhere in the middle."""
    chance = np.random.default_rng(seed)
    days = [None if day % 7 == 0 else datetime(2020, 1, 1) + timedelta(days=int(day)) for day in chance.integers(0, 40, size)]
    cells = {
        "x": pa.array([None if x < 2 else int(x) for x in chance.integers(0, 30, size)], pa.int64()),
        "when": pa.array(days, pa.timestamp("us")),
        "job": chance.choice(["a", "b", "undeclared"], size),
        "flag": pa.array([None if coin == 2 else bool(coin) for coin in chance.integers(0, 3, size)], pa.bool_()),
        "nothing": pa.nulls(size, pa.float64()),
        "constant": ["only"] * size,
    }
    table = pa.table(cells)
    odd = pa.Table.from_pylist([OUTLIER], schema=table.schema)
    return pa.concat_tables([table.slice(0, size // 2), odd, table.slice(size // 2)])


def anything(seed: int) -> pa.Table:
    """A few rows from all over the schema."""
    chance, codec = np.random.default_rng(seed), Codec(SCHEMA)
    return codec.decode(
        {
            name: column.code(chance.random((8, column.coordinates)) ** 0.1, chance.choice(column.returns, 8))
            for name, column in codec.columns.items()
        }
    )


def rows(size: int = 300) -> Coded:
    return Coded.of(people(size), SCHEMA)


def attacked(
    rows: Coded, pipeline: Pipeline | None = None, recipe: Recipe = AUTO, budget: Budget = BUDGET, trials: int = 40
) -> Membership:
    found = membership(rows, recipe, budget, trials=trials, pipeline=pipeline)
    assert isinstance(found, Membership)
    return found


# Controls: what must be told, and what cannot be


def test_a_pipeline_that_gives_rows_back_is_found_out() -> None:
    found = attacked(rows(), lambda table: table)
    assert (found.accuracy, found.auc, found.judged) == (1, 1, 20)
    assert not found.passed
    assert "does not seem to hold" in found.verdict


def test_a_pipeline_that_leaks_now_and_then_is_found_out() -> None:
    chance = np.random.default_rng(0)
    found = attacked(rows(), lambda table: table if chance.random() < 0.9 else people(50, seed=1), trials=80)
    assert found.accuracy > 0.8
    assert not found.passed


def test_from_the_same_synthetic_rows_nothing_can_be_told() -> None:
    same = people(100, seed=1)
    found = attacked(rows(), lambda table: same)
    assert (found.accuracy, found.auc) == (0.5, 0.5)
    assert found.passed


def test_a_pipeline_that_ignores_its_rows_gives_an_even_bet() -> None:
    """The attack is judged on trials that it did not learn from, where chance alone teaches nothing."""
    seeds = iter(range(200))
    found = [attacked(rows(), lambda table: anything(next(seeds)), trials=16) for _ in range(12)]
    low, high = interval(sum(own.right for own in found), sum(own.judged for own in found))
    assert low <= 0.5 <= high


def test_no_synthetic_rows_tell_nothing() -> None:
    assert attacked(rows(), lambda table: table.slice(0, 0)).accuracy == 0.5


def test_the_real_way_without_noise_worth_the_name_is_found_out() -> None:
    found = attacked(rows(), budget=Budget(1e6, 1e-5), trials=24)
    assert found.accuracy >= 0.75
    assert found.bound > 0.99


@pytest.mark.parametrize("recipe", [AUTO, PAPER], ids=["auto", "paper"])
def test_the_real_way_at_the_stated_budget(recipe: Recipe) -> None:
    """So few trials cannot exceed the bound: this shows that the way is gone, not that it is private."""
    found = attacked(rows(), recipe=recipe, trials=4)
    assert found.bound == best_guess(Offer(SCHEMA, recipe, BUDGET).mu) <= best_guess(BUDGET.mu)
    assert found.bound == pytest.approx(0.5533, abs=1e-3)
    assert found.passed


def test_a_budget_so_small_that_releases_seem_empty() -> None:
    assert attacked(rows(), budget=Budget(0.001, 1e-5), trials=4).judged == 2


# Fairness


@dataclass
class Watch:
    """A pipeline that remembers what it was given."""

    given: list[pa.Table] = field(default_factory=list)

    def __call__(self, table: pa.Table) -> pa.Table:
        self.given.append(table)
        return table

    @property
    def holds_target(self) -> list[bool]:
        return ["never" in table["constant"].to_pylist() for table in self.given]


@pytest.mark.parametrize(("recipe", "larger"), [(AUTO, 1), (PAPER, 0)], ids=["add-remove", "replace-one"])
def test_tables_are_neighbours_under_the_relation_and_differ_by_the_most_outlying_row(recipe: Recipe, larger: int) -> None:
    watch = Watch()
    attacked(rows(), watch, recipe, trials=8)
    assert watch.holds_target == [False, True] * 4
    without, present = watch.given[:2]
    assert (len(without), len(present)) == (100, 100 + larger)
    assert without.slice(0, 99 + larger).equals(present.slice(0, 99 + larger))
    assert present.slice(99 + larger).to_pylist() == [OUTLIER]
    assert all(table.equals(watch.given[place % 2]) for place, table in enumerate(watch.given))


def test_others_are_drawn_anew_with_another_seed() -> None:
    first, second = Watch(), Watch()
    for seed, watch in enumerate((first, second)):
        membership(rows(), AUTO, BUDGET, seed=seed, trials=4, pipeline=watch)
    assert not first.given[0].equals(second.given[0])


def test_tables_of_two_rows_and_of_equal_rows() -> None:
    watch = Watch()
    attacked(rows(1), watch, PAPER, trials=4)
    assert [len(table) for table in watch.given] == [1] * 4
    equal = rows().take(np.zeros(30, np.int64))
    assert attacked(equal, lambda table: table, trials=8).accuracy == 0.5


def test_progress_is_told_for_every_trial() -> None:
    told: list[int] = []
    membership(rows(), AUTO, BUDGET, trials=8, pipeline=lambda table: table, done=told.append)
    assert told == [1] * 8


def test_a_person_column_is_not_asked_for_and_rows_per_person_are_covered() -> None:
    schema = SCHEMA.model_copy(update={"person": "who", "rows_per_person": 3})
    found = attacked(Coded.of(people(40), schema), trials=4)
    assert found.bound == pytest.approx(0.5533, abs=1e-3)


# Words


@pytest.mark.parametrize("trials", [0, 2, 5, 10, -4])
def test_trials_must_be_shared_out_evenly(trials: int) -> None:
    with pytest.raises(UsageError, match="multiple of 4"):
        membership(rows(), AUTO, BUDGET, trials=trials)


def test_seeds_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="seed"):
        membership(rows(), AUTO, BUDGET, seed=-1)


def test_images_and_single_rows_are_not_attacked_and_the_reason_is_given() -> None:
    schema = Schema(columns={"picture": Image(height=1, width=2), "digit": Category(levels=(0, 1))})
    pictures = Coded.of(pa.table({"picture": pa.array([b"ab"] * 9, pa.binary(2)), "digit": [0] * 9}), schema)
    for own, reason in ((pictures, "images"), (rows().take(np.arange(1)), "at least two rows")):
        found = membership(own, AUTO, BUDGET)
        assert isinstance(found, Skipped)
        assert reason in found.verdict


def test_the_verdict_in_plain_words() -> None:
    found = Membership(20, 11, 0.54, 0.315, 0.769, 0.5533)
    assert found.passed
    assert found.verdict == (
        "An attack told in 11 of 20 trials whether the most outlying row was in the data (95% interval 32% to 77%, AUC 0.54); "
        "the guarantee lets no attack be right more than 55.3% of the time."
    )
    assert replace(found, low=0.5534).passed is False
    assert "sanity check" in str(shadow.__doc__)
