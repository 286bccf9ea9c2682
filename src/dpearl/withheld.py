"""What the limit on a row's length takes off a release, as far as a mixture knows.

Rows that are longer than the limit count for less (`Pairs`), so that sums of their columns and pairs come out too small. How much
is wanting is seen in rows of the mixture itself: what these lose by the same limit is put back, and the fit goes on (`fitting`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dpearl.density import Floats
from dpearl.embeddings.marginals import WHOLE
from dpearl.mixture import Mixture, inverse

Places = NDArray[np.int64]

_ROWS = 2**16
"""Rows that are looked at; they leave a tenth of a release's noise, or less."""


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Rows of a mixture: their classes, their bins (rows × columns), and the part of each that the limit takes."""

    owner: Places
    bins: Places
    lost: Floats


def model_rows(mixture: Mixture, chance: np.random.Generator) -> ModelRows:
    """Rows that fill the components evenly, each column drawn by itself."""
    with torch.no_grad():
        parts, weights = [part.numpy() for part in mixture.probabilities()], mixture.weights.double().numpy()
    ends = np.floor(np.cumsum(weights / weights.sum()) * _ROWS + 1e-6).astype(np.int64)
    component = np.searchsorted(ends, np.arange(ends[-1]), side="right")
    bins = np.empty((len(component), len(parts)), np.int64)
    for column, part in enumerate(parts):
        if column not in mixture.tables:
            bins[:, column] = inverse(part[component], chance.random(len(component)))
    for column, table in mixture.tables.items():
        bins[:, column] = inverse(table.numpy()[bins[:, int(mixture.parents[column])]], chance.random(len(component)))
    return ModelRows(mixture.owners.numpy()[component], bins, 1 - mixture.block.usually_counted(list(bins.T)) / WHOLE)


def withheld(mixture: Mixture, rows: ModelRows) -> tuple[Floats, Floats]:
    """What is wanting in the target's columns and pairs, in rows: class × bin, and group × bin × bin."""
    target, starts = mixture.target, np.array(mixture.target.starts[:-1])
    columns, pairs = np.zeros_like(target.columns[0]), np.zeros_like(target.pairs[0])
    for place in range(len(columns)):
        short = np.flatnonzero((rows.lost > 0) & (rows.owner == place))
        centred = np.tile(-target.centres.astype(np.float32), (len(short), 1))
        centred[np.arange(len(short))[:, None], rows.bins[short] + starts] += 1
        weighed = centred * rows.lost[short, None].astype(np.float32)
        columns[place] = weighed.sum(axis=0)
        pairs[place if len(pairs) > 1 else 0] += weighed.T @ centred
    scale = target.rows / len(rows.owner)
    return columns * scale, np.where(target.pairs[1] > 0, pairs * scale, 0)
