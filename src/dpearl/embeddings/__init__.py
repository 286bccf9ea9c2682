"""Embedding families, one file each. A block maps a row to integers and states how far one row can reach."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpearl.codec import Codec, Rows
from dpearl.privacy import Relation


class Block(Protocol):
    """One family of statistics: integer sums over rows, with the reach of a single row known.

    `norm2` bounds the squared length of one row's integers and sets the block's scale; `peak` is the
    most that a row adds to one of them, where it adds least. Sums are kept for each of `classes` classes, or for one.
    `sensitivity2` bounds the squared change of the sums when one row comes, goes or is
    replaced by a row of the same or of another class.
    """

    @property
    def family(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def classes(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def norm2(self) -> int: ...
    def sensitivity2(self, relation: Relation, same_class: bool) -> int: ...
    def sum(self, rows: Rows) -> NDArray[np.int64]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...


def reach(codec: Codec) -> int:
    """Most that a row's squared length can be when coordinates lie in [0, 1] and levels are one-hot."""
    return sum(max(column.coordinates, 1) for column in codec.features.values())
