"""The generators: rows leave them on the very axes that the frequencies see, and go back to cells."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpearl.codec import TOP, Codec, Codes, ColumnCodec, DatetimeCodec, ImageCodec, NumberCodec, Rows, column_codec
from dpearl.distance import real_frequencies
from dpearl.embeddings.characteristic import UNIT, draw_characteristic
from dpearl.generator import Draft, Generator, ImageNet, TableNet, UpConv
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema
from strategies import COLUMNS


@pytest.fixture(autouse=True, scope="module")
def same_weights(one_thread: None) -> None:
    """Weights are the same in every run."""
    torch.manual_seed(0)


def codec_of(*columns: Column, label: str | None = None) -> Codec:
    return Codec(Schema(columns={f"c{place}": column for place, column in enumerate(columns)}, label=label))


# Up-convolution


def two_steps(maps: Tensor, layer: UpConv) -> Tensor:
    """Bilinear upsampling of a map with a border of zeros, then the 5×5 convolution of what is doubled."""
    height, width = maps.shape[2:]
    doubled = functional.interpolate(functional.pad(maps, (2, 2, 2, 2)), scale_factor=2, mode="bilinear", align_corners=False)
    return functional.conv2d(doubled, layer.weight, layer.bias)[:, :, 2 : 2 + 2 * height, 2 : 2 + 2 * width]


@pytest.mark.parametrize(("inputs", "outputs", "height", "width"), [(1, 1, 1, 1), (3, 2, 4, 7), (16, 8, 7, 7), (8, 3, 2, 9)])
def test_an_up_convolution_is_bilinear_upsampling_and_a_convolution(inputs: int, outputs: int, height: int, width: int) -> None:
    layer = UpConv(inputs, outputs).double()
    maps = torch.randn(2, inputs, height, width, dtype=torch.float64, requires_grad=True)
    made, expected = layer(maps), two_steps(maps, layer)
    assert made.shape == (2, outputs, 2 * height, 2 * width)
    assert torch.allclose(made, expected)
    outer = torch.randn_like(made)
    moving = (maps, layer.weight, layer.bias)
    found, wanted = (torch.autograd.grad(result, moving, outer) for result in (made, expected))
    assert all(torch.allclose(one, other) for one, other in zip(found, wanted, strict=True))


def test_an_up_convolution_learns_a_filter_and_a_bias_and_nothing_else() -> None:
    layer = UpConv(3, 2)
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {"weight": (2, 3, 5, 5), "bias": (2,)}


# Pictures


@pytest.mark.parametrize(("height", "width", "channels"), [(28, 28, 1), (1, 1, 1), (5, 7, 3), (8, 3, 3), (32, 32, 3)])
def test_pictures_come_in_the_declared_size_and_within_bounds(height: int, width: int, channels: int) -> None:
    picture = Image.model_validate({"height": height, "width": width, "channels": channels})
    draft = ImageNet(picture, 6)(torch.randn(3, 6) * 20)
    assert draft.positions.shape == (3, height * width * channels)
    assert ((draft.positions >= 0) & (draft.positions <= 1)).all()
    assert draft.positions.std() > 0
    assert draft.levels.tolist() == [[1.0]] * 3


class Maps(nn.Module):
    """Stands in for a network whose last maps are known."""

    def __init__(self, maps: Tensor) -> None:
        super().__init__()
        self.maps = maps

    def forward(self, noise: Tensor) -> Tensor:
        return self.maps


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_leave_in_the_order_in_which_pictures_are_stored(channels: int) -> None:
    """Row by row, the colours of a pixel together; what lies beyond the picture's edge is cut off."""
    picture = Image.model_validate({"height": 3, "width": 6, "channels": channels})
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 8, channels), dtype=np.uint8)
    net = ImageNet(picture, 1)
    net.layers = nn.Sequential(Maps(torch.from_numpy(pixels / 255).permute(0, 3, 1, 2)))
    draft, codec = net(torch.zeros(2, 1)), ImageCodec(picture)
    stored = [np.ascontiguousarray(one[:3, :6]).tobytes() for one in pixels]
    codes = codec.code(draft.positions.numpy(), np.zeros(2, np.int64))
    assert codec.decode(codes).to_pylist() == stored


# Tables


@pytest.mark.parametrize("reach", [1.0, 1e4])
def test_positions_lie_between_the_bounds_and_levels_are_probabilities(reach: float) -> None:
    columns: list[Column] = [
        Number(lower=0, upper=1, spikes=(0, 9), missing=True),
        Category(levels=("a", "b"), other="c"),
        Boolean(),
    ]
    drafts = TableNet([column_codec(column) for column in columns], 4)(torch.randn(50, 4) * reach)
    assert [(draft.positions.shape[1], draft.levels.shape[1]) for draft in drafts] == [(1, 4), (0, 3), (0, 2)]
    for draft in drafts:
        assert ((draft.positions >= 0) & (draft.positions <= 1)).all()
        assert (draft.levels >= 0).all()
        assert torch.allclose(draft.levels.sum(dim=1), torch.ones(50))


def test_a_table_learns_to_reach_every_corner() -> None:
    """Positions near both bounds and levels near certainty, when asked to: nothing on the way is clamped short."""
    net = TableNet([column_codec(Number(lower=0, upper=1)), column_codec(Boolean())], 2)
    last = net.layers[-1]
    assert isinstance(last, nn.Linear)
    for sign in (-1, 1):
        nn.init.constant_(last.weight, 0.0)
        with torch.no_grad():
            last.bias.copy_(torch.tensor([9.0, 0.0, 9.0, -9.0]) * sign)
        number, boolean = net(torch.randn(4, 2))
        assert torch.allclose(number.positions, torch.full((4, 1), (1 + sign) / 2), atol=1e-6)
        assert torch.allclose(boolean.levels, torch.tensor([(1 + sign) / 2, (1 - sign) / 2]).repeat(4, 1), atol=1e-6)


# Rows on the axes of the frequencies


def returning_codes(column: ColumnCodec, size: int, rng: np.random.Generator) -> Codes:
    """Codes with levels that a synthetic row may have."""
    levels = rng.choice(column.returns, size)
    if column.one_hot:
        return levels
    if isinstance(column, ImageCodec):
        return np.column_stack([rng.integers(0, 256, (size, column.coordinates)), levels]).astype(np.uint8)
    assert isinstance(column, (NumberCodec, DatetimeCodec))
    return np.where(levels == 0, rng.integers(0, column.points, size), column.points - 1 + levels)


def sure_draft(column: ColumnCodec, codes: Codes, rng: np.random.Generator) -> Draft:
    """What a generator that is sure of these codes gives; where a value is no plain one, its position means nothing."""
    levels = column.level(codes)
    positions = column.coordinate(codes) / max(column.top, 1)
    positions[levels > 0] = rng.random((int((levels > 0).sum()), positions.shape[1]))
    lit = levels[:, None] == np.array(column.returns)
    return Draft(torch.from_numpy(positions), torch.from_numpy(lit.astype(np.float64)))


class HandMade(Generator):
    """A generator whose drafts are given."""

    def __init__(self, codec: Codec, made: dict[str, Draft]) -> None:
        super().__init__(codec, 1)
        self.made = made

    def drafts(self, latent: Tensor, classes: Tensor) -> dict[str, Draft]:
        return {name: self.made[name] for name in self.features}


def vectors_of(codec: Codec, made: dict[str, Draft]) -> Tensor:
    found: Tensor = HandMade(codec, made)(torch.zeros(0), torch.zeros(0))
    return found


def vectors(codec: Codec, rows: Rows) -> NDArray[np.float64]:
    """Rows as real vectors: coordinates in [0, 1], then a one-hot of the levels that may come back, no plain ones."""
    parts = [rows.coordinates / np.maximum(codec.tops, 1)]
    for place, column in enumerate(codec.features.values()):
        lit = np.eye(column.levels)[rows.levels[:, place]]
        parts.append(lit[:, [level for level in column.returns if column.one_hot or level > 0]])
    return np.concatenate(parts, axis=1)


@settings(max_examples=60, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=5), st.integers(0, 2**32))
def test_a_sure_draft_is_the_row_of_its_codes_for_any_schema(columns: list[Column], seed: int) -> None:
    """As a vector, and as the private side's integers see it at the real frequencies: count and order of all axes."""
    codec, rng = codec_of(*columns), np.random.default_rng(seed)
    codes = {name: returning_codes(column, 9, rng) for name, column in codec.columns.items()}
    rows = codec.rows(codes)
    made = vectors_of(codec, {name: sure_draft(column, codes[name], rng) for name, column in codec.columns.items()})
    assert np.allclose(made.numpy(), vectors(codec, rows), rtol=0, atol=1e-12)
    block = draw_characteristic(codec, 6, 1.0, seed % 100, 1.0)
    phases = made.numpy() @ real_frequencies(block, codec)
    found = np.stack([np.cos(phases), np.sin(phases)], axis=-1).mean(axis=0)
    assert np.abs(block.sum(rows)[0] / UNIT / 9 - found).max() < 3e-4


def test_an_unsure_draft_is_the_mean_of_the_rows_it_may_become() -> None:
    """Chances stand where a row has a one-hot; a position counts as far as the plain level is likely."""
    codec = codec_of(Number(lower=0, upper=1, spikes=(5, 7), missing=True), Category(levels=("a", "b"), missing=True))
    number, category = torch.tensor([[0.5, 0.2, 0.0, 0.3]]), torch.tensor([[0.1, 0.6, 0.3]])
    position = torch.tensor([[0.8]])
    made = vectors_of(codec, {"c0": Draft(position, number), "c1": Draft(torch.empty(1, 0), category)})
    mean = torch.zeros_like(made)
    for one, chance in zip(torch.eye(4), number[0], strict=True):
        for other, likely in zip(torch.eye(3), category[0], strict=True):
            row = {"c0": Draft(position, one[None]), "c1": Draft(torch.empty(1, 0), other[None])}
            mean += chance * likely * vectors_of(codec, row)
    assert torch.allclose(made, mean)
    assert torch.allclose(made, torch.tensor([[0.4, 0.2, 0.0, 0.3, 0.1, 0.6, 0.3]]))


SCHEMAS: dict[str, tuple[Codec, int]] = {
    "numbers and levels": (codec_of(Number(lower=0, upper=1, missing=True), Category(levels=("a", "b"))), 1),
    "levels alone": (codec_of(Boolean(), Category(levels=("a", "b"), missing=True)), 1),
    "a picture alone": (codec_of(Image(height=5, width=3)), 1),
    "two pictures among others, and classes": (
        codec_of(Boolean(), Image(height=2, width=3), Boolean(), Number(lower=0, upper=1), Image(height=4, width=1), label="c2"),
        2,
    ),
    "a number as label": (codec_of(Boolean(), Number(lower=0, upper=1), label="c1"), 1),
    "moments and classes": (
        codec_of(Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1)), Category(levels=(1, 2, 3)), label="c1"),
        3,
    ),
}


@pytest.mark.parametrize(("codec", "classes"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_networks_fill_every_axis_and_learn_from_all_of_them(codec: Codec, classes: int) -> None:
    generator = Generator(codec, classes)
    assert generator.latent == (5 if any(isinstance(column, ImageCodec) for column in codec.features.values()) else 10)
    latent, owner = torch.randn(12, generator.latent), torch.arange(12) % classes
    drafts = generator.drafts(latent, owner)
    assert list(drafts) == list(codec.features)
    for name, column in codec.features.items():
        assert drafts[name].positions.shape == (12, column.coordinates)
        assert drafts[name].levels.shape == (12, len(column.returns))
    rows = generator(latent, owner)
    frequencies = real_frequencies(draw_characteristic(codec, 3, 1.0, 0, 1.0), codec)
    assert rows.shape == (12, len(frequencies))
    assert (rows.std(dim=0) > 0).all(), "no axis is constant"
    (rows * torch.randn_like(rows)).sum().backward()
    assert all(own.grad is not None and torch.isfinite(own.grad).all() for own in generator.parameters())


def test_each_class_has_rows_of_its_own_and_each_latent_vector_too() -> None:
    generator = Generator(SCHEMAS["two pictures among others, and classes"][0], 2).eval()
    latent = torch.randn(1, 5)
    here, there = (generator(latent, torch.tensor([place])) for place in (0, 1))
    assert ((here - there).abs() > 1e-7).float().mean() > 0.9
    assert ((here - generator(latent + 1, torch.tensor([0]))).abs() > 1e-7).float().mean() > 0.9
    assert torch.equal(here, generator(latent, torch.tensor([0])))


# The way back


@settings(max_examples=150, deadline=None)
@given(COLUMNS, st.integers(0, 2**32))
@example(Number(lower=1, upper=1e4, step=1, log=True, spikes=(0,)), 0)
@example(Number(lower=1, upper=1e9, step=1, log=True, missing=True), 0)
@example(Number(lower=0.5, upper=3, step=0.7, log=True), 0)
@example(Number(lower=1, upper=1e6, log=True, spikes=(0, 5)), 0)
@example(Number(lower=0, upper=65536, step=1), 0)
@example(Number(lower=0, upper=1e9, step=0.001), 0)
@example(Datetime(lower=datetime(2000, 1, 1), upper=datetime(2030, 1, 1), step="1us"), 0)
def test_a_position_and_a_level_give_back_the_code_that_they_came_from(column: Column, seed: int) -> None:
    """Each code on a grid of up to 2^16 points; on finer ones, a code that embeddings cannot tell from it."""
    codec, rng = column_codec(column), np.random.default_rng(seed)
    if isinstance(codec, DatetimeCodec):
        assume(codec.points <= 2**53)  # beyond 285 years of microseconds a float64 cannot name every code
    codes = every_code(codec, rng)
    again = codec.code(codec.coordinate(codes) / max(codec.top, 1), codec.level(codes))
    assert again.shape == codes.shape
    assert np.array_equal(codec.level(again), codec.level(codes))
    if isinstance(codec, NumberCodec) and codec.column.log and codec.column.step is not None:
        assert (log_distance(codec, again, codes) <= log_distance(codec, codes, codes) + 0.1 + 1e-6).all()
    elif isinstance(codec, (NumberCodec, DatetimeCodec)) and codec.points > TOP + 1:
        assert np.array_equal(codec.coordinate(again), codec.coordinate(codes))
    else:
        assert np.array_equal(again, codes)


def every_code(codec: ColumnCodec, rng: np.random.Generator) -> Codes:
    """All codes where they are few, else both ends and some between, with every level."""
    if codec.one_hot:
        return np.arange(codec.levels)
    if isinstance(codec, ImageCodec):
        readable = np.column_stack([rng.integers(0, 256, (4, codec.coordinates)), np.zeros(4)])
        return np.concatenate([readable, np.eye(1, codec.coordinates + 1, codec.coordinates)]).astype(np.uint8)
    assert isinstance(codec, (NumberCodec, DatetimeCodec))
    inner = np.arange(codec.points) if codec.points <= 2000 else rng.integers(0, codec.points, 500)
    return np.concatenate([[0], inner, np.arange(codec.points - 1, codec.points + codec.levels - 1)])


def log_distance(codec: NumberCodec, found: Codes, codes: Codes) -> NDArray[Any]:
    """How far found values are from where these codes lie on the log grid, in cells of it; the grid is rounded to a tenth."""
    column, plain = codec.column, codec.level(codes) == 0
    assert column.step is not None
    ratio = column.upper / column.lower
    points = column.lower * ratio ** (codec.coordinate(codes[plain])[:, 0] / TOP)
    values = column.lower + found[plain] * column.step
    return np.asarray(np.abs(values - points) / (points * np.log(ratio) / TOP + 1e-9 * column.upper))


@pytest.mark.parametrize(
    "column", [Number(lower=-5, upper=5, step=0.5), Datetime(lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 9), step="1h")]
)
def test_a_position_between_two_points_goes_to_the_nearer_one(column: Number | Datetime) -> None:
    codec, last = column_codec(column), column.points - 1
    codes = np.arange(1, last)
    for aside in (-0.45, 0.45):
        assert np.array_equal(codec.code((codes[:, None] + aside) / last, np.zeros_like(codes)), codes)


def test_a_pixel_between_two_shades_goes_to_the_nearer_one() -> None:
    codec, shades = ImageCodec(Image(height=2, width=127)), np.arange(1, 255)
    for aside in (-0.45, 0.45):
        assert codec.code((shades[None] + aside) / 255, np.zeros(1, np.int64))[0].tolist() == [*shades, 0]


@pytest.mark.parametrize("step", [None, 1.0])
def test_positions_of_a_logarithmic_number_lie_evenly_over_its_logarithm(step: float | None) -> None:
    codec = NumberCodec(Number(lower=1, upper=10000, log=True, step=step))
    codes = codec.code(np.array([[0.0], [0.25], [0.5], [0.75], [1.0]]), np.zeros(5, np.int64))
    assert codec.decode(codes).to_pylist() == pytest.approx([1, 10, 100, 1000, 10000], rel=1e-3)
