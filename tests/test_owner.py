"""From rows to a release: the same by every way, at the stated price, with a useful scale, for whole persons."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dpearl.design import RECIPES, Recipe, Scale, embedding_design, public_scale
from dpearl.embed import embed, load_partial, merge, save_partial
from dpearl.embeddings.characteristic import Characteristic
from dpearl.embeddings.count import UNIT
from dpearl.engines.local import Local
from dpearl.errors import BudgetError, UsageError
from dpearl.ledger import read_ledger, set_budget
from dpearl.owner import Offer, are_sums, embed_shard, offer_for_sums, recipe_with, release_rows, release_sums
from dpearl.privacy import Budget, Relation, Unit, epsilon_of
from dpearl.read import open_sources
from dpearl.release import Measurement, Release
from dpearl.schema import Schema, parse_schema

BUDGET = Budget(1.0, 1e-5)
COLUMNS: dict[str, Any] = {
    "age": {"kind": "number", "lower": 0, "upper": 100, "step": 1},
    "wage": {"kind": "number", "lower": 0, "upper": 1},
    "job": {"kind": "category", "levels": ["a", "b", "c"]},
    "rich": {"kind": "boolean"},
}
SCHEMA = parse_schema({"label": "rich", "columns": COLUMNS})
PEOPLE = parse_schema({"label": "rich", "person": "who", "rows_per_person": 3, "columns": COLUMNS})
ROWS = 20_000


def rows(count: int = ROWS, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "age": chance.integers(20, 70, count),
            "wage": chance.beta(2, 5, count),
            "job": chance.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1]),
            "rich": chance.random(count) < 0.25,
        }
    )


def small(recipe: Recipe, frequencies: int = 20) -> Recipe:
    return replace(recipe, frequencies=frequencies)


def points(table: pa.Table) -> NDArray[np.float64]:
    """Features as the paper sees them: numbers in [0, 1], levels one-hot."""
    numbers = [np.asarray(table["age"]) / 100, np.asarray(table["wage"])]
    return np.stack([*numbers, *(np.asarray(table["job"]) == level for level in "abc")], axis=1).astype(float)


def within_noise(measured: Measurement, exact: dict[str, NDArray[np.int64]]) -> bool:
    """Whether noisy sums lie where their own σ puts them, neither closer nor further (false alarm about 1e-6)."""
    for family, sums in exact.items():
        scores = (measured.sums[family] - sums) / measured.sigmas[family]
        if np.abs(scores).max() > 6 + 0.1 * np.log(scores.size) or (scores.size > 100 and not 0.6 < scores.std() < 1.5):
            return False
    return True


@pytest.mark.parametrize(
    "recipe", [RECIPES["auto"], small(RECIPES["auto"]), small(RECIPES["paper"])], ids=["pairs", "auto", "paper"]
)
def test_the_second_stage_follows_the_released_numbers_of_the_first_alone(recipe: Recipe) -> None:
    """Whoever holds the release can work out its second design: exact numbers had no part in it."""
    offer = Offer(SCHEMA, recipe, Budget(0.5, 1e-5))
    made = release_rows(rows(500), offer, engine=Local(threads=1))
    assert offer.design(SCHEMA, made.stages["auxiliary"], made.rows).digest == made.embedding.design.digest


@pytest.mark.parametrize("name", RECIPES)
def test_both_recipes_release_their_sums_with_the_stated_noise(name: str) -> None:
    table = rows(3000)
    offer = Offer(SCHEMA, small(RECIPES[name]), BUDGET)
    made = release_rows(table, offer)
    assert list(made.stages) == ["auxiliary", "embedding"]
    assert (made.recipe, made.plan, made.budget, made.unit) == (name, offer.digest, BUDGET, offer.unit)
    for stage in made.stages.values():
        assert within_noise(stage, dict(embed(open_sources(table), stage.design).sums))


@pytest.mark.parametrize("name", RECIPES)
def test_the_offer_is_the_price(name: str) -> None:
    offer = Offer(SCHEMA, small(RECIPES[name]), BUDGET)
    made = release_rows(rows(100), offer)
    assert made.mu == offer.mu
    assert 1 - 1e-3 < made.epsilon <= 1
    shares = {stage: mu**2 / made.mu**2 for stage, mu in made.mus.items()}
    assert shares == pytest.approx(offer.stages, rel=1e-2)


def test_the_number_of_rows_is_public_only_where_the_relation_makes_it_so() -> None:
    table = rows(500)
    assert release_rows(table, Offer(SCHEMA, small(RECIPES["paper"]), BUDGET)).rows == 500
    private = release_rows(table, Offer(SCHEMA, small(RECIPES["auto"]), BUDGET))
    assert private.rows is None
    assert private.embedding.noisy_rows == pytest.approx(500, abs=250)


def scale(made: Release) -> float:
    block = made.embedding.design.block("characteristic")
    assert isinstance(block, Characteristic)
    return block.scale


def test_the_scale_under_replace_one_is_the_mean_pairwise_distance() -> None:
    table = rows()
    some = points(table)[:: ROWS // 1000]
    truth = np.mean([np.linalg.norm(some - point, axis=1).sum() / (len(some) - 1) for point in some])
    assert scale(release_rows(table, Offer(SCHEMA, small(RECIPES["paper"], 4), BUDGET))) == pytest.approx(truth, rel=0.15)


def test_the_scale_under_add_remove_is_the_root_mean_square_distance() -> None:
    table = rows()
    truth = math.sqrt(2 * points(table).var(axis=0).sum())
    assert scale(release_rows(table, Offer(SCHEMA, small(RECIPES["auto"], 4), BUDGET))) == pytest.approx(truth, rel=0.15)


def test_a_public_scale_costs_nothing_and_comes_from_the_schema() -> None:
    offer = Offer(SCHEMA, recipe_with(RECIPES["auto"], None, Scale.PUBLIC, 4), BUDGET)
    made = release_rows(rows(10), offer)
    assert list(made.stages) == ["embedding"]
    assert scale(made) == public_scale(SCHEMA)


@pytest.mark.parametrize("name", RECIPES)
def test_partial_sums_lead_to_the_same_release_as_the_whole(name: str, tmp_path: Path) -> None:
    table, recipe = rows(3000), small(RECIPES[name])
    for place, start in enumerate((0, 1000, 2000)):
        save_partial(embed_shard(table.slice(start, 1000), SCHEMA, recipe, 5, Local(threads=1)), tmp_path / f"{place}.partial")
    paths = [str(tmp_path / f"{place}.partial") for place in range(3)]
    assert are_sums(paths)
    merged = merge([load_partial(path) for path in paths])
    book = tmp_path / "ledger.jsonl"
    offer = offer_for_sums(merged, recipe, BUDGET)
    made = release_sums(merged, offer, book, "out.dpearl")

    public = replace(recipe, scale=Scale.PUBLIC)
    whole = release_rows(table, Offer(SCHEMA, public, BUDGET, seed=5))
    assert made.embedding.design.digest == whole.embedding.design.digest
    assert made.embedding.sigmas == whole.embedding.sigmas
    assert (made.rows, made.unit, made.types) == (whole.rows, whole.unit, whole.types)
    assert 1 - 1e-3 < made.epsilon <= 1
    exact = dict(embed(open_sources(table), whole.embedding.design).sums)
    assert all(np.array_equal(exact[family], merged.sums[family]) for family in exact)
    assert within_noise(made.embedding, exact)
    assert [entry.mu for entry in read_ledger(book).charges] == [made.mu]


def test_a_used_up_budget_refuses_partial_sums_too(tmp_path: Path) -> None:
    book = tmp_path / "ledger.jsonl"
    set_budget(book, 0.5)
    partial = embed_shard(rows(10), SCHEMA, small(RECIPES["auto"]), 0, Local(threads=1))
    with pytest.raises(BudgetError):
        release_sums(partial, offer_for_sums(partial, small(RECIPES["auto"]), BUDGET), book)
    assert read_ledger(book).charges == ()


def test_sums_and_data_do_not_mix(tmp_path: Path) -> None:
    save_partial(embed_shard(rows(10), SCHEMA, small(RECIPES["auto"]), 0, Local(threads=1)), tmp_path / "a.partial")
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(UsageError, match="cannot be released together"):
        are_sums([str(tmp_path / "a.partial"), str(tmp_path / "a.csv")])
    assert not are_sums([str(tmp_path / "a.csv")])


def owned(table: pa.Table, who: list[str | None]) -> pa.Table:
    return table.append_column("who", pa.array(who, pa.string()))


def sums_of(table: pa.Table, schema: Schema = PEOPLE, batch_rows: int = 2**14) -> dict[str, bytes]:
    design = embedding_design(schema, small(RECIPES["auto"]), 1.0, 0)
    made = embed(open_sources(table), design, Local(1, batch_rows=batch_rows))
    return {family: part.tobytes() for family, part in made.sums.items()}


def test_a_person_with_a_hundred_rows_counts_with_a_few_that_order_does_not_choose() -> None:
    hog, others = rows(100, 1), rows(50, 2)
    everyone = [f"p{place}" for place in range(50)]
    greedy = pa.concat_tables([owned(hog, ["hog"] * 100), owned(others, list(everyone))])
    modest = pa.concat_tables([owned(others, list(everyone)), owned(hog.take(list(range(99, -1, -1))), ["hog"] * 100)])
    for batch_rows in (2, 7, 2**14):
        assert sums_of(greedy, batch_rows=batch_rows) == sums_of(modest)
    without, most = sums_of(owned(others, list(everyone))), 3 * UNIT
    gained = np.frombuffer(sums_of(greedy)["count"], np.int64) - np.frombuffer(without["count"], np.int64)
    assert gained.sum() == most


def test_rows_that_name_nobody_are_left_out() -> None:
    table = rows(4)
    assert sums_of(owned(table, ["a", None, "", "b"])) == sums_of(owned(table.take([0, 3]), ["a", "b"]))


def test_the_person_is_never_embedded() -> None:
    table = rows(5)
    assert sums_of(owned(table, list("abcde"))) == sums_of(owned(table, list("vwxyz"))) == sums_of(table, SCHEMA)


def test_a_person_is_one_unit_with_all_their_rows() -> None:
    offer = Offer(PEOPLE, small(RECIPES["auto"]), BUDGET)
    assert offer.unit == Unit(Relation.ADD_REMOVE, 3)
    alone = Offer(SCHEMA, small(RECIPES["auto"]), BUDGET)
    noise, single = ({s: d.sigmas(o.targets[s], o.unit) for s, d in o.sketch.items()} for o in (offer, alone))
    for stage, sigmas in noise.items():
        assert sigmas == {family: pytest.approx(3 * single[stage][family], abs=6) for family in sigmas}
    assert epsilon_of(offer.mu, BUDGET.delta) <= 1


def test_shards_multiply_the_rows_per_person_where_persons_are_named() -> None:
    """Each shard enforces the bound alone, so a person may be in all of them."""
    recipe = small(RECIPES["auto"])
    named, nameless = (
        merge([embed_shard(part, schema, recipe, 0, Local(threads=1)) for part in (table.slice(0, 10), table.slice(10))])
        for schema, table in ((PEOPLE, owned(rows(20), ["a", "b"] * 10)), (SCHEMA, rows(20)))
    )
    assert offer_for_sums(named, recipe, BUDGET).unit == Unit(Relation.ADD_REMOVE, 6)
    assert offer_for_sums(nameless, recipe, BUDGET).unit == Unit(Relation.ADD_REMOVE, 1)
    assert named.rows == 12
    made = release_sums(named, offer_for_sums(named, recipe, BUDGET))
    assert made.unit.rows_per_person == 6
    assert 1 - 1e-3 < made.epsilon <= 1


def test_a_shard_without_rows_counts_as_a_shard() -> None:
    """Else the noise would tell whether somebody is in it."""
    recipe, table = small(RECIPES["auto"]), owned(rows(20), ["a", "b"] * 10)
    parts = [table.slice(0, 10), table.slice(10, 0), table.slice(10, 0), table.slice(10)]
    merged = merge([embed_shard(part, PEOPLE, recipe, 0, Local(threads=1)) for part in parts])
    assert offer_for_sums(merged, recipe, BUDGET).unit == Unit(Relation.ADD_REMOVE, 12)


def test_persons_cannot_be_replaced() -> None:
    with pytest.raises(UsageError, match="needs --relation add-remove"):
        Offer(PEOPLE, RECIPES["paper"], BUDGET)


def test_the_plan_digest_covers_everything_that_is_decided_before_data() -> None:
    recipe = small(RECIPES["auto"])
    offers = [
        Offer(SCHEMA, recipe, BUDGET),
        Offer(SCHEMA, recipe, BUDGET, seed=1),
        Offer(SCHEMA, recipe, BUDGET, shards=2),
        Offer(SCHEMA, small(recipe, 21), BUDGET),
        Offer(SCHEMA, recipe, Budget(1.0, 1e-6)),
        Offer(SCHEMA.with_rows_per_person(2), recipe, BUDGET),
    ]
    assert len({offer.digest for offer in offers}) == len(offers)
    assert Offer(SCHEMA, recipe, BUDGET).digest == offers[0].digest


def test_no_rows_at_all_are_released_like_any_others() -> None:
    for name in RECIPES:
        made = release_rows(rows(0), Offer(SCHEMA, small(RECIPES[name], 4), BUDGET))
        assert made.epsilon <= 1
        assert math.isfinite(scale(made))


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_cannot_be_stored_is_refused(seed: int) -> None:
    with pytest.raises(UsageError, match="seed"):
        Offer(SCHEMA, RECIPES["auto"], BUDGET, seed=seed)
