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


def rounding_gap(sigma: int, parts: int) -> arb:
    """How far, in total variation, the sum of h independent ⌊Gᵢ⌉, Gᵢ ~ N(0, σ²), is from a Gaussian of variance hσ² that was
    post-processed, at most.

    Let g be the density of Gᵢ + Uᵢ, Uᵢ uniform on [-½, ½]. Then P(⌊Gᵢ⌉ = k) = g(k), so Σ⌊Gᵢ⌉ has the h-fold convolution of the
    *samples* of g. The samples of the h-fold *convolution* of g are the law of ⌊G + U₂ + … + U_h⌉ with G ~ N(0, hσ²): a
    Gaussian mechanism, post-processed by independent noise and rounding. By Poisson summation their Fourier series differ by
    (Σ_m ĝ(θ+m))^h - Σ_m ĝ(θ+m)^h, where |ĝ(x)| ≤ exp(-2π²σ²x²). With β ≥ Σ_{m≠0} |ĝ(θ+m)| on |θ| ≤ ½ that is at most
    η = hβ(1+β)^(h-1) + β, so each probability differs by at most η. Beyond K = 64hσ both laws have at most the Gaussian tail
    of 64σ - ½, h + 1 times. So the distance is at most ((2K+1)η + tails)/2: below 10^-500 from σ = 16 on.
    """
    with ctx.workprec(256):
        pi, square = arb.pi(), arb(sigma) ** 2
        beta = 2 * (-(pi**2) * square / 2).exp() / (1 - (-4 * pi**2 * square).exp())
        eta = parts * beta * (1 + beta) ** (parts - 1) + beta
        tails = 2 * (parts + 1) * (-((64 * sigma - arb("0.5")) ** 2) / (2 * square)).exp()
        return ((128 * parts * sigma + 1) * eta + tails) / 2


def add_noise(sums: NDArray[np.int64], sigma: int) -> NDArray[np.int64]:
    """Integer sums, each with an independent draw of the rounded Gaussian."""
    draws = [rounded_gaussian(sigma) for _ in range(sums.size)]
    return sums + np.array(draws, np.int64).reshape(sums.shape)
