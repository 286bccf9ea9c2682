"""The owner's sanity checks: is there a gross mistake in synthetic rows, such as real rows among them?

The guarantee is ε. Nothing here adds to it or stands in for it: checks that find nothing prove nothing.
They look at real rows, so whatever they find is PRIVATE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.neighbors import NearestNeighbors

from dpearl.codec import Codec, ColumnCodec
from dpearl.coded import Coded
from dpearl.errors import DataError
from dpearl.schema import Column, Datetime, Image, Number

NOTE = "Sanity checks notice gross mistakes only, such as synthetic rows that are real rows. The guarantee is epsilon."
"""What must be said beside these checks wherever they are shown."""

_CONFIDENCE = 0.95
_ALARM = " This is more than chance explains: look at these rows."

_MADE, _REAL = 2000, 20_000
"""Most synthetic rows, and most real rows of each side, between which distances are taken."""

_DIGITS = 9
"""Decimals of a distance: what lies below is the rounding of floats and would break ties."""


@dataclass(frozen=True)
class Skipped:
    """A sanity check that was not made; the verdict says why."""

    verdict: str


@dataclass(frozen=True)
class Hits:
    """How many of some rows equal a training row, and how many equal one that is there only once."""

    rows: int
    copies: int
    unique: int


@dataclass(frozen=True)
class Copies:
    """Exact copies on the schema's grid, beside what fresh real rows would have: a sanity check.

    `fresh` are held-out rows, or else each training row against all others. `log10_domain` is the
    logarithm of the number of rows that the schema allows.
    """

    made: Hits
    fresh: Hits
    held_out: bool
    log10_domain: float

    @property
    def passed(self) -> bool:
        """Whether rows that occur only once are copied no more often than by fresh rows: the 95% intervals meet or lie below.

        Common rows do not count here: a generator that makes too many typical rows gives nobody away.
        """
        return interval(self.made.unique, self.made.rows)[0] <= interval(self.fresh.unique, self.fresh.rows)[1]

    @property
    def verdict(self) -> str:
        made, fresh, scale = self.made, self.fresh, self.made.rows / self.fresh.rows
        all_copies = f"{made.copies:,} of {made.rows:,} synthetic rows equal a training row; "
        rare = f"{made.unique:,} equal one that occurs only once there; "
        chance = [f"of as many fresh real rows {_about(hits * scale)} would" for hits in (fresh.copies, fresh.unique)]
        room = f"The schema allows about {_power(self.log10_domain)} different rows."
        return f"{all_copies}{chance[0]}. {rare}{chance[1]}. {room}{'' if self.passed else _ALARM}"


def copies(made: Coded, train: Coded, held: Coded | None = None) -> Copies:
    """Count the synthetic rows that equal a row which the model learnt from, and the fresh rows that do so by chance."""
    _need_rows(made, train)
    tables = [train, made, *([held] if held else [])]
    places = row_ranks(Coded.join(tables))
    times = np.bincount(places[: len(train)], minlength=places.max() + 1)[places]
    own, ours, *fresh = np.split(times, np.cumsum([len(table) for table in tables])[:-1])
    return Copies(_hits(ours), _hits(fresh[0] if fresh else own - 1), bool(fresh), log10_domain(train.codec))


def _hits(times: NDArray[np.int64]) -> Hits:
    return Hits(len(times), int((times > 0).sum()), int((times == 1).sum()))


def _need_rows(made: Coded, train: Coded) -> None:
    for name, rows in (("synthetic", made), ("training", train)):
        if not rows:
            raise DataError(f"the {name} table has no rows, so there is nothing to check; give one that has some")


def _about(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def _power(log10: float) -> str:
    return f"{10**log10:,.0f}" if log10 < 6 else f"10^{log10:.0f}"


def row_ranks(rows: Coded) -> NDArray[np.int64]:
    """Each row's rank among the distinct rows, in the order of their codes: equal ranks are equal rows, exactly."""
    ranks, size = np.zeros(len(rows), np.int64), 1
    for own in rows.codes.values():
        codes = own if own.ndim == 1 else _dense(np.ascontiguousarray(own).view(f"V{own.shape[1]}")[:, 0])
        if size * (int(codes.max()) + 1) >= 2**63:
            ranks, codes = _dense(ranks), _dense(codes)
            size = int(ranks.max()) + 1
        span = int(codes.max()) + 1
        ranks, size = ranks * span + codes, size * span
    return _dense(ranks)


def _dense(codes: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(np.unique(codes, return_inverse=True)[1])


def log10_domain(codec: Codec) -> float:
    """log10 of how many different rows the schema lets come back."""
    return sum(_log10_values(column, codec.columns[name]) for name, column in codec.schema.columns.items())


def _log10_values(column: Column, codec: ColumnCodec) -> float:
    if isinstance(column, Image):
        return column.pixels * math.log10(256)
    points = column.points if isinstance(column, (Number, Datetime)) else 1
    return math.log10(points + len(codec.returns) - 1)


@dataclass(frozen=True)
class Closest:
    """Distance to the closest record: how many synthetic rows lie nearer to training rows than to as many held-out rows.

    A sanity check. `share` is expected to be 0.5 for rows that hold nothing of single people; ties count half. `low` and `high`
    are its 95% interval, `made` and `real` how many rows of each side took part.
    """

    made: int
    real: int
    share: float
    low: float
    high: float
    median_train: float
    median_held: float

    @property
    def passed(self) -> bool:
        """Whether the interval reaches down to one half."""
        return self.low <= 0.5

    @property
    def verdict(self) -> str:
        spread = f"95% interval {100 * self.low:.1f}% to {100 * self.high:.1f}%"
        sides = f"to one of {self.real:,} training rows than to one of {self.real:,} held-out rows"
        found = f"{100 * self.share:.1f}% of {self.made:,} synthetic rows lie nearer {sides}"
        medians = f"median distance {self.median_train:.3g} against {self.median_held:.3g}"
        told = f"{found} ({spread}; {medians}); 50% is expected of rows that hold nothing of single people."
        return told + ("" if self.passed else _ALARM)


def closest(made: Coded, train: Coded, held: Coded | None, seed: int = 0) -> Closest | Skipped:
    """Compare the nearest of m training rows with the nearest of m held-out rows, m the same, for some synthetic rows.

    Distances are Euclidean on `Coded.matrix`, for pictures on pixels in [0, 1]. Two halves of the training rows would not do:
    the model has seen both.
    """
    _need_rows(made, train)
    if not held:
        return Skipped("Not checked: distances need held-out real rows that the model did not learn from; there are none here.")
    chance, size = np.random.default_rng(seed), min(len(train), len(held), _REAL)
    ours, seen, unseen = (_points(_draw(rows, most, chance)) for rows, most in ((made, _MADE), (train, size), (held, size)))
    near, place = _nearest(ours, seen)
    far, other = _nearest(ours, unseen)
    share = float(((near < far).mean() + (near <= far).mean()) / 2)
    trials = _independent(np.where(near <= far, place, size + other))
    low, high = interval(round(share * trials), trials)
    return Closest(len(ours), size, share, low, high, float(np.median(near)), float(np.median(far)))


def _draw(rows: Coded, most: int, chance: np.random.Generator) -> Coded:
    """Some rows, the same whatever the order of all."""
    return rows.take(np.argsort(row_ranks(rows), kind="stable")[chance.permutation(len(rows))[:most]])


def _points(rows: Coded) -> NDArray[np.float64]:
    pictures = [own[:, :-1] / 255 for own in rows.codes.values() if own.ndim == 2]
    return np.concatenate(pictures, axis=1) if pictures else rows.matrix()


def _nearest(points: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distance to the nearest row, and which it is; the search is fast and rounds, so the distance is taken anew."""
    places = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows).kneighbors(points, return_distance=False)[:, 0]
    return np.linalg.norm(points - rows[places], axis=1).round(_DIGITS), places


def _independent(nearest: NDArray[np.int64]) -> int:
    """How many independent rows these count for, 1/Σw² with w the share of rows that have the same nearest real row.

    On which side that real row happens to be decides for all of them at once.
    """
    counts = np.unique(nearest, return_counts=True)[1]
    return int(counts.sum() ** 2 // np.square(counts).sum())


def interval(hits: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a probability (Clopper-Pearson)."""
    found = binomtest(hits, trials).proportion_ci(_CONFIDENCE)
    return float(found.low), float(found.high)
