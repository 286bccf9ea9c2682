"""At most m rows of each person: the same ones in every order, and nobody's choice touches anybody else's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpearl import persons
from dpearl.design import RECIPES, embedding_design
from dpearl.embed import embed
from dpearl.engines.local import Local
from dpearl.owner import recipe_with
from dpearl.read import open_sources
from dpearl.schema import Schema, parse_schema
from dpearl.sums import table_sums

COLUMNS: dict[str, Any] = {
    "a": {"kind": "number", "lower": 0, "upper": 9, "step": 1},
    "b": {"kind": "category", "levels": ["x", "y"]},
}
ROWS = st.lists(st.tuples(st.sampled_from("pqrs"), st.integers(0, 9), st.sampled_from("xyz")), max_size=40)


def schema(most: int) -> Schema:
    return parse_schema({"person": "who", "rows_per_person": most, "columns": COLUMNS})


def table(rows: list[tuple[str, int, str]]) -> pa.Table:
    who, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.string()), "who": pa.array(who, pa.string())})


def total(rows: list[tuple[str, int, str]], most: int, batch_rows: int = 99) -> list[int]:
    plan = embedding_design(schema(most), recipe_with(RECIPES["auto"], None, None, 3), 1.0, 0)
    made = embed(open_sources(table(rows)), plan, Local(2, batch_rows=batch_rows))
    return [made.rows, *made.sums["count"].ravel().tolist(), *made.sums["characteristic"].ravel().tolist()]


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 4), st.data())
def test_neither_order_nor_batches_decide_who_keeps_what(
    rows: list[tuple[str, int, str]], most: int, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))
    assert total(shuffled, most, data.draw(st.integers(1, 45))) == total(rows, most)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 4))
def test_a_person_moves_the_sums_by_their_own_rows_alone(rows: list[tuple[str, int, str]], most: int) -> None:
    """Sums are additive over persons, and each adds at most m of their own rows: the declared unit of protection."""
    whole = np.array(total(rows, most))
    alone = [np.array(total([row for row in rows if row[0] == who], most)) for who in "pqrs"]
    assert whole.tolist() == np.sum(alone, axis=0).tolist()
    for who, part in zip("pqrs", alone, strict=True):
        own = [row for row in rows if row[0] == who]
        assert part[0] == min(len(own), most)
    plan = embedding_design(schema(most), recipe_with(RECIPES["auto"], None, None, 3), 1.0, 0)
    for who in "pqrs":
        own = [row for row in rows if row[0] == who]
        if own and most == 1:
            assert total(own, 1) in [table_sums(table([row]), plan).tolist() for row in own]


def test_persons_with_the_same_rows_do_not_all_keep_the_same_one() -> None:
    kept = [total([(f"person {place}", 0, "x"), (f"person {place}", 9, "y")], 1) for place in range(40)]
    first = total([("p", 0, "x")], 1)
    assert 5 < sum(one == first for one in kept) < 35


def test_a_batch_that_changed_since_the_vote_gives_nobody_more_rows() -> None:
    codec = embedding_design(schema(1), recipe_with(RECIPES["auto"], None, None, 3), 1.0, 0).codec
    ballots = persons.keep(persons.cast(table([("p", 1, "x"), ("p", 2, "x"), ("q", 3, "y")]), codec, 0), 1)
    assert len(ballots) == 2
    later = table([("p", 1, "x"), ("p", 2, "x")] * 5 + [("q", 3, "y")] * 5 + [("new", 3, "y")])
    assert len(persons.kept(later, codec, ballots)["a"]) == 2


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 3), st.integers(1, 5), st.integers(0, 40))
def test_votes_can_be_counted_in_parts_and_in_buckets(rows: list[tuple[str, int, str]], most: int, count: int, cut: int) -> None:
    codec = embedding_design(schema(most), recipe_with(RECIPES["auto"], None, None, 3), 1.0, 0).codec
    whole = persons.cast(table(rows), codec, 7)
    once = persons.keep(whole, most)
    parts = [persons.keep(part, most) for part in (whole[:cut], whole[cut:])]
    assert np.array_equal(persons.keep(np.concatenate(parts), most), once)
    apart = [persons.keep(bucket, most) for bucket in persons.buckets(whole, count)]
    assert np.array_equal(persons.keep(np.concatenate(apart), most), once)


def test_packed_codes_come_back_as_they_were() -> None:
    pictures = parse_schema(
        {"columns": {"image": {"kind": "image", "height": 2, "width": 3}, "a": {"kind": "number", "lower": 0, "upper": 1}}}
    )
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    plan = embedding_design(pictures, recipe_with(RECIPES["auto"], None, None, 3), 1.0, 0)
    (cells,) = open_sources({"image": pixels, "a": np.linspace(0, 1, 4)})[0].batches(pictures)
    codes = plan.codec.encode(cells)
    back = persons.unpacked(persons.packed(codes), {name: code[:0] for name, code in codes.items()})
    assert all(np.array_equal(back[name], codes[name]) and back[name].dtype == codes[name].dtype for name in codes)
