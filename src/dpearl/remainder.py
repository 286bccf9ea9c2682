"""What a release says beyond its mixture: of pairs that stand out of the noise, and of places inside bins.

A mixture is smooth, and what it leaves over is mostly noise. Here that is told from what is certainly more: by empirical Bayes
(`density.likely`), which keeps what stands out and forgets the rest. Rows are drawn by it (`drawing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from numpy.typing import NDArray

from dpearl.density import Floats, likely
from dpearl.insides import insides
from dpearl.mixture import HIDDEN, SURE, Mixture, PairTarget
from dpearl.withheld import ModelRows, model_rows, withheld

_LEAST = -8.0
"""Deviations below zero where the prior of a remainder starts, as far as above."""

_MISSED, _LEFT = 15.0, 1.5
"""Nothing is said to be never where one standard deviation may hide more than `HIDDEN` of a bin's rows, where independent
columns would have less than fifteen of them there, or where more than one and a half are left over beside what is certainly
there. On Adult rows with an occupation and no employer, or the other way round, fall from 1.5% to 0.5%, husbands and wives that
are not married from 1% to 0.3%; the two-sample AUC from .602 to .600 (four releases, with one in place of one and a half)."""


@dataclass(frozen=True, eq=False)
class Remainder:
    """Rows that pairs have beyond what the mixture expects (group × bin × bin), those that no row is in (bin × bin), and rows in
    the finest cells of each column and group, which say how rows lie inside bins."""

    pairs: Floats
    never: NDArray[np.bool_]
    insides: list[list[Floats]]


def remainder(mixture: Mixture) -> Remainder:
    """All that a release adds to its mixture."""
    rows = model_rows(mixture, np.random.default_rng(0))
    return Remainder(_beyond(mixture, rows), never(mixture.target), insides(mixture, rows))


def never(target: PairTarget) -> NDArray[np.bool_]:
    """Pairs of bins that no row is in, as far as a release can tell: a husband is never single.

    One cell of a pair says little by itself. But where the cells of a bin that are certainly there hold all of its rows, and many
    would be elsewhere if columns were independent, then nothing is elsewhere.
    """
    starts = target.starts
    found = np.zeros((starts[-1], starts[-1]), bool)
    for one, other in permutations(range(len(target.sizes)), 2):
        rows, across = slice(*starts[one : one + 2]), slice(*starts[other : other + 2])
        if target.pairs[1][0, rows, across].any():
            found[rows, across] |= _wanting(*target.table(one, other), target.bins(other))
    return found | found.T


def _wanting(table: Floats, noise: float, usual: Floats) -> NDArray[np.bool_]:
    """Of a table with this noise, cells that no row is in, as far as its lines tell; `usual` is what all rows have across."""
    sure, rows = table > SURE * noise, table.sum(axis=1)
    left = rows - np.where(sure, table, 0).sum(axis=1)
    spread = noise * np.sqrt(sure.sum(axis=1) + 1)
    missed = rows * (np.maximum(usual, 0) * ~sure).sum(axis=1) / max(np.maximum(usual, 0).sum(), 1e-9)
    certain = sure.any(axis=1) & (left <= _LEFT * spread) & (spread <= HIDDEN * rows) & (missed >= _MISSED * spread)
    return np.asarray(certain[:, None] & ~sure)


def _beyond(mixture: Mixture, rows: ModelRows) -> Floats:
    """What all groups share and what they differ by are told from noise one by one."""
    target = mixture.target
    found, precisions = target.pairs
    rest = found + withheld(mixture, rows)[1] - _expected(mixture)
    upper = np.triu(precisions[0] > 0)
    groups, noise = len(rest), 1 / np.sqrt(precisions[0][upper])
    shared = np.zeros_like(rest)
    shared[:, upper] = likely(rest[:, upper].sum(axis=0) / (noise * np.sqrt(groups)), 1.0, _LEAST) * noise / np.sqrt(groups)
    if groups > 1:
        apart = np.sqrt(1 - 1 / groups) * noise
        differing = rest[:, upper] - rest[:, upper].mean(axis=0)
        shared[:, upper] += [likely(own / apart, 1.0, _LEAST) * apart for own in differing]
    return np.asarray(shared + shared.swapaxes(1, 2))


def _expected(mixture: Mixture) -> Floats:
    """Pairs of the mixture, centred as those of the target are."""
    with torch.no_grad():
        parts, weights = torch.cat(mixture.probabilities(), dim=1).double().numpy(), mixture.weights.double().numpy()
    centred, owners = parts - mixture.target.centres, mixture.owners.numpy()
    if len(mixture.target.pairs[0]) == 1:
        owners = np.zeros_like(owners)
    grams = [
        (centred[own] * weights[own, None]).T @ centred[own] for own in (owners == group for group in range(owners.max() + 1))
    ]
    return np.asarray(mixture.target.rows * np.stack(grams))
