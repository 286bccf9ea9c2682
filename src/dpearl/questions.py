"""What the owner does not know, asked of the rows under the budget: bounds, levels, modes.

An interview goes from a declaration with questions to a schema without, stage by stage: each asks for a measurement, and what
comes back decides the next. It sees nothing else, so the same interview with a release's own numbers tells whether its schema is
what these numbers say. Stages and shares hang on the declaration alone: the cost is known before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from dpearl.bounds import Span, far_from_zero, narrower, span
from dpearl.design import Design, asking
from dpearl.embeddings.levels import Levels, levels
from dpearl.embeddings.marginals import UNIT
from dpearl.embeddings.mixtures import UNIT as PART
from dpearl.embeddings.mixtures import Mixture, Mixtures, mixtures
from dpearl.embeddings.octaves import Octaves, Stretches, noisy_line, octaves, stretches
from dpearl.measurement import Measurement
from dpearl.modes import ROUNDS, first_mixture, next_mixture
from dpearl.octaves import EPOCH, edges
from dpearl.schema import (
    AskedCategory,
    AskedDatetime,
    AskedNumber,
    Category,
    Datetime,
    Declaration,
    Mode,
    Number,
    Schema,
    asks_modes,
)

_EACH, _MOST = 0.02, 0.2
"""Part of μ² for the bounds or levels of a column, and for those of all columns at most: 20% make all other noise 12% larger. At
2% and ε = 1 a cell has noise of 30 rows; of 30,000 with a heavy tail, less would leave more than 1% beyond the bounds."""

_MODES, _MOST_MODES = 0.1, 0.3
"""Part of μ² for the modes of a column, and of all columns at most."""

_COARSE, _START = 0.8, 0.5
"""Of what bounds may use, the part for the grid of all numbers; of what modes may use, that for the histogram they start from."""

_FINE, _LINE = 64, 256
"""Stretches of a line where bounds are looked at again, and where modes are looked for."""

LOST = 0.1
"""Part of δ for levels that one person alone carries."""

_SMALLEST = 2.0**-128
_CALENDAR = datetime(1, 1, 1), datetime(9999, 12, 31)

Columns = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Ask:
    """A stage of an interview, and what is to be measured in it."""

    stage: str
    design: Design


def shares(declaration: Declaration) -> dict[str, float]:
    """Share of μ² of each stage, in order; nothing where nothing is asked for."""
    columns = declaration.columns.values()
    ends = sum(isinstance(column, (AskedNumber, AskedDatetime)) for column in columns)
    lists = sum(isinstance(column, AskedCategory) for column in columns)
    shapes = sum(asks_modes(column) for column in columns)
    each = min(_EACH, _MOST / max(ends + lists, 1))
    mixed = min(_MODES * shapes, _MOST_MODES)
    asked = {"bounds": _COARSE * each * ends, "ranges": (1 - _COARSE) * each * ends, "levels": each * lists}
    asked["shapes"] = _START * mixed
    asked |= {f"modes {turn}": (1 - _START) * mixed / ROUNDS for turn in range(1, ROUNDS + 1)}
    return {stage: share for stage, share in asked.items() if share}


def interview(declaration: Declaration, delta: float) -> Generator[Ask, Measurement, Schema]:
    """Ask for measurements until all is known. `delta` is the budget's; a part of it is for levels."""
    known = declaration
    if "bounds" in shares(known):
        coarse = yield Ask("bounds", asking(known, octaves))
        rough = _rough(known, coarse)
        again = _only(known.with_columns(rough), rough)
        fine = yield Ask("ranges", asking(again, stretches, columns=list(rough), line=_FINE))
        known = known.with_columns(_bounded(known, coarse, fine))
    if "levels" in shares(known):
        listed = yield Ask("levels", asking(known, levels, delta=LOST * delta))
        known = known.with_columns(_listed(known, listed))
    if "shapes" in shares(known):
        known = known.with_columns((yield from _modal(known)))
    assert isinstance(known, Schema)
    return known


def _only(declaration: Declaration, names: Mapping[str, Any]) -> Declaration:
    """Just these columns, for passes that need no others."""
    return Declaration(
        person=declaration.person,
        rows_per_person=declaration.rows_per_person,
        columns={name: declaration.columns[name] for name in names},
    ).with_columns({})


def _rough(known: Declaration, coarse: Measurement) -> Columns:
    """Columns on the octaves where their values were seen; zero to one where nothing was."""
    block = coarse.design.block("octaves")
    assert isinstance(block, Octaves)
    noise = coarse.sigmas["octaves"] / UNIT
    found = {}
    for name in block.ladders:
        asked, reach = known.columns[name], span(noisy_line(block, coarse.sums["octaves"], name), noise)
        found[name] = _with_bounds(asked, *_octaves(reach)[0], exact=False)
    return found


def _octaves(reach: Span | None) -> tuple[tuple[float, float], bool]:
    """Between which numbers a range of octaves lies, and whether that is far from zero: then it was not let grow, for the next
    octave is wider than all that is needed, and a second look follows."""
    if reach is None:
        return (0.0, 0.0), False
    core = edges(reach.core[0])[0], edges(reach.core[1])[1]
    return (core, True) if far_from_zero(*core) else ((edges(reach.low)[0], edges(reach.high)[1]), False)


def _bounded(known: Declaration, coarse: Measurement, fine: Measurement) -> Columns:
    """The columns with their bounds: narrower ones where they lie far from zero and nearly all rows in a part of the line."""
    octave, block = coarse.design.block("octaves"), fine.design.block("stretches")
    assert isinstance(octave, Octaves)
    assert isinstance(block, Stretches)
    noise, finer = coarse.sigmas["octaves"] / UNIT, fine.sigmas["stretches"] / UNIT
    found = {}
    for name in octave.ladders:
        reach = span(noisy_line(octave, coarse.sums["octaves"], name), noise)
        ends, far = _octaves(reach)
        counts = noisy_line(block, fine.sums["stretches"], name)
        part = narrower(counts, finer, reach.rows) if reach is not None and far else None
        if part is not None:
            ends = _part_of(fine.design.schema.columns[name], part)
        found[name] = _with_bounds(known.columns[name], *ends)
    return found


def _part_of(column: Any, part: tuple[float, float]) -> tuple[float, float]:
    """A part of a line in the column's own units; moments in microseconds since 2000."""
    if isinstance(column, Datetime):
        lower, upper = (end - EPOCH for end in column.span)
    else:
        lower, upper = column.lower, column.upper
    if getattr(column, "log", False):
        return lower * (upper / lower) ** part[0], lower * (upper / lower) ** part[1]
    return lower + part[0] * (upper - lower), lower + part[1] * (upper - lower)


def _with_bounds(asked: Any, lower: float, upper: float, exact: bool = True) -> Number | Datetime:
    """The column with these bounds, moved outwards to its grid, or to round figures; declared ones stay.

    Whatever comes in, what comes out is a valid column: a question that noise answers must not stop a release.
    """
    if isinstance(asked, AskedDatetime):
        return _datetime(asked, lower, upper)
    low, high = (lower if asked.lower is None else asked.lower), (upper if asked.upper is None else asked.upper)
    step = asked.step if exact else None
    smallest = (step or _SMALLEST) if asked.log else -math.inf
    low, high = (low if asked.lower is not None else max(low, smallest)), max(high, smallest)
    unit = Decimal(repr(step)) if step is not None else _round_unit(low, high)
    if asked.lower is None:
        low = max(_rounded(low, unit, ROUND_FLOOR), smallest)
    if asked.upper is None:
        high = _rounded(high, unit, ROUND_CEILING)
    low, high = _apart(low, high, 2 * float(unit), asked)
    if step is not None and (max(abs(low), abs(high)) / step > 2**46 or high - low < 2 * step):
        step = None
    settled = {"lower": low, "upper": high, "step": step, "log": asked.log, "spikes": asked.spikes, "missing": asked.missing}
    return Number(**settled, modes=asked.modes if exact else None)


def _apart(low: float, high: float, least: float, asked: AskedNumber) -> tuple[float, float]:
    """Bounds that a grid fits between, at least so far apart."""
    least = max(least, max(abs(low), abs(high)) * 2.0**-30)
    if high - low >= least:
        return low, high
    if asked.upper is None:
        return low, low + least
    return (high / 2 if asked.log else high - least), high


def _round_unit(low: float, high: float) -> Decimal:
    """A hundredth of the range, as a power of ten; 1 where there is no range."""
    return Decimal(1).scaleb(math.floor(math.log10(high - low)) - 2) if high > low else Decimal(1)


def _rounded(value: float, unit: Decimal, way: str) -> float:
    return float((Decimal(value) / unit).to_integral_value(way) * unit)


def _datetime(asked: AskedDatetime, lower: float, upper: float) -> Datetime:
    """Whole days around two numbers of microseconds since 2000, at least a step; all of the calendar where no step fits."""
    first, last = _moment(lower), _moment(upper)
    low, high = datetime(first.year, first.month, first.day), datetime(last.year, last.month, last.day) + timedelta(days=1)
    step = Datetime(lower=_CALENDAR[0], upper=_CALENDAR[1], step=asked.step).step_us
    reach = max(high - low, timedelta(microseconds=step))
    low, high = (low, low + reach) if reach <= _CALENDAR[1] - low else _CALENDAR
    return Datetime(lower=low, upper=high, step=asked.step, missing=asked.missing)


def _moment(value: float) -> datetime:
    """A moment on the calendar."""
    seconds = min(max(value / 1e6, -63_000_000_000.0), 252_000_000_000.0)
    return datetime(2000, 1, 1) + timedelta(seconds=seconds)


def _listed(known: Declaration, listed: Measurement) -> Columns:
    """The categories with the levels that were found; all that a column holds is `other` where none was."""
    block = listed.design.block("levels")
    assert isinstance(block, Levels)
    made = {}
    for name in block.columns:
        asked, texts = known.columns[name], tuple((block.found or {}).get(name, ()))
        assert isinstance(asked, AskedCategory)
        kept = tuple(text for text in texts if text != asked.other)
        made[name] = Category(levels=kept, other=asked.other or (None if kept else "other"), missing=asked.missing)
    return made


def _modal(known: Declaration) -> Generator[Ask, Measurement, Columns]:
    """The columns with their modes: a histogram, a mixture for it, and rounds of DP-EM."""
    asked = {name: column for name, column in known.columns.items() if isinstance(column, Number) and asks_modes(column)}
    shaped = yield Ask("shapes", asking(known, stretches, columns=list(asked), line=_LINE))
    block = shaped.design.block("stretches")
    assert isinstance(block, Stretches)
    found: dict[str, Mixture] = {}
    for name, column in asked.items():
        counts, noise = noisy_line(block, shaped.sums["stretches"], name), shaped.sigmas["stretches"] / UNIT
        found[name] = first_mixture(counts, noise, column.modes if isinstance(column.modes, int) else None)
    plain = _only(known.with_columns({name: column.model_copy(update={"modes": None}) for name, column in asked.items()}), asked)
    for turn in range(1, ROUNDS + 1):
        measured = yield Ask(f"modes {turn}", asking(plain, mixtures, found=found))
        found = _moved(measured)
    return {name: column.model_copy(update={"modes": _in_units(column, found[name])}) for name, column in asked.items()}


def _moved(measured: Measurement) -> dict[str, Mixture]:
    block = measured.design.block("mixtures")
    assert isinstance(block, Mixtures)
    noisy, noise = measured.sums["mixtures"] / PART, measured.sigmas["mixtures"] / PART
    return {name: next_mixture(made, noisy[block.places[name]], noise) for name, made in block.mixtures.items()}


def _in_units(column: Number, made: Mixture) -> tuple[Mode, ...] | None:
    """Modes in the column's own units, lowest first; None where there is but one."""
    if made.size == 1:
        return None
    reach = column.upper - column.lower if column.step is None else (column.points - 1) * column.step
    table = made.table[:, np.argsort(made.table[0], kind="stable")]
    return tuple(
        Mode(mean=_short(column.lower + mean * reach), spread=_short(spread * reach), weight=_short(weight))
        for mean, spread, weight in table.T.tolist()
    )


def _short(value: float) -> float:
    return float(f"{value:.6g}")
