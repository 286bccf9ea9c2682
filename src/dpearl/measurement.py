"""Noisy sums: what becomes public of one pass over the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpearl.design import Design
from dpearl.embeddings.count import UNIT


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy sums of one design, with the noise of each block."""

    design: Design
    sums: Mapping[str, NDArray[np.int64]]
    sigmas: Mapping[str, int]

    @property
    def noisy_rows(self) -> float:
        """The private count of all rows, as noisy as it was released."""
        return float(self.sums["count"].sum()) / UNIT
