"""Synthetic pictures against real ones: distances by hand, labels, nets that learn."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from sklearn.datasets import load_digits

from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.errors import DataError, FileError
from dpearl.imagery import (
    LATE,
    Accuracy,
    LeNet,
    PictureJudge,
    Pictures,
    cached_lenet,
    cnn_accuracy,
    frechet_distance,
    image_scores,
    judge_pictures,
    kernel_distance,
    label_agreement,
    steps,
    train_lenet,
)
from dpearl.schema import Boolean, Category, Image, Number, Schema


@cache
def digits() -> Pictures:
    """1,797 digits of 8×8, in 0..240."""
    found = load_digits()
    return Pictures((found.images * 15).astype(np.uint8), found.target.astype(np.int64))


def part(start: int, stop: int) -> Pictures:
    return digits().take(np.arange(start, stop))


@cache
def learnt() -> LeNet:
    return train_lenet(part(0, 900))


def bars(count: int, seed: int = 0) -> Pictures:
    """Two classes that anybody can tell: a bright upper half, a bright lower half, with noise."""
    chance = np.random.default_rng(seed)
    pixels, labels = chance.integers(0, 60, (count, 8, 8)), chance.integers(0, 2, count)
    pixels[labels == 0, :4] += 180
    pixels[labels == 1, 4:] += 180
    return Pictures(pixels.astype(np.uint8), labels)


def normal(count: int, size: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(count, size))


# Distances


def test_identical_features_are_no_distance_apart() -> None:
    features = normal(400, 10, 0)
    assert frechet_distance(features, features) == pytest.approx(0, abs=1e-6)
    assert abs(kernel_distance(features, features)) < 0.05
    halves = kernel_distance(features[:200], features[200:])
    assert abs(halves) < 0.1, "unbiased: it may be below zero"


def test_a_shift_costs_the_square_of_its_length() -> None:
    features, shift = normal(300, 6, 1), np.array([3.0, 0, 4, 0, 0, 0])
    assert frechet_distance(features, features + shift) == pytest.approx(25)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(-2, 2)), min_size=2, max_size=5))
@settings(max_examples=25, deadline=None)
def test_the_frechet_distance_of_independent_axes_is_a_sum_over_axes(axes: list[tuple[float, float, float]]) -> None:
    """Σ (μ_r - μ_s)² + (σ_r - σ_s)², also where an axis has no spread at all."""
    ours, theirs, shift = (np.array(values) for values in zip(*axes, strict=True))
    white = normal(200, len(axes), 2)
    white -= white.mean(axis=0)
    white = white @ np.linalg.inv(np.linalg.cholesky(np.cov(white, rowvar=False))).T
    expected = np.square(shift).sum() + np.square(ours - theirs).sum()
    assert frechet_distance(white * ours, white * theirs + shift) == pytest.approx(expected, abs=1e-5)


def test_the_frechet_distance_is_the_paper_s_formula() -> None:
    real, made = normal(100, 5, 3), normal(100, 5, 4) @ normal(5, 5, 5)
    spreads = np.cov(real, rowvar=False), np.cov(made, rowvar=False)
    root = sqrtm(spreads[0] @ spreads[1]).real
    expected = np.square(real.mean(axis=0) - made.mean(axis=0)).sum() + np.trace(spreads[0] + spreads[1] - 2 * root)
    assert frechet_distance(real, made) == pytest.approx(expected)
    assert frechet_distance(made, real) == pytest.approx(expected)


def test_the_kernel_distance_by_hand() -> None:
    """Kernel (xy + 1)³ of 0 and 1 against 1 and 2: means 1, 27 and (1 + 1 + 8 + 27) / 4."""
    assert kernel_distance(np.array([[0.0], [1]]), np.array([[1.0], [2]])) == pytest.approx(1 + 27 - 2 * 37 / 4)


def test_scores_have_a_spread_and_grow_with_the_distance() -> None:
    real = normal(300, 4, 6)
    near, far = (image_scores(real, normal(300, 4, 7) + shift) for shift in (0.1, 1.0))
    assert 0 < near.fid < far.fid
    assert near.kid < far.kid
    assert near.fid_spread > 0
    assert near.kid_spread > 0


# Pictures


def test_grey_pictures_of_the_right_size_are_looked_at_as_they_are() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28)).astype(np.uint8)
    net = learnt()
    inside = torch.from_numpy(pixels).float()[:, None]
    with torch.inference_mode():
        assert np.array_equal(net._hidden(inside).double().numpy(), net.features(pixels))
    assert np.array_equal(net.features(pixels), net.features(pixels[..., None]))


def test_colour_is_averaged_and_sizes_are_changed() -> None:
    net, pixels = learnt(), part(0, 5).pixels
    colour = np.stack([pixels, pixels, pixels], axis=3)
    assert np.allclose(net.features(colour), net.features(pixels), atol=1e-5)
    mixed = np.stack([pixels, np.zeros_like(pixels), np.zeros_like(pixels)], axis=3) // 3 * 3
    assert np.allclose(net.features(mixed), net.features(pixels // 3), atol=1e-5)
    flat = np.full((2, 40, 9), 77, np.uint8)
    assert np.allclose(net.features(flat), net.features(np.full((2, 28, 28), 77, np.uint8)), atol=1e-5)


SCHEMA = Schema(label="label", columns={"image": Image(height=2, width=3), "label": Category(levels=("a", "b"))})


def table(cells: list[bytes | None], labels: list[str | None]) -> pa.Table:
    return pa.table({"image": pa.array(cells, pa.binary(6)), "label": pa.array(labels, pa.string())})


def test_pictures_of_a_table_leave_out_what_cannot_be_read() -> None:
    rows = Coded.of(table([bytes(range(6)), None, b"abcdef", b"uvwxyz"], ["b", "a", "unknown", None]), SCHEMA)
    found = Pictures.of(rows, "image")
    assert found.pixels.shape == (3, 2, 3, 1)
    assert found.pixels[0].ravel().tolist() == list(range(6))
    assert found.labels is not None
    assert found.labels.tolist() == [1, -1, -1]
    assert found.classes == [1]
    assert found.labelled()[1].tolist() == [1]


@pytest.mark.parametrize("label", [None, "number"])
def test_pictures_without_classes_have_no_labels(label: str | None) -> None:
    columns: dict[str, Any] = {"image": Image(height=2, width=3), "number": Number(lower=0, upper=1), "flag": Boolean()}
    schema = Schema(label=label, columns=columns)
    cells = pa.table({"image": pa.array([b"abcdef"], pa.binary(6)), "number": [0.5], "flag": [True]})
    found = Pictures.of(Coded(Codec(schema), Codec(schema).encode(cells)), "image")
    assert found.labels is None
    assert found.classes == []


@given(st.permutations(range(12)))
@settings(max_examples=20, deadline=None)
def test_the_pictures_that_are_drawn_do_not_depend_on_their_order(order: list[int]) -> None:
    pictures = part(0, 12)
    first, again = pictures.some(8, 5), pictures.take(np.array(order)).some(8, 5)
    assert np.array_equal(first.pixels, again.pixels)
    assert np.array_equal(first.labelled()[1], again.labelled()[1])
    assert pictures.digest == pictures.take(np.array(order)).digest


def test_a_fingerprint_sees_every_pixel_label_and_shape() -> None:
    pictures = part(0, 12)
    pixel, label = pictures.pixels.copy(), digits().labels[:12].copy()  # type: ignore[index]
    pixel[3, 2, 1] ^= 1
    label[4] += 1
    other = [
        replace(pictures, pixels=pixel),
        replace(pictures, labels=label),
        replace(pictures, labels=None),
        replace(pictures, pixels=pictures.pixels.reshape(12, 4, 16)),
    ]
    assert len({own.digest for own in (pictures, *other)}) == 5


# Nets


def test_a_net_learns_digits() -> None:
    found = label_agreement(part(900, 1797), learnt())
    assert found.overall > 0.8
    assert set(found.by_class) == set(range(10))


def test_late_weights_together_know_more_than_those_of_the_last_step() -> None:
    """Where labels are often wrong, and each batch pulls another way."""
    learners = []
    for seed in range(3):
        real, chance = part(0, 900), np.random.default_rng(seed)
        known = real.labelled()[1]
        labels = np.where(chance.random(len(real)) < 0.4, chance.integers(0, 10, len(real)), known)
        mixed = replace(real, labels=labels)
        learners.append([cnn_accuracy(mixed, part(900, 1797), seed, late).overall for late in (LATE, 0)])
    averaged, last = np.mean(learners, axis=0)
    assert averaged > last


def test_a_seed_gives_one_net_in_whatever_order_pictures_come() -> None:
    pictures = bars(80)
    first, again, other = train_lenet(pictures, 1), train_lenet(pictures.take(np.arange(80)[::-1]), 1), train_lenet(pictures, 2)
    assert all(torch.equal(weight, again.weights[name]) for name, weight in first.weights.items())
    assert not torch.equal(first.weights["f6.weight"], other.weights["f6.weight"])


def test_training_leaves_the_chance_of_others_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    train_lenet(bars(20))
    assert torch.equal(before, torch.get_rng_state())


def test_a_cached_net_comes_back_and_is_private(tmp_path: Path) -> None:
    pictures, path = bars(60), tmp_path / "net.dpearl"
    net, again = cached_lenet(pictures, path), cached_lenet(pictures.take(np.arange(60)[::-1]), path, seed=9)
    assert all(torch.equal(weight, again.weights[name]) for name, weight in net.weights.items())
    content = path.read_bytes()
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["dpearl"]
    assert "PRIVATE" in json.loads(head)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileError, match="trained on other pictures or in another way"):
        cached_lenet(bars(61), path)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileError, match="damaged"):
        cached_lenet(pictures, path)


@pytest.mark.parametrize("layer", ["c1", "f6", "f7"])
def test_weights_of_another_net_are_refused(layer: str) -> None:
    arrays = {f"module.{name}": weight.numpy() for name, weight in learnt().weights.items()}
    assert np.array_equal(LeNet.of(arrays).classify(part(0, 9).pixels), learnt().classify(part(0, 9).pixels))
    without = {name: array for name, array in arrays.items() if name != f"module.{layer}.bias"}
    wrong = {**arrays, f"module.{layer}.weight": np.zeros((2, 2))}
    for bad in (without, wrong):
        with pytest.raises(DataError, match=f"not those of a LeNet-5: {layer}"):
            LeNet.of(bad)


def test_accuracy_by_hand() -> None:
    found = Accuracy.of(np.array([0, 0, 3, 3, 3]), np.array([0, 1, 3, 3, 0]))
    assert found.overall == pytest.approx(3 / 5)
    assert found.spread == pytest.approx(np.sqrt(0.24 / 5))
    assert found.by_class == pytest.approx({0: 1 / 2, 3: 2 / 3})


def test_wrong_labels_are_seen_by_agreement_and_by_accuracy() -> None:
    real, fresh = bars(200, seed=0), bars(100, seed=1)
    assert fresh.labels is not None
    swapped = replace(bars(200, seed=2), labels=1 - bars(200, seed=2).labelled()[1])
    net = train_lenet(real)
    assert label_agreement(fresh, net).overall == 1
    assert label_agreement(swapped, net).overall == 0
    assert cnn_accuracy(real, fresh).overall == 1
    assert cnn_accuracy(swapped, fresh).overall == 0


# The judge


def test_the_judge_finds_real_pictures_good_and_noise_bad() -> None:
    told: list[str] = []
    train, test, made = bars(150, 0), bars(100, 1), bars(120, 2)
    noise = replace(made, pixels=np.random.default_rng(0).integers(0, 256, made.pixels.shape).astype(np.uint8))
    judge = PictureJudge.of(train, test, done=told.append)
    good, bad = judge.look(made, told.append), judge.look(noise)
    assert len(told) == steps(train, test, made) == 4
    assert good.notes == ()
    assert good.agreement is not None
    assert bad.agreement is not None
    assert good.agreement.overall == 1
    assert bad.agreement.overall < 0.8
    assert good.accuracy == good.ceiling
    assert good.scores.fid < 3 * good.floor.fid < bad.scores.fid
    assert good.floor == bad.floor


def test_judgement_does_not_depend_on_order() -> None:
    train, test, made = bars(60, 0), bars(50, 1), bars(40, 2)
    mixed = [own.take(np.random.default_rng(0).permutation(len(own))) for own in (train, test, made)]
    assert judge_pictures(train, test, made) == judge_pictures(mixed[0], mixed[1], mixed[2])


def test_without_labels_distances_are_all(tmp_path: Path) -> None:
    train, test, made = (Pictures(bars(30, seed).pixels) for seed in range(3))
    told: list[str] = []
    found = judge_pictures(train, test, made, learnt(), done=told.append)
    assert (found.agreement, found.accuracy, found.ceiling) == (None, None, None)
    assert found.notes == ("the real training pictures have no labels; agreement and accuracy cannot be measured",)
    assert len(told) == steps(train, test, made) == 2
    with pytest.raises(DataError, match="give the weights of a LeNet"):
        judge_pictures(train, test, made)
    kept = judge_pictures(bars(30), bars(30, 1), made, cache=tmp_path / "net")
    assert kept.notes == ("the synthetic pictures have no labels; agreement and accuracy cannot be measured",)
    assert kept.ceiling is not None
    assert (tmp_path / "net").exists()


def test_one_class_is_said_and_not_learnt() -> None:
    train, test = (replace(bars(30, seed), labels=np.ones(30, np.int64)) for seed in range(2))
    found = judge_pictures(train, test, bars(30, 2), learnt())
    assert found.notes == ("the real training pictures have one class only; agreement and accuracy cannot be measured",)
    assert found.ceiling is None


def test_a_generator_that_makes_one_class_alone_is_measured() -> None:
    made = bars(60, 2)
    _, labels = made.labelled()
    found = judge_pictures(bars(80, 0), bars(60, 1), made.take(np.flatnonzero(labels == 1)))
    assert found.accuracy is not None
    assert found.accuracy.by_class == {0: 0.0, 1: 1.0}


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_single_picture_is_refused_in_words(count: int, place: int) -> None:
    sets = [bars(10, seed) for seed in range(3)]
    sets[place] = bars(10).take(np.arange(count))
    with pytest.raises(DataError, match="need at least two pictures"):
        judge_pictures(sets[0], sets[1], sets[2], learnt())


def test_black_pictures_are_measured() -> None:
    """No spread at all in any feature."""
    black = Pictures(np.zeros((5, 28, 28), np.uint8))
    found = judge_pictures(black, black, black, learnt())
    assert found.scores.fid == pytest.approx(0, abs=1e-6)
    assert found.scores.kid == pytest.approx(0, abs=1e-6)
