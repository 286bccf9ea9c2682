"""Where numbers lie when their bounds are not known: counts on grids that need no answer, or an earlier one.

A row falls in one cell of each column that is asked about, as in every marginal: norm √columns, √(2·columns) when replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.embeddings.marginals import UNIT, Rungs
from dpearl.grid import Ladder
from dpearl.schema import AskedDatetime, AskedNumber, Datetime, Number


@dataclass(frozen=True, eq=False)
class Octaves(Rungs):
    """Every number and moment whose bounds are asked for, on the public grid of all numbers."""

    family = "octaves"


@dataclass(frozen=True, eq=False)
class Stretches(Rungs):
    """Some numbers and moments with bounds, in equal stretches of their lines."""

    line: int
    family = "stretches"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "columns": list(self.ladders), "line": self.line}


def octaves(codec: Codec, weight: float) -> Octaves:
    """All columns whose bounds are asked for."""
    asked = [name for name, column in codec.schema.columns.items() if isinstance(column, (AskedNumber, AskedDatetime))]
    return Octaves({name: Ladder(codec.columns[name], 0, (0,)) for name in asked}, weight)


def stretches(codec: Codec, weight: float, columns: Sequence[str], line: int) -> Stretches:
    """These columns in so many stretches; in as many as they have points where these are fewer."""
    ladders = {}
    for name in columns:
        declared = codec.schema.columns[name]
        if not isinstance(declared, (Number, Datetime)):
            raise ValueError("stretches")
        ladders[name] = Ladder(codec.columns[name], declared.points, (min(line, declared.points),))
    return Stretches(ladders, weight, line)


def noisy_line(block: Rungs, noisy: NDArray[np.int64], name: str) -> NDArray[np.float64]:
    """Rows in each cell of a column's line, as noisy as they were released; missing and spikes left out."""
    ladder, counts = block.ladders[name], noisy[block.places[name, 0]] / UNIT
    return counts[:-1] if ladder.column.one_hot else counts[: ladder.lines[0]]
