"""Mode-specific normalisation, as the paper suggests for columns of several modes (after CTGAN): a value is one of its column's
modes, and a place in that mode's frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpearl.schema import Mode

Floats = NDArray[np.float64]

_WIDE = 4.0
"""Spreads from its mean at which a mode's frame ends."""


@dataclass(frozen=True)
class Frames:
    """The frames of a column's modes."""

    modes: tuple[Mode, ...]

    def nearest(self, values: Floats) -> NDArray[np.int64]:
        """The mode that most likely gave each value."""
        mean, spread, weight = self._table
        return np.asarray(np.argmax(np.log(weight / spread) - ((values[:, None] - mean) / spread) ** 2 / 2, axis=1))

    def places(self, values: Floats, modes: NDArray[np.int64]) -> Floats:
        """Where in its mode's frame each value lies, from 0 to 1."""
        mean, spread, _ = self._table
        return np.asarray(np.clip((values - mean[modes]) / (2 * _WIDE * spread[modes]) + 0.5, 0, 1))

    def values(self, places: Floats, modes: NDArray[np.int64]) -> Floats:
        """The values at these places."""
        mean, spread, _ = self._table
        return np.asarray(mean[modes] + (places - 0.5) * 2 * _WIDE * spread[modes])

    @property
    def _table(self) -> Floats:
        return np.array([(mode.mean, mode.spread, mode.weight) for mode in self.modes]).T
