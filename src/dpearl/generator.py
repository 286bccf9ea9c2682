"""Generators: latent noise and a class in, rows on the embedding's own axes out. The paper's (App. G), or a network of one's own.

A row leaves a generator as positions in [0, 1] and, for each column that has a choice, the
probabilities of its levels. In training these probabilities stand where a real row has a one-hot
(the softmax of the paper); in sampling the most probable level is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpearl.codec import Codec, Codes, Feature
from dpearl.errors import UsageError
from dpearl.release import Release
from dpearl.schema import Image

TABLE_LATENT, IMAGE_LATENT = 10, 5
"""Sizes of z in the authors' code; the paper prints none."""

TABLE_HIDDEN = (428, 214)
"""Widths of the two hidden layers of the table's network, as in the authors' code."""

IMAGE_HIDDEN, IMAGE_CHANNELS, IMAGE_KERNEL = 200, (16, 8), 5
"""The image's network: fc 200, fc to 16 maps a quarter of the size, two 5×5 up-convolutions, to 8 maps and to pixels."""


@dataclass(frozen=True)
class Draft:
    """A batch of one column as it leaves a generator; `levels` holds the column's `returns`, in order."""

    positions: Tensor
    levels: Tensor


def squashed(scores: Tensor, columns: Sequence[Feature]) -> list[Draft]:
    """Any numbers as drafts, all positions first and then the choices of each column: tanh for positions, softmax for levels."""
    reach = [column.coordinates for column in columns]
    heads = torch.split(scores, [sum(reach), *(len(column.returns) for column in columns)], dim=1)
    positions = torch.split((1 + torch.tanh(heads[0])) / 2, reach, dim=1)
    return [Draft(place, torch.softmax(level, dim=1)) for place, level in zip(positions, heads[1:], strict=True)]


@dataclass(frozen=True, eq=False)
class Axes:
    """The axes on which frequencies see a row: positions of all columns in [0, 1], then a one-hot of each column's levels.

    A row of a network's is a mean of such rows, probabilities where these have a one-hot. A plain value lies at its position;
    where it is missing or a spike, its coordinate is zero. So the position counts as far as the plain level is probable.
    """

    codec: Codec
    classes: int

    @classmethod
    def of(cls, release: Release) -> Axes:
        """Those of a release's columns; `classes` is how many the label has that rows may come back with, else 1."""
        codec = release.embedding.design.codec
        return cls(codec, len(codec.labels))

    @cached_property
    def columns(self) -> list[Feature]:
        """The columns as embeddings see them, in the order of their axes."""
        return list(self.codec.features.values())

    @property
    def size(self) -> int:
        """How many axes there are."""
        return sum(column.coordinates + _levels(column) for column in self.columns)

    @property
    def scores(self) -> int:
        """How many numbers `rows` takes for a row."""
        return sum(column.coordinates + len(column.returns) for column in self.columns)

    def rows(self, scores: Tensor) -> Tensor:
        """Any numbers, such as the last layer of a network gives, as rows on the axes."""
        return self.joined(dict(zip(self.codec.features, squashed(scores, self.columns), strict=True)))

    def joined(self, drafts: Mapping[str, Draft]) -> Tensor:
        """Drafts of all columns as rows on the axes."""
        positions, levels = [], []
        for name, column in self.codec.features.items():
            draft = drafts[name]
            if column.one_hot:
                levels.append(draft.levels)
            elif draft.levels.shape[1] == 1:
                positions.append(draft.positions)
            else:
                positions.append(draft.positions * draft.levels[:, :1])
                levels.append(draft.levels[:, 1:])
        return torch.cat(positions + levels, dim=1)

    def codes(self, rows: Tensor) -> dict[str, Codes]:
        """Rows on the schema's grid: the most probable level, and the position as it is where that level is plain."""
        codes: dict[str, Codes] = {}
        for (name, column), (positions, levels) in zip(self.codec.features.items(), self._parts(rows), strict=True):
            if not column.one_hot:
                plain = 1 - levels.sum(dim=1, keepdim=True)
                positions = positions / plain.clamp(min=1 / (2 + levels.shape[1]))
                levels = torch.cat([plain, levels], dim=1)
            chosen = np.array(column.returns)[levels.argmax(dim=1).numpy()]
            codes[name] = column.code(positions.clamp(0, 1).numpy().astype(np.float64), chosen)
        return self.codec.joined(codes)

    def _parts(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Coordinates and levels of each column."""
        sizes = [column.coordinates for column in self.columns] + [_levels(column) for column in self.columns]
        parts = torch.split(rows, sizes, dim=1)
        return zip(parts[: len(self.columns)], parts[len(self.columns) :], strict=True)


def _levels(column: Feature) -> int:
    """Levels that have an axis of their own: all that may come back, but for the plain one."""
    return len(column.returns) - (0 if column.one_hot else 1)


class Network(Protocol):
    """What a torch module must be to be trained against a release: `dpearl.fit(release, generator=module)`.

        class Mine(torch.nn.Module):
            latent = 16

            def __init__(self, axes: dpearl.Axes) -> None:
                super().__init__()
                self.axes = axes
                inputs = self.latent + axes.classes
                self.net = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, axes.scores))

            def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
                known = one_hot(classes, self.axes.classes)
                return self.axes.rows(self.net(torch.cat([latent, known], dim=1)))

    `latent` is how much Gaussian noise a row takes. Given noise (rows, latent) and the place of each row's class (rows), the
    module returns rows on the release's axes (rows, axes.size), each number in [0, 1]; `axes.rows` makes such of any numbers.
    """

    latent: int

    def __call__(self, latent: Tensor, classes: Tensor) -> Tensor: ...


class TableNet(nn.Module):
    """fc → bn → relu → fc → bn → relu → fc → tanh for positions, softmax for levels."""

    def __init__(self, columns: list[Feature], inputs: int) -> None:
        super().__init__()
        self.columns = columns
        first, second = TABLE_HIDDEN
        self.layers = nn.Sequential(
            nn.Linear(inputs, first),
            nn.BatchNorm1d(first),
            nn.ReLU(),
            nn.Linear(first, second),
            nn.BatchNorm1d(second),
            nn.ReLU(),
            nn.Linear(second, sum(column.coordinates + len(column.returns) for column in columns)),
        )

    def forward(self, noise: Tensor) -> list[Draft]:
        return squashed(self.layers(noise), self.columns)


class UpConv(nn.Module):
    """Bilinear upsampling by two and then a 5×5 convolution, as one convolution of the small map.

    Both are linear, so each of the four phases of the result (even and odd rows and columns) is a
    convolution of the map before upsampling. It equals the two steps on a map with a border of zeros
    (tested) at a quarter of their cost, which was most of a training step's.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        plain = nn.Conv2d(inputs, outputs, IMAGE_KERNEL)  # for its customary initial values
        assert plain.bias is not None
        self.weight, self.bias = plain.weight, plain.bias
        self.register_buffer("taps", _taps(), persistent=False)
        self.taps: Tensor

    def forward(self, maps: Tensor) -> Tensor:
        kernel = torch.einsum("oiuv,pau,qbv->opqiab", self.weight, self.taps, self.taps).flatten(0, 2)
        return functional.pixel_shuffle(functional.conv2d(maps, kernel, self.bias.repeat_interleave(4), padding=2), 2)


def _taps() -> Tensor:
    """How tap u of a filter on the doubled line reads the small line around its point i: (phase, tap of i - 2 + a, u).

    Place 2i + p + u - 2 of the doubled line lies at i + (p + u - 2 - 1/2) / 2 of the small one, between two of its points.
    """
    taps = torch.zeros(2, IMAGE_KERNEL, IMAGE_KERNEL)
    for phase in (0, 1):
        for tap in range(IMAGE_KERNEL):
            place = 2 + (phase + tap - 2.5) / 2
            below = math.floor(place)
            taps[phase, below, tap] += 1 - (place - below)
            taps[phase, below + 1, tap] += place - below
    return taps


class ImageNet(nn.Module):
    """fc → bn → relu → fc → bn → relu → upconv → relu → upconv → sigmoid, cut to the picture's size."""

    def __init__(self, picture: Image, inputs: int) -> None:
        super().__init__()
        self.picture = picture
        maps, inner = IMAGE_CHANNELS
        small = (maps, -(-picture.height // 4), -(-picture.width // 4))
        self.layers = nn.Sequential(
            nn.Linear(inputs, IMAGE_HIDDEN),
            nn.BatchNorm1d(IMAGE_HIDDEN),
            nn.ReLU(),
            nn.Linear(IMAGE_HIDDEN, math.prod(small)),
            nn.BatchNorm1d(math.prod(small)),
            nn.ReLU(),
            nn.Unflatten(1, small),
            UpConv(maps, inner),
            nn.ReLU(),
            UpConv(inner, picture.channels),
            nn.Sigmoid(),
        )

    def forward(self, noise: Tensor) -> Draft:
        pixels = self.layers(noise)[:, :, : self.picture.height, : self.picture.width]
        return Draft(pixels.permute(0, 2, 3, 1).flatten(1), pixels.new_ones(len(pixels), 1))


class RowGenerator(nn.Module):
    """A generator whose rows lie on the embedding's axes."""

    axes: Axes
    latent: int

    def draw(self, classes: Tensor, chance: torch.Generator) -> dict[str, Codes]:
        """A row on the schema's grid for each class that is asked for, by its place."""
        return self.axes.codes(self(torch.randn(len(classes), self.latent, generator=chance), classes))


class Generator(RowGenerator):
    """The paper's: one network for each picture and one for all other columns, driven by the same latent noise and class."""

    def __init__(self, codec: Codec, classes: int) -> None:
        super().__init__()
        self.axes, self.features = Axes(codec, classes), codec.features
        self.classes = classes
        self.pictures = [name for name in self.features if isinstance(codec.schema.columns.get(name), Image)]
        self.others = [name for name in self.features if name not in self.pictures]
        self.latent = IMAGE_LATENT if self.pictures else TABLE_LATENT
        inputs = self.latent + (classes if classes > 1 else 0)
        declared = (codec.schema.columns[name] for name in self.pictures)
        self.imagery = nn.ModuleList(ImageNet(picture, inputs) for picture in declared if isinstance(picture, Image))
        self.table = TableNet([self.features[name] for name in self.others], inputs) if self.others else None

    def drafts(self, latent: Tensor, classes: Tensor) -> dict[str, Draft]:
        """Every column of a batch, in the order of the features."""
        if self.classes > 1:
            latent = torch.cat([latent, functional.one_hot(classes, self.classes).to(latent)], dim=1)
        made = {name: net(latent) for name, net in zip(self.pictures, self.imagery, strict=True)}
        if self.table is not None:
            made |= dict(zip(self.others, self.table(latent), strict=True))
        return {name: made[name] for name in self.features}

    def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
        """Rows as the frequencies see them."""
        return self.axes.joined(self.drafts(latent, classes))


class OwnGenerator(RowGenerator):
    """A user's network, looked at once before it is believed."""

    def __init__(self, net: Network, axes: Axes) -> None:
        super().__init__()
        if not isinstance(net, nn.Module) or type(getattr(net, "latent", None)) is not int or net.latent < 1:
            raise UsageError("generator: must be a torch module with a whole number `latent`, the noise that a row takes")
        self.net, self.axes, self.latent = net, axes, net.latent
        self._try()

    @torch.no_grad()
    def _try(self) -> None:
        """Some rows must have the axes' number, and lie where rows can lie."""
        classes, training = torch.arange(8) % self.axes.classes, self.training
        made = self.eval()(torch.randn(8, self.latent, generator=torch.Generator().manual_seed(0)), classes)
        self.train(training)
        if not isinstance(made, Tensor) or made.shape != (8, self.axes.size):
            found = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise UsageError(f"generator: gives {found} for 8 rows of {self.axes.size} axes; return (8, {self.axes.size})")
        if not ((made >= 0) & (made <= 1)).all():
            raise UsageError("generator: rows must lie in [0, 1] on every axis; `axes.rows` makes such of any numbers")

    def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
        rows: Tensor = self.net(latent, classes)
        return rows
