"""Public constants of training; none of them is chosen by looking at private data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpearl.errors import UsageError
from dpearl.schema import Image, Schema


class Omega(StrEnum):
    """Which parameters of the sampling distribution ω the critic moves; `none` is the ablation without critic."""

    NONE = "none"
    SIGMA = "sigma"
    MU_SIGMA = "mu-sigma"


@dataclass(frozen=True)
class Settings:
    """How long, in which batches and how fast.

    The generator's learning rate falls linearly to zero. The paper names no schedule; among constant,
    stepped, cosine and linear this was nearest to frequencies of an MNIST release that were held out.
    """

    iterations: int
    batch: int
    generator_steps: int
    learning_rate: float = 0.01
    critic_rate: float = 0.01
    omega: Omega = Omega.SIGMA

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise UsageError("the number of iterations must be at least 1")
        if min(self.batch, self.generator_steps) < 1 or not 0 < self.critic_rate <= 1:
            raise UsageError("batch, generator steps and the critic's rate must be positive")
        if not 0 < self.learning_rate <= 1:
            raise UsageError("the learning rate must be more than 0 and at most 1; 0.01 is the paper's")

    def rate(self, step: int) -> float:
        """The generator's learning rate in a step, counted from 0."""
        return self.learning_rate * (1 - step / self.iterations)


TABLES = Settings(iterations=8000, batch=1100, generator_steps=10)
IMAGES = Settings(iterations=6000, batch=100, generator_steps=5)
"""App. G: Adam at 0.01 for both players, batches of 1,100 and 100, 8,000 and 6,000 iterations (Fashion-MNIST: 3,000).
Generator steps for each step of the critic are from the authors' code."""


def settings_for(schema: Schema) -> Settings:
    """The constants for this kind of data."""
    return IMAGES if any(isinstance(column, Image) for column in schema.columns.values()) else TABLES


def check_seed(seed: int) -> None:
    """Refuse a seed that torch cannot take."""
    if not 0 <= seed < 2**63:
        raise UsageError("the seed must lie between 0 and 2^63 - 1")
