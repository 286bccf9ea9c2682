"""Pictures from their moments: a Gaussian of waves for each class, corrected by small networks until its pictures fit a release.

The start is drawn from the release's own means and second moments, freed of noise. Training then moves everything so that
pictures, as every block sees them, have the released averages. Residuals are weighted by the known noise: at the truth their
mean square is 1. Of n residuals noise alone lets the sum of squares vary by √2n, so each block's sum counts in units of √n: else
the many numbers of edges would drown out the few characteristic functions.

Averages over a batch differ from what the generator would give for ever, by many times that noise. So the residuals that a step
follows are averages over past steps of its class. A batch also comes in two halves, each of which is moved by the past and by
the other half alone: its own chance would reward pictures that vary too little.
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
from dpearl.distance import proportions, real_frequencies, some_rows
from dpearl.embeddings.characteristic import UNIT, Characteristic
from dpearl.embeddings.moments import CROSS, DIRECTIONS, GRID, MEAN, SQUARE, Edges, Moments, Waves, picture_moments
from dpearl.errors import TrainingError
from dpearl.moment import Moment
from dpearl.release import Measurement, Release
from dpearl.settings import PictureSettings

HIDDEN, MAPS = 256, 24
"""Widths of the two networks that correct the Gaussian: one of its latent noise, one of its pixels, two by two."""

GAIN = 4.0
"""At the start a pixel is sigmoid(GAIN·(u - 1/2)): as steep as u itself in the middle."""

BEYOND = 0.05
"""Pixels reach so far beyond black and white, and are cut: a sigmoid alone never is quite black, and what is left of grey tells
classes apart where real pictures have nothing, so that learners would look for it."""

LEAST = 2.5e-5
"""Variance, in units of a squared row, below which a wave never starts: at none there is no slope to learn from."""

LONGEST = 2.0
"""Gradients are cut to this length: the first, far from the release, would fill Adam's memory."""

LAG = 5
"""In early visits to a class a generator moves fast: after n visits its memory keeps at most n parts in n + LAG."""

_WINDOW = 200
"""Steps over which the shown loss is averaged."""

_PART = 1024
"""Pictures drawn at a time."""


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).float()


def _clipped(values: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(values, dim=1, keepdim=True)
    return values / lengths.clamp(min=1)


def _even(maps: Tensor) -> Tensor:
    """Each pixel's mean with its upper and left neighbours: nothing of a checkerboard is left, most of what is smoother.

    Convolutions of pixels two by two make a checkerboard as easily as any other texture, and so do free pixels.
    """
    return functional.avg_pool2d(functional.pad(maps, (1, 0, 1, 0)), 2, stride=1)


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
    """Waves = a Gaussian of the class + a network of the same latent noise; pixels = sigmoid of their sum, corrected.

    That network also tells the correction its tone, so that one picture may be plain and the next one of the class patterned.
    """

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
        self.shift = nn.Parameter(torch.zeros(self.shape))
        self.gain = nn.Parameter(torch.tensor([math.log(GAIN)]))
        self.hidden = nn.Sequential(nn.Linear(size + classes, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.bend, self.tone = nn.Linear(HIDDEN, size), nn.Linear(HIDDEN, MAPS)
        self.first = nn.Conv2d(inner, MAPS, 3, padding=1)
        self.second = nn.Conv2d(MAPS, MAPS, 3, padding=1)
        self.last = nn.Conv2d(MAPS, inner, 3, padding=1)
        for nothing in (self.bend, self.tone, self.last):
            for own in nothing.parameters():
                nn.init.zeros_(own)

    def forward(self, latent: Tensor, place: int) -> Tensor:
        """Pictures of one class: (rows, channels, height, width) in [0, 1]."""
        known = functional.one_hot(torch.full((len(latent),), place), self.classes).to(latent)
        hidden, gain = self.hidden(torch.cat([latent, known], dim=1)), self.gain.exp()
        waves = self.mean[place] + latent @ self.factor[place].T + self.bend(hidden)
        maps = (waves @ self.patterns).view(-1, *self.shape)
        correction = gain * self._correction(maps, self.tone(hidden)) + self.shift
        grey = torch.sigmoid(gain * (maps - 0.5) + _even(correction))
        return ((1 + 2 * BEYOND) * grey - BEYOND).clamp(0, 1)

    def _correction(self, maps: Tensor, tone: Tensor) -> Tensor:
        """Convolutions of pixels two by two, at a quarter of the cost; an odd picture is framed for that."""
        height, width = maps.shape[2:]
        small = functional.pixel_unshuffle(functional.pad(maps, (0, width % 2, 0, height % 2)), 2)
        inner = functional.relu(self.first(small.contiguous(memory_format=torch.channels_last)) + tone[:, :, None, None])
        whole = functional.pixel_shuffle(self.last(functional.relu(self.second(inner))), 2)
        return whole[:, :, :height, :width]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a picture."""
        return self.picture.channels, self.picture.height, self.picture.width

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
        averages = measured.sums[family][list(measured.design.codec.labels)] / rows[:, None]
        upper = np.triu_indices(size)
        seconds = np.zeros((len(rows), size, size))
        seconds[:, *upper] = averages[:, size:] / np.where(upper[0] == upper[1], SQUARE, CROSS) / GRID**2
        seconds[:, *upper[::-1]] = seconds[:, *upper]
        noises = sigma / (MEAN * GRID * rows), sigma / (SQUARE * GRID**2 * rows)
        return cls(view_of(block), _tensor(averages[:, :size] / (MEAN * GRID)), _tensor(seconds), *map(_tensor, noises))

    def to(self, device: torch.device) -> MomentTarget:
        """The same on another device."""
        return replace(self, **{name: own.to(device) for name, own in vars(self).items()})

    def misfit(self, pictures: Tensor, place: int) -> Tensor:
        """How far averages of these pictures are from the released ones, in units of the noise."""
        values = _clipped(self.view(pictures))
        first = (values.mean(dim=0) - self.means[place]) / self.mean_noise[place]
        second = (values.T @ values / len(values) - self.seconds[place]) / self.noise[place]
        return torch.cat([first, second.flatten()])

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
        averages = measured.sums["characteristic"][list(codec.labels)] / (UNIT * rows[:, None, None])
        noise = measured.sigmas["characteristic"] / (UNIT * rows)
        return cls(*map(_tensor, (patterns, inside, averages.transpose(0, 2, 1), noise)))

    def to(self, device: torch.device) -> WaveTarget:
        """The same on another device."""
        return replace(self, **{name: own.to(device) for name, own in vars(self).items()})

    def misfit(self, pictures: Tensor, place: int) -> Tensor:
        """As in MomentTarget."""
        phases = (pictures.flatten(1) @ self.patterns.T) @ self.frequencies
        waves = torch.stack([torch.cos(phases), torch.sin(phases)]).mean(dim=1)
        return ((waves - self.averages[place]) / self.noise[place]).flatten()

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


class Memory(nn.Module):
    """Misfits of each class, averaged over past steps of that class."""

    def __init__(self, classes: int, values: int, kept: float) -> None:
        super().__init__()
        self.kept = kept
        self.register_buffer("past", torch.zeros(classes, values))
        self.register_buffer("visits", torch.zeros(classes))
        self.past: Tensor
        self.visits: Tensor

    def loss(self, halves: Tensor, place: int) -> Tensor:
        """Both halves' misfits times what others say of them, which has the slope of the expected square. They join the past."""
        visits = float(self.visits[place])
        kept = min(self.kept, visits / (visits + LAG))
        others = kept * self.past[place] + (1 - kept) * halves.detach().flip(0)
        self.past[place] = torch.lerp(halves.detach().mean(dim=0), self.past[place], kept)
        self.visits[place] += 1
        return (halves * others).sum()


class PictureTraining(Resumable):
    """The generator, its average over late steps, its optimiser, memory and chance: everything that changes in training."""

    def __init__(self, release: Release, settings: PictureSettings, seed: int, device: torch.device) -> None:
        codec, rows = release.embedding.design.codec, some_rows(release)
        shares = proportions(release)[list(codec.labels)]
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
        self.expected = sum(math.sqrt(target.values) for target in targets)
        size = len(self._misfit(torch.zeros(1, *self.moving.shape, device=device), 0))
        self.memory = Memory(len(shares), size, settings.memory).to(device)
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
        halves = torch.stack([self._misfit(part, place) for part in self.moving(latent, place).split(half)])
        self.optimiser.zero_grad()
        (self.memory.loss(halves, place) / self.expected).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.moving.parameters(), LONGEST)
        self.optimiser.step()
        self.step += 1
        self._follow()
        self._note(float(halves.detach().prod(dim=0).sum()) / self.expected)

    def _misfit(self, pictures: Tensor, place: int) -> Tensor:
        return torch.cat([target.misfit(pictures, place) / target.values**0.25 for target in self.targets])

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
        """Squared residuals in units of what noise alone makes of them, blocks weighted as in training: true rows make 1."""
        return Moment(self.step, self.settings.iterations, sum(self.losses) / len(self.losses), 1.0, None)

    def players(self) -> dict[str, tuple[nn.Module, torch.optim.Optimizer | None]]:
        return {"moving": (self.moving, self.optimiser), "average": (self.average, None), "memory": (self.memory, None)}


def targets_of(measured: Measurement, rows: NDArray[np.float64]) -> tuple[MomentTarget, MomentTarget, WaveTarget]:
    """What a release says of pictures, when its classes have so many rows."""
    return MomentTarget.of(measured, "moments", rows), MomentTarget.of(measured, "edges", rows), WaveTarget.of(measured, rows)
