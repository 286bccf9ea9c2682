"""One round of expectation-maximisation: how much of every row each mode explains, where in it, and how far from its middle.

Rows lie at p in [0, 1] on their column's line. For mode k with responsibility r_k(p) and z_k = (p - mean_k) / (3·spread_k), cut
to [-1, 1], a row adds (r_k, r_k z_k, r_k z_k²), integers truncated towards zero: the statistics of an M-step (DP-EM, Park et al.
2017), in the mode's own frame, so that noise is small where the mode is narrow. Row norm: Σ r_k²(1 + z² + z⁴) ≤ 3Σr_k² ≤ 3. For
two rows a and b, a·b = Σ r_k r′_k (1 + zz′ + z²z′²) ≥ 0, in integers too (|trunc(rz)| ≤ trunc(r)), so that replacing one moves
the sum by at most √6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec, ColumnCodec, Rows
from dpearl.privacy import Relation
from dpearl.schema import Number

UNIT = 2**15
"""The integer that stands for 1."""

CUT = 3.0
"""Spreads from its mean at which a mode's frame ends."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Gaussians on a column's line: mean, spread and weight of each, as rows of one array."""

    table: Floats

    @property
    def size(self) -> int:
        return int(self.table.shape[1])

    def responsibilities(self, points: Floats) -> Floats:
        """(points, modes), adding up to 1."""
        mean, spread, weight = self.table
        logs = np.log(weight / spread) - ((points[:, None] - mean) / spread) ** 2 / 2
        parts = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))

    def framed(self, points: Floats) -> Floats:
        """(points, modes): where in each mode's frame, between -1 and 1."""
        mean, spread, _ = self.table
        return np.asarray(np.clip((points[:, None] - mean) / (CUT * spread), -1, 1))

    def row_map(self, points: Floats) -> NDArray[np.int64]:
        """(points, modes, 3): what a row at each point adds."""
        part, frame = self.responsibilities(points), self.framed(points)
        stacked = np.stack([part, part * frame, part * frame**2], axis=2)
        return np.trunc(UNIT * stacked).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The statistics of some columns under the mixtures found so far."""

    columns: Mapping[str, ColumnCodec]
    mixtures: Mapping[str, Mixture]
    weight: float
    family = "mixtures"
    classes = 1
    peak = UNIT

    @property
    def norm2(self) -> int:
        return 3 * UNIT**2 * len(self.columns)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each column's statistics lie in the vector."""
        stops = np.cumsum([3 * mixture.size for mixture in self.mixtures.values()]).tolist()
        return {
            name: slice(stop - 3 * mixture.size, stop) for (name, mixture), stop in zip(self.mixtures.items(), stops, strict=True)
        }

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(place.stop for place in self.places.values()),)

    def sensitivity2(self, relation: Relation, same_class: bool) -> int:
        return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2

    def sum(self, rows: Rows) -> NDArray[np.int64]:
        """Rows that have no place on the line, missing ones and spikes, add nothing."""
        sums = np.zeros(self.shape, np.int64)
        for name, column in self.columns.items():
            codes = rows.codes[name]
            plain = column.coordinate(codes[column.level(codes) == 0])[:, 0]
            points, counts = np.unique(plain, return_counts=True)
            added = self.mixtures[name].row_map(points / column.top)
            sums[self.places[name]] = np.tensordot(counts, added, 1).ravel()
        return sums

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "weight": self.weight, "columns": list(self.columns)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "sizes": np.array([mixture.size for mixture in self.mixtures.values()], np.int64),
            "tables": np.concatenate([mixture.table for mixture in self.mixtures.values()], axis=1),
        }


def mixtures(codec: Codec, weight: float, found: Mapping[str, Mixture]) -> Mixtures:
    """A round for the columns that mixtures were found for."""
    return Mixtures({name: codec.columns[name] for name in found}, dict(found), weight)


def load_mixtures(codec: Codec, weight: float, columns: Sequence[str], sizes: NDArray[np.int64], tables: Floats) -> Mixtures:
    """A block from its file form; what cannot be a mixture on a number's line is refused."""
    numbers = all(isinstance(codec.schema.columns[name], Number) for name in columns)
    fits = numbers and len(sizes) == len(columns) and (sizes > 0).all() and tables.shape == (3, sizes.sum())
    if not fits or not np.isfinite(tables).all() or (tables[1:] <= 0).any():
        raise ValueError("mixtures")
    parts = np.split(tables, np.cumsum(sizes)[:-1], axis=1)
    return mixtures(codec, weight, {name: Mixture(part) for name, part in zip(columns, parts, strict=True)})
