"""What `auto` measures of pictures: how many, moments of waves and of edges, and characteristic functions of their waves."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.embeddings import Block
from dpearl.embeddings.characteristic import FINE, Characteristic, load_characteristic
from dpearl.embeddings.count import Count
from dpearl.embeddings.moments import Waves, picture_moments
from dpearl.schema import Image

SHARES = {"count": 0.02, "moments": 0.35, "edges": 0.43, "characteristic": 0.2}
"""Parts of μ². Edges tell most of strokes and labels; waves start the generator; characteristic functions see whole
pictures, uncut, where moments see them at one length. The count needs little to be surer than all the others."""

FREQUENCIES = 1000
SCALE, OCTAVES = 2 / 28, 1.0
"""Scales of the frequencies, for each √pixel of a picture's side, and octaves around it: between the spread of a
class along many waves, where shapes show, and its whole extent."""

_FINE_NORMAL = 2**16


def pictured(codec: Codec) -> bool:
    """Whether a row is one picture, with or without a label."""
    return [type(codec.schema.columns[name]) for name in codec.features] == [Image]


def picture_blocks(codec: Codec, seed: int, shares: dict[str, float] = SHARES) -> tuple[Block, ...]:
    """The blocks of a release of pictures, with public weights: √ of their shares."""
    weights = {family: math.sqrt(share) for family, share in shares.items()}
    return (
        Count(codec.classes, weights["count"]),
        picture_moments(codec, "moments", weights["moments"]),
        picture_moments(codec, "edges", weights["edges"]),
        wave_frequencies(codec, FREQUENCIES, seed, weights["characteristic"]),
    )


def wave_frequencies(codec: Codec, frequencies: int, seed: int, weight: float) -> Characteristic:
    """Frequencies that are random sums of a picture's low waves: in most directions of pixel space pictures do not vary."""
    view = picture_moments(codec, "moments", 1.0).view
    assert isinstance(view, Waves)
    chance, scale = np.random.default_rng(seed), SCALE * math.sqrt(view.picture.pixels)
    scales = scale * 2 ** chance.uniform(-OCTAVES, OCTAVES, frequencies)
    normal = chance.standard_normal((view.size, frequencies)) / scales * (view.factors / view.factors.max())[:, None]
    lines = np.rint(_pixel_sums(view, normal) * FINE / (2 * math.pi * 255)).astype(np.int64)
    levels = sum(column.levels for column in codec.features.values())
    return load_characteristic(codec, scale, seed, weight, lines, np.zeros((levels, frequencies), np.int32))


def _pixel_sums(view: Waves, normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Waves summed as normal says, by pixel in reading order: on integers, so that every machine draws the same."""
    picture = view.picture
    sums = view.patterns.T @ np.rint(normal * _FINE_NORMAL)
    placed = sums.reshape(picture.channels, picture.height * picture.width, -1).swapaxes(0, 1).reshape(sums.shape)
    return np.asarray(placed / (_FINE_NORMAL * 2.0**24))
