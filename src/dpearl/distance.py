"""The characteristic function distance between a release and a generator, on the released frequencies.

Everything here is a function of the release: its frequencies, its noisy sums, the noise it states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpearl.codec import Codec
from dpearl.embeddings.characteristic import FINE, TURN, UNIT, Characteristic
from dpearl.embeddings.count import Count
from dpearl.errors import FileError
from dpearl.release import Release


@dataclass(frozen=True)
class Target:
    """What a release says of the rows, in real numbers.

    `frequencies` has a row for each axis that a generator can move along (Generator.forward) and a
    column for each of k frequencies; `values` are E[1{class} e^{it·x}] for each class, cos and sin, with
    noise of standard deviation `noise` on each number. `classes` are the label's codes that rows may
    come back with, `proportions` their shares by the noisy count, clipped and normalised.
    """

    frequencies: Tensor
    values: Tensor
    noise: float
    scale: float
    classes: tuple[int, ...]
    proportions: Tensor

    def to(self, device: torch.device) -> Target:
        """The same on another device."""
        moved = self.frequencies.to(device), self.values.to(device), self.proportions.to(device)
        return Target(moved[0], moved[1], self.noise, self.scale, self.classes, moved[2])

    @property
    def size(self) -> int:
        """k."""
        return self.frequencies.shape[1]


def target_of(release: Release) -> Target:
    """The release's characteristic functions as averages over its rows."""
    measured = release.embedding
    block = measured.design.block("characteristic")
    assert isinstance(block, Characteristic)
    codec = measured.design.codec
    rows = some_rows(release)
    classes = codec.labels
    sums = measured.sums["characteristic"][list(classes)]
    return Target(
        frequencies=torch.from_numpy(real_frequencies(block, codec)).float(),
        values=torch.from_numpy(sums / (UNIT * rows)).float(),
        noise=measured.sigmas["characteristic"] / (UNIT * rows),
        scale=block.scale,
        classes=classes,
        proportions=torch.from_numpy(proportions(release)[list(classes)]),
    )


def some_rows(release: Release) -> float:
    """How many rows there are to learn from; none are refused."""
    rows = learnable_rows(release)
    if rows < 1:
        raise FileError("this release holds no rows, as far as its noise lets one see; there is nothing to learn from it")
    return rows


def learnable_rows(release: Release) -> float:
    """How many rows have a label that may come back: others count as far as they stand out of the noise."""
    measured, count = release.embedding, _count(release)
    lost = np.delete(count.rows(measured.sums["count"]), measured.design.codec.labels)
    rows = measured.noisy_rows if release.rows is None else release.rows
    visible = lost.sum() > 3 * math.sqrt(len(lost)) * count.rows(np.array(measured.sigmas["count"]))
    return float(rows - lost.sum() if visible else rows)


def _count(release: Release) -> Count:
    count = release.embedding.design.block("count")
    assert isinstance(count, Count)
    return count


def proportions(release: Release) -> NDArray[np.float64]:
    """Share of each class by the noisy count: those that may not come back are left out, negative ones are zero."""
    measured, count = release.embedding, _count(release)
    noisy = np.zeros(count.classes)
    classes = list(measured.design.codec.labels)
    noisy[classes] = np.clip(count.rows(measured.sums["count"])[classes], 0, None)
    if not noisy.any():
        noisy[classes] = 1
    return np.asarray(noisy / noisy.sum())


def real_frequencies(block: Characteristic, codec: Codec) -> NDArray[np.float64]:
    """Frequencies in radians along the axes on which coordinates lie in [0, 1] and levels are one-hot."""
    lines = block.lines * (2 * math.pi / FINE) * codec.tops[:, None]
    angles = block.angles * (2 * math.pi / TURN)
    return np.concatenate([lines, angles[_level_axes(codec)]])


def _level_axes(codec: Codec) -> list[int]:
    """Rows of the level table that a generator can reach: levels that may come back, plain values left out."""
    axes, start = [], 0
    for column in codec.features.values():
        axes += [start + level for level in column.returns if column.one_hot or level]
        start += column.levels
    return axes


class _CharacteristicSums(torch.autograd.Function):
    """Σ (cos, sin) of t·x over the rows of each class, which lie together.

    By hand, and in place: the backward pass needs no second sine and cosine, and large temporaries
    cost more than the arithmetic.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, frequencies: Tensor, sizes: list[int]) -> Tensor:
        phases = rows @ frequencies
        cosine, sine = torch.cos(phases), phases.sin_()
        ctx.parts, ctx.sizes = (cosine, sine, frequencies), sizes
        return torch.stack([torch.stack([own.sum(dim=0) for own in torch.split(part, sizes)]) for part in (cosine, sine)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (cosine, sine, frequencies), (outer,) = ctx.parts, gradients
        ctx.parts = None
        for part, slopes in ((cosine, outer[1]), (sine, outer[0])):
            for own, slope in zip(torch.split(part, ctx.sizes), slopes, strict=True):
                own.mul_(slope)
        return cosine.sub_(sine) @ frequencies.T, None, None


@dataclass(frozen=True)
class Batch:
    """How many rows of a batch belong to each class: in proportion, at least one for each that exists.

    Fixing them takes the labels' own chance out of every step; classes of no weight get no rows.
    """

    sizes: tuple[int, ...]
    owner: Tensor
    weights: Tensor

    @classmethod
    def of(cls, proportions: Tensor, size: int) -> Batch:
        shares = proportions * size
        counts = torch.where(proportions > 0, shares.floor().clamp(min=1), 0).long()
        for place in torch.argsort(counts - shares, stable=True)[: max(size - int(counts.sum()), 0)]:
            counts[place] += 1
        weights = torch.where(counts > 0, proportions / counts.clamp(min=1), 0.0)
        owner = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        return cls(tuple(counts.tolist()), owner, weights.float())

    def characteristic(self, rows: Tensor, frequencies: Tensor) -> Tensor:
        """E[1{class} e^{it·x}] of these rows: (classes, k, 2), as in a Target."""
        sums: Tensor = _CharacteristicSums.apply(rows, frequencies, list(self.sizes))  # type: ignore[no-untyped-call]
        return (sums * self.weights[:, None]).permute(1, 2, 0)

    def sampling_noise(self, target: Target) -> float:
        """Mean squared distance per frequency that true rows in a batch like this would have by chance alone.

        A class of share p seen through b rows has variance p²(1 - |Φ|²)/b; |Φ|² is freed of the
        release's own noise first.
        """
        shares = target.proportions[:, None].clamp(min=1e-12)
        power = (target.values.double().square().sum(dim=2) - 2 * target.noise**2) / shares**2
        return float(((1 - power.clamp(0, 1)) * shares * self.weights[:, None]).sum(dim=0).mean())


def squared_distances(target: Target, characteristic: Tensor) -> Tensor:
    """|Φ̃(t) - Φ̂(t)|² for every frequency, summed over classes (Eq. 1 before weighting)."""
    return (target.values - characteristic).square().sum(dim=(0, 2))


def noise_floor(target: Target) -> float:
    """What the release's noise alone adds to the squared distance of the true distribution, on average."""
    return 2 * len(target.classes) * target.noise**2


def noise_spread(target: Target) -> float:
    """How much that differs from frequency to frequency: the standard deviation of σ²χ² with 2 · classes degrees of freedom."""
    return 2 * math.sqrt(len(target.classes)) * target.noise**2
