"""The characteristic function distance: what a release says, what a batch says, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from dpearl.codec import Codec, Rows
from dpearl.design import RECIPES, Design, embedding_design
from dpearl.distance import (
    Batch,
    Target,
    noise_floor,
    proportions,
    real_frequencies,
    squared_distances,
    target_of,
)
from dpearl.embed import embed
from dpearl.embeddings.characteristic import UNIT, Characteristic
from dpearl.embeddings.count import UNIT as ONE_ROW
from dpearl.errors import FileError
from dpearl.privacy import Budget, Relation, Unit
from dpearl.read import open_sources
from dpearl.release import Measurement, Release
from dpearl.sanitize import sanitize
from dpearl.schema import Boolean, Category, Datetime, Image, Number, Schema

EVERY_KIND = Schema(
    label="class",
    columns={
        "stepped": Number(lower=0, upper=10, step=0.5, spikes=(0, 99), missing=True),
        "continuous": Number(lower=-1, upper=1),
        "picture": Image(height=3, width=2, channels=3),
        "kind": Category(levels=("a", "b", "c"), other="rest"),
        "log": Number(lower=1, upper=1e6, log=True, missing=True),
        "whole log": Number(lower=1, upper=1e4, step=1, log=True, spikes=(0,)),
        "class": Category(levels=("u", "v", "w")),
        "when": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2024, 1, 1), step="1min", missing=True),
        "flag": Boolean(missing=True),
        "switch": Boolean(),
    },
)
GRID = 2 * math.pi * (2**-15 + 2**-17) + 2**-15
"""Most that a phase on the lattice and a truncated cosine can be wrong for one row."""


pytestmark = pytest.mark.usefixtures("one_thread")


def every_kind(size: int, seed: int) -> pa.Table:
    """Rows that use each level which may come back, and classes which may not."""
    rng = np.random.default_rng(seed)

    def some(*cells: Any, p: list[float] | None = None) -> Any:
        return rng.choice(np.array(cells, object), size, p=p)

    minutes = rng.integers(0, 4 * 365 * 1440, size)
    cells: dict[str, Any] = {
        "stepped": some(0.0, 99.0, None, *np.arange(0.5, 10, 0.5)),
        "continuous": rng.uniform(-1, 1, size),
        "kind": some("a", "b", "c", "something else"),
        "log": some(None, *np.exp(rng.uniform(0, 13, 50))),
        "whole log": some(0, 1, 2, 3, 77, 5000, 9999),
        "class": some("u", "v", "w", "undeclared", None, p=[0.5, 0.2, 0.1, 0.1, 0.1]),
        "when": [None if minute % 5 == 0 else datetime(2020, 1, 1) + timedelta(minutes=int(minute)) for minute in minutes],
        "flag": some(True, False, None),
        "switch": some(True, False),
    }
    pictures = pa.FixedShapeTensorArray.from_numpy_ndarray(rng.integers(0, 256, (size, 3, 2, 3), dtype=np.uint8))
    return pa.table({**{name: pa.array(column) for name, column in cells.items()}, "picture": pictures})


def vectors(codec: Codec, rows: Rows) -> Tensor:
    """Rows as real vectors: coordinates in [0, 1], then a one-hot of the levels that may come back, no plain ones."""
    parts = [rows.coordinates / codec.tops]
    for place, column in enumerate(codec.features.values()):
        lit = np.eye(column.levels)[rows.levels[:, place]]
        parts.append(lit[:, [level for level in column.returns if column.one_hot or level > 0]])
    return torch.from_numpy(np.concatenate(parts, axis=1))


def plan(schema: Schema, frequencies: int, scale: float = 1.0, recipe: str = "paper") -> Design:
    return embedding_design(schema, replace(RECIPES[recipe], frequencies=frequencies), scale, seed=5)


def frequencies_of(design: Design) -> Characteristic:
    block = design.block("characteristic")
    assert isinstance(block, Characteristic)
    return block


def release_of(measured: Measurement, rows: int | None = None) -> Release:
    """A release of these sums; the number of rows is public under replace-one alone."""
    relation = Relation.ADD_REMOVE if rows is None else Relation.REPLACE_ONE
    return Release({"embedding": measured}, Budget(1.0, 1e-5), Unit(relation), "auto", "", rows, {}, "")


def hand_made(design: Design, sums: Mapping[str, Any], sigma: int = 1) -> Measurement:
    arrays = {family: np.asarray(own, np.int64) for family, own in sums.items()}
    return Measurement(design, arrays, dict.fromkeys(arrays, sigma))


def batch_like(sizes: tuple[int, ...], weights: Tensor) -> Batch:
    return Batch(sizes, torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)), weights)


def target_like(values: Tensor, frequencies: Tensor, noise: float = 0.0, shares: Tensor | None = None) -> Target:
    classes = tuple(range(len(values)))
    return Target(frequencies, values, noise, 1.0, classes, torch.ones(len(values)) / len(values) if shares is None else shares)


# What the private integers stand for


@pytest.mark.parametrize("recipe", RECIPES)
def test_private_integers_are_the_characteristic_functions_of_the_decoded_rows(recipe: str) -> None:
    """For every kind of column and each class, no further off than the lattice is coarse."""
    design, cells = plan(EVERY_KIND, 300, 2.0, recipe), every_kind(1500, seed=1)
    codec, block = design.codec, frequencies_of(design)
    sums = embed(open_sources(cells), design).sums["characteristic"]
    rows = codec.rows(codec.encode(codec.decode(codec.encode(cells))))
    for place, column in enumerate(codec.features.values()):
        assert set(rows.levels[:, place].tolist()) == set(column.returns), "every level that may come back is among the rows"
    order = np.argsort(rows.label, kind="stable")[: int((rows.label < 3).sum())]
    sizes = tuple(np.bincount(rows.label)[:3].tolist())
    batch = batch_like(sizes, torch.full((3,), 1 / len(rows), dtype=torch.float64))
    frequencies = torch.from_numpy(real_frequencies(block, codec))
    found = batch.characteristic(vectors(codec, rows)[torch.from_numpy(order)], frequencies)
    off = (torch.from_numpy(sums[:3] / UNIT / len(rows)) - found).abs()
    shares = torch.tensor(sizes) / len(rows)
    assert (off.amax(dim=(1, 2)) <= GRID * shares).all()
    assert off.square().mean().sqrt() < 2e-5, "errors of single rows are independent and mostly average out"
    assert found.abs().amax(dim=(1, 2)).min() > 0.01, "there was something to be wrong about"


def test_frequencies_have_one_row_for_each_axis_that_a_row_can_move_along() -> None:
    design = plan(EVERY_KIND, 7)
    levels = {"stepped": 3, "kind": 4, "log": 1, "whole log": 1, "when": 1, "flag": 3, "switch": 2}
    assert real_frequencies(frequencies_of(design), design.codec).shape == (5 + 18 + sum(levels.values()), 7)


def test_frequencies_in_radians_have_the_stated_scale_on_every_axis() -> None:
    design = plan(EVERY_KIND, 4000, scale=0.25)
    spread = real_frequencies(frequencies_of(design), design.codec).std(axis=1)
    assert np.abs(spread * 0.25 - 1).max() < 0.08


# What a release says


@pytest.mark.parametrize("relation", Relation)
def test_values_differ_from_exact_averages_by_the_stated_noise(relation: Relation) -> None:
    design, cells = plan(EVERY_KIND, 1000), every_kind(1500, seed=2)
    exact = embed(open_sources(cells), design)
    measured = sanitize(exact, 3.0, Unit(relation))
    target = target_of(release_of(measured, None if relation is Relation.ADD_REMOVE else exact.rows))
    truth = exact.sums["characteristic"][:3] / (UNIT * exact.sums["count"][:3].sum() / ONE_ROW)
    off = target.values.double().numpy() - truth
    assert target.values.shape == (3, 1000, 2)
    assert off.std() == pytest.approx(target.noise, rel=0.06)
    assert abs(off.mean()) < 6 * target.noise / math.sqrt(off.size) + 1e-3
    assert target.noise > 0.005, "noise is what is seen here"


LABELLED = Schema(label="y", columns={"x": Number(lower=0, upper=1), "y": Category(levels=("u", "v", "w"))})
COUNTS = {"count": np.array([5, -3, 15, 2, 1]) * ONE_ROW, "characteristic": np.arange(5 * 4 * 2).reshape(5, 4, 2) * 1000}


@pytest.mark.parametrize("rows", [None, 40])
def test_sums_are_averaged_over_the_rows_whose_label_may_come_back(rows: int | None) -> None:
    """The public number of rows, where there is one, else the noisy count; 3 rows have no declared label."""
    design = plan(LABELLED, 4, scale=0.7)
    target = target_of(release_of(hand_made(design, COUNTS, sigma=321), rows))
    divisor = UNIT * (17 if rows is None else 37)
    assert torch.allclose(target.values, torch.from_numpy(COUNTS["characteristic"][:3] / divisor).float())
    assert target.noise == pytest.approx(321 / divisor, rel=1e-12)
    assert (target.scale, target.size, target.classes) == (0.7, 4, (0, 1, 2))
    assert np.allclose(target.frequencies.numpy(), real_frequencies(frequencies_of(design), design.codec), rtol=1e-6)


def test_shares_leave_out_undeclared_classes_and_negative_counts() -> None:
    release = release_of(hand_made(plan(LABELLED, 4), COUNTS))
    assert proportions(release).tolist() == [0.25, 0, 0.75, 0, 0]
    assert target_of(release).proportions.tolist() == [0.25, 0, 0.75]


def test_shares_are_even_where_no_class_shows_any_rows() -> None:
    counts = COUNTS | {"count": np.array([-5, 0, -1, 30, 1]) * ONE_ROW}
    assert proportions(release_of(hand_made(plan(LABELLED, 4), counts))).tolist() == pytest.approx([1 / 3] * 3 + [0, 0])


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        (Category(levels=("u", "v")), (0, 1)),
        (Category(levels=("u", "v"), other="w"), (0, 1, 2)),
        (Category(levels=("u", "v"), missing=True), (0, 1, 3)),
        (Boolean(), (0, 1)),
        (Boolean(missing=True), (0, 1, 2)),
        (Number(lower=0, upper=1), (0,)),
    ],
)
def test_classes_are_those_that_rows_may_come_back_with(label: Category | Boolean | Number, classes: tuple[int, ...]) -> None:
    codec = Codec(Schema(label="y", columns={"x": Number(lower=0, upper=1), "y": label}))
    assert codec.labels == classes
    assert Codec(Schema(columns={"x": Number(lower=0, upper=1), "y": label})).labels == (0,)


def test_sums_and_shares_of_a_class_stay_together_where_one_between_is_undeclared() -> None:
    """Two levels and missing are declared; between them lies the code of undeclared cells, which never come back."""
    label = Category(levels=("u", "v"), missing=True)
    design = plan(Schema(label="y", columns={"x": Number(lower=0, upper=1), "y": label}), 1)
    sums = {"count": np.array([4, 2, 2, 2]) * ONE_ROW, "characteristic": np.array([4, 3, 2, 1]).repeat(2).reshape(4, 1, 2) * UNIT}
    target = target_of(release_of(hand_made(design, sums)))
    assert target.classes == (0, 1, 3)
    assert target.proportions.tolist() == [0.5, 0.25, 0.25]
    assert target.values[:, 0, 0].tolist() == pytest.approx([0.5, 0.375, 0.125])


def test_undeclared_labels_that_noise_could_have_made_are_not_taken_from_the_rows() -> None:
    counts = COUNTS | {"count": np.array([500, 300, 200, 2, 1]) * ONE_ROW}
    faint = hand_made(plan(LABELLED, 4), counts, sigma=ONE_ROW)
    assert torch.allclose(
        target_of(release_of(faint)).values * UNIT * 1003, torch.from_numpy(COUNTS["characteristic"][:3]).float()
    )


def test_a_release_without_label_has_one_class_with_all_rows() -> None:
    schema = Schema(columns={"x": Number(lower=0, upper=1)})
    sums = {"count": [8 * ONE_ROW], "characteristic": np.full((1, 3, 2), 4 * UNIT)}
    target = target_of(release_of(hand_made(plan(schema, 3), sums)))
    assert (target.classes, target.proportions.tolist()) == ((0,), [1.0])
    assert (target.values == 0.5).all()


@pytest.mark.parametrize(("counts", "rows"), [([-5, 3, 2, 0, 0], None), ([0, 0, 0, 0, 0], 0)])
def test_a_release_without_visible_rows_is_refused(counts: list[int], rows: int | None) -> None:
    sums = COUNTS | {"count": np.array(counts) * ONE_ROW}
    with pytest.raises(FileError, match="no rows"):
        target_of(release_of(hand_made(plan(LABELLED, 4), sums), rows))


# What a batch says


@settings(max_examples=100, deadline=None)
@given(st.lists(st.just(0.0) | st.floats(1e-6, 1), min_size=1, max_size=12).filter(any), st.integers(1, 2000))
def test_batches_hold_every_class_in_proportion(parts: list[float], size: int) -> None:
    shares = torch.tensor(parts, dtype=torch.float64) / sum(parts)
    batch = Batch.of(shares, size)
    sizes, exist = torch.tensor(batch.sizes), shares > 0
    assert ((sizes > 0) == exist).all()
    assert max(size, int(exist.sum())) <= int(sizes.sum()) < size + int(exist.sum())
    assert ((sizes - shares * size).abs() < 2).all()
    assert torch.allclose(batch.weights.double() * sizes, shares, atol=1e-6)
    assert torch.bincount(batch.owner, minlength=len(parts)).tolist() == list(batch.sizes)
    assert batch.owner.tolist() == sorted(batch.owner.tolist()), "rows of a class lie together"


@pytest.mark.parametrize(
    ("shares", "size", "sizes"),
    [
        ([0.25, 0.75], 100, (25, 75)),
        ([0.28, 0.36, 0.36], 10, (3, 4, 3)),
        ([0.48, 0.26, 0.26], 10, (5, 3, 2)),
        ([0.001, 0, 0.999], 100, (1, 0, 99)),
        ([1.0], 7, (7,)),
        ([0.2] * 5, 2, (1,) * 5),
    ],
)
def test_batches_known_by_hand(shares: list[float], size: int, sizes: tuple[int, ...]) -> None:
    assert Batch.of(torch.tensor(shares, dtype=torch.float64), size).sizes == sizes


def plain_characteristic(batch: Batch, rows: Tensor, frequencies: Tensor) -> Tensor:
    """The definition: for each class, its weight times Σ e^{it·x} over its rows."""
    turned = torch.exp(1j * (rows @ frequencies))
    own = [weight * turned[batch.owner == place].sum(dim=0) for place, weight in enumerate(batch.weights)]
    return torch.view_as_real(torch.stack(own))


BATCHES = {
    "one class": Batch.of(torch.ones(1, dtype=torch.float64), 4),
    "three classes": Batch.of(torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64), 7),
    "a class without rows": Batch.of(torch.tensor([0.5, 0.0, 0.25, 0.25], dtype=torch.float64), 6),
}


def doubles(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
def test_a_batch_has_the_characteristic_functions_of_its_rows(batch: Batch) -> None:
    rows, frequencies = doubles(len(batch.owner), 3, seed=1), doubles(3, 5, seed=2)
    expected = plain_characteristic(batch, rows, frequencies)
    assert torch.allclose(batch.characteristic(rows, frequencies), expected)
    assert expected.shape == (len(batch.sizes), 5, 2)


class Again(torch.autograd.Function):
    """A batch's characteristic function, computed anew for every backward pass: gradcheck asks for several."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, frequencies: Tensor, batch: Batch) -> Tensor:
        ctx.saved = rows, frequencies, batch
        return batch.characteristic(rows, frequencies)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        rows, frequencies, batch = ctx.saved
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            made = batch.characteristic(rows, frequencies)
        return torch.autograd.grad(made, rows, gradients)[0], None, None


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
def test_gradients_of_the_characteristic_function_are_those_of_finite_differences(batch: Batch) -> None:
    rows, frequencies = doubles(len(batch.owner), 3, seed=3).requires_grad_(), doubles(3, 5, seed=4)
    assert torch.autograd.gradcheck(lambda own: Again.apply(own, frequencies, batch), rows)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
def test_gradients_of_the_weighted_distance_are_those_of_finite_differences(batch: Batch) -> None:
    """Down to the parameters of a small generator, through every step that training takes."""
    inputs, frequencies = doubles(len(batch.owner), 2, seed=5), doubles(3, 5, seed=6)
    target = target_like(doubles(len(batch.sizes), 5, 2, seed=7), frequencies)
    weights = torch.softmax(doubles(5, seed=8), dim=0)

    def loss(slopes: Tensor) -> Tensor:
        rows = torch.sigmoid(inputs @ slopes)
        return weights @ squared_distances(target, batch.characteristic(rows, frequencies))

    slopes = doubles(2, 3, seed=9).requires_grad_()
    (found,) = torch.autograd.grad(loss(slopes), slopes)
    with torch.no_grad():
        steps = torch.eye(6, dtype=torch.float64).reshape(6, 2, 3) * 1e-5
        expected = torch.stack([(loss(slopes + step) - loss(slopes - step)) / 2e-5 for step in steps])
    assert torch.allclose(found.flatten(), expected, rtol=1e-6, atol=1e-9)


# How far apart they are


def test_squared_distances_add_up_classes_cosines_and_sines() -> None:
    values = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[3.0, 4.0], [1.0, 0.0]]])
    target = target_like(values, torch.zeros(1, 2))
    assert squared_distances(target, torch.zeros(2, 2, 2)).tolist() == [1 + 4 + 9 + 16, 1]
    assert squared_distances(target, values).tolist() == [0, 0]


def gaussian_target(frequencies: Tensor, mean: float = 0.0) -> Target:
    """The exact characteristic function of N(mean, 1) in every dimension."""
    damped, turned = torch.exp(-frequencies.square().sum(dim=0) / 2), mean * frequencies.sum(dim=0)
    return target_like(torch.stack([damped * turned.cos(), damped * turned.sin()], dim=1)[None], frequencies)


def distance(target: Target, rows: Tensor) -> float:
    batch = Batch.of(torch.ones(1, dtype=torch.float64), len(rows))
    return float(squared_distances(target, batch.characteristic(rows, target.frequencies)).mean())


def test_the_distance_of_equal_rows_is_zero_whatever_their_order() -> None:
    rows, frequencies = doubles(500, 3, seed=1), doubles(3, 200, seed=2)
    batch = Batch.of(torch.ones(1, dtype=torch.float64), 500)
    target = target_like(batch.characteristic(rows, frequencies), frequencies)
    assert distance(target, rows.flip(0)) < 1e-20


def test_the_distance_of_equal_distributions_vanishes_as_the_sample_grows() -> None:
    target = gaussian_target(doubles(2, 100, seed=3))
    sizes = 30, 300, 3000
    found = [np.mean([distance(target, doubles(size, 2, seed=seed)) for seed in range(30)]) for size in sizes]
    chance = float(1 - target.values.square().sum(dim=2).mean())
    assert found == pytest.approx([chance / size for size in sizes], rel=0.3)


def test_the_distance_falls_as_distributions_approach_and_tells_them_apart() -> None:
    target, rows = gaussian_target(doubles(2, 100, seed=4)), doubles(8000, 2, seed=5)
    shifted = [distance(target, rows + shift) for shift in (2.0, 1.0, 0.5, 0.25, 0.1, 0.0)]
    spread = [distance(target, rows * factor) for factor in (3.0, 2.0, 1.5, 1.25, 1.0)]
    assert shifted == sorted(shifted, reverse=True)
    assert spread == sorted(spread, reverse=True)
    assert shifted[-2] > 10 * shifted[-1]
    exact = [float(squared_distances(target, gaussian_target(target.frequencies, mean).values).mean()) for mean in (2.0, 1.0)]
    assert shifted[:2] == pytest.approx(exact, rel=0.05)


def test_swapped_classes_are_far_apart_though_all_rows_together_are_equal() -> None:
    frequencies, (near, far) = doubles(2, 100, seed=6), (doubles(400, 2, seed=7), 3 + doubles(400, 2, seed=8))
    batch = Batch.of(torch.full((2,), 0.5, dtype=torch.float64), 800)
    values = batch.characteristic(torch.cat([near, far]), frequencies)
    swapped = batch.characteristic(torch.cat([far, near]), frequencies)
    assert torch.allclose(values.sum(dim=0), swapped.sum(dim=0))
    assert squared_distances(target_like(values, frequencies), swapped).mean() > 0.05


# What chance alone adds


def population(sizes: tuple[int, ...]) -> list[Tensor]:
    """Rows of a few classes, some spread wide and some narrow, so that |Φ| ranges from near 0 to near 1."""
    rows = [place + (0.2 + place) * doubles(size, 2, seed=place) for place, size in enumerate(sizes)]
    return [own.float() for own in rows]


def exact_target(classes: list[Tensor], shares: Tensor, frequencies: Tensor) -> Target:
    phases = [own @ frequencies for own in classes]
    means = [torch.stack([own.cos().mean(dim=0), own.sin().mean(dim=0)], dim=1) for own in phases]
    return target_like(torch.stack(means) * shares[:, None, None].float(), frequencies, 0.0, shares)


SHARES = torch.tensor([0.6, 0.0, 0.3, 0.1], dtype=torch.float64)


@pytest.mark.parametrize("size", [7, 40])
def test_sampling_noise_is_the_distance_that_true_rows_have(size: int) -> None:
    classes, frequencies = population((300, 1, 300, 300)), doubles(2, 60, seed=9).float()
    target, batch = exact_target(classes, SHARES, frequencies), Batch.of(SHARES, size)
    rng, found = np.random.default_rng(size), []
    for _ in range(500):
        drawn = [own[torch.from_numpy(rng.integers(0, len(own), b))] for own, b in zip(classes, batch.sizes, strict=True)]
        found.append(float(squared_distances(target, batch.characteristic(torch.cat(drawn), frequencies)).mean()))
    assert batch.sampling_noise(target) == pytest.approx(np.mean(found), abs=4 * float(np.std(found)) / math.sqrt(500))


def noisy(target: Target, noise: float, seed: int) -> Target:
    return replace(target, values=target.values + noise * doubles(*target.values.shape, seed=seed).float(), noise=noise)


def test_sampling_noise_is_not_fooled_by_the_noise_of_the_release() -> None:
    """|Φ|² of the noisy values is too large by 2σ²; here that is a large part of what there is to see."""
    shares, turns = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.linspace(0, 6, 3000)
    rows = [doubles(300, 2, seed=place).float() for place in (0, 1)]
    target, batch = exact_target(rows, shares, torch.stack([turns.cos(), turns.sin()])), Batch.of(shares, 20)
    released = [noisy(target, 0.06, seed) for seed in range(4)]
    truth = batch.sampling_noise(target)
    assert np.mean([batch.sampling_noise(own) for own in released]) == pytest.approx(truth, rel=0.01)
    assert np.mean([batch.sampling_noise(replace(own, noise=0.0)) for own in released]) < 0.97 * truth


@pytest.mark.parametrize("count", [1, 3])
def test_the_noise_floor_is_the_distance_that_the_noise_of_a_release_makes(count: int) -> None:
    clean = target_like(torch.zeros(count, 20000, 2), torch.zeros(1, 20000))
    released = noisy(clean, 0.01, seed=11)
    found = squared_distances(released, clean.values)
    assert noise_floor(released) == pytest.approx(float(found.mean()), rel=0.05)


def test_the_whole_way_true_rows_are_as_far_from_their_release_as_noise_and_chance_say() -> None:
    """Real noise from the door, real sums, a batch of the very rows that were released."""
    design, cells = plan(EVERY_KIND, 1000), every_kind(3000, seed=12)
    cells = cells.filter(pa.array([cell in ("u", "v", "w") for cell in cells["class"].to_pylist()]))
    exact = embed(open_sources(cells), design)
    target = target_of(release_of(sanitize(exact, 3.0, Unit(Relation.REPLACE_ONE)), exact.rows))
    rows = design.codec.rows(design.codec.encode(cells))
    every = vectors(design.codec, rows).float()
    batch, rng = Batch.of(target.proportions, 300), np.random.default_rng(0)
    found = []
    for _ in range(30):
        places = [rng.choice(np.flatnonzero(rows.label == label), size) for label, size in enumerate(batch.sizes)]
        drawn: NDArray[np.int64] = np.concatenate(places)
        characteristic = batch.characteristic(every[torch.from_numpy(drawn)], target.frequencies)
        found.append(float(squared_distances(target, characteristic).mean()))
    assert np.mean(found) == pytest.approx(noise_floor(target) + batch.sampling_noise(target), rel=0.1)
