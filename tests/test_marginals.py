"""Marginals count rows exactly, on cells that nest and bins that hang on public numbers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpearl import datasets
from dpearl.choice import chosen_pairs
from dpearl.codec import Codec
from dpearl.density import Rung, column_counts, denoised, gathered, joined, likely, on_bins, pieces_of, simplex, upwards
from dpearl.design import RECIPES, Design, Scale, auxiliary_design, load_design, public_design
from dpearl.embed import embed
from dpearl.embeddings.marginals import (
    EACH,
    MOST_PAIRS,
    SIDE,
    UNIT,
    WHOLE,
    Pairs,
    Side,
    Singles,
    all_pairs,
    even_side,
    load_pairs,
    public_pairs,
    singles,
)
from dpearl.grid import BINS, MOST_BINS, Grid, Ladder, bins_along, chosen_grid, ladders, made_of, public_grid
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.read import open_sources
from dpearl.release import Measurement
from dpearl.schema import Boolean, Category, Datetime, Number, Schema, parse_schema

SCHEMA = parse_schema(
    {
        "label": "sick",
        "columns": {
            "age": {"kind": "number", "lower": 0, "upper": 99, "step": 1, "missing": True},
            "pay": {"kind": "number", "lower": 1, "upper": 90000, "step": 1, "spikes": [0]},
            "dose": {"kind": "number", "lower": 0.5, "upper": 40, "log": True},
            "seen": {"kind": "datetime", "lower": "2020-01-01", "upper": "2030-01-01", "step": "1min"},
            "town": {"kind": "category", "levels": ["a", "b", "c"], "missing": True},
            "old": {"kind": "boolean"},
            "sick": {"kind": "category", "levels": ["yes", "no"]},
        },
    }
)
CODEC = Codec(SCHEMA)


def table(rows: int, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    town = np.array(["a", "b", "c", "elsewhere", None], object)[chance.choice(5, rows, p=[0.5, 0.3, 0.1, 0.05, 0.05])]
    return pa.table(
        {
            "age": pa.array(chance.normal(40, 12, rows), mask=chance.random(rows) < 0.1),
            "pay": np.where(chance.random(rows) < 0.75, 0, chance.integers(1, 90_000, rows)),
            "dose": chance.lognormal(1, 1, rows),
            "seen": pa.array(chance.integers(1_600_000_000, 1_700_000_000, rows) * 10**6, pa.timestamp("us")),
            "town": pa.array(town, pa.string()),
            "old": chance.random(rows) < 0.3,
            "sick": np.array(["yes", "no", "perhaps"])[chance.choice(3, rows, p=[0.3, 0.6, 0.1])],
        }
    )


def sums(block: Any, rows: pa.Table) -> Any:
    return block.sum(CODEC.rows(CODEC.encode(rows)))


@pytest.mark.parametrize("name", list(CODEC.features))
def test_rungs_nest_and_places_stay_in_their_cell(name: str) -> None:
    ladder, codes = ladders(CODEC)[name], CODEC.encode(table(5000))[name]
    for rung in range(len(ladder.lines)):
        cells = ladder.cells(codes, rung)
        assert 0 <= cells.min() <= cells.max() < ladder.sizes[rung]
        assert (ladder.ancestors(rung)[ladder.cells(codes)] == cells).all()
        if rung:
            assert (ladder.parents(rung)[cells] == ladder.cells(codes, rung - 1)).all()
        everywhere = np.arange(ladder.sizes[rung])
        assert (ladder.cells(ladder.place(everywhere, np.full(len(everywhere), 0.5), rung), rung) == everywhere).all()


def test_the_finest_cells_of_a_stepped_number_are_its_values() -> None:
    own = ladders(CODEC)
    assert own["age"].lines == (BINS, 100)
    assert own["pay"].lines == (BINS, 50 * BINS, 90_000)
    assert own["dose"].lines == (BINS, 50 * BINS)
    assert own["town"].sizes == (5,)


def test_wide_tables_go_without_full_resolution() -> None:
    many = Schema(columns={f"n{i}": Number(lower=0, upper=100_000, step=1) for i in range(8)})
    assert sum(sum(ladder.sizes) for ladder in ladders(Codec(many)).values()) < 2**18
    assert all(ladder.lines == (BINS, 50 * BINS) for ladder in ladders(Codec(many)).values())
    wide = Schema(columns={f"n{i}": Number(lower=0, upper=100_000, step=1) for i in range(41)})
    assert all(ladder.lines == (BINS,) for ladder in ladders(Codec(wide)).values())


@given(rows=st.integers(1, 200), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_every_row_falls_in_one_cell_of_every_single_column(rows: int, seed: int) -> None:
    block = singles(CODEC, 1.0)
    found = sums(block, table(rows, seed))
    units = block.counted
    assert [int(found[place].sum()) for place in block.places.values()] == [rows * unit for unit in units]
    assert found.min() >= 0
    assert block.norm2 == sum(unit**2 for unit in units)


def test_the_reach_of_a_row_is_attained_by_single_columns_and_never_exceeded() -> None:
    """Adding a row moves the vector by exactly its norm; replacing it by one that differs everywhere by √2 of that."""
    first, second, block = table(200, 1), table(200, 2), singles(CODEC, 1.0)
    alone = [sums(block, data.slice(place, 1)) for data in (first, second) for place in range(200)]
    assert {int((own**2).sum()) for own in alone} == {block.norm2}
    changes = [int(((one - other) ** 2).sum()) for one, other in zip(alone[:200], alone[200:], strict=True)]
    assert 1.8 * block.norm2 < max(changes) <= block.sensitivity2(Relation.REPLACE_ONE, True) == 2 * block.norm2
    assert block.sensitivity2(Relation.ADD_REMOVE, False) == block.norm2


def chosen(rows: int = 20_000, seed: int = 0) -> Pairs:
    """Pairs that follow a first look."""
    return chosen_pairs(CODEC, without_noise(table(rows, seed)), rows, 40.0, 1.0)


def test_no_row_is_longer_than_the_limit_and_long_ones_come_near_it() -> None:
    """Also rows that nobody expects: at all bounds, in all levels, of all kinds."""
    data = table(2000, 7)
    odd = pa.table(
        {
            "age": [None, 0.0, 99.0, 1e300],
            "pay": [0, 1, 90_000, 77],
            "dose": [1e-300, 40.0, float("nan"), 0.5],
            "seen": pa.array([0, 10**15, 1_893_456_000_000_000, 1_577_836_800_000_000], pa.timestamp("us")),
            "town": ["c", None, "elsewhere", "c"],
            "old": [True, None, True, False],
            "sick": ["perhaps", None, "yes", "no"],
        },
        schema=data.schema,
    )
    for block in (public_pairs(CODEC, 1.0), chosen()):
        rows = [own.slice(place, 1) for own in (odd, data) for place in range(min(len(own), 200))]
        lengths = np.array([float((sums(block, row).astype(object) ** 2).sum()) for row in rows])
        assert lengths.max() <= block.norm2
        assert block.norm2 == WHOLE**2 * block.limit == block.sensitivity2(Relation.ADD_REMOVE, True)
        assert (lengths > 0.95 * block.norm2).any()


def test_two_rows_may_point_away_from_each_other() -> None:
    """All that one row's replacement can do to a small table, tried out: more than if rows were orthogonal."""
    codec = Codec(parse_schema({"columns": {"x": {"kind": "category", "levels": [1, 2]}, "y": {"kind": "boolean"}}}))
    block = public_pairs(codec, 1.0)
    rows = [{"x": x, "y": y} for x in range(block.sizes[0]) for y in range(block.sizes[1])]
    alone = [block.sum(codec.rows({name: np.array([code]) for name, code in row.items()})) for row in rows]
    worst = max(int(((one - other) ** 2).sum()) for one in alone for other in alone)
    assert 2 * block.norm2 < worst <= block.sensitivity2(Relation.REPLACE_ONE, True) == 4 * block.norm2


def test_nothing_is_taken_off_where_no_first_look_says_what_is_long() -> None:
    block, data = public_pairs(CODEC, 1.0), table(500)
    codes = CODEC.encode(data)
    bins = [grid.bins[block.ladders[name].cells(codes[name])].astype(np.int64) for name, grid in block.grids.items()]
    assert not block.limited
    assert (block.usually_counted(bins) == WHOLE).all()


@given(limit=st.integers(1, 2**40), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_rows_count_for_as_much_as_the_limit_allows_and_no_more(limit: int, seed: int) -> None:
    """The largest integer weight, by Python's own integers."""
    made, data = replace(chosen(), limit=limit), table(20, seed)
    codes = CODEC.encode(data)
    cells = [side.cells.bins[made.ladders[name].cells(codes[name])] for name, side in made.sides.items()]
    bins = [side.owner[own] for side, own in zip(made.sides.values(), cells, strict=True)]
    alone2 = np.sum([side.alone2[own] for side, own in zip(made.sides.values(), cells, strict=True)], axis=0)
    for row, weight in enumerate(made.counted(bins, alone2).tolist()):
        along = [int(side.lengths2[own[row]]) for side, own in zip(made.sides.values(), bins, strict=True)]
        length2 = EACH**2 + int(alone2[row]) + sum(along[one] * along[other] for one, other in made.pairs.tolist())
        assert weight**2 * length2 <= WHOLE**2 * limit
        assert weight == WHOLE or (weight + 1) ** 2 * length2 > WHOLE**2 * limit


def test_coarse_cells_learn_from_fine_ones() -> None:
    """Five values make up a coarse cell: what they add up to is as good as their noise lets it be, and both together better."""
    ladder, chance = ladders(CODEC)["age"], np.random.default_rng(1)
    true = chance.integers(0, 500, ladder.sizes[1]).astype(float)
    coarse = np.bincount(ladder.parents(1), true, ladder.sizes[0])
    errors, noise = [], (np.full(ladder.sizes[0], 40.0), np.full(ladder.sizes[1], 10.0))
    for _ in range(200):
        rungs = [(own + chance.normal(0, spread), spread) for own, spread in zip((coarse, true), noise, strict=True)]
        (found, left), finest = upwards(ladder, rungs)
        assert (finest[0] == rungs[1][0]).all()
        errors.append((found - coarse) / left)
    assert left[:BINS] == pytest.approx((1 / 40**2 + 1 / 500) ** -0.5)
    empty = gathered((np.ones(2), np.ones(2)), np.array([0, 0]), 2)
    assert joined((np.array([5.0, 5.0]), np.ones(2)), empty)[0][1] == 5, "nothing is told of a cell that no finer one lies in"
    assert np.std(errors) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 64])
def test_even_centres_make_rows_shorter(size: int) -> None:
    side = even_side(Grid(np.arange(size, dtype=np.uint16)))
    assert side.lengths2 / SIDE**2 == pytest.approx(np.full(size, 1 - 1 / size), abs=size / SIDE**2)
    assert (side.alone2 == SIDE**2 * side.lengths2).all()


def test_a_row_like_most_others_is_short() -> None:
    """Nine rows in ten in one bin: there a row has a hundredth of its squared length, and elsewhere less than twice."""
    grid = Grid(np.arange(3, dtype=np.uint16))
    side = Side(grid, grid, np.array([230, 13, 13]), np.full(3, SIDE), SIDE, 0, 0)
    assert side.lengths2[0] < 0.02 * UNIT
    assert (side.lengths2[1:] < 1.8 * UNIT).all()


def oracle(block: Pairs, data: pa.Table) -> NDArray[np.int64]:
    """The sums row by row, as the docstrings say it."""
    codes = CODEC.encode(data)
    vector = []
    for row in range(len(data)):
        sides, alone, inside, single, along = block.sides.values(), [], [], [], []
        for name, side in zip(block.names, sides, strict=True):
            finest = block.ladders[name].cells(codes[name])[row]
            own, cell = int(side.grid.bins[finest]), int(side.cells.bins[finest])
            along.append(SIDE * np.eye(side.grid.size, dtype=np.int64)[own] - side.centres)
            within = np.where(side.owner == own, side.inner, 0)
            inside.append(side.finer * (SIDE * np.eye(side.cells.size, dtype=np.int64)[cell] - within))
            alone.append(side.sharp * along[-1])
            if side.finest:
                shared = (side.cells.bins == cell).sum() > 1
                single.append(side.finest * SIDE * shared * (np.arange(len(side.cells.bins)) == finest))
        parts = [*alone, *(own for own, side in zip(inside, sides, strict=True) if side.finer)]
        pairs = [np.outer(along[one], along[other]).ravel() for one, other in block.pairs.tolist()]
        label = np.eye(4, dtype=np.int64)[codes["sick"][row]]
        split, paired = ([np.outer(label, part).ravel() for part in own] for own in (parts, pairs))
        whole = np.concatenate([*split, *single, *paired, [EACH]])
        length2 = sum(int(value) ** 2 for value in whole)
        weight = max(a for a in range(WHOLE + 1) if a**2 * length2 <= WHOLE**2 * block.limit)
        vector.append(weight * whole)
    return np.asarray(np.sum(vector, axis=0))


def test_sums_are_those_of_the_rows_vectors() -> None:
    data = table(40, 5)
    for block in (public_pairs(CODEC, 1.0), chosen()):
        assert (sums(block, data) == oracle(block, data)).all()
    assert any(side.finer for side in chosen().sides.values())
    assert [name for name, side in chosen().sides.items() if side.finest] == ["pay"]


def test_cells_by_class_lie_in_their_bins_and_shares_in_a_whole() -> None:
    for name, side in chosen().sides.items():
        assert side.sound, name
        assert side.cells.size >= side.grid.size
        assert abs(int(side.centres.sum()) - SIDE) <= side.grid.size / 2
    assert chosen().sides["age"].cells.size > 100


def test_many_classes_are_not_split() -> None:
    many = SCHEMA.model_copy(update={"columns": {**SCHEMA.columns, "sick": Category(levels=tuple(range(20)))}})
    assert public_pairs(Codec(many), 1.0).groups == 1
    assert public_pairs(CODEC, 1.0).groups == 4


def test_pairs_are_capped_by_a_public_rule() -> None:
    assert len(all_pairs(15)) == 105
    assert len(all_pairs(128)) == 128 * 127 // 2
    assert len(all_pairs(200)) == MOST_PAIRS
    assert len(all_pairs(1)) == 0


def test_a_design_of_marginals_survives_its_file_form() -> None:
    design = public_design(SCHEMA, replace(RECIPES["auto"], scale=Scale.PUBLIC), 0)
    again = load_design(design.to_dict(), design.arrays())
    assert again.digest == design.digest
    data = table(100)
    assert all((sums(one, data) == sums(other, data)).all() for one, other in zip(design.blocks, again.blocks, strict=True))


@pytest.mark.parametrize(
    "broken",
    [
        lambda own: {"bins": own["bins"][:-1]},
        lambda own: {"bins": own["bins"].astype(np.int64)},
        lambda own: {"cells": own["cells"][::-1].copy()},
        lambda own: {"cells": np.zeros_like(own["cells"])},
        lambda own: {"centres": own["centres"][:-1]},
        lambda own: {"centres": own["centres"] - 300},
        lambda own: {"centres": own["centres"] + SIDE},
        lambda own: {"inner": own["inner"] * 3},
        lambda own: {"inner": own["inner"].astype(np.float64)},
        lambda own: {"sharpness": own["sharpness"] + 2**13},
        lambda own: {"sharpness": own["sharpness"][:, :1]},
        lambda own: {"pairs": own["pairs"] + 1},
        lambda own: {"pairs": own["pairs"][:, ::-1]},
        lambda own: {"pairs": np.concatenate([own["pairs"], own["pairs"][:1]])},
        lambda own: {"pairs": own["pairs"][:, :1]},
        lambda own: {"limit": 0},
        lambda own: {"limit": 2**48},
        lambda own: {"limit": 5.0},
    ],
)
def test_a_forged_block_is_refused(broken: Any) -> None:
    block = chosen()
    whole: dict[str, Any] = {**block.arrays(), "limit": block.limit}
    assert load_pairs(CODEC, 1.0, **whole).arrays().keys() == block.arrays().keys()
    with pytest.raises(ValueError, match=r"marginals|pairs"):
        load_pairs(CODEC, 1.0, **{**whole, **broken(whole)})


def without_noise(rows: pa.Table) -> Measurement:
    design = auxiliary_design(SCHEMA, RECIPES["auto"])
    return Measurement(design, embed(open_sources(rows), design).sums, {"count": 1, "singles": UNIT // 1000})


def test_grids_follow_the_first_measurement_alone() -> None:
    """Bins hold enough rows to be seen, and the same released numbers give the same grid."""
    measured, noise = without_noise(table(20_000)), 40.0
    block = chosen_pairs(CODEC, measured, 20_000, noise, 1.0)
    again = chosen_pairs(CODEC, measured, 20_000, noise, 1.0)
    assert all((block.grids[name].bins == again.grids[name].bins).all() for name in block.names)
    counts = column_counts(measured, 20_000)
    along = bins_along(20_000, noise)
    for name in ("age", "pay", "dose"):
        held = np.bincount(block.grids[name].bins, counts[name])
        assert 0.5 * along <= len(held) <= MOST_BINS
        assert np.median(held[: along // 2]) >= 3 * noise


def test_a_value_that_many_rows_share_has_a_bin_of_its_own() -> None:
    ladder = ladders(CODEC)["pay"]
    counts = np.full(ladder.sizes[-1], 0.01)
    counts[777] = 500
    bins = chosen_grid(ladder, counts, 20, 10.0).bins
    assert (bins == bins[777]).sum() == 1


def test_a_value_that_most_rows_share_leaves_others_their_bins() -> None:
    """Nine rows in ten have the same value, which nobody declared: the others are parted as they would be by themselves."""
    ladder = ladders(CODEC)["pay"]
    counts = np.full(ladder.sizes[-1], 2000 / ladder.sizes[-1])
    alone = chosen_grid(ladder, counts, 12, 5.0)
    counts[777] = 18_000
    assert abs(chosen_grid(ladder, counts, 12, 5.0).size - 1 - alone.size) <= 1
    assert alone.size >= 12


@given(st.integers(0, 2**32), st.sampled_from(["age", "pay", "dose"]))
@settings(deadline=None, max_examples=20)
def test_parts_are_made_of_few_cells_and_of_each_row_once(seed: int, name: str) -> None:
    """Counts of cells below the coarsest that make up a bin are its rows, whatever the bins; coarser stand for finer ones."""
    chance, ladder = np.random.default_rng(seed), ladders(CODEC)[name]
    grid = chosen_grid(ladder, chance.gamma(0.1, 100, ladder.sizes[-1]), 20, 10.0)
    codes = CODEC.encode(table(500))[name]
    made = np.zeros(grid.size)
    for rung, bins in enumerate(made_of(ladder, grid.bins.astype(np.int64)), start=1):
        cells = np.bincount(ladder.cells(codes, rung), minlength=ladder.sizes[rung])
        made += np.bincount(bins[bins >= 0], cells[bins >= 0], grid.size)
    assert (made == np.bincount(grid.bins[ladder.cells(codes)], minlength=grid.size)).all() or len(ladder.lines) == 1
    assert sum((bins >= 0).sum() for bins in made_of(ladder, ladder.ancestors(0))) == (*ladder.sizes, 0)[1]


def measured(seed: int, name: str) -> tuple[Ladder, Grid, NDArray[np.float64], list[Rung]]:
    """A column's ladder and bins, rows in its finest cells, and noisy counts at each rung."""
    chance, ladder = np.random.default_rng(seed), ladders(CODEC)[name]
    rows = chance.gamma(0.1, 100, ladder.sizes[-1])
    noises = [np.full(size, chance.uniform(1, 50)) for size in ladder.sizes]
    counts = [np.bincount(ladder.ancestors(rung), rows, len(noise)) for rung, noise in enumerate(noises)]
    rungs = [(count + chance.normal(0, noise), noise) for count, noise in zip(counts, noises, strict=True)]
    return ladder, chosen_grid(ladder, chance.permutation(rows), 8, 10.0), rows, rungs


@given(st.integers(0, 2**32), st.sampled_from(["age", "dose"]))
@settings(deadline=None, max_examples=20)
def test_bins_are_those_of_least_squares_over_all_rungs(seed: int, name: str) -> None:
    """Against a plain solution for the finest cells, and what their covariance makes of bins."""
    ladder, grid, _, rungs = measured(seed, name)
    sums = np.concatenate([np.eye(size)[:, ladder.ancestors(rung)] for rung, size in enumerate(ladder.sizes)])
    noisy, noise = (np.concatenate(own) for own in zip(*rungs, strict=True))
    covariance = np.linalg.inv(sums.T @ (sums / noise[:, None] ** 2))
    bins = np.eye(grid.size)[:, grid.bins]
    counts, precision = on_bins(ladder, grid, rungs)
    assert counts == pytest.approx(bins @ covariance @ sums.T @ (noisy / noise**2), rel=1e-6, abs=1e-6)
    assert np.linalg.inv(precision) == pytest.approx(bins @ covariance @ bins.T, rel=1e-6, abs=1e-6)


@given(st.integers(0, 2**32), st.sampled_from(["age", "pay", "dose"]))
@settings(deadline=None, max_examples=20)
def test_pieces_add_up_to_bins_and_keep_what_coarse_cells_say(seed: int, name: str) -> None:
    """Where bins and coarse cells are known well, what they share is known better than by finer cells alone."""
    ladder, grid, rows, rungs = measured(seed, name)
    coarse = np.bincount(ladder.ancestors(0), rows, ladder.sizes[0]).astype(np.float64)
    sharp = [(coarse, np.full(len(coarse), 1e-3)), *rungs[1:]]
    pieces = pieces_of(ladder, grid, sharp)
    held = np.bincount(grid.bins, rows, grid.size).astype(np.float64)
    found = pieces.given(held)
    assert found.min() >= 0
    assert np.bincount(pieces.owner, found) == pytest.approx(held, rel=1e-6, abs=1e-6)
    cell, whole = np.zeros(len(found), np.int64), np.bincount(pieces.place, rows)
    cell[pieces.place] = ladder.ancestors(0)
    alone = np.bincount(cell)[cell] == 1
    assert found[alone] == pytest.approx(whole[alone], abs=1)


def test_columns_count_by_the_cube_root_of_their_cells() -> None:
    """Cells are those of the coarsest rung; of a column with very many, as many as pairs have bins at most."""
    many = Schema(
        columns={"code": Category(levels=tuple(range(1000))), "flag": Boolean(), "age": Number(lower=0, upper=99, step=1)}
    )
    block = singles(Codec(many), 1.0)
    own = dict(zip(block.places, block.counted, strict=True))
    cells = {("code", 0): 64, ("flag", 0): 3, ("age", 0): 21}
    assert {place: own[place] for place in cells} == {place: round(UNIT * size ** (1 / 3)) for place, size in cells.items()}
    assert own["age", 1] == round(UNIT / 2 * 21 ** (1 / 3))
    assert block.peak == own["flag", 0]


def test_rare_levels_share_a_bin() -> None:
    many = Schema(columns={"code": Category(levels=tuple(range(10_000))), "other": Boolean()})
    ladder = ladders(Codec(many))["code"]
    counts = np.zeros(10_002)
    counts[:100] = 1000.0
    counts[5] = 2000
    grid = chosen_grid(ladder, counts, 20, 10.0)
    assert grid.size == MOST_BINS
    assert (grid.bins == grid.bins[5]).sum() == 1
    assert len(set(grid.bins[5000:])) == 1
    assert public_grid(ladder).size == MOST_BINS


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0.1, 1e6))
@settings(deadline=None)
def test_projected_counts_are_possible_and_nearest(noisy: list[float], total: float) -> None:
    found = simplex(np.array(noisy), total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, rel=1e-6, abs=1e-6)
    even = np.full(len(noisy), total / len(noisy))
    assert ((found - noisy) ** 2).sum() <= ((even - noisy) ** 2).sum() * (1 + 1e-9) + 1e-3


def test_counts_agree_at_every_resolution_and_with_the_rows() -> None:
    data = table(20_000)
    found = column_counts(without_noise(data), 20_000)
    codes = CODEC.encode(data)
    for name, ladder in ladders(CODEC).items():
        assert found[name].min() >= 0
        assert found[name].sum() == pytest.approx(20_000, rel=1e-6)
        for rung in range(len(ladder.lines)):
            true = np.bincount(ladder.cells(codes[name], rung), minlength=ladder.sizes[rung])
            seen = np.bincount(ladder.ancestors(rung), found[name], ladder.sizes[rung])
            assert np.abs(seen - true).sum() / 40_000 < (0.02 if rung < 2 else 0.6)


def test_smooth_counts_lose_their_noise_and_steps_stay() -> None:
    chance = np.random.default_rng(0)
    true = np.where(np.arange(128) < 50, 1000.0, 200.0)
    errors = [np.abs(denoised(true + chance.normal(0, 50, 128), 50) - true).mean() for _ in range(20)]
    assert np.mean(errors) < 10
    assert np.abs(denoised(true, 1e-6) - true).max() < 1e-3


def test_few_large_counts_among_many_small_ones_are_told_from_noise() -> None:
    chance = np.random.default_rng(1)
    true = np.zeros(5000)
    true[:20] = np.linspace(200, 5000, 20)
    noisy = true + chance.normal(0, 50, 5000)
    found = likely(noisy, 50, 0.0)
    assert np.abs(found - true).sum() < 0.1 * np.abs(noisy - true).sum()
    assert (found[noisy > 400] == noisy[noisy > 400]).all()
    assert (np.diff(found[np.argsort(noisy)]) > -1e-9).all()
    even = likely(100 + chance.normal(0, 50, 5000), 50, 0.0)
    assert np.abs(even - 100).mean() < 10


def test_the_cost_of_the_second_stage_is_known_before_the_first() -> None:
    """Whatever is chosen, the cost stays what the plan says, and the noise is about that of the rows it knows."""
    offer = Offer(SCHEMA, RECIPES["auto"], Budget(1.0, 1e-5))
    release = release_rows(table(2000), offer)
    planned = offer.sketch["embedding"].sigmas(offer.targets["embedding"], offer.unit)["interactions"]
    assert 0.6 * planned < release.embedding.sigmas["interactions"] < 1.2 * planned
    assert release.mu == pytest.approx(offer.mu, rel=1e-5)
    assert release.mu <= offer.mu
    assert release.epsilon <= 1


def test_one_pass_measures_single_columns_beside_the_pairs() -> None:
    offer = Offer(SCHEMA, replace(RECIPES["auto"], scale=Scale.PUBLIC), Budget(1.0, 1e-5))
    design = offer.sketch["embedding"]
    assert list(offer.sketch) == ["embedding"]
    assert design.find(Singles) is not None
    assert design.find(Pairs) is not None
    assert design.shares(design.sigmas(offer.targets["embedding"], offer.unit), offer.unit)["singles"] == pytest.approx(
        RECIPES["auto"].single_share * (7 / 15) ** (1 / 2) * 0.98, rel=0.01
    )


def test_adult_takes_few_cells() -> None:
    design = auxiliary_design(datasets.adult_schema(), RECIPES["auto"])
    assert isinstance(design, Design)
    assert design.block("singles").shape[0] < 2**17


def test_datetimes_have_rungs_too() -> None:
    column = Datetime.model_validate({"lower": "2020-01-01", "upper": "2020-12-31", "step": "1d"})
    ladder = ladders(Codec(Schema(columns={"day": column, "flag": Boolean()})))["day"]
    assert ladder.lines == (BINS, 366)
