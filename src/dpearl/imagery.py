"""How near synthetic pictures are to real ones: Fréchet and kernel distances of LeNet features (the paper's App. F)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from torch import Tensor
from torch.nn import functional

Features = NDArray[np.float64]


@dataclass(frozen=True)
class LeNet:
    """LeNet-5: three 5×5 convolutions with tanh, two of them pooled, then two layers of 84 and 10."""

    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> LeNet:
        """Weights by layer: c1, c3, c5, f6 and f7, each with `.weight` and `.bias`; a prefix is ignored."""
        return cls({".".join(name.split(".")[-2:]): torch.from_numpy(array).float() for name, array in arrays.items()})

    @torch.inference_mode()
    def features(self, pictures: NDArray[np.uint8]) -> Features:
        """The 84 values after f6 and tanh, for pictures of 28×28 in 0..255."""
        parts = [self._hidden(torch.from_numpy(pictures[start : start + 2000])) for start in range(0, len(pictures), 2000)]
        return np.asarray(torch.cat(parts).double().numpy())

    @torch.inference_mode()
    def classify(self, pictures: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The most probable digit."""
        hidden = torch.from_numpy(self.features(pictures)).float()
        return np.asarray(functional.linear(hidden, *self._layer("f7")).argmax(dim=1).numpy())

    def _hidden(self, pictures: Tensor) -> Tensor:
        maps = functional.pad(pictures.reshape(-1, 1, 28, 28).float() / 255, (2, 2, 2, 2))
        maps = functional.max_pool2d(torch.tanh(functional.conv2d(maps, *self._layer("c1"))), 2)
        maps = functional.max_pool2d(torch.tanh(functional.conv2d(maps, *self._layer("c3"))), 2)
        maps = torch.tanh(functional.conv2d(maps, *self._layer("c5")))
        return torch.tanh(functional.linear(maps.flatten(1), *self._layer("f6")))

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]


def frechet_distance(real: Features, made: Features) -> float:
    """FID: ‖μ_r - μ_s‖² + Tr(Σ_r + Σ_s - 2(Σ_r Σ_s)^½)."""
    means, spreads = [x.mean(axis=0) for x in (real, made)], [np.cov(x, rowvar=False) for x in (real, made)]
    root: NDArray[Any] = sqrtm(spreads[0] @ spreads[1])
    return float(np.square(means[0] - means[1]).sum() + np.trace(spreads[0] + spreads[1] - 2 * root.real))


def kernel_distance(real: Features, made: Features) -> float:
    """KID: the unbiased squared MMD with the kernel (x·y/d + 1)³."""
    size = real.shape[1]
    within = [_off_diagonal_mean((x @ x.T / size + 1) ** 3) for x in (real, made)]
    return float(sum(within) - 2 * ((real @ made.T / size + 1) ** 3).mean())


def _off_diagonal_mean(gram: Features) -> float:
    rows = len(gram)
    return float((gram.sum() - np.trace(gram)) / (rows * (rows - 1)))


@dataclass(frozen=True)
class ImageScores:
    """FID and KID, each with its spread over resamples."""

    fid: float
    fid_spread: float
    kid: float
    kid_spread: float


def image_scores(real: Features, made: Features, seed: int = 0) -> ImageScores:
    """As in the paper: FID over 10 bootstrap resamples of the made pictures, KID over 100 subsets (of 1,000 here)."""
    chance = np.random.default_rng(seed)
    fids = [frechet_distance(real, made[chance.integers(len(made), size=len(made))]) for _ in range(10)]
    some = min(1000, len(real), len(made))
    pairs = [(chance.choice(len(real), some, False), chance.choice(len(made), some, False)) for _ in range(100)]
    kids = [kernel_distance(real[ours], made[theirs]) for ours, theirs in pairs]
    return ImageScores(float(np.mean(fids)), float(np.std(fids)), float(np.mean(kids)), float(np.std(kids)))
