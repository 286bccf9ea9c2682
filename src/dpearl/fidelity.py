"""How near synthetic rows are to real ones: distances between two tables, each with its spread and its floor.

A measure looks at a public number of rows at most, drawn at random from larger tables, and always in the order of their
codes: up to that number of rows, a score does not depend on the order in which rows come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform
from scipy.stats import wasserstein_distance
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from dpearl.coded import Coded, bin_count
from dpearl.errors import DataError
from dpearl.schema import Column, Datetime, Number

ROWS = 100_000
"""Most rows of each table, unless a measure says less."""

KERNEL_ROWS = 2_000
"""Most rows of each table for MMD: its time and memory grow with their square."""

LEARNT_ROWS = 10_000
"""Most rows of each table for the classifier."""

FEWEST_LEARNT = 50
"""Fewest rows of each table for the classifier: it makes no leaf of fewer than 20."""

COLUMN_SETS = 500
"""Most sets of columns for marginals."""

QUERIES, ATTRIBUTES = 1_000, 3
PERMUTATIONS, FOLDS, RESAMPLES = 200, 3, 20
_DENSE = 2**18
"""Most cells of a marginal that are counted one by one; in wider ones rows are sorted."""

_SAMPLE, _READ, _RESAMPLE = range(3)
"""Streams of chance, apart from each other: which rows, a measure's own, the bootstrap."""


@dataclass(frozen=True)
class Reading:
    """A measure read once: what it is made of by column or columns, and a spread where it needs no bootstrap."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, float] = field(default_factory=dict)
    spread: float | None = None


Read = Callable[[Coded, Coded, np.random.Generator], Reading | None]
"""Real rows, made rows, chance; None where the measure does not apply."""


@dataclass(frozen=True)
class Measure:
    """A distance between two tables, `perfect` where they are one distribution.

    `rows` of each table at most; None for a plain count over the whole table, which has neither spread nor floor.
    """

    name: str
    title: str
    meaning: str
    read: Read
    perfect: float = 0.0
    rows: int | None = ROWS
    resamples: int = RESAMPLES


@dataclass(frozen=True)
class Score:
    """A measure of made rows: its standard deviation over resamples of them, and what fresh real rows would have."""

    name: str
    title: str
    meaning: str
    perfect: float
    value: float
    spread: float | None
    floor: float | None
    worst: tuple[tuple[str, float], ...]
    extra: Mapping[str, float]


def scores(
    real: Coded, made: Coded, fresh: tuple[Coded, Coded], seed: int = 0, done: Callable[[str], None] = lambda name: None
) -> Iterator[Score]:
    """Every measure that applies; `done` hears each one's name, also of those that do not."""
    for measure in MEASURES:
        found = score(measure, real, made, fresh, seed)
        done(measure.name)
        if found is not None:
            yield found


def score(measure: Measure, real: Coded, made: Coded, fresh: tuple[Coded, Coded], seed: int = 0) -> Score | None:
    """One measure; `fresh` are two tables of real rows that share none, the second in the place of the made ones."""
    if not len(real) or not len(made):
        raise DataError(f"the {'real' if len(made) else 'synthetic'} table has no rows; give at least one")
    if measure.rows is not None and not real.names:
        return None
    ours, theirs = _sample(real, measure.rows, seed), _sample(made, measure.rows, seed)
    reading = measure.read(ours, theirs, _chance(seed, _READ))
    if reading is None:
        return None
    spread = _bootstrap(measure, ours, theirs, seed) if reading.spread is None else reading.spread
    worst = tuple(sorted(reading.parts.items(), key=lambda part: -part[1])[:10])
    told = measure.name, measure.title, measure.meaning, measure.perfect
    return Score(*told, reading.value, spread, _floor(measure, fresh, seed), worst, reading.extra)


def fresh_halves(real: Coded, seed: int = 0) -> tuple[Coded, Coded]:
    """Two random halves of the real rows. Being smaller than the tables compared, they make a floor a little too high."""
    places = _chance(seed, _SAMPLE).permutation(len(real))
    return real.take(places[: len(real) // 2]), real.take(places[len(real) // 2 :])


def _chance(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng((seed, stream))


def _sample(rows: Coded, most: int | None, seed: int) -> Coded:
    """At most so many rows without their pictures, in the order of their codes; all as they are where None."""
    if most is None:
        return rows
    few = len(rows) <= most
    places = np.arange(len(rows)) if few else _chance(seed, _SAMPLE).choice(len(rows), most, replace=False)
    codes = {name: rows.codes[name][places] for name in rows.names}
    return Coded(rows.codec, codes).take(np.lexsort([*reversed(codes.values())]))


def _bootstrap(measure: Measure, real: Coded, made: Coded, seed: int) -> float | None:
    """The standard deviation over resamples of the made rows; chance within the measure stays the same."""
    chance = _chance(seed, _RESAMPLE)
    resamples = (made.take(chance.integers(len(made), size=len(made))) for _ in range(measure.resamples))
    readings = [measure.read(real, resample, _chance(seed, _READ)) for resample in resamples]
    values = [reading.value for reading in readings if reading is not None]
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _floor(measure: Measure, fresh: tuple[Coded, Coded], seed: int) -> float | None:
    if measure.rows is None or not all(map(len, fresh)):
        return None
    ours, theirs = (_sample(rows, measure.rows, seed) for rows in fresh)
    reading = measure.read(ours, theirs, _chance(seed, _READ))
    return None if reading is None else reading.value


def _mean(parts: Mapping[str, float]) -> Reading | None:
    """The mean of all parts, and the worst of them."""
    if not parts:
        return None
    return Reading(float(np.mean([*parts.values()])), parts, {"worst": max(parts.values())})


@dataclass(frozen=True)
class _Cells:
    """Where rows fall, real rows first: a cell below `size` for each."""

    places: NDArray[np.int64]
    size: int

    def by(self, other: _Cells) -> _Cells:
        """Cells of both together; only those that rows fall into where 62 bits do not number all."""
        places, size = self.places, self.size
        if size * other.size > 2**62:
            found, places = np.unique(places, return_inverse=True)
            size = len(found)
        return _Cells(places * other.size + other.places, size * other.size)

    def variation(self, real: int) -> float:
        """Total variation ½ Σ |p - q| between the first `real` rows and the others."""
        ours, theirs = self._counts(real)
        return float(np.abs(ours / real - theirs / (len(self.places) - real)).sum() / 2)

    def _counts(self, real: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of the first `real` rows, and how many others, each cell holds; empty cells of wide tables left out."""
        if self.size <= _DENSE:
            ours, theirs = (np.bincount(rows, minlength=self.size) for rows in (self.places[:real], self.places[real:]))
            return ours, theirs
        marked = np.sort(self.places * 2 + (np.arange(len(self.places)) >= real))
        starts = np.flatnonzero(np.diff(marked >> 1, prepend=-1))
        theirs = np.add.reduceat(marked & 1, starts)
        return np.diff(starts, append=len(marked)) - theirs, theirs


def column_sets(names: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """All sets of so many columns; where they are more than 500, a random 500 that are the same every time."""
    if math.comb(len(names), size) <= COLUMN_SETS:
        return [*combinations(names, size)]
    chance = np.random.default_rng(0)
    found: set[tuple[int, ...]] = set()
    while len(found) < COLUMN_SETS:
        found.add(tuple(sorted(chance.choice(len(names), size, replace=False).tolist())))
    return [tuple(names[place] for place in places) for places in sorted(found)]


def marginals(real: Coded, made: Coded, chance: np.random.Generator, size: int) -> Reading | None:
    """Total variation ½ Σ |p - q| of the marginals over `size` columns: mean and worst over `column_sets`.

    A number has 20 public bins, missing and each spike one of their own. L1 distances Σ |p - q| are twice as large.
    """
    cells = {name: _Cells(_both(real.bins(name), made.bins(name)), bin_count(real.codec.columns[name])) for name in real.names}
    parts = {}
    for names in column_sets(real.names, size):
        joint = cells[names[0]]
        for name in names[1:]:
            joint = joint.by(cells[name])
        parts[" × ".join(names)] = joint.variation(len(real))
    found = _mean(parts)
    if found is None:
        return None
    return Reading(found.value, parts, {**found.extra, "l1_mean": 2 * found.value, "l1_worst": 2 * max(parts.values())})


def missing_patterns(real: Coded, made: Coded, chance: np.random.Generator) -> Reading:
    """Total variation between the distributions of which cells of a row are missing; parts: shares missing by column."""
    pattern, parts = _Cells(np.zeros(len(real) + len(made), np.int64), 1), {}
    for name in real.names:
        ours, theirs = real.missing(name), made.missing(name)
        pattern = pattern.by(_Cells(_both(ours, theirs), 2))
        parts[name] = abs(float(ours.mean() - theirs.mean()))
    return Reading(pattern.variation(len(real)), parts)


def _both(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([ours, theirs], dtype=np.int64)


Line = NDArray[np.float64]
"""A number's values, none of them missing."""


def _ends(column: Column) -> tuple[float, float]:
    """The lowest and the highest value that is declared, spikes among them."""
    if isinstance(column, Number):
        return min((column.lower, *column.spikes)), max((column.upper, *column.spikes))
    assert isinstance(column, Datetime)
    return column.span


def _unit(rows: Coded, name: str) -> NDArray[np.float64]:
    """A number's values, scaled to [0, 1] by its declared ends; NaN where missing."""
    low, high = _ends(rows.schema.columns[name])
    half = 1.0 if math.isfinite(high - low) else 0.5
    return np.asarray((rows.values(name) * half - low * half) / (high * half - low * half))


def numbers_apart(
    real: Coded, made: Coded, chance: np.random.Generator, distance: Callable[[Line, Line], float]
) -> Reading | None:
    """A distance of each number's two distributions, missing values left out: mean and worst.

    A number that is all missing in one table alone has distance 1, in both 0.
    """
    parts = {}
    for name in real.numbers:
        ours, theirs = (values[~np.isnan(values)] for values in (_unit(real, name), _unit(made, name)))
        parts[name] = distance(ours, theirs) if len(ours) and len(theirs) else float(len(ours) != len(theirs))
    return _mean(parts)


def kolmogorov_smirnov(ours: Line, theirs: Line) -> float:
    """max |F - G| of the two distribution functions; scipy's warns of single rows, for a p-value not wanted here."""
    points = np.concatenate([ours, theirs])
    below = [np.searchsorted(np.sort(values), points, side="right") / len(values) for values in (ours, theirs)]
    return float(np.abs(below[0] - below[1]).max())


def wasserstein(ours: Line, theirs: Line) -> float:
    """∫ |F - G|, the mean way that values move, as a share of the range between the declared ends."""
    return float(wasserstein_distance(ours, theirs))


Wanted = tuple[float, float] | NDArray[np.bool_]
"""What a query asks of a column: an interval of a number, both ends included, or a set of levels."""


def range_queries(real: Coded, made: Coded, chance: np.random.Generator, quantiles: bool) -> Reading:
    """Mean |p - q| of the shares of rows that match, over 1,000 random queries on three columns (all, where fewer).

    A category's levels are wanted with probability ½ each, at least one of them, missing never. A number's interval
    lies between two uniform points of its declared range, or two quantiles of the real rows at uniform levels.
    """
    ours, theirs = _columns(real), _columns(made)
    lines = {name: np.sort(ours[name][~np.isnan(ours[name])]) if quantiles else None for name in real.numbers}
    errors = []
    for _ in range(QUERIES):
        places = chance.choice(len(real.names), min(ATTRIBUTES, len(real.names)), replace=False)
        query = {name: _wanted(real, name, lines, chance) for name in (real.names[place] for place in places)}
        errors.append(abs(_matching(ours, query) - _matching(theirs, query)))
    return Reading(float(np.mean(errors)), extra={"worst": max(errors)})


def _columns(rows: Coded) -> dict[str, NDArray[Any]]:
    return {name: _unit(rows, name) if name in rows.numbers else rows.bins(name) for name in rows.names}


def _wanted(rows: Coded, name: str, lines: Mapping[str, Line | None], chance: np.random.Generator) -> Wanted:
    if name in lines:
        return _interval(lines[name], chance)
    return _level_set(rows.codec.columns[name].levels, chance)


def _interval(line: Line | None, chance: np.random.Generator) -> tuple[float, float]:
    """Two uniform points of [0, 1], or the quantiles of sorted values there; nothing lies within where there are none."""
    low, high = sorted(chance.random(2).tolist())
    if line is None:
        return low, high
    return (float(line[int(low * len(line))]), float(line[int(high * len(line))])) if len(line) else (math.nan, math.nan)


def _level_set(levels: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Each level but the last, missing, with probability ½; one of them where that gives none."""
    wanted = chance.random(levels) < 0.5
    wanted[-1] = False
    if not wanted.any():
        wanted[chance.integers(levels - 1)] = True
    return wanted


def _matching(columns: Mapping[str, NDArray[Any]], query: Mapping[str, Wanted]) -> float:
    """The share of rows that have what a query wants in all of its columns."""
    matches = [
        (columns[name] >= wanted[0]) & (columns[name] <= wanted[1]) if isinstance(wanted, tuple) else wanted[columns[name]]
        for name, wanted in query.items()
    ]
    return float(np.logical_and.reduce(matches).mean())


def kernel_distance(real: Coded, made: Coded, chance: np.random.Generator) -> Reading | None:
    """Unbiased squared MMD, mean k(x, x') + mean k(y, y') - 2 mean k(x, y) over pairs of different rows.

    k = exp(-d²/2m), d² the squared distance of rows with numbers in [-1, 1] and levels one-hot, m its median over pooled
    pairs that differ. The p-value is the share of the observed and 200 permuted splits of the rows that lie as far apart.
    """
    ours, rows = len(real), len(real) + len(made)
    if min(ours, len(made)) < 2:
        return None
    kernel = _kernel(_squared_distances(real, made))
    first = np.arange(rows) < ours
    splits = np.vstack([first, chance.permuted(np.tile(first, (PERMUTATIONS, 1)), axis=1)]).astype(float)
    observed, *permuted = _squared_mmd(kernel, splits, 1 - splits)
    drawn = chance.multinomial(len(made), ~first / len(made), size=RESAMPLES).astype(float)
    spread = np.std(_squared_mmd(kernel, np.tile(splits[0], (RESAMPLES, 1)), drawn), ddof=1)
    p_value = (1 + np.sum(permuted >= observed)) / (1 + PERMUTATIONS)
    return Reading(float(observed), extra={"p_value": float(p_value)}, spread=float(spread))


def _squared_distances(real: Coded, made: Coded) -> NDArray[np.float64]:
    """Between all pairs of pooled rows; one-hot levels lie 2 apart, so that levels need only be compared."""
    levels = [name for name in real.names if name not in real.numbers]
    apart = np.zeros(math.comb(len(real) + len(made), 2))
    if real.numbers:
        apart += pdist(np.concatenate([rows.matrix(rows.numbers) for rows in (real, made)]), "sqeuclidean")
    if levels:
        pooled = np.column_stack([_both(real.bins(name), made.bins(name)) for name in levels])
        apart += 2 * len(levels) * pdist(pooled, "hamming")
    return apart


def _kernel(squared: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Gaussian kernel matrix with the median as its bandwidth; all ones where no two rows differ."""
    apart = squared[squared > 0]
    kernel: NDArray[np.float64] = squareform(np.exp(squared / (-2 * np.median(apart) if len(apart) else 1)))
    np.fill_diagonal(kernel, 1)
    return kernel


def _squared_mmd(kernel: NDArray[np.float64], ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared MMD where each table holds row j as often as its weights say, one pair of tables for each row of weights."""
    sizes = [weights.sum(axis=1) for weights in (ours, theirs)]
    images = [weights @ kernel for weights in (ours, theirs)]
    within = [
        ((weights * image).sum(axis=1) - size) / (size * (size - 1))
        for weights, image, size in zip((ours, theirs), images, sizes, strict=True)
    ]
    return np.asarray(within[0] + within[1] - 2 * (theirs * images[0]).sum(axis=1) / (sizes[0] * sizes[1]))


def correlations(real: Coded, made: Coded, chance: np.random.Generator) -> Reading | None:
    """The mean absolute difference of `associations` over pairs of columns."""
    apart = np.abs(associations(real) - associations(made))
    return _mean({f"{real.names[i]} × {real.names[j]}": float(apart[i, j]) for i, j in combinations(range(len(apart)), 2)})


def associations(rows: Coded) -> NDArray[np.float64]:
    """How strongly each two columns hang together: symmetric, ones on the diagonal, 0 beside for constant columns.

    Two numbers: Pearson's r over the rows that have both. Category and number: the correlation ratio η. Two categories:
    Cramér's V, corrected for bias (Bergsma 2013). Other and missing are levels of a category.
    """
    places = {name: place for place, name in enumerate(rows.names)}
    lines = [places[name] for name in rows.numbers]
    levels = {place: rows.bins(name) for name, place in places.items() if name not in rows.numbers}
    found = np.zeros((len(places), len(places)))
    if lines:
        values = np.column_stack([_unit(rows, name) for name in rows.numbers])
        standard, there = _standard(values), ~np.isnan(values)
        found[np.ix_(lines, lines)] = _pearson(standard, there.astype(float))
        for place, codes in levels.items():
            found[place, lines] = found[lines, place] = _correlation_ratios(codes, standard, there)
    for (one, codes), (other, others) in combinations(levels.items(), 2):
        found[one, other] = found[other, one] = _cramers_v(codes, others)
    np.fill_diagonal(found, 1)
    return found


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns of mean 0 and variance 1 over the cells that are there; 0 where missing or constant."""
    standard = np.zeros_like(values)
    for column, own in zip(values.T, standard.T, strict=True):
        there = ~np.isnan(column)
        if there.any() and np.ptp(column[there]):
            spread = (column[there] - column[there].min()) / np.ptp(column[there])
            own[there] = (spread - spread.mean()) / spread.std()
    return standard


def _pearson(standard: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.float64]:
    """r of each two columns over the rows that have both, 0 where one of them does not vary there."""
    rows = np.maximum(there.T @ there, 1)
    sums, squares = standard.T @ there, (standard**2).T @ there
    variance = squares / rows - (sums / rows) ** 2
    scale = np.sqrt(np.maximum(variance * variance.T, 0))
    varies = (variance > 1e-9) & (variance.T > 1e-9)
    covariance = standard.T @ standard / rows - sums * sums.T / rows**2
    return np.asarray(np.clip(np.divide(covariance, scale, out=np.zeros_like(scale), where=varies), -1, 1))


def _correlation_ratios(codes: NDArray[np.int64], standard: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """η of a category with each number: η² is the share of the number's variance that lies between levels."""
    groups = csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))))
    between = ((groups @ standard) ** 2 / np.maximum(groups @ there, 1)).sum(axis=0)
    return np.asarray(np.sqrt(np.minimum(between / np.maximum(there.sum(axis=0), 1), 1)))


def _cramers_v(codes: NDArray[np.int64], others: NDArray[np.int64]) -> float:
    """√(φ̃²/min(r̃ - 1, c̃ - 1)), with φ̃² = max(0, χ²/n - (r - 1)(c - 1)/(n - 1)) and r̃ - 1 = (r - 1)(1 - (r - 1)/(n - 1))."""
    rows, counts = len(codes), [np.bincount(own) for own in (codes, others)]
    free, free_other = (np.count_nonzero(own) - 1 for own in counts)
    smaller = min(own * (1 - own / max(rows - 1, 1)) for own in (free, free_other))
    if smaller <= 0:
        return 0.0
    cells, joint = np.unique(codes * len(counts[1]) + others, return_counts=True)
    one, other = np.divmod(cells, len(counts[1]))
    phi = (joint / counts[0][one] * joint / counts[1][other]).sum() - 1 - free * free_other / (rows - 1)
    return float(np.sqrt(max(phi, 0) / smaller))


def classifier_test(real: Coded, made: Coded, chance: np.random.Generator) -> Reading | None:
    """The ROC AUC of gradient boosting that tells made rows from real ones by their codes: mean over three folds.

    Both tables give as many rows. Equal rows share a fold unless they are common enough to be learnt by themselves:
    else a copy learnt as real would be tested as made, and tables that share rows would seem nearer than they are. What
    still falls below ½ tells nothing apart, and counts as ½. The spread is the standard error over folds.
    """
    rows = min(len(real), len(made))
    if rows < FEWEST_LEARNT:
        return None
    cells = np.concatenate([_balanced(real, rows, chance), _balanced(made, rows, chance)])
    truth, folds = np.repeat([0, 1], rows), _folds(cells, chance)
    areas = [_area(cells, truth, folds == fold) for fold in range(FOLDS)]
    return Reading(max(float(np.mean(areas)), 0.5), spread=float(np.std(areas, ddof=1) / math.sqrt(FOLDS)))


def _balanced(rows: Coded, most: int, chance: np.random.Generator) -> NDArray[np.int64]:
    """So many rows' codes."""
    places = chance.choice(len(rows), most, replace=False)
    return np.column_stack([rows.codes[name][places] for name in rows.names])


def _folds(cells: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
    """A fold for each row, the same for equal rows of at most 30 copies: a leaf has 20, two folds of three are learnt.

    Nor may they be more than one in 200, so that many kinds of rows fall into every fold.
    """
    _, kinds, copies = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    together = (copies <= min(30, len(cells) // 200))[kinds.ravel()]
    return np.where(together, chance.integers(FOLDS, size=len(copies))[kinds.ravel()], chance.permutation(len(cells)) % FOLDS)


def _area(cells: NDArray[np.int64], truth: NDArray[np.int64], tested: NDArray[np.bool_]) -> float:
    classifier = HistGradientBoostingClassifier(early_stopping=False, random_state=0).fit(cells[~tested], truth[~tested])
    return float(roc_auc_score(truth[tested], classifier.predict_proba(cells[tested])[:, 1]))


def invalid_rows(real: Coded, made: Coded, chance: np.random.Generator) -> Reading:
    """The share of made rows that hold a cell which the schema does not allow."""
    return Reading(made.invalid / len(made))


MEASURES = (
    Measure(
        "marginals_1",
        "Single columns (total variation)",
        "0.03: in an average column, 3% of the rows would have to change their value for the tables to agree.",
        partial(marginals, size=1),
    ),
    Measure(
        "marginals_2",
        "Pairs of columns (total variation)",
        "0.03: in an average pair of columns, 3% of the rows would have to change for the tables to agree.",
        partial(marginals, size=2),
    ),
    Measure(
        "marginals_3",
        "Triples of columns (total variation)",
        "0.03: in an average triple of columns, 3% of the rows would have to change for the tables to agree.",
        partial(marginals, size=3),
    ),
    Measure(
        "range_uniform",
        "Range queries, uniform ranges",
        "0.03: the share of rows that a random query on three columns finds is 3 percentage points off, on average.",
        partial(range_queries, quantiles=False),
        resamples=10,
    ),
    Measure(
        "range_quantile",
        "Range queries, ranges between quantiles",
        "0.03: the share of rows that a random query where the rows are finds is 3 percentage points off, on average.",
        partial(range_queries, quantiles=True),
        resamples=10,
    ),
    Measure(
        "ks",
        "Numbers (Kolmogorov-Smirnov)",
        "0.03: for an average number, the shares of rows below a value differ by at most 3 percentage points.",
        partial(numbers_apart, distance=kolmogorov_smirnov),
    ),
    Measure(
        "wasserstein",
        "Numbers (Wasserstein, as a share of the range)",
        "0.03: an average number's values would have to move by 3% of its declared range for the tables to agree.",
        partial(numbers_apart, distance=wasserstein),
    ),
    Measure(
        "correlations",
        "Associations of two columns",
        "0.03: how strongly two columns hang together, from 0 to 1, is 0.03 off on average.",
        correlations,
    ),
    Measure(
        "mmd",
        "Kernel distance (squared MMD)",
        "0.03: on a scale to 1, two rows of one table are 0.015 more alike than two of different tables.",
        kernel_distance,
        rows=KERNEL_ROWS,
    ),
    Measure(
        "c2st",
        "Classifier two-sample test (ROC AUC)",
        "0.53: shown a synthetic and a real row, a classifier tells which is which 53 times in 100; 0.5 is guessing.",
        classifier_test,
        perfect=0.5,
        rows=LEARNT_ROWS,
        resamples=0,
    ),
    Measure(
        "missing",
        "Patterns of missing values (total variation)",
        "0.03: in 3% of the rows other cells would have to be missing for the tables to agree.",
        missing_patterns,
    ),
    Measure(
        "invalid",
        "Invalid rows",
        "0.03: 3% of the synthetic rows hold a cell that the schema does not allow; none should.",
        invalid_rows,
        rows=None,
        resamples=0,
    ),
)
"""Every measure, in the order in which people would read them."""
