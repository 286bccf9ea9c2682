"""Moments of pictures: exact, never longer than stated, the same however rows are batched."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.design import Design, load_design
from dpearl.embeddings.moments import CROSS, GRID, MEAN, SQUARE, Edges, Moments, Waves, clipped, cosines, picture_moments, pooling
from dpearl.embeddings.pictures import SHARES, picture_blocks, pictured, wave_frequencies
from dpearl.privacy import Relation, Unit
from dpearl.schema import MAX_COORDINATES, Category, Column, Image, Number, Schema
from strategies import IMAGES

FAMILIES = ("moments", "edges")
LARGE = [Image(height=90, width=91), Image(height=MAX_COORDINATES, width=1), Image(height=52, width=52, channels=3)]


def codec_of(picture: Image, label: bool = True) -> Codec:
    columns: dict[str, Column] = {"image": picture}
    if label:
        columns["label"] = Category(levels=("a", "b"))
    return Codec(Schema(columns=columns, label="label" if label else None))


def extreme_rows(codec: Codec, size: int, seed: int) -> Rows:
    """Pictures with a taste for extremes: noise, black, white, stripes, a single lit pixel."""
    rng, pixels = np.random.default_rng(seed), len(codec.tops)
    kinds = np.stack(
        [
            rng.integers(0, 256, pixels),
            np.zeros(pixels),
            np.full(pixels, 255),
            255 * (np.arange(pixels) % 2),
            255 * (np.arange(pixels) == rng.integers(pixels)),
            255 * rng.integers(0, 2, pixels),
        ]
    )
    labels = rng.integers(0, codec.classes, size)
    return Rows(labels, kinds[rng.integers(0, len(kinds), size)].astype(np.uint16), np.zeros((size, 1), np.int64))


def part(rows: Rows, places: NDArray[np.int64]) -> Rows:
    return Rows(rows.label[places], rows.coordinates[places], rows.levels[places])


def length2(sums: NDArray[np.int64]) -> int:
    return sum(value * value for value in sums.ravel().tolist())


@settings(max_examples=60, deadline=None)
@given(IMAGES, st.integers(0, 2**32), st.sampled_from(FAMILIES))
def test_no_picture_is_longer_than_stated(picture: Image, seed: int, family: str) -> None:
    codec = codec_of(picture)
    block, rows = picture_moments(codec, family, 1.0), extreme_rows(codec, 6, seed)
    for place in range(6):
        assert length2(block.sum(part(rows, np.array([place])))) <= block.norm2


@settings(max_examples=60, deadline=None)
@given(IMAGES, st.integers(0, 2**32), st.sampled_from(FAMILIES))
def test_no_replaced_picture_moves_the_sums_further_than_stated(picture: Image, seed: int, family: str) -> None:
    codec = codec_of(picture)
    block, rows = picture_moments(codec, family, 1.0), extreme_rows(codec, 2, seed)
    change = length2(block.sum(part(rows, np.array([0]))) - block.sum(part(rows, np.array([1]))))
    assert change <= block.sensitivity2(Relation.REPLACE_ONE, bool(rows.label[0] == rows.label[1]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**18), 2**18), min_size=1, max_size=30))
def test_cut_rows_keep_their_direction_and_their_bound(row: list[int]) -> None:
    cut = clipped(np.array([row], np.int64))[0]
    assert length2(cut) <= GRID**2
    length = max(math.sqrt(sum(value**2 for value in row)), GRID)
    assert np.abs(cut - np.array(row) * GRID / length).max() <= 2


def test_rows_that_fit_are_left_alone() -> None:
    row = np.array([[GRID, 0], [0, -GRID], [3, 4]])
    assert (clipped(row) == row).all()


def test_a_bright_picture_almost_reaches_the_bound() -> None:
    codec = codec_of(Image(height=8, width=8))
    white = Rows(np.zeros(1, np.int64), np.full((1, 64), 255, np.uint16), np.zeros((1, 1), np.int64))
    block = picture_moments(codec, "moments", 1.0)
    assert length2(block.sum(white)) >= 0.99 * block.norm2


def test_cross_products_cost_no_more_than_squares() -> None:
    assert CROSS**2 <= 2 * SQUARE**2


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_do_not_show(family: str) -> None:
    codec = codec_of(Image(height=9, width=7))
    block, rows = picture_moments(codec, family, 1.0), extreme_rows(codec, 1100, 3)
    halves = [part(rows, places) for places in np.array_split(np.random.default_rng(0).permutation(1100), 7)]
    assert (block.sum(rows) == sum(block.sum(half) for half in halves)).all()
    assert not block.sum(part(rows, np.arange(0))).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_sums_are_those_of_plain_integers(family: str) -> None:
    codec = codec_of(Image(height=6, width=5, channels=3))
    block, rows = picture_moments(codec, family, 1.0), extreme_rows(codec, 9, 5)
    expected = np.zeros(block.shape, object)
    for label, row in zip(rows.label, block.values(rows).tolist(), strict=True):
        pairs = [(SQUARE if i == j else CROSS) * row[i] * row[j] for i in range(len(row)) for j in range(i, len(row))]
        expected[label] += np.array([MEAN * value for value in row] + pairs, object)
    assert (block.sum(rows) == expected).all()


@pytest.mark.parametrize("picture", LARGE)
def test_the_largest_pictures_stay_within_exact_floats(picture: Image) -> None:
    down, across = (abs(table).sum(axis=1).max() for table in Waves(picture).tables)
    assert 255 * down * across < 2**53
    edges = Edges(picture)
    (down, across), (turns, rows, columns) = edges.tables, edges.mixing
    reach = [abs(table).sum(axis=1).max() for table in (rows @ down, columns @ across, turns)]
    assert 255 * picture.channels * math.prod(reach) < 2**53
    assert edges.steps.min() > 0


@pytest.mark.parametrize(("waves", "points"), [(1, 1), (3, 5), (10, 28), (6, 6)])
def test_cosines_are_the_nearest_integers(waves: int, points: int) -> None:
    k, x = np.arange(waves)[:, None], np.arange(points)[None]
    true = np.cos(np.pi * (2 * x + 1) * k / (2 * points)) * math.sqrt(2 / points) * np.where(k, 1, math.sqrt(0.5))
    assert np.abs(cosines(waves, points, 2**12) - 2**12 * true).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(("cells", "points"), [(1, 1), (2, 8), (6, 28), (6, 6)])
def test_every_pixel_belongs_to_cells_by_one_in_all(cells: int, points: int) -> None:
    assert np.abs(pooling(cells, points).sum(axis=0) - 2**5).max() <= 1


def test_edges_see_sharpness_that_waves_do_not() -> None:
    """Stripes of one pixel are nearly grey to low waves; their changes are not."""
    picture = Image(height=28, width=28)
    stripes = np.tile(255.0 * (np.arange(28) % 2), (1, 1, 28, 1))
    grey = np.full((1, 1, 28, 28), 127.5)
    waves, edges = (np.linalg.norm(view(stripes) - view(grey)) for view in (Waves(picture), Edges(picture)))
    assert edges > 10 * waves


@pytest.mark.parametrize("label", [True, False])
def test_a_design_of_pictures_comes_back_from_its_file_form(label: bool) -> None:
    codec = codec_of(Image(height=8, width=6), label)
    design = Design(codec.schema, picture_blocks(codec, 7))
    again = load_design(design.to_dict(), design.arrays())
    assert again.digest == design.digest
    assert [block.norm2 for block in again.blocks] == [block.norm2 for block in design.blocks]
    block = again.block("edges")
    assert isinstance(block, Moments)
    assert (block.classes, block.start) == (4 if label else 1, 0)


def test_shares_are_parts_of_the_whole_budget() -> None:
    assert math.isclose(sum(SHARES.values()), 1)
    codec, unit = codec_of(Image(height=8, width=8)), Unit(Relation.ADD_REMOVE)
    design = Design(codec.schema, picture_blocks(codec, 0))
    for family, share in design.shares(design.sigmas(0.3, unit), unit).items():
        assert math.isclose(share, SHARES[family], rel_tol=1e-3)


def test_only_one_picture_a_row_is_a_picture_schema() -> None:
    picture = Image(height=4, width=4)
    assert pictured(codec_of(picture))
    assert not pictured(Codec(Schema(columns={"a": picture, "b": picture})))
    assert not pictured(Codec(Schema(columns={"a": picture, "b": Number(lower=0, upper=1)})))
    with pytest.raises(ValueError, match="no picture"):
        picture_moments(Codec(Schema(columns={"b": Number(lower=0, upper=1)})), "moments", 1.0)


def test_a_picture_is_found_behind_other_columns() -> None:
    codec = Codec(Schema(columns={"b": Number(lower=0, upper=1), "a": Image(height=4, width=4)}))
    assert picture_moments(codec, "moments", 1.0).start == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_frequencies_of_pictures_are_sums_of_their_waves(channels: int) -> None:
    codec = codec_of(Image.model_validate({"height": 14, "width": 12, "channels": channels}))
    lines = wave_frequencies(codec, 50, 3, 1.0).lines.reshape(14 * 12, channels, 50).swapaxes(0, 1).reshape(-1, 50)
    patterns = Waves(Image.model_validate({"height": 14, "width": 12, "channels": channels})).patterns / 2**24
    inside = patterns.T @ np.linalg.lstsq(patterns.T, lines, rcond=None)[0]
    assert np.abs(inside - lines).max() < 2e-3 * np.abs(lines).max()
