"""Pictures from their moments: a Gaussian of waves for each class, corrected by small networks until its pictures fit a release.

The start is drawn from the release's own means and second moments, freed of noise. Training then moves everything so that
pictures, as every block sees them, have the released averages. Residuals are weighted by the known noise: at the truth their
mean square is 1. A batch comes in two halves whose residuals are multiplied, so that its own chance cancels on average; the
square of one batch would reward pictures that vary too little.
"""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpearl.checkpoint import Resumable
from dpearl.codec import Codec, Codes
from dpearl.distance import label_classes, proportions, real_frequencies, some_rows
from dpearl.embeddings.characteristic import UNIT, Characteristic
from dpearl.embeddings.moments import CROSS, DIRECTIONS, GRID, MEAN, SQUARE, Edges, Moments, Waves, picture_moments
from dpearl.errors import TrainingError
from dpearl.moment import Moment
from dpearl.release import Measurement, Release
from dpearl.settings import PictureSettings

HIDDEN, MAPS = 128, 24
"""Widths of the two networks that correct the Gaussian: one of its waves, one of its pixels, two by two."""

GAIN = 4.0
"""At the start a pixel is sigmoid(GAIN·(u - 1/2)): as steep as u itself in the middle."""

LEAST = 2.5e-5
"""Variance, in units of a squared row, below which a wave never starts: at none there is no slope to learn from."""

LONGEST = 2.0
"""Gradients are cut to this length: the first, far from the release, would fill Adam's memory."""

_WINDOW = 200
"""Steps over which the shown loss is averaged."""

_PART = 1024
"""Pictures drawn at a time."""


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).float()


def _clipped(values: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(values, dim=1, keepdim=True)
    return values / lengths.clamp(min=1)


class WaveView(nn.Module):
    """`moments.Waves` for tensors: rows in units of GRID."""

    def __init__(self, view: Waves) -> None:
        super().__init__()
        self.register_buffer("patterns", _tensor(view.patterns / 2**24), persistent=False)
        self.register_buffer("factors", _tensor(view.factors), persistent=False)
        self.patterns: Tensor
        self.factors: Tensor

    def forward(self, pictures: Tensor) -> Tensor:
        waves: Tensor = pictures.flatten(1) @ self.patterns.T
        return waves * self.factors


class EdgeView(nn.Module):
    """`moments.Edges` for tensors."""

    def __init__(self, view: Edges) -> None:
        super().__init__()
        (down, across), (turns, rows, columns) = view.tables, view.mixing
        named = {"down": rows @ down, "across": (columns @ across).T, "turns": turns, "factors": view.factors}
        for name, array in named.items():
            self.register_buffer(name, _tensor(array), persistent=False)
        self.down: Tensor
        self.across: Tensor
        self.turns: Tensor
        self.factors: Tensor

    def forward(self, pictures: Tensor) -> Tensor:
        grey = pictures.sum(dim=1)
        framed, (height, width) = functional.pad(grey, (1, 1, 1, 1)), grey.shape[1:]
        near = [framed[:, 1 + y : 1 + y + height, 1 + x : 1 + x + width] for y, x in DIRECTIONS]
        changes = torch.stack([one - grey for one in near], dim=1)
        waves = self.down @ torch.stack([changes.abs(), changes], dim=1) @ self.across
        return torch.einsum("td,nsdab->nstab", self.turns, waves).flatten(1) * self.factors


def view_of(block: Moments) -> WaveView | EdgeView:
    """A block's public map for tensors."""
    return WaveView(block.view) if isinstance(block.view, Waves) else EdgeView(block.view)


class PictureGenerator(nn.Module):
    """Waves = a Gaussian of the class + a network of the same latent noise; pixels = sigmoid of their sum, corrected."""

    def __init__(self, codec: Codec, classes: int) -> None:
        super().__init__()
        block = picture_moments(codec, "moments", 1.0)
        (self.name,), self.picture, self.classes = codec.features, block.picture, classes
        self.column, self.latent = codec.features[self.name], block.view.size
        size, inner = block.view.size, 4 * self.picture.channels
        self.register_buffer("patterns", WaveView(block.view).patterns, persistent=False)  # type: ignore[arg-type]
        self.patterns: Tensor
        self.mean = nn.Parameter(torch.zeros(classes, size))
        self.factor = nn.Parameter(torch.zeros(classes, size, size))
        self.shift = nn.Parameter(torch.zeros(classes, self.picture.pixels))
        self.gain = nn.Parameter(torch.tensor([math.log(GAIN)]))
        self.bend = nn.Sequential(nn.Linear(size + classes, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, size))
        self.tone = nn.Parameter(torch.zeros(classes, MAPS))
        self.first = nn.Conv2d(inner, MAPS, 3, padding=1)
        self.second = nn.Conv2d(MAPS, MAPS, 3, padding=1)
        self.last = nn.Conv2d(MAPS, inner, 3, padding=1)
        for nothing in (*self.bend[2].parameters(), *self.last.parameters()):
            nn.init.zeros_(nothing)

    def forward(self, latent: Tensor, place: int) -> Tensor:
        """Pictures of one class: (rows, channels, height, width) in (0, 1)."""
        known = functional.one_hot(torch.full((len(latent),), place), self.classes).to(latent)
        bent = self.bend(torch.cat([latent, known], dim=1))
        flat = (self.mean[place] + latent @ self.factor[place].T + bent) @ self.patterns
        shape = (-1, self.picture.channels, self.picture.height, self.picture.width)
        raw = self.gain.exp() * (flat.view(shape) + self._correction(flat.view(shape), place) - 0.5)
        return torch.sigmoid(raw + self.shift[place].view(shape))

    def _correction(self, maps: Tensor, place: int) -> Tensor:
        """Convolutions of pixels two by two, at a quarter of the cost; an odd picture is framed for that."""
        height, width = maps.shape[2:]
        small = functional.pixel_unshuffle(functional.pad(maps, (0, width % 2, 0, height % 2)), 2)
        inner = functional.relu(self.first(small.contiguous(memory_format=torch.channels_last)) + self.tone[place][:, None, None])
        whole = functional.pixel_shuffle(self.last(functional.relu(self.second(inner))), 2)
        return whole[:, :, :height, :width]

    @torch.inference_mode()
    def draw(self, classes: Tensor, chance: torch.Generator) -> dict[str, Codes]:
        """Codes of pictures of these classes: the same for the same state of chance."""
        latent = torch.randn(len(classes), self.latent, generator=chance)
        positions = np.zeros((len(classes), self.picture.pixels))
        for place in sorted(set(classes.tolist())):
            for rows in torch.split(torch.nonzero(classes == place)[:, 0], _PART):
                positions[rows.numpy()] = self(latent[rows], place).permute(0, 2, 3, 1).flatten(1).numpy()
        return {self.name: self.column.code(positions, np.zeros(len(classes), np.int64))}


@dataclass(frozen=True)
class MomentTarget:
    """Averages of a moment block for each class, in units of GRID, and the noise on them."""

    view: WaveView | EdgeView
    means: Tensor
    seconds: Tensor
    mean_noise: Tensor
    noise: Tensor

    @classmethod
    def of(cls, measured: Measurement, family: str, rows: NDArray[np.float64]) -> MomentTarget:
        block = measured.design.block(family)
        assert isinstance(block, Moments)
        size, sigma = block.view.size, measured.sigmas[family]
        averages = measured.sums[family][list(label_classes(measured.design.codec))] / rows[:, None]
        upper = np.triu_indices(size)
        seconds = np.zeros((len(rows), size, size))
        seconds[:, *upper] = averages[:, size:] / np.where(upper[0] == upper[1], SQUARE, CROSS) / GRID**2
        seconds[:, *upper[::-1]] = seconds[:, *upper]
        noises = sigma / (MEAN * GRID * rows), sigma / (SQUARE * GRID**2 * rows)
        return cls(view_of(block), _tensor(averages[:, :size] / (MEAN * GRID)), _tensor(seconds), *map(_tensor, noises))

    def to(self, device: torch.device) -> MomentTarget:
        """The same on another device."""
        return replace(self, **{name: own.to(device) for name, own in vars(self).items()})

    def residual(self, pictures: Tensor, place: int, half: int) -> Tensor:
        """Σ of products of the two halves' residuals, in units of the noise's variance."""
        values = _clipped(self.view(pictures))
        halves = values[:half], values[half:]
        first, second = (own.mean(dim=0) - self.means[place] for own in halves)
        one, other = (own.T @ own / half - self.seconds[place] for own in halves)
        return (first * second).sum() / self.mean_noise[place] ** 2 + (one * other).sum() / self.noise[place] ** 2

    @property
    def values(self) -> int:
        """Numbers released for each class."""
        size = self.means.shape[1]
        return size * (size + 3) // 2


@dataclass(frozen=True)
class WaveTarget:
    """Characteristic functions of a picture's waves for each class, cos and sin, and the noise on them."""

    patterns: Tensor
    frequencies: Tensor
    averages: Tensor
    noise: Tensor

    @classmethod
    def of(cls, measured: Measurement, rows: NDArray[np.float64]) -> WaveTarget:
        """Frequencies are sums of waves, so phases are taken in waves: far fewer than pixels."""
        codec, block = measured.design.codec, measured.design.block("characteristic")
        assert isinstance(block, Characteristic)
        view = picture_moments(codec, "moments", 1.0).view
        assert isinstance(view, Waves)
        picture, patterns = view.picture, view.patterns / 2**24
        lines = real_frequencies(block, codec).reshape(picture.height * picture.width, picture.channels, -1)
        inside = np.linalg.lstsq(patterns.T, lines.swapaxes(0, 1).reshape(picture.pixels, -1), rcond=None)[0]
        averages = measured.sums["characteristic"][list(label_classes(codec))] / (UNIT * rows[:, None, None])
        noise = measured.sigmas["characteristic"] / (UNIT * rows)
        return cls(*map(_tensor, (patterns, inside, averages.transpose(0, 2, 1), noise)))

    def to(self, device: torch.device) -> WaveTarget:
        """The same on another device."""
        return replace(self, **{name: own.to(device) for name, own in vars(self).items()})

    def residual(self, pictures: Tensor, place: int, half: int) -> Tensor:
        """As in MomentTarget."""
        phases = (pictures.flatten(1) @ self.patterns.T) @ self.frequencies
        waves = torch.stack([torch.cos(phases), torch.sin(phases)])
        first, second = (waves[:, own].mean(dim=1) - self.averages[place] for own in (slice(half), slice(half, None)))
        return (first * second).sum() / self.noise[place] ** 2

    @property
    def values(self) -> int:
        return 2 * self.frequencies.shape[1]


def denoised(second: Tensor, mean: Tensor, noise: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues and vectors of the covariance, what noise alone could be taken off.

    Noise of this size makes eigenvalues up to 2·noise·√(size/2), its semicircle's edge: smaller ones say nothing, and a larger
    one was pushed out from λ to λ + edge²/4λ.
    """
    values, vectors = torch.linalg.eigh((second - torch.outer(mean, mean)).double())
    edge = 2 * noise * math.sqrt(len(mean) / 2)
    inner = (values + torch.sqrt((values**2 - edge**2).clamp(min=0))) / 2
    return torch.where(values > edge, inner, 0.0).clamp(LEAST, 1.0).float(), vectors.float()


def _shrunk(mean: Tensor, noise: float) -> Tensor:
    """A mean freed of the length that noise gives it, and no longer than a row."""
    length2 = float(mean.square().sum())
    kept = max(0.0, 1 - len(mean) * noise**2 / max(length2, 1e-12))
    return mean * (kept / max(1.0, kept * math.sqrt(length2)))


def start(generator: PictureGenerator, target: MomentTarget) -> None:
    """Let the generator's waves have the released moments."""
    assert isinstance(target.view, WaveView)
    factors = target.view.factors.cpu()
    with torch.no_grad():
        for place in range(generator.classes):
            mean = _shrunk(target.means[place], float(target.mean_noise[place]))
            values, vectors = denoised(target.seconds[place], mean, float(target.noise[place]))
            generator.mean[place] = mean / factors
            generator.factor[place] = vectors * values.sqrt() / factors[:, None]


class PictureTraining(Resumable):
    """The generator, its average over late steps, its optimiser and chance: everything that changes in training."""

    def __init__(self, release: Release, settings: PictureSettings, seed: int, device: torch.device) -> None:
        codec, rows = release.embedding.design.codec, some_rows(release)
        shares = proportions(release)[list(label_classes(codec))]
        self.settings, self.device = settings, device
        self.identity = {"release": release.digest, **asdict(settings), "seed": seed}
        self.places = np.flatnonzero(shares).tolist()
        targets = targets_of(release.embedding, np.maximum(shares * rows, 1.0))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.moving = PictureGenerator(codec, len(shares))
        start(self.moving, targets[0])
        self.average = copy.deepcopy(self.moving).to(device)
        self.moving.to(device)
        self.targets: list[MomentTarget | WaveTarget] = [target.to(device) for target in targets]
        self.values = sum(target.values for target in targets)
        self.optimiser = torch.optim.Adam(self.moving.parameters(), settings.learning_rate, betas=(0.9, 0.99))
        self.chance = torch.Generator().manual_seed(seed)
        self.losses: list[float] = []

    @property
    def generator(self) -> PictureGenerator:
        """The averaged generator: late steps circle around what they aim at."""
        return self.average

    def advance(self) -> None:
        """One step on pictures of one class; the classes take turns."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate(self.step)
        place, half = self.places[self.step % len(self.places)], self.settings.half
        latent = torch.randn(2 * half, self.moving.latent, generator=self.chance).to(self.device)
        pictures = self.moving(latent, place)
        loss = sum((target.residual(pictures, place, half) for target in self.targets), torch.zeros((), device=self.device))
        self.optimiser.zero_grad()
        (loss / self.values).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.moving.parameters(), LONGEST)
        self.optimiser.step()
        self.step += 1
        self._follow()
        self._note(float(loss.detach()) / self.values)

    @torch.no_grad()
    def _follow(self) -> None:
        """The average forgets its first steps sooner."""
        kept = min(self.settings.averaging, self.step / (self.step + 9))
        for own, moving in zip(self.average.parameters(), self.moving.parameters(), strict=True):
            own.lerp_(moving, 1 - kept)

    def _note(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(f"training broke down in step {self.step}: the loss is not a finite number; try another --seed")
        self.losses = [*self.losses[-_WINDOW + 1 :], loss]

    def moment(self) -> Moment:
        """The mean squared residual in units of the noise, which true rows make 1."""
        return Moment(self.step, self.settings.iterations, sum(self.losses) / len(self.losses), 1.0, None)

    def players(self) -> dict[str, tuple[nn.Module, torch.optim.Optimizer | None]]:
        return {"moving": (self.moving, self.optimiser), "average": (self.average, None)}


def targets_of(measured: Measurement, rows: NDArray[np.float64]) -> tuple[MomentTarget, MomentTarget, WaveTarget]:
    """What a release says of pictures, when its classes have so many rows."""
    return MomentTarget.of(measured, "moments", rows), MomentTarget.of(measured, "edges", rows), WaveTarget.of(measured, rows)
