"""Figures of releases, models and tables, in one style: histograms, pair maps, pictures, training, the attacker's trade-off.

    from dpearl import plot

    plot.histograms(model)                       # what was released, with its error bars, beside synthetic rows
    plot.save(plot.tradeoff(model.release), "tradeoff.png")

Each function returns a matplotlib figure that is tied to no window; notebooks show it, `save` writes it. Figures of a release, a
model and synthetic rows are public. A figure that real rows went into is PRIVATE: no budget covers it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl import container
from dpearl.codec import ColumnCodec, column_codec
from dpearl.coded import Coded, bin_count, bin_names
from dpearl.errors import UsageError, meant
from dpearl.grid import BINS
from dpearl.moment import Moment
from dpearl.precision import bins_of, measured_shares
from dpearl.privacy import Budget
from dpearl.release import Release
from dpearl.schema import Image, Schema
from dpearl.statement import best_test
from dpearl.write import picture_grid

try:
    from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
    from matplotlib.figure import Figure

    from dpearl.chart import LETTERS, Bars, Drawing, bins_along, columns_of, draw_curve, percent, short, styled
    from dpearl.svg import PAPER, write_figure
except ImportError:
    raise UsageError("figures need matplotlib; pip install 'dpearl[report]'") from None

if TYPE_CHECKING:
    from dpearl.synthesizer import Synthesizer

SYNTHETIC, RELEASED = "synthetic rows", "released, 95% interval"
"""What series are called."""

ROWS, PICTURES = 2**14, 2**10
"""Synthetic rows that are drawn from a model; fewer where they hold pictures."""


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf; a file is never overwritten."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("png", "svg", "pdf"):
        raise UsageError(f"{path}: figures are written as .png, .svg or .pdf; end the name so")
    with container.placing(path) as file:
        write_figure(figure, file, format=form, dpi=110)


@styled
def histograms(
    of: Schema | Release | Synthesizer,
    tables: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
) -> Drawing:
    """Every column as shares of rows: bars for tables, points with error bars for what a release counted.

    `of` is a model (its release beside rows that it makes), a release or a schema; `tables` are shown beside it, by name: Arrow,
    pandas or polars. The error bars are 95% intervals from the noise that the release states; they hold for the real rows. A
    release counts the label's classes, and with recipe auto all columns of a table. Pictures are left out.
    """
    release, rows, schema = _release(of), _coded(of, tables), _schema(of)
    names = _known([name for name, column in schema.columns.items() if not isinstance(column, Image)], columns)
    charts = {name: chart for name in names if (chart := _bars(release, schema, rows, name)) is not None}
    if not charts:
        raise UsageError("nothing to show: these columns are not counted by a release; give a model, or tables by their names")
    return columns_of(charts, title)


def _bars(release: Release | None, schema: Schema, rows: Mapping[str, Coded], name: str) -> Bars | None:
    """What is known of a column, if anything; bins that no row may come back with only where rows are seen there."""
    column, most = column_codec(schema.columns[name]), BINS if release is None else bins_of(release, name)
    series = {table: own.shares(name, most) for table, own in rows.items()}
    seen, errors = _returned(column, most), {}
    for own in series.values():
        seen |= own > 0
    measured = None if release is None else measured_shares(release, name)
    if measured is not None:
        series[RELEASED], errors[RELEASED] = measured.values, measured.errors
        seen |= measured.lower > 0
    return Bars.of(column, series, errors, most).take(np.flatnonzero(seen)) if series else None


def _returned(column: ColumnCodec, most: int = BINS) -> NDArray[np.bool_]:
    """Which bins a synthetic row may fall in: those along the line, and levels that may come back."""
    along = bins_along(column, most)
    levels = [level in column.returns for level in range(column.levels)]
    return np.array(levels if column.one_hot else [True] * along + levels[1:])


@styled
def pairs(
    of: Schema | Release | Synthesizer, down: str, across: str, tables: Mapping[str, Any] | None = None, title: str = ""
) -> Drawing:
    """Two columns together: a map of the shares of rows for each table, and of two tables also the first less the second.

    `of` is a model, whose rows are shown, or a release or schema with `tables` beside it, as in `histograms`.
    """
    rows = _coded(of, tables)
    if not rows:
        raise UsageError("a pair map shows rows; give a model, or tables by their names")
    first = next(iter(rows.values()))
    _known(first.names, [down, across])
    maps = {table: _joint(own, down, across) for table, own in rows.items()}
    panels = len(maps) + (len(maps) == 2)
    kept = [_returned(first.codec.columns[name]) for name in (down, across)]
    for own in maps.values():
        kept = [kept[0] | own.any(axis=1), kept[1] | own.any(axis=0)]
    maps = {table: own[np.ix_(*kept)] for table, own in maps.items()}
    labels = [_ticks(first, name, own) for name, own in zip((down, across), kept, strict=True)]
    figure = Drawing(figsize=(1.2 + 4.4 * panels, 4.6), layout="constrained")
    places = figure.subplots(1, panels, squeeze=False).ravel()
    largest = max(own.max() for own in maps.values())
    for place, (table, own) in zip(places, maps.items(), strict=False):
        _map(place, own, _fading(PAPER.series[0]), PowerNorm(0.5, 0, largest or 1), labels, short(table, 2 * LETTERS))
    if len(maps) == 2:
        one, other = maps
        change = maps[one] - maps[other]
        deepest = float(np.abs(change).max()) or 1.0
        norm = Normalize(-deepest, deepest)
        _map(places[-1], change, _fading(*reversed(PAPER.series[:2])), norm, labels, short(f"{one} less {other}", 2 * LETTERS))
    for place in places:
        place.set_xlabel(short(across, 2 * LETTERS))
    places[0].set_ylabel(short(down, 2 * LETTERS))
    figure.suptitle(title, fontsize=13)
    return figure


def _joint(rows: Coded, down: str, across: str) -> NDArray[np.float64]:
    sizes = [bin_count(rows.codec.columns[name]) for name in (down, across)]
    joint = np.bincount(rows.bins(down) * sizes[1] + rows.bins(across), minlength=sizes[0] * sizes[1])
    return np.asarray(joint.reshape(sizes) / max(len(rows), 1))


def _ticks(rows: Coded, name: str, kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[str]]:
    """Where bins are named, and how: all levels of few, else every so many."""
    column = rows.codec.columns[name]
    names = np.array(bin_names(column))[kept]
    places = np.arange(0, len(names), math.ceil(len(names) / (18 if column.one_hot else 8)))
    return places, [short(names[place], 14) for place in places]


def _map(place: Any, cells: NDArray[np.float64], colours: Any, norm: Any, labels: Any, title: str) -> None:
    drawn = place.pcolormesh(cells, cmap=colours, norm=norm, edgecolors="white", linewidth=0.3)
    (down, down_names), (across, across_names) = labels
    place.set_xticks(across + 0.5, across_names, rotation=60, ha="right", rotation_mode="anchor")
    place.set_yticks(down + 0.5, down_names)
    place.spines[:].set_visible(False)
    place.set_title(title, loc="left", fontsize=11, fontweight="bold")
    bar = place.figure.colorbar(drawn, ax=place, format=percent, shrink=0.8)
    bar.outline.set_visible(False)


def _fading(*colours: str) -> Any:
    """From white to a colour; from the first colour over white to the second."""
    stops = ["#ffffff", colours[0]] if len(colours) == 1 else [colours[0], "#ffffff", colours[1]]
    return LinearSegmentedColormap.from_list("dpearl", stops)


@styled
def pictures(
    of: Schema | Release | Synthesizer, tables: Mapping[str, Any] | None = None, across: int = 10, title: str = ""
) -> Drawing:
    """Pictures in lines, a line for each class of the label (five without one); tables side by side.

    `of` is a model, whose pictures are shown, or a release or schema with `tables` beside it, as in `histograms`.
    """
    rows, schema = _coded(of, tables), _schema(of)
    name = next((name for name, column in schema.columns.items() if isinstance(column, Image)), None)
    if name is None or not rows:
        raise UsageError("there are no pictures to show: give a model of pictures, or tables of a schema that declares them")
    picture = schema.columns[name]
    assert isinstance(picture, Image)
    lines = {table: _lines(own, schema, across) for table, own in rows.items()}
    tall = max(len(own) for own in lines.values())
    size = (0.42 * across * len(rows) + 0.8, 0.42 * tall * picture.height / picture.width + 0.6)
    figure = Drawing(figsize=size, layout="constrained")
    for place, (table, own) in zip(figure.subplots(1, len(rows), squeeze=False).ravel(), lines.items(), strict=True):
        stack = np.concatenate([_row(rows[table], name, picture, chosen, across) for chosen in own.values()])
        place.imshow(picture_grid(stack, across), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        place.set_yticks((np.arange(len(own)) + 0.5) * (picture.height + 1), [short(label, 14) for label in own])
        place.set_xticks([])
        place.spines[:].set_visible(False)
        if len(rows) > 1:
            place.set_title(short(table, 2 * LETTERS), loc="left", fontsize=11, fontweight="bold")
    figure.suptitle(title, fontsize=13)
    return figure


def _lines(rows: Coded, schema: Schema, across: int) -> dict[str, NDArray[np.int64]]:
    """The first rows of each class; without a label, some lines of rows."""
    if schema.label is None or rows.codec.classes == 1:
        count = min(5, math.ceil(len(rows) / across))
        return {"" if line == 0 else " " * line: np.arange(len(rows))[line * across :][:across] for line in range(count)}
    names = bin_names(rows.codec.columns[schema.label])
    found = {name: np.flatnonzero(rows.codes[schema.label] == place)[:across] for place, name in enumerate(names)}
    return {name: places for name, places in found.items() if len(places)}


def _row(rows: Coded, name: str, picture: Image, places: NDArray[np.int64], across: int) -> NDArray[np.uint8]:
    """A line of pictures with a white pixel between them, white where there are too few."""
    line = np.full((across, picture.height + 1, picture.width + 1, picture.channels), 255, np.uint8)
    stack = rows.codes[name][places, :-1].reshape(-1, picture.height, picture.width, picture.channels)
    line[: len(places), :-1, :-1] = stack
    return line


@styled
def training(history: Sequence[Moment] | Mapping[str, Sequence[Moment]], title: str = "") -> Drawing:
    """The loss over the steps of training, beside the noise floor: what true rows would have. Of several trainings by name.

    `history` is `pearl.history_`, or a list that `dpearl.fit(release, watch=history.append)` filled. Where a critic weighs
    frequencies, a second chart tells over how many it spreads.
    """
    runs = dict(history) if isinstance(history, Mapping) else {"loss": history}
    if not runs or not all(runs.values()):
        raise UsageError("nothing was trained that could be shown; give the moments that fit told of")
    critics = {name: own for name, own in runs.items() if own[0].effective is not None}
    figure = Drawing(figsize=(6.4, 3.4 + 1.6 * bool(critics)), layout="constrained")
    places = figure.subplots(1 + bool(critics), 1, squeeze=False, sharex=True, height_ratios=[2, 1][: 1 + bool(critics)])[:, 0]
    for (name, own), colour in zip(runs.items(), PAPER.series, strict=False):
        steps = [moment.step for moment in own]
        places[0].plot(
            steps, [moment.loss for moment in own], color=colour, linewidth=1.8, marker="o", markersize=2, label=short(name)
        )
        floors = [moment.floor for moment in own]
        places[0].plot(steps, floors, color=colour, linewidth=1.2, linestyle=(0, (4, 3)), label=_floor(name, len(runs)))
        if name in critics:
            places[1].plot(steps, [moment.effective for moment in own], color=colour, linewidth=1.8)
            places[1].set(ylabel="frequencies", ylim=(0, None))
            places[1].set_title("the critic spreads over", loc="left", fontsize=10)
    positive = all(min(moment.loss, moment.floor) > 0 for own in runs.values() for moment in own)
    places[0].set(yscale="log" if positive else "linear", ylabel="loss")
    if positive:
        places[0].yaxis.set_major_formatter(_digits)
        places[0].yaxis.set_minor_formatter(lambda value, _: _digits(value, _) if f"{value:e}"[0] in "25" else "")
    places[-1].set_xlabel("steps")
    for place in places:
        place.grid(color=PAPER.rule, linewidth=0.5)
        place.spines[["top", "right"]].set_visible(False)
    places[0].legend(loc="upper right")
    figure.suptitle(title, fontsize=13)
    return figure


def _digits(value: float, _: float) -> str:
    return f"{value:.3g}"


def _floor(name: str, runs: int) -> str:
    return "noise floor" if runs == 1 else f"{short(name)}, noise floor"


@styled
def tradeoff(of: Release | Budget | Mapping[str, Release | Budget], title: str = "") -> Drawing:
    """What the best membership test can achieve: its hits at each rate of false alarms, over the diagonal of guessing.

    At a rate α of false alarms it catches Φ(Φ⁻¹(α) + μ) of the people that are in the data (Dong, Roth & Su), whatever it knows
    of all others. Of several releases or budgets by name.
    """
    named = dict(of) if isinstance(of, Mapping) else {_budget(of): of}
    if not named:
        raise UsageError("nothing to compare; give releases or budgets")
    lines = {name: best_test(own.mu, own.lost if isinstance(own, Release) else 0.0) for name, own in named.items()}
    figure = Drawing(figsize=(5.2, 4.8), layout="constrained")
    draw_curve(figure.subplots(), lines, ("false alarms", "hits"), PAPER)
    figure.suptitle(title, fontsize=13)
    return figure


def _budget(of: Release | Budget) -> str:
    budget = of.budget if isinstance(of, Release) else of
    return f"epsilon {budget.epsilon:g}, delta {budget.delta:g}"


def _release(of: Schema | Release | Synthesizer) -> Release | None:
    if isinstance(of, Schema):
        return None
    return of if isinstance(of, Release) else of.release


def _schema(of: Schema | Release | Synthesizer) -> Schema:
    release = _release(of)
    return release.schema if release is not None else of  # type: ignore[return-value]


def _coded(of: Schema | Release | Synthesizer, tables: Mapping[str, Any] | None) -> dict[str, Coded]:
    """Tables on the schema's grid, those that were given or rows of the model's."""
    schema = _schema(of)
    if tables is not None:
        return {name: Coded.of(_pictured(_arrow(table), schema), schema) for name, table in tables.items()}
    if isinstance(of, (Schema, Release)):
        return {}
    pictured = any(isinstance(column, Image) for column in schema.columns.values())
    parts = of.codes(PICTURES if pictured else ROWS)
    return {SYNTHETIC: Coded.join([Coded(of.codec, codes) for codes in parts])}


def _arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    import narwhals as nw

    try:
        return nw.from_native(table, eager_only=True).to_arrow()
    except TypeError:
        raise UsageError("this is not a table: give an Arrow, pandas or polars table") from None


def _pictured(table: pa.Table, schema: Schema) -> pa.Table:
    """With pictures as Arrow's binary of fixed size, whatever a frame made of them."""
    for name, column in schema.columns.items():
        if isinstance(column, Image):
            cells = table.column(name).cast(pa.binary(column.pixels))
            table = table.set_column(table.column_names.index(name), name, cells)
    return table


def _known(there: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """The columns that were asked for, refused where there are none such."""
    for name in wanted or ():
        if name not in there:
            raise UsageError(f"there is no column {name!r} to show{meant(name, there)}")
    return list(there if wanted is None else wanted)
