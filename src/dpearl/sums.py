"""What every engine does with rows: map a batch to int64 sums, add sums. Everything in this file is private.

Sums are one vector: the number of rows, then the design's blocks, flat. Integer addition is
associative and commutative, so they are the same, bit for bit, for every batch size, order,
number of workers and engine. (The paper's pairwise distance alone hangs on the order in which rows are
read: it pairs them by place.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.codec import Codes
from dpearl.design import Design

Sums = NDArray[np.int64]
Progress = Callable[[int], None]
"""Told of rows as they are done."""


def nothing(design: Design) -> Sums:
    """The sums of no rows."""
    return np.zeros(1 + sum(math.prod(block.shape) for block in design.blocks), np.int64)


def table_sums(table: pa.Table | pa.RecordBatch, design: Design) -> Sums:
    """The sums of a batch of rows."""
    return code_sums(design.codec.encode(table), design)


def code_sums(codes: Mapping[str, Codes], design: Design) -> Sums:
    """The sums of rows that are coded already."""
    rows = design.codec.rows(codes)
    return np.concatenate([[len(rows)], *(block.sum(rows).ravel() for block in design.blocks)])


def add(one: Sums, other: Sums) -> Sums:
    """The sums of both their rows."""
    return one + other


def blocks_of(sums: Sums, design: Design) -> dict[str, NDArray[np.int64]]:
    """The blocks of a vector of sums, by family."""
    parts, start = {}, 1
    for block in design.blocks:
        stop = start + math.prod(block.shape)
        parts[block.family] = sums[start:stop].reshape(block.shape)
        start = stop
    return parts
