"""The critic: it re-weights the released frequencies to where data and generator differ most (Sec. 4).

The inner maximisation of Eq. (1) over a Gaussian ω. Frequencies are never drawn again, which would
cost budget; those there are get the weight ω(t)/ω₀(t), self-normalised (importance sampling, Lemma 1).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpearl.settings import Omega

LEAST_PRECISION = 1e-3
"""Of ω, as a part of ω₀'s: it must stay positive for ω to be a distribution."""

LEAST_FOCUS = 0.1
"""Effective sample size that must be left, as a part of k: importance sampling needs many frequencies (Lemma 1)."""

_ALMOST_UNIFORM = 1e-8
"""Below this divergence its root has no use for a gradient."""


class Critic(nn.Module):
    """ω = N(μ, diag(1/precision)) against ω₀ = N(0, 1/scale²), seen at k fixed frequencies.

    log ω/ω₀ = Σ_d (s₀ - s)t²/2 + sμt + constants, which self-normalisation takes away. The precision s is
    what the authors' code moves, too; μ is moved as the tilt sμ. The exponent is linear in both.
    """

    def __init__(self, frequencies: Tensor, scale: float, omega: Omega) -> None:
        super().__init__()
        axes = frequencies.shape[0]
        self.base = scale**2
        self.frequencies = frequencies
        self.halves = frequencies.square() / 2
        self.precision = nn.Parameter(frequencies.new_full((axes,), self.base), omega is not Omega.NONE)
        self.tilt = nn.Parameter(frequencies.new_zeros(axes), omega is Omega.MU_SIGMA)

    def forward(self) -> Tensor:
        """Weights of the frequencies; they add up to one."""
        exponent = (self.base - self.precision) @ self.halves
        if self.tilt.requires_grad:
            exponent = exponent + self.tilt @ self.frequencies
        return torch.softmax(exponent, dim=0)

    def gain(self, distances: Tensor, spread: float) -> Tensor:
        """What the critic maximises: the weighted distance of Eq. (1), less what noise alone would give to such weights.

        The noise of a release stays in its place, and a critic that takes it for a difference stares at the frequencies
        where it is largest. Squared distances that differ by noise of standard deviation `spread` alone can be lifted by
        at most spread · √χ², χ² = kΣw² - 1 (Cauchy-Schwarz); only what is beyond that is a difference to be seen.
        """
        weights = self()
        divergence = (len(weights) * weights.square().sum() - 1).clamp(min=_ALMOST_UNIFORM)
        gain: Tensor = weights @ distances - spread * divergence.sqrt()
        return gain

    @torch.no_grad()
    def keep_valid(self) -> None:
        """ω stays a distribution, and stays broad: where it focuses too much, it goes back towards ω₀."""
        self.precision.clamp_(min=LEAST_PRECISION * self.base)
        while effective_sample_size(self()) < LEAST_FOCUS * self.frequencies.shape[1]:
            self.precision.lerp_(torch.full_like(self.precision, self.base), 0.1)
            self.tilt.mul_(0.9)


def effective_sample_size(weights: Tensor) -> float:
    """How many equally weighted frequencies would be as many: 1 / Σw²."""
    return float(1 / weights.square().sum())
