"""The integer characteristic function: inside the unit circle, exact, and the one that the paper means."""

from __future__ import annotations

from datetime import datetime
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.embeddings.characteristic import UNIT, cosine_table, draw_characteristic
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema


def codec_of(*columns: Column) -> Codec:
    return Codec(Schema(columns={f"c{place}": column for place, column in enumerate(columns)}))


def random_rows(codec: Codec, size: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    features = list(codec.features.values())
    levels = np.stack([rng.integers(0, column.levels, size) for column in features], axis=1)
    coordinates = rng.integers(0, codec.tops + 1, (size, len(codec.tops))).astype(np.uint16)
    starts = list(accumulate((column.coordinates for column in features), initial=0))
    for place, column in enumerate(features):
        if not column.one_hot:
            coordinates[levels[:, place] != 0, starts[place] : starts[place + 1]] = 0
    return Rows(rng.integers(0, codec.classes, size), coordinates, levels)


def real_points(codec: Codec, rows: Rows) -> NDArray[np.float64]:
    """What the integers stand for: coordinates in [0, 1] and one-hot levels, a plain value lighting none."""
    parts = [rows.coordinates / codec.tops]
    for place, column in enumerate(codec.features.values()):
        lit = np.eye(column.levels)[rows.levels[:, place]]
        lit[:, 0] *= column.one_hot
        parts.append(lit)
    return np.concatenate(parts, axis=1)


MIXED = (Number(lower=0, upper=1, spikes=(0,)), Number(lower=0, upper=9, step=1), Category(levels=("a", "b", "c")), Boolean())


def test_no_table_entry_leaves_the_unit_circle() -> None:
    cosine, sine = (part.tolist() for part in cosine_table())
    assert len(cosine) == len(sine) == 2**14
    assert all(c * c + s * s <= UNIT**2 for c, s in zip(cosine, sine, strict=True))


def test_table_entries_are_the_true_values_cut_towards_zero() -> None:
    angles = 2 * np.pi * np.arange(2**14) / 2**14
    for found, true in zip(cosine_table(), (np.cos(angles), np.sin(angles)), strict=True):
        assert (np.abs(found) <= np.abs(UNIT * true) + 1e-9).all()
        assert (np.abs(found - UNIT * true) < 1 + 1e-9).all()


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_integers_agree_with_the_characteristic_function_in_float64(scale: float) -> None:
    codec = codec_of(*MIXED)
    block = draw_characteristic(codec, 300, scale, seed=5, weight=1.0)
    rows = random_rows(codec, 2000, seed=7)
    normal = np.random.default_rng(5).standard_normal((len(codec.tops) + sum(block.columns), 300)) / scale
    phases = real_points(codec, rows) @ normal
    found = block.sum(rows)[0] / UNIT / len(rows)
    assert np.abs(found[:, 0] - np.cos(phases).mean(axis=0)).max() < 1e-3
    assert np.abs(found[:, 1] - np.sin(phases).mean(axis=0)).max() < 1e-3


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_frequencies_are_normal_with_the_stated_scale(scale: float) -> None:
    codec = codec_of(*MIXED)
    block = draw_characteristic(codec, 20000, scale, seed=1, weight=1.0)
    drawn = block.lines * codec.tops[:, None] / 2**32 * 2 * np.pi
    levels = block.angles[block.angles.any(axis=1)] / 2**16 * 2 * np.pi
    for sample in (*drawn, *levels):
        assert abs(sample.mean()) < 5 / scale / np.sqrt(20000)
        assert abs(sample.std() * scale - 1) < 0.03


def test_the_level_of_a_plain_value_turns_nothing() -> None:
    block = draw_characteristic(codec_of(*MIXED), 50, 1.0, seed=0, weight=1.0)
    still = np.flatnonzero(~block.angles.any(axis=1)).tolist()
    assert still == [0, 3]


@pytest.mark.parametrize("column", [Image(height=64, width=64), Image(height=90, width=91)])
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_pictures_of_any_accepted_size_stay_within_exact_floats(column: Image, scale: float) -> None:
    check_exact(codec_of(column), scale)


@pytest.mark.parametrize("shape", [{"step": 1}, {}])
def test_as_many_numbers_as_a_row_may_have_stay_within_exact_floats(shape: dict[str, Any]) -> None:
    check_exact(codec_of(*[Number(lower=0, upper=1, **shape)] * 2**13), 1e-9)


def check_exact(codec: Codec, scale: float) -> None:
    """Every partial sum of products is an integer of at most 2^53, whatever the order of addition."""
    lines = draw_characteristic(codec, 2, scale, seed=0, weight=1.0).lines
    reach = [sum(top * abs(line) for top, line in zip(codec.tops.tolist(), column, strict=True)) for column in lines.T.tolist()]
    assert max(reach) <= 2**53


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(2, 40), min_size=1, max_size=6), st.integers(0, 2**32))
def test_joint_tables_add_up_to_the_separate_ones(sizes: list[int], seed: int) -> None:
    columns = [Category(levels=tuple(range(size))) if size < 30 else Number(lower=0, upper=size, step=1) for size in sizes]
    codec = codec_of(*columns, Boolean())
    block = draw_characteristic(codec, 7, 1.0, seed, weight=1.0)
    rows = random_rows(codec, 40, seed)
    products = rows.coordinates.astype(np.int64) @ block.lines
    whole, rest = products >> 16, products & 0xFFFF
    phases = whole + ((rest > 2**15) | ((rest == 2**15) & (whole % 2 == 1)))
    for place, start in enumerate(accumulate(block.columns[:-1], initial=0)):
        phases = phases + block.angles[start + rows.levels[:, place]]
    apart = cosine_table()[:, ((phases + 2) % 2**16) >> 2].sum(axis=1)
    assert np.array_equal(block.sum(rows)[0], apart.T)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1500])
@pytest.mark.parametrize("frequencies", [1, 255, 257])
def test_tiles_do_not_show(size: int, frequencies: int) -> None:
    codec = Codec(Schema(columns={"x": MIXED[0], "y": MIXED[2], "z": MIXED[3]}, label="y"))
    block = draw_characteristic(codec, frequencies, 1.0, seed=3, weight=1.0)
    rows = random_rows(codec, size, seed=size)
    single = [Rows(rows.label[[i]], rows.coordinates[[i]], rows.levels[[i]]) for i in range(0, size, 97)]
    some = Rows(rows.label[::97], rows.coordinates[::97], rows.levels[::97])
    assert np.array_equal(block.sum(some), sum((block.sum(row) for row in single), np.zeros(block.shape, np.int64)))
    halves = [
        Rows(rows.label[part], rows.coordinates[part], rows.levels[part])
        for part in (slice(0, size // 2), slice(size // 2, size))
    ]
    assert np.array_equal(block.sum(rows), sum((block.sum(half) for half in halves), np.zeros(block.shape, np.int64)))


def test_octaves_raise_some_numbers_and_never_levels_or_pixels() -> None:
    columns = (
        Number(lower=0, upper=1),
        Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1)),
        Image(height=1, width=1),
    )
    codec = codec_of(*columns, Category(levels=("a", "b")))
    plain, raised = (draw_characteristic(codec, 3000, 1.0, 0, 1.0, octaves) for octaves in (0, 6))
    seen = (abs(plain.lines) > 1000).all(axis=0)
    ratio = raised.lines[:, seen] / plain.lines[:, seen]
    assert np.array_equal(raised.lines[2], plain.lines[2])
    assert np.array_equal(raised.angles, plain.angles)
    for line in ratio[:2]:
        assert line.min() > 0.99
        assert 32 < np.median(np.sort(line)[-100:]) <= 65
        assert 0.9 < (line > 1.01).mean() <= 1, "two numbers at a time: here both"
    many = draw_characteristic(codec_of(*[Number(lower=0, upper=1)] * 20), 2000, 1.0, 0, 1.0, 6)
    few = draw_characteristic(codec_of(*[Number(lower=0, upper=1)] * 20), 2000, 1.0, 0, 1.0, 0)
    assert (abs(many.lines) > 1.01 * abs(few.lines)).sum(axis=0).mean() == pytest.approx(2, abs=0.15)


def test_octaves_need_no_numbers() -> None:
    codec = codec_of(Boolean(), Category(levels=("a", "b")))
    plain, raised = (draw_characteristic(codec, 4, 1.0, 0, 1.0, octaves) for octaves in (0, 6))
    assert np.array_equal(raised.angles, plain.angles)
