"""How rows lie inside bins: the finest cells of every column, by group.

Single columns were measured at the first look, cells inside bins by class at the second. What both say is told from noise, the
mixture saying what bins hold. Lines of many cells are looked at one by one (`clumps`), all other columns together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from dpearl.clumps import Clumps, Values, weighed
from dpearl.density import Floats, Rung, down, gathered, joined, likeliest, pieces_of, raked, rungs_of
from dpearl.embeddings.marginals import SIDE, Side
from dpearl.grid import Ladder
from dpearl.mixture import Mixture, single_stage
from dpearl.withheld import ModelRows, Places

_MANY = 256
"""Cells from which on a column says by itself what is noise in it."""

_STEP, _BROAD = 1 / 24, 0.25
_NATS = np.arange(-5, 5 + _STEP, _STEP)
_BEFORE = np.exp(-(_NATS**2) / 2)
_KINDS = np.exp(-((_NATS[:, None] - _NATS) ** 2) / (2 * _BROAD**2))
"""By how many nats a group's odds may be higher in a cell than in its bin, how likely that is before anything is known, and what
its distribution is made of: bells, since no two cells differ by just as much."""

_NEVER = 1e-3
"""Rows that are taken to be anywhere, at least."""


def insides(mixture: Mixture, rows: ModelRows) -> list[list[Floats]]:
    """Rows in the finest cells of each column, by group."""
    columns, total = _columns(mixture, rows), max(mixture.target.rows, 1.0)
    alone = [down(column.ladder, _with_cells(column), total) for column in columns]
    finest = [own if column.long else _pieced(column, own) for column, own in zip(columns, alone, strict=True)]
    short = [(column, _whole(column, own)) for column, own in zip(columns, finest, strict=True) if not column.long]
    grouped = iter(_grouped(short))
    return [
        _clumped(column, own) if column.long else _spread(column, own, next(grouped))
        for column, own in zip(columns, finest, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Cells:
    """A column's cells inside bins: noisy counts and noise of each group, what the mixture holds of their bins, and counts at all
    resolutions."""

    ladder: Ladder
    side: Side
    rungs: list[Rung]
    seen: Floats
    noise: Floats
    held: Floats

    @property
    def share(self) -> Floats:
        """Of each group, in the bin of each cell."""
        return np.asarray(self.held / np.maximum(self.held.sum(axis=0), 1e-9))

    @property
    def whole(self) -> Rung:
        """Cells over all groups."""
        return self.seen.sum(axis=0), np.sqrt((self.noise**2).sum(axis=0))

    @property
    def long(self) -> bool:
        """Whether it is a line of so many cells that they tell by themselves what is noise."""
        return not self.ladder.column.one_hot and len(self.parted) >= _MANY

    @property
    def parted(self) -> Places:
        """Cells that share a bin with others and were looked into."""
        return np.flatnonzero((np.bincount(self.side.owner) > 1)[self.side.owner] & (self.side.finer > 0))

    def within(self, rung: int) -> Places:
        """In which cell of single columns, at this resolution, each one lies: the last, where these part it."""
        found = np.zeros(self.side.cells.size, np.int64)
        found[self.side.cells.bins] = self.ladder.ancestors(rung)
        return found

    def nests(self, rung: int) -> bool:
        """Whether each lies in one of them."""
        both = self.side.cells.bins.astype(np.int64) * 2**32 + self.ladder.ancestors(rung)
        return len(np.unique(both)) == self.side.cells.size

    @property
    def shifted(self) -> Floats:
        """Of each group in a parted cell, where its odds are so many nats higher than in the bin: group × cell × nats."""
        usual = np.clip(self.share[:, self.parted], 1e-9, 1 - 1e-9)
        return np.asarray(expit(logit(usual)[:, :, None] + _NATS))

    def odds(self, whole: Floats) -> Floats:
        """How likely so many nats are for each group and parted cell, in logarithms: group × cell × nats.

        What tells of them is how far a group's count is from an even part of all groups'; the sum itself is known better. A count
        that is known more sharply than to a step of nats lies between two of them: each is half a step wide.
        """
        seen, noise, even = self.seen[:, self.parted], self.noise[:, self.parted], 1 / len(self.seen)
        away = (seen - even * seen.sum(axis=0))[:, :, None]
        spread2 = (noise**2 * (1 - 2 * even) + even**2 * (noise**2).sum(axis=0))[:, :, None]
        rows, shares = whole[self.parted, None], self.shifted
        wide2 = spread2 + (rows * shares * (1 - shares) * _STEP / 2) ** 2
        return np.asarray(-((away - rows * (shares - even)) ** 2) / (2 * wide2) - np.log(wide2) / 2)


def _grouped(columns: list[tuple[_Cells, Floats]]) -> list[Floats]:
    """Rows of every cell (group × cell), given what each holds over all groups: a group has the share of a cell that it has of
    the bin, but for what stands out of the noise.

    How far shares stray is learnt from all columns together, for most alone have too few cells to say what is noise. So a level
    of few rows, of which little can be seen, is as common in each class as others of its bin are.
    """
    odds = [column.odds(whole) for column, whole in columns if len(column.seen) > 1]
    if not any(own.size for own in odds):
        return [column.share * whole for column, whole in columns]
    every = np.concatenate([own.reshape(-1, len(_NATS)) for own in odds])
    kinds = _KINDS / _KINDS.sum(axis=1, keepdims=True)
    prior = likeliest(_chances(every, np.ones(1)) @ kinds.T, _BEFORE / _BEFORE.sum()) @ kinds
    return [_kept(*column, _chances(own, prior)) for column, own in zip(columns, odds, strict=True)]


def _chances(odds: Floats, prior: Floats) -> Floats:
    """Of each kind, along the last axis, by these odds in logarithms and before them."""
    found = np.exp(odds - odds.max(axis=-1, keepdims=True, initial=-np.inf)) * prior
    return np.asarray(found / found.sum(axis=-1, keepdims=True))


def _kept(column: _Cells, whole: Floats, chances: Floats) -> Floats:
    """Rows of each group (group × cell) by these chances of nats in parted cells; cells and bins hold what they do."""
    share = column.share
    found = share * whole
    found[:, column.parted] = (column.shifted * chances).sum(axis=2) * whole[column.parted]
    for own in np.unique(column.side.owner[column.parted]):
        cells = np.flatnonzero(column.side.owner == own)
        margin = share[:, cells[0]] * whole[cells].sum()
        found[:, cells] = raked(found[:, cells], margin, whole[cells])
    return found


def _columns(mixture: Mixture, rows: ModelRows) -> list[_Cells]:
    """All columns, from both looks. Cells of bins that are not looked into are those bins themselves."""
    block, target, first = mixture.block, mixture.target, rungs_of(single_stage(mixture.release))
    measured = mixture.release.embedding
    seen = list(measured.design.codec.labels) if block.groups > 1 else [0]
    again, finer = measured.sums["interactions"] / block.peak, measured.sigmas["interactions"] / block.peak
    means, kept = _held(mixture, rows)
    found = []
    told = zip(block.sides.items(), block.insides(again), block.values(again), strict=True)
    for column, ((name, side), inside, single) in enumerate(told):
        own, ladder = slice(target.starts[column], target.starts[column + 1]), block.ladders[name]
        held = means[:, own][:, side.owner]
        sharper = max(side.finer, 1) / SIDE * kept[:, own][:, side.owner]
        cells = (inside[seen] if side.finer else 0) / sharper + side.inner / SIDE * held
        rungs = first[name]
        if side.finest:
            usual = np.average(kept[:, own], axis=0, weights=means[:, own] + _NEVER)
            rungs[-1] = joined(rungs[-1], _values(side, single, finer, usual))
        found.append(_Cells(ladder, side, rungs, cells, finer / sharper, held))
    return found


def _values(side: Side, counts: Floats, noise: float, kept: Floats) -> Rung:
    """Rows that share each value, where its cell holds several; `kept` is what those of a bin count for."""
    sharper = side.finest / SIDE * kept[side.grid.bins]
    return counts / sharper, np.where(side.several[side.cells.bins], noise / sharper, np.inf)


def _held(mixture: Mixture, rows: ModelRows) -> tuple[Floats, Floats]:
    """Rows that the mixture has in each bin, and what they count for on average: group × bin."""
    target = mixture.target
    joint = rows.bins + np.array(target.starts[:-1])
    if len(target.pairs[0]) > 1:
        joint = joint + (rows.owner * target.starts[-1])[:, None]
    shape = len(target.pairs[0]), target.starts[-1]
    held = np.bincount(joint.ravel(), minlength=math.prod(shape)).reshape(shape)
    counted = np.bincount(joint.ravel(), np.repeat(1 - rows.lost, joint.shape[1]), math.prod(shape)).reshape(shape)
    return np.asarray(held * (target.rows / len(rows.owner)), np.float64), (counted + 1) / (held + 1)


def _pieced(column: _Cells, finest: Floats) -> Floats:
    """Finest cells of a line, so that what its bins share with coarse cells holds what all measurements together say."""
    if column.ladder.column.one_hot:
        return finest
    pieces = pieces_of(column.ladder, column.side.grid, column.rungs)
    if column.side.finer:
        mine = np.zeros(column.side.cells.size, np.int64)
        mine[column.side.cells.bins] = pieces.place
        pieces = pieces.known(gathered(column.whole, mine, len(pieces.owner)))
    held = np.zeros(column.side.grid.size)
    held[column.side.owner] = column.held.sum(axis=0)
    return pieces.given(held)[pieces.place] * _parts(pieces.place, finest)


def _whole(column: _Cells, finest: Floats) -> Floats:
    """Rows of cells over all groups: the bin's, as the finest cells lie in it."""
    side, whole = column.side, column.held.sum(axis=0)
    parts = np.bincount(side.cells.bins, finest, side.cells.size)
    within = np.bincount(side.owner, parts, side.grid.size)[side.owner]
    return np.asarray(np.where(within > 0, parts * whole / np.maximum(within, 1e-9), side.inner / SIDE * whole))


def _spread(column: _Cells, finest: Floats, groups: Floats) -> list[Floats]:
    """A column's finest cells in each group, by the group's rows of each cell."""
    shares = _parts(column.side.cells.bins, finest)
    return [shares * own[column.side.cells.bins] for own in groups]


def _parts(owner: NDArray[np.integer], finest: Floats) -> Floats:
    """Of every finest cell in what holds it; even ones where that is nothing."""
    held = np.bincount(owner, finest)[owner]
    return np.asarray(np.where(held > 0, finest / np.maximum(held, 1e-9), 1 / np.bincount(owner)[owner]))


def _clumped(column: _Cells, finest: Floats) -> list[Floats]:
    """The same of a column whose rows share a few of many values."""
    side, parted = column.side, column.parted
    values = Values(side.cells.bins.astype(np.int64), *column.rungs[-1])
    known = partial(_known, column, values)
    clumps = weighed(column.seen[:, parted].T, column.noise[:, parted].T, known)
    groups, parts = column.held.copy(), np.bincount(side.cells.bins, finest, side.cells.size).astype(np.float64)
    for bins in np.unique(side.owner[parted]):
        own = np.flatnonzero(side.owner[parted] == bins)
        groups[:, parted[own]] = _clumps_of(column, clumps, parts, own).T
    shares = _parts(side.cells.bins, finest)
    if side.several.any() and column.ladder.lines[-1] == column.ladder.points:
        shares = values.shared(groups.sum(axis=0), shares)
    return [shares * own[side.cells.bins] for own in groups]


def _known(column: _Cells, values: Values, totals: Floats) -> Floats:
    """What counts of values and of single columns say of every parted cell to hold so many rows, over none, in logarithms."""
    odds = values.odds(totals)[column.parted]
    for rung, (seen, noise) in enumerate(column.rungs[:-1]):
        parents = column.within(rung)
        own = parents[column.parted]
        alone = (np.bincount(parents)[own] == 1) & column.nests(rung)
        precision = np.where(alone, noise[own] ** -2.0, 0)
        odds += precision[:, None] * (np.outer(seen[own], totals) - totals**2 / 2)
    return odds


def _clumps_of(column: _Cells, clumps: Clumps, parts: Floats, own: Places) -> Floats:
    """Rows of a bin's cells (cell × group), given what it holds, and what single columns say of stretches (`parts`, by cell)."""
    cells = column.parted[own]
    stretches, place = np.unique(column.within(0)[cells], return_inverse=True)
    stretched = np.bincount(place, parts[cells]) + _NEVER
    total, expected = column.held[:, cells[0]], clumps.expected(own)
    table = np.stack([np.bincount(place, group, len(stretches)) for group in expected.T], axis=1) + _NEVER
    table = raked(table, stretched * total.sum() / stretched.sum(), total)
    found = np.empty_like(expected)
    for part, held in enumerate(table):
        found[place == part] = clumps.given(own[place == part], held)
    return found


def _with_cells(column: _Cells) -> list[Rung]:
    """Rungs of single columns; the finest that cells nest in takes on what cells add up to there."""
    rungs = column.rungs
    if not column.side.finer:
        return rungs
    last = max(rung for rung in range(len(rungs)) if column.nests(rung))
    told = gathered(column.whole, column.within(last), column.ladder.sizes[last])
    return [*rungs[:last], joined(rungs[last], told), *rungs[last + 1 :]]
