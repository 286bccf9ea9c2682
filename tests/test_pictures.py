"""The generator of pictures: the embedding's own maps, a start without noise, training that comes nearer to the release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from dpearl.codec import Codec
from dpearl.design import Design
from dpearl.embed import embed
from dpearl.embeddings.moments import GRID, Moments
from dpearl.embeddings.pictures import picture_blocks
from dpearl.engines.local import Local
from dpearl.errors import FileError
from dpearl.pictures import Memory, PictureGenerator, PictureTraining, denoised, targets_of, view_of
from dpearl.privacy import Budget, Relation, Unit
from dpearl.read import open_sources
from dpearl.release import Release, load_release, save_release, this_version
from dpearl.sanitize import sanitize
from dpearl.schema import Category, Image, Schema
from dpearl.settings import PictureSettings

SHORT = PictureSettings(iterations=30, half=64)
CPU = torch.device("cpu")
SIZES = [(8, 8, 1, True), (5, 7, 3, True), (1, 9, 1, False), (28, 28, 1, False)]


def schema_of(height: int, width: int, channels: int, labels: int) -> Schema:
    columns: dict[str, Any] = {"image": Image.model_validate({"height": height, "width": width, "channels": channels})}
    if labels:
        columns["label"] = Category(levels=tuple(range(labels)))
    return Schema(columns=columns, label="label" if labels else None)


def released(schema: Schema, pixels: NDArray[np.uint8], labels: NDArray[np.int64], epsilon: float) -> Release:
    """A release of these pictures, through the door."""
    flat = np.ascontiguousarray(pixels.reshape(len(pixels), -1))
    table: dict[str, Any] = {"image": pa.array([row.tobytes() for row in flat], pa.binary(flat.shape[1]))}
    if schema.label:
        table["label"] = labels
    design = Design(schema, picture_blocks(Codec(schema), 0))
    budget, unit = Budget(epsilon, 1e-5), Unit(Relation.ADD_REMOVE)
    measured = sanitize(embed(open_sources(pa.table(table)), design, Local(threads=1)), budget.mu, unit)
    return Release({"embedding": measured}, budget, unit, "auto", "0" * 64, None, {}, this_version())


def random_release(height: int, width: int, channels: int, labelled: bool, rows: int = 300) -> Release:
    chance = np.random.default_rng(0)
    pixels = chance.integers(0, 256, (rows, height, width, channels)).astype(np.uint8)
    return released(schema_of(height, width, channels, 2 * labelled), pixels, chance.integers(0, 2, rows), 50.0)


@pytest.fixture(scope="module")
def digits() -> tuple[Release, NDArray[np.uint8]]:
    pixels, labels = load_digits(return_X_y=True)
    bytes_ = (pixels.reshape(-1, 8, 8, 1) * 15.9375).astype(np.uint8)
    return released(schema_of(8, 8, 1, 10), bytes_, labels, 100.0), bytes_


def train(release: Release, settings: PictureSettings = SHORT, seed: int = 0) -> PictureTraining:
    training = PictureTraining(release, settings, seed, CPU)
    while training.step < settings.iterations:
        training.advance()
    return training


def drawn(generator: PictureGenerator, classes: Tensor, seed: int = 0) -> NDArray[np.uint8]:
    return np.asarray(generator.draw(classes, torch.Generator().manual_seed(seed))["image"])


@pytest.mark.parametrize("family", ["moments", "edges"])
@pytest.mark.parametrize(("height", "width", "channels"), [(8, 8, 1), (28, 28, 1), (9, 5, 3)])
def test_tensors_see_what_the_integers_see(family: str, height: int, width: int, channels: int) -> None:
    codec = Codec(schema_of(height, width, channels, 0))
    block = next(block for block in picture_blocks(codec, 0) if block.family == family)
    assert isinstance(block, Moments)
    pixels = np.random.default_rng(0).integers(0, 256, (20, channels, height, width))
    whole = block.view(pixels.astype(np.float64)) / GRID
    real = view_of(block)(torch.from_numpy(pixels).float() / 255).numpy()
    assert np.abs(whole - real).max() < 2 / GRID


def test_noise_alone_leaves_nothing_of_a_covariance() -> None:
    chance = torch.Generator().manual_seed(0)
    noise = torch.randn(80, 80, generator=chance)
    values, _ = denoised(1e-3 * (torch.triu(noise, 1) + torch.triu(noise, 1).T) / 2**0.5, torch.zeros(80), 1e-3)
    assert (values <= 1e-3).all()


def test_a_covariance_that_stands_out_of_the_noise_stays() -> None:
    chance = torch.Generator().manual_seed(0)
    noise = torch.triu(torch.randn(80, 80, generator=chance), 1) * 1e-3 / 2**0.5
    true = torch.diag(torch.tensor([0.1, 0.05, 0.02] + [0.0] * 77))
    values, _ = denoised(true + noise + noise.T, torch.zeros(80), 1e-3)
    assert values[-3:].tolist() == pytest.approx([0.02, 0.05, 0.1], rel=0.1)
    assert (values[:-4] < 1e-3).all()


def test_targets_are_the_averages_of_the_rows(digits: tuple[Release, NDArray[np.uint8]]) -> None:
    """Fed with the real pictures, as many as were released, residuals are those of noise alone: about 1 on average."""
    release, pixels = digits
    labels = load_digits(return_X_y=True)[1]
    rows = np.bincount(labels).astype(np.float64)
    own = torch.from_numpy(pixels[labels == 3]).permute(0, 3, 1, 2).float() / 255
    for target in targets_of(release.embedding, rows):
        assert 0.6 < float(target.misfit(own, 3).square().sum()) / target.values < 1.6


def test_true_rows_make_the_shown_loss_one(digits: tuple[Release, NDArray[np.uint8]]) -> None:
    """Whatever blocks weigh: what noise alone makes of the loss is known."""
    release, pixels = digits
    labels, training = load_digits(return_X_y=True)[1], PictureTraining(release, SHORT, 0, CPU)
    own = torch.from_numpy(pixels[labels == 3]).permute(0, 3, 1, 2).float() / 255
    assert 0.6 < float(training._misfit(own, 3).square().sum()) / training.expected < 1.6


def test_a_checkerboard_leaves_pictures_as_they_are() -> None:
    """Free pixels could make one as easily as any other texture."""
    generator = PictureGenerator(Codec(schema_of(9, 8, 1, 2)), 2)
    latent = torch.randn(3, generator.latent, generator=torch.Generator().manual_seed(0))
    plain = generator(latent, 1)
    with torch.no_grad():
        generator.shift[:] = 3.0 * (-1.0) ** (torch.arange(9)[:, None] + torch.arange(8))
    assert torch.allclose(generator(latent, 1)[..., 1:, 1:], plain[..., 1:, 1:])
    with torch.no_grad():
        generator.shift[:] = 3.0
    assert (generator(latent, 1)[..., 1:, 1:] > plain[..., 1:, 1:]).all()


def test_pixels_can_be_quite_black_and_quite_white() -> None:
    generator = PictureGenerator(Codec(schema_of(8, 8, 1, 0)), 1)
    for far, code in ((-20.0, 0), (20.0, 255)):
        with torch.no_grad():
            generator.shift[:] = far
        pixels = drawn(generator, torch.zeros(2, dtype=torch.long))[:, :-1].reshape(2, 8, 8)
        assert (pixels[:, 1:, 1:] == code).all()


def test_memory_tells_a_misfit_from_the_chance_of_a_batch() -> None:
    """Slopes are those of expected squares, twice the misfit in all, and vary far less than a batch alone would let them."""
    chance, memory, slopes = torch.Generator().manual_seed(0), Memory(2, 50, 0.9), []
    true = torch.linspace(-1, 1, 50)
    for _ in range(400):
        halves = (true + 10 * torch.randn(2, 50, generator=chance)).requires_grad_()
        memory.loss(halves, 1).backward()  # type: ignore[no-untyped-call]
        assert halves.grad is not None
        slopes.append(halves.grad.sum(dim=0))
    told = torch.stack(slopes[20:])
    assert (told.mean(dim=0) - 2 * true).abs().mean() < 0.8
    assert told.std(dim=0).mean() < 0.5 * 10 * 2**0.5
    assert not memory.past[0].any()


def test_training_comes_nearer_to_the_release(digits: tuple[Release, NDArray[np.uint8]]) -> None:
    release, pixels = digits
    labels = load_digits(return_X_y=True)[1]
    first = PictureTraining(release, SHORT, 0, CPU)
    first.advance()
    last = train(release, PictureSettings(iterations=300, half=64))
    assert last.moment().loss < first.moment().loss / 3
    made = drawn(last.generator, torch.full((500,), 3))[:, :-1].mean(axis=0)
    distances = [np.abs(pixels[labels == label].reshape(-1, 64).mean(axis=0) - made).mean() for label in range(10)]
    assert int(np.argmin(distances)) == 3
    assert distances[3] < 20


def test_the_same_release_and_seed_give_the_same_generator() -> None:
    release, classes = random_release(8, 8, 1, True), torch.tensor([0, 1, 1, 0])
    one, again, other = (drawn(train(release, seed=seed).generator, classes) for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


def test_a_generator_is_all_in_its_state() -> None:
    release = random_release(8, 8, 1, True)
    generator = train(release).generator
    again = PictureGenerator(release.embedding.design.codec, 2)
    again.load_state_dict({name: torch.from_numpy(value.numpy().copy()) for name, value in generator.state_dict().items()})
    assert all(bool(torch.isfinite(value).all()) for value in again.state_dict().values())
    classes = torch.arange(40) % 2
    assert (drawn(generator, classes, 5) == drawn(again, classes, 5)).all()
    assert (drawn(generator, classes, 5) != drawn(again, classes, 6)).any()


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    release = random_release(8, 8, 1, True)
    whole, stopped = train(release), PictureTraining(release, SHORT, 0, CPU)
    for _ in range(11):
        stopped.advance()
    again = PictureTraining(release, SHORT, 0, CPU)
    stopped.save(tmp_path / "part")
    again.restore(tmp_path / "part")
    while again.step < SHORT.iterations:
        again.advance()
    assert again.moment() == whole.moment()
    pairs = zip(again.generator.parameters(), whole.generator.parameters(), strict=True)
    assert all(torch.equal(own, theirs) for own, theirs in pairs)


@pytest.mark.parametrize(("height", "width", "channels", "labelled"), SIZES)
def test_pictures_of_any_shape_come_back_on_the_grid(
    height: int, width: int, channels: int, labelled: bool, tmp_path: Any
) -> None:
    release = random_release(height, width, channels, labelled)
    save_release(release, tmp_path / "r.dpearl")
    generator = train(load_release(tmp_path / "r.dpearl"), PictureSettings(iterations=4, half=16)).generator
    codes = drawn(generator, torch.zeros(5, dtype=torch.long))
    assert codes.shape == (5, height * width * channels + 1)
    assert codes.dtype == np.uint8
    assert not codes[:, -1].any()
    assert drawn(generator, torch.zeros(0, dtype=torch.long)).shape == (0, height * width * channels + 1)


def test_hardly_any_rows_and_much_noise_still_give_finite_pictures() -> None:
    pixels = np.full((40, 8, 8, 1), 200, np.uint8)
    generator = train(released(schema_of(8, 8, 1, 2), pixels, np.zeros(40, np.int64), 5.0)).generator
    assert all(bool(torch.isfinite(value).all()) for value in generator.state_dict().values())


def test_a_release_without_rows_teaches_nothing() -> None:
    release = random_release(4, 4, 1, True)
    release.embedding.sums["count"][:] = -(2**20)
    with pytest.raises(FileError, match="holds no rows"):
        PictureTraining(release, SHORT, 0, CPU)
