"""What can be said of training at a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """The loss beside what true rows would have, and over how many frequencies the critic spreads, where there is one."""

    step: int
    iterations: int
    loss: float
    floor: float
    effective: float | None


Watch = Callable[[Moment], None]
