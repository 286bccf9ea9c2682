"""How many rows there are of each class: the one private count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Rows
from dpearl.privacy import Relation

UNIT = 2**16
"""The integer that stands for one row: fine enough for rounding σ up to cost nothing."""


@dataclass(frozen=True)
class Count:
    """A row adds one unit to its class."""

    classes: int
    weight: float
    family = "count"
    norm2 = UNIT**2
    peak = UNIT

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.classes,)

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        if relation is Relation.ADD_REMOVE:
            return self.norm2
        return 0 if same_class else 2 * self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        return np.bincount(rows.label, minlength=self.classes).astype(np.int64) * UNIT

    def rows(self, sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums as numbers of rows for each class."""
        return sums / UNIT

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}
