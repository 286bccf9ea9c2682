"""Exactly rounded Gaussian noise from the operating system's entropy.

An integer plus a Gaussian rounded to the nearest integer equals the rounding of their sum:
post-processing of the true Gaussian mechanism. So the analytic guarantee holds with no
floating-point gap (Mironov 2012) and no discretisation loss. There is no seed.

A word of random bits is a draw, and ball arithmetic says which. Nearly all words are settled many at once by bounds on the
Gaussian's tail that hold for the arithmetic of IEEE 754; they come to the same draws.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.special import ndtri

_BITS = 64
_WORDS = np.dtype(">u8")

_NODES, _REACH, _TERMS = 128, 11, 8
"""Nodes of the tail's expansions in each deviation, how many deviations they cover, and terms of each."""

_MARGIN = 2.0**-40
"""Relative: 32 times what a tail may be wrong by, which leaves room for rounding the word's own ends."""


def decided(word: int, sigma: int) -> int:
    """The draw of ⌊σZ⌉, Z standard normal, that begins with this word; exact in distribution.

    Random bits stand for an interval of (-1, 1); ball arithmetic encloses its image under
    σ√2·erfinv. Where the enclosure rounds to one integer, that is the draw; otherwise the
    interval is refined with further bits. Nothing is ever redrawn, which would bias.
    """
    entropy, bits = word, _BITS
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
    words = np.frombuffer(os.urandom(_BITS // 8 * sums.size), _WORDS).astype(np.uint64)
    draws, settled = _settled(words, sigma)
    for place in np.flatnonzero(~settled):
        draws[place] = decided(int(words[place]), sigma)
    return sums + draws.reshape(sums.shape)


def _settled(words: NDArray[np.uint64], sigma: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """What words are decided to be, and for which of them that is certain.

    A word's interval is one of tail probabilities, [m, m + 1]/2⁶⁴ on one side of zero. Where it lies between the tails beyond
    k + ½ and k - ½, the draw is k, wherever k was taken from (`ndtri`, which nothing has to be known of).
    """
    above = words >= np.uint64(1 << (_BITS - 1))
    tail = np.where(above, ~words, words).astype(np.float64)
    size = np.rint(-ndtri((tail + 0.5) / 2.0**_BITS) * sigma)
    beyond, from_it = _tail((size + 0.5) / sigma), np.where(size > 0, _tail(np.abs(size - 0.5) / sigma), 1)
    certain = (beyond * (1 + _MARGIN) < tail / 2.0**_BITS) & ((tail + 1) / 2.0**_BITS < from_it * (1 - _MARGIN))
    return np.where(above, size, -size).astype(np.int64), certain


def _tail(away: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(Z > x) up to x = 11, by Taylor's expansion about the nearest node. Its relative error is below 2⁻⁴⁵.

    The density over the tail is at most x + 1 (Birnbaum 1942). A step h from a node is at most 2⁻⁸, and exact (Sterbenz), so what
    is left out, |He₇(ξ)| φ(ξ) h⁸/8!, is below 2⁻⁵¹ of the tail. That x itself was rounded once moves the tail by x(x + 1)2⁻⁵³ of
    itself, below 2⁻⁴⁵·⁹; the terms shrink so fast that roundings on the way come to a few 2⁻⁵³.
    """
    place = np.rint(away * _NODES)
    step, node = away - place / _NODES, place.astype(np.int64)
    found = np.zeros_like(away)
    for term in reversed(_expansions()):
        found = found * step + term[node]
    return found


@cache
def _expansions() -> tuple[NDArray[np.float64], ...]:
    """The tail at every node and its derivatives over n!, which are (-1)ⁿ Heₙ₋₁ φ/n! with Hermite's polynomials."""
    with ctx.workprec(2 * _BITS):
        nodes = [arb(place) / _NODES for place in range(_NODES * _REACH + 1)]
        found = [[(node / arb(2).sqrt()).erfc() / 2 for node in nodes]]
        slopes = [-(-node * node / 2).exp() / (2 * arb.pi()).sqrt() for node in nodes]
        before, hermite = [arb(0)] * len(nodes), [arb(1)] * len(nodes)
        for order in range(1, _TERMS):
            found.append([slope * own for slope, own in zip(slopes, hermite, strict=True)])
            slopes = [-slope / (order + 1) for slope in slopes]
            steps = zip(nodes, before, hermite, strict=True)
            before, hermite = hermite, [node * own - (order - 1) * last for node, last, own in steps]
    return tuple(np.array([float(own) for own in term]) for term in found)


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
