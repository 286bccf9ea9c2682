"""The table of docs/choose.md: what epsilon means for the best attacker there can be.

A release is μ-GDP, so no test of membership, by whatever means, beats that of N(0, 1) against N(μ, 1) (Dong, Roth & Su):
an even bet is won with probability Φ(μ/2), and a test that accuses α of the absent finds Φ(μ + Φ⁻¹(α)) of the present.
"""

from __future__ import annotations

from scipy.stats import norm

from dpearl.privacy import Budget, compose, epsilon_of
from dpearl.statement import best_guess

EPSILONS = (0.1, 0.5, 1, 2, 3, 5, 10)
DELTA = 1e-5
ACCUSED = 0.01


def caught(mu: float) -> float:
    """The share of people in the data whom the best test finds when it wrongly accuses one in a hundred of the others."""
    return float(norm.cdf(mu + norm.ppf(ACCUSED)))


def table() -> str:
    """A line for each epsilon."""
    lines = [
        "| ε | right in an even bet | people found, of 100 in the data |",
        "|---|---|---|",
        "| nothing is released | 50.0% | 1.0 |",
    ]
    for epsilon in EPSILONS:
        mu = Budget(epsilon, DELTA).mu
        lines.append(f"| {epsilon:g} | {100 * best_guess(mu):.1f}% | {100 * caught(mu):.1f} |")
    return "\n".join(lines)


def sums() -> str:
    """What releases cost together, and what a smaller delta costs."""
    one = Budget(1, DELTA).mu
    two, four = (epsilon_of(compose([one] * times), DELTA) for times in (2, 4))
    more = one / Budget(1, DELTA / 100).mu - 1
    return (
        f"Two releases at ε = 1 are together ε = {two:.2f}, four are {four:.2f}. At ε = 1 a hundredth of δ costs "
        f"{100 * more:.0f}% more noise."
    )


def part() -> str:
    """All that the page takes from here."""
    return f"{table()}\n\n{sums()}"
