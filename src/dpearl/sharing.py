"""Additive secret sharing modulo 2^64, the modulus of int64 itself.

All shares but one are uniform from the operating system's entropy, and the last is what is missing to the secret. So any of
them but one are uniform and independent of the secret, whatever it is; all of them add up to it exactly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Share = NDArray[np.uint64]


def split(secret: NDArray[np.int64], count: int) -> list[Share]:
    """So many shares of a vector."""
    uniform = [np.frombuffer(os.urandom(8 * secret.size), np.uint64) for _ in range(count - 1)]
    return [*uniform, reduce(np.subtract, uniform, secret.view(np.uint64))]


def joined(shares: Sequence[Share]) -> Share:
    """The sum of shares: of all shares of one secret the secret, of shares of different secrets a share of their sum."""
    return reduce(np.add, shares)
