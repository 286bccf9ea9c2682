"""What a budget buys, told without data: noise against signal for a guessed number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpearl.embeddings import Block
from dpearl.errors import UsageError
from dpearl.owner import Offer
from dpearl.precision import sharpness


@dataclass(frozen=True)
class Line:
    """One block: noise on its averages, as a fraction of the largest value they can take."""

    stage: str
    family: str
    values: int
    share: float
    noise: float

    @property
    def verdict(self) -> str:
        return sharpness(self.noise)


@dataclass(frozen=True)
class Forecast:
    """What to expect of a release of so many rows."""

    offer: Offer
    rows: int
    lines: tuple[Line, ...]
    embedding_cost: float

    @property
    def hopeful(self) -> bool:
        return self.lines[-1].noise <= 0.3

    @property
    def rows_needed(self) -> int:
        """Rows at which the embedding's noise falls to a tenth of what it measures."""
        return math.ceil(self.rows * self.lines[-1].noise / 0.1)


def forecast(offer: Offer, rows: int) -> Forecast:
    """Noise of every block for a guessed number of rows, spread evenly over the declared classes."""
    if rows < 1:
        raise UsageError("the guessed number of rows must be at least 1")
    lines = []
    for stage, design in offer.sketch.items():
        sigmas = design.sigmas(offer.targets[stage], offer.unit)
        shares = design.shares(sigmas, offer.unit)
        for block in design.blocks:
            noise = _relative_noise(block, sigmas[block.family], rows)
            share = offer.stages[stage] * shares[block.family]
            lines.append(Line(stage, block.family, math.prod(block.shape), share, noise))
    cost = 1 / math.sqrt(offer.stages["embedding"]) - 1
    return Forecast(offer, rows, tuple(lines), cost)


def _relative_noise(block: Block, sigma: int, rows: int) -> float:
    """σ over the most that a class's rows, or all rows, can add up to; nobody is expected in other and missing."""
    return sigma * max(block.classes - 2, 1) / (block.peak * rows)
