"""How near synthetic pictures are to real ones, and what can be learnt from them.

Fréchet and kernel distances of LeNet features (the paper's App. F), agreement of pictures with their labels, accuracy of a
small CNN that is trained on them. Pictures are put in the order of their bytes and then shuffled by the seed, so that no score
depends on their order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpearl import container
from dpearl.coded import Coded
from dpearl.errors import DataError, FileError
from dpearl.schema import Image

Features = NDArray[np.float64]
Pixels = NDArray[np.uint8]
"""(pictures, height, width), or with channels as the last axis; 0..255."""

MOST = 60_000
"""Most pictures of a set that are looked at, drawn at random from larger ones."""

STEPS, EPOCHS, BATCH, RATE = 1000, 10, 64, 2e-3
"""Training of a LeNet: at most so many steps of Adam and so many passes over the pictures."""

LATE = 0.3
"""Part of the steps, the last ones, whose weights are averaged: those of one step alone hang on the last few batches. Nets that
learnt from 50,000 real pictures are right on 87.6 ± .1% of other training pictures in place of 86.5 ± .4% (Fashion-MNIST), and
on 98.3 ± .02% in place of 97.7 ± .3% (MNIST; three seeds each)."""

_SHAPES = {"c1": (6, 1, 5, 5), "c3": (16, 6, 5, 5), "c5": (120, 16, 5, 5), "f6": (84, 120), "f7": (0, 84)}
"""Units and inputs of each layer; the last has a unit for each class."""

_CACHE = "lenet"


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures and the codes of their labels, -1 where a label is none of the declared; None without labels."""

    pixels: Pixels
    labels: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, rows: Coded, name: str) -> Pictures:
        """The pictures of a column that can be read, with the schema's label where that has classes."""
        declared, codes = rows.schema.columns[name], rows.codes[name]
        assert isinstance(declared, Image)
        readable = codes[:, -1] == 0
        pixels = codes[readable, :-1].reshape(-1, declared.height, declared.width, declared.channels)
        label = rows.codec.columns.get(rows.schema.label or "")
        if label is None or not label.one_hot:
            return cls(pixels)
        labels = rows.codes[str(rows.schema.label)][readable]
        classes = [level for level in label.returns if level != label.levels - 1]
        return cls(pixels, np.where(np.isin(labels, classes), labels, -1))

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, places: NDArray[Any]) -> Pictures:
        return Pictures(self.pixels[places], None if self.labels is None else self.labels[places])

    @property
    def classes(self) -> list[int]:
        """Codes of the labels that occur."""
        return [] if self.labels is None else np.unique(self.labels[self.labels >= 0]).tolist()

    def labelled(self) -> tuple[Pixels, NDArray[np.int64]]:
        """Those that have a label, and the label."""
        labels = np.full(len(self), -1) if self.labels is None else self.labels
        return self.pixels[labels >= 0], labels[labels >= 0]

    def some(self, most: int, seed: int) -> Pictures:
        """At most so many, in an order that hangs on the pictures and the seed alone."""
        order = np.argsort(self._lines)
        return self.take(order[np.random.default_rng(seed).permutation(len(self))[:most]])

    @property
    def digest(self) -> str:
        """A fingerprint of the pictures and their labels in whatever order. PRIVATE where they are."""
        return hashlib.sha256(repr(self.pixels.shape).encode() + np.sort(self._lines).tobytes()).hexdigest()

    @property
    def _lines(self) -> NDArray[Any]:
        """Each picture's bytes and label as one value that can be sorted."""
        labels = np.full(len(self), -1) if self.labels is None else self.labels
        flat = np.column_stack([self.pixels.reshape(len(self), -1), labels.astype(">i8")[:, None].view(np.uint8)])
        return np.ascontiguousarray(flat).view(f"V{flat.shape[1]}").ravel()


@dataclass(frozen=True)
class LeNet:
    """LeNet-5: three 5×5 convolutions with tanh, two of them pooled, then two layers of 84 and a number for each class."""

    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> LeNet:
        """Weights by layer: c1, c3, c5, f6 and f7, each with `.weight` and `.bias`; a prefix is ignored."""
        weights = {".".join(name.split(".")[-2:]): torch.from_numpy(array).float() for name, array in arrays.items()}
        for layer, (out, *rest) in _SHAPES.items():
            weight, bias = weights.get(f"{layer}.weight"), weights.get(f"{layer}.bias")
            outs = {None if own is None else own.shape[0] for own in (weight, bias)}
            if weight is None or bias is None or [*weight.shape[1:]] != rest or outs != {out or weight.shape[0]}:
                raise DataError(f"the weights are not those of a LeNet-5: {layer} is missing or has another shape")
        return cls(weights)

    @torch.inference_mode()
    def features(self, pictures: Pixels) -> Features:
        """The 84 values after f6 and tanh; pictures of other sizes or in colour are made 28×28 and grey."""
        parts = [self._hidden(_grey(pictures[start : start + 2000])) for start in range(0, len(pictures), 2000)]
        return np.asarray(torch.cat(parts).double().numpy())

    @torch.inference_mode()
    def classify(self, pictures: Pixels) -> NDArray[np.int64]:
        """The most probable class."""
        hidden = torch.from_numpy(self.features(pictures)).float()
        return np.asarray(functional.linear(hidden, *self._layer("f7")).argmax(dim=1).numpy())

    def logits(self, pictures: Tensor) -> Tensor:
        """A number for each class of grey pictures."""
        return functional.linear(self._hidden(pictures), *self._layer("f7"))

    def _hidden(self, pictures: Tensor) -> Tensor:
        maps = functional.pad(pictures / 255, (2, 2, 2, 2))
        maps = functional.max_pool2d(torch.tanh(functional.conv2d(maps, *self._layer("c1"))), 2)
        maps = functional.max_pool2d(torch.tanh(functional.conv2d(maps, *self._layer("c3"))), 2)
        maps = torch.tanh(functional.conv2d(maps, *self._layer("c5")))
        return torch.tanh(functional.linear(maps.flatten(1), *self._layer("f6")))

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]


def _grey(pictures: Pixels) -> Tensor:
    """(pictures, 1, 28, 28) in 0..255: channels averaged, sizes changed bilinearly; grey ones of 28×28 stay as they are."""
    maps = torch.from_numpy(np.ascontiguousarray(pictures)).float()
    maps = maps.mean(dim=3) if maps.ndim == 4 else maps
    if maps.shape[1:] == (28, 28):
        return maps[:, None]
    return functional.interpolate(maps[:, None], (28, 28), mode="bilinear", antialias=True)


def train_lenet(pictures: Pictures, seed: int = 0, late: float = LATE) -> LeNet:
    """A LeNet that learnt the labels of these pictures; the same for the same pictures, seed and thread count.

    With `late` = 0 it has the weights of the last step. PRIVATE where the pictures are: no budget covers its weights.
    """
    pixels, labels = pictures.some(MOST, seed).labelled()
    chance = torch.Generator().manual_seed(seed)
    net, answers = _untrained(int(labels.max()) + 1, chance), torch.from_numpy(labels)
    optimiser = torch.optim.Adam(net.weights.values(), lr=RATE)
    passes = torch.cat([torch.randperm(len(labels), generator=chance) for _ in range(EPOCHS)])
    batches = torch.split(passes, BATCH)[:STEPS]
    averages = {name: weight.detach().clone() for name, weight in net.weights.items()}
    for left, batch in zip(reversed(range(len(batches))), batches, strict=True):
        loss = functional.cross_entropy(net.logits(_grey(pixels[batch.numpy()])), answers[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        joined = max(1, math.ceil(late * len(batches)) - left)
        for name, weight in net.weights.items():
            averages[name].lerp_(weight.detach(), 1 / joined)
    return LeNet(averages)


def _untrained(classes: int, chance: torch.Generator) -> LeNet:
    """Weights uniform within 1/√(inputs of a unit), as torch has them."""
    weights = {}
    for layer, (out, *rest) in _SHAPES.items():
        for name, shape in (("weight", (out or classes, *rest)), ("bias", (out or classes,))):
            uniform = 2 * torch.rand(shape, generator=chance) - 1
            weights[f"{layer}.{name}"] = (uniform / math.sqrt(math.prod(rest))).requires_grad_()
    return LeNet(weights)


def cached_lenet(pictures: Pictures, path: str | Path, seed: int = 0) -> LeNet:
    """The LeNet that was trained on these pictures before, or one that is trained now and kept in this file.

    PRIVATE: the file holds what real pictures taught, and a fingerprint of them; it is readable by its owner alone.
    """
    if Path(path).exists():
        meta, arrays = container.read(path, _CACHE)
        if (meta.get("pictures"), meta.get("late")) != (pictures.digest, LATE):
            raise FileError(f"{path}: is a LeNet that was trained on other pictures or in another way; name another file")
        return LeNet.of(arrays)
    container.claim(path)
    net = train_lenet(pictures, seed)
    meta = {"PRIVATE": "weights trained on real pictures, not sanitized: keep secret", "pictures": pictures.digest, "late": LATE}
    content, _ = container.pack(_CACHE, meta, {name: weight.numpy() for name, weight in net.weights.items()})
    container.place_file(path, content, mode=0o600)
    return net


def frechet_distance(real: Features, made: Features) -> float:
    """FID: ‖μ_r - μ_s‖² + Tr(Σ_r + Σ_s - 2(Σ_r Σ_s)^½); the last trace is the nuclear norm of Σ_r^½ Σ_s^½."""
    means, spreads = [x.mean(axis=0) for x in (real, made)], [np.cov(x, rowvar=False) for x in (real, made)]
    common = np.linalg.norm(_root(spreads[0]) @ _root(spreads[1]), "nuc")
    return float(np.square(means[0] - means[1]).sum() + np.trace(spreads[0] + spreads[1]) - 2 * common)


def _root(covariance: Features) -> Features:
    """The symmetric square root, also of a covariance that is singular."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(values.clip(min=0))) @ vectors.T)


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


@dataclass(frozen=True)
class Accuracy:
    """The share of pictures p that are given their label, its standard error √(p(1-p)/n), and the share in each class."""

    overall: float
    spread: float
    by_class: Mapping[int, float]

    @classmethod
    def of(cls, truth: NDArray[np.int64], told: NDArray[np.int64]) -> Accuracy:
        right = truth == told
        share = float(right.mean())
        by_class = {int(label): float(right[truth == label].mean()) for label in np.unique(truth)}
        return cls(share, math.sqrt(share * (1 - share) / len(right)), by_class)


def label_agreement(made: Pictures, net: LeNet) -> Accuracy:
    """The share of synthetic pictures to which a net that learnt from real ones gives the label they were made with."""
    pixels, labels = made.labelled()
    return Accuracy.of(labels, net.classify(pixels))


def cnn_accuracy(train: Pictures, test: Pictures, seed: int = 0, late: float = LATE) -> Accuracy:
    """The share of real test pictures that a LeNet gets right which learnt from these pictures alone."""
    return label_agreement(test, train_lenet(train, seed, late))


@dataclass(frozen=True)
class Imagery:
    """What was found of synthetic pictures.

    `scores` are distances to real test pictures, `floor` those of as many fresh real ones. `agreement` and `accuracy` are
    of the synthetic pictures, `ceiling` is the accuracy of a net that learnt from real ones; all None without labels.
    """

    scores: ImageScores
    floor: ImageScores
    agreement: Accuracy | None
    accuracy: Accuracy | None
    ceiling: Accuracy | None
    notes: tuple[str, ...]


Done = Callable[[str], None]
"""Told what has just been finished."""


@dataclass(frozen=True, eq=False)
class PictureJudge:
    """Real pictures, and the nets that look at others: `eye` at their features, `learnt` at their labels."""

    train: Pictures
    test: Pictures
    eye: LeNet
    learnt: LeNet | None
    seed: int

    @classmethod
    def of(
        cls,
        train: Pictures,
        test: Pictures,
        lenet: LeNet | None = None,
        seed: int = 0,
        done: Done = lambda step: None,
        cache: str | Path | None = None,
    ) -> PictureJudge:
        """Without `lenet`, features are those of a net that learns from the real training pictures, kept in `cache`."""
        seen, unseen, learnt = _enough(train, seed), _enough(test, seed), None
        if len(seen.classes) > 1:
            learnt = train_lenet(seen, seed) if cache is None else cached_lenet(seen, cache, seed)
            done("a net that learns from real pictures")
        eye = lenet or learnt
        if eye is None:
            raise DataError("the real pictures have no two classes to learn from; give the weights of a LeNet")
        return cls(seen, unseen, eye, learnt, seed)

    @cached_property
    def _real(self) -> Features:
        return self.eye.features(self.test.pixels)

    @cached_property
    def _ceiling(self) -> Accuracy | None:
        return label_agreement(self.test, self.learnt) if self.learnt and self.test.classes else None

    def look(self, made: Pictures, done: Done = lambda step: None) -> Imagery:
        """Everything that can be said of these pictures; `done` is told of two steps, with labels of three."""
        shown, obstacle = _enough(made, self.seed), _obstacle(self.train, self.test, made)
        scores = self._distances(shown)
        done("distances of synthetic pictures")
        floor = self._distances(self.train.take(np.arange(min(len(shown), len(self.train)))))
        done("distances of fresh real pictures")
        if obstacle or self.learnt is None:
            return Imagery(scores, floor, None, None, self._ceiling, (str(obstacle),))
        accuracy = cnn_accuracy(shown, self.test, self.seed)
        done("a net that learns from synthetic pictures")
        return Imagery(scores, floor, label_agreement(shown, self.learnt), accuracy, self._ceiling, ())

    def _distances(self, pictures: Pictures) -> ImageScores:
        return image_scores(self._real, self.eye.features(pictures.pixels), self.seed)


def _enough(pictures: Pictures, seed: int) -> Pictures:
    if len(pictures) < 2:
        raise DataError("FID and KID need at least two pictures that can be read, real and synthetic")
    return pictures.some(MOST, seed)


def _obstacle(train: Pictures, test: Pictures, made: Pictures) -> str | None:
    """Why labels cannot be judged, if so."""
    for pictures, where, fewest in ((train, "real training", 2), (test, "real test", 1), (made, "synthetic", 1)):
        if len(pictures.classes) < fewest:
            count = "one class only" if pictures.classes else "no labels"
            return f"the {where} pictures have {count}; agreement and accuracy cannot be measured"
    return None


def steps(train: Pictures, test: Pictures, made: Pictures) -> int:
    """How many steps `judge_pictures` will tell of."""
    return 2 + (len(train.classes) > 1) + (_obstacle(train, test, made) is None)


def judge_pictures(
    train: Pictures,
    test: Pictures,
    made: Pictures,
    lenet: LeNet | None = None,
    seed: int = 0,
    done: Done = lambda step: None,
    cache: str | Path | None = None,
) -> Imagery:
    """One set of synthetic pictures before a judge of its own; for several sets, keep the judge."""
    return PictureJudge.of(train, test, lenet, seed, done, cache).look(made, done)
