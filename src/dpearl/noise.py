"""Exactly rounded Gaussian noise from the operating system's entropy.

An integer plus a Gaussian rounded to the nearest integer equals the rounding of their sum:
post-processing of the true Gaussian mechanism. So the analytic guarantee holds with no
floating-point gap (Mironov 2012) and no discretisation loss. There is no seed.
"""

from __future__ import annotations

import os

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

_BITS = 64


def rounded_gaussian(sigma: int) -> int:
    """One draw of ⌊σZ⌉, Z standard normal, exact in distribution.

    Random bits stand for an interval of (-1, 1); ball arithmetic encloses its image under
    σ√2·erfinv. Where the enclosure rounds to one integer, that is the draw; otherwise the
    interval is refined with further bits. Nothing is ever redrawn, which would bias.
    """
    entropy, bits = int.from_bytes(os.urandom(_BITS // 8), "big"), _BITS
    while True:
        with ctx.workprec(bits + 32):
            centre, half = 2 * entropy + 1, 1
            point = arb(centre, half) / (1 << bits) - 1
            nearest = (arb(sigma) * arb(2).sqrt() * point.erfinv() + arb("0.5")).floor().unique_fmpz()
        if nearest is not None:
            return int(nearest)
        entropy, bits = (entropy << _BITS) | int.from_bytes(os.urandom(_BITS // 8), "big"), bits + _BITS


def add_noise(sums: NDArray[np.int64], sigma: int) -> NDArray[np.int64]:
    """Integer sums, each with an independent draw of the rounded Gaussian."""
    draws = [rounded_gaussian(sigma) for _ in range(sums.size)]
    return sums + np.array(draws, np.int64).reshape(sums.shape)
