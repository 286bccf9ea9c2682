"""The paper's generators (App. G): latent noise and a class in, rows on the embedding's own axes out.

A row leaves a generator as positions in [0, 1] and, for each column that has a choice, the
probabilities of its levels. In training these probabilities stand where a real row has a one-hot
(the softmax of the paper); in sampling the most probable level is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpearl.codec import Codec, Codes, Feature
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


class TableNet(nn.Module):
    """fc → bn → relu → fc → bn → relu → fc → tanh for positions, softmax for levels."""

    def __init__(self, columns: list[Feature], inputs: int) -> None:
        super().__init__()
        self.positions = [column.coordinates for column in columns]
        self.choices = [len(column.returns) for column in columns]
        first, second = TABLE_HIDDEN
        self.layers = nn.Sequential(
            nn.Linear(inputs, first),
            nn.BatchNorm1d(first),
            nn.ReLU(),
            nn.Linear(first, second),
            nn.BatchNorm1d(second),
            nn.ReLU(),
            nn.Linear(second, sum(self.positions) + sum(self.choices)),
        )

    def forward(self, noise: Tensor) -> list[Draft]:
        heads = torch.split(self.layers(noise), [sum(self.positions), *self.choices], dim=1)
        positions = torch.split((1 + torch.tanh(heads[0])) / 2, self.positions, dim=1)
        return [Draft(place, torch.softmax(level, dim=1)) for place, level in zip(positions, heads[1:], strict=True)]


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


class Generator(nn.Module):
    """One network for each picture and one for all other columns, driven by the same latent noise and class."""

    def __init__(self, codec: Codec, classes: int) -> None:
        super().__init__()
        self.codec, self.features = codec, codec.features
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

    def draw(self, classes: Tensor, chance: torch.Generator) -> dict[str, Codes]:
        """A row on the schema's grid for each class that is asked for, by its place; the most probable level is taken."""
        drafts = self.drafts(torch.randn(len(classes), self.latent, generator=chance), classes)
        codes: dict[str, Codes] = {}
        for name, column in self.features.items():
            levels = np.array(column.returns)[drafts[name].levels.argmax(dim=1).numpy()]
            codes[name] = column.code(drafts[name].positions.numpy().astype(np.float64), levels)
        return self.codec.joined(codes)

    def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
        """Rows as the frequencies see them: all coordinates, then the levels that have an axis of their own.

        A plain value lies at its position; where it is missing or a spike, its coordinate is zero. So
        the position counts as far as the plain level is probable.
        """
        positions, levels = [], []
        for name, draft in self.drafts(latent, classes).items():
            if self.features[name].one_hot:
                levels.append(draft.levels)
            elif draft.levels.shape[1] == 1:
                positions.append(draft.positions)
            else:
                positions.append(draft.positions * draft.levels[:, :1])
                levels.append(draft.levels[:, 1:])
        return torch.cat(positions + levels, dim=1)
