"""What charts are made of, in one style: drawings for pages (SVG), and the parts that `plot` puts into figures."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from dpearl.codec import ColumnCodec
from dpearl.coded import bin_count, bin_names
from dpearl.grid import BINS
from dpearl.letters import visible
from dpearl.svg import PAGE, PAPER, Palette, svg, write_figure

SHOWN, LETTERS = 14, 22
"""Most levels in a chart, and most letters of a name in it."""

ACROSS = 4
"""Charts side by side in a figure."""

P = ParamSpec("P")

Series = Mapping[str, NDArray[np.float64]]
"""A number for each name along a chart, by what it is a number of."""


def bars(title: str, names: Sequence[str], series: Series, errors: Series | None = None, along: int = 0) -> str:
    """Shares of each name as SVG: bars, or points with whiskers for a series whose errors are given.

    Errors are half-widths, one for each name, or (2, names): below and above. The first `along` names are bins
    along a line and keep their order; levels are sorted by the first series, and the smallest are summed.
    """
    chart = shown(Bars(list(names), series, errors or {}, along))
    height = (2.3 if along else 0.4 + 0.21 * len(chart.names)) + 0.3 * (len(series) > 1)
    with style(PAGE):
        figure = Figure(figsize=(4.4, height), layout="constrained")
        place = figure.subplots()
        draw(place, chart, PAGE)
        if len(series) > 1:
            figure.legend(*place.get_legend_handles_labels(), loc="outside upper left", ncols=2)
        return svg(figure, title)


def curve(title: str, lines: Mapping[str, tuple[Any, Any]], axes: tuple[str, str], diagonal: str = "guessing") -> str:
    """Lines from (0, 0) to (1, 1), such as ROCs, over the diagonal of chance, as SVG; axes are told across, then up."""
    with style(PAGE):
        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        draw_curve(figure.subplots(), lines, axes, PAGE, diagonal)
        return svg(figure, title)


def draw_curve(
    place: Any, lines: Mapping[str, tuple[Any, Any]], axes: tuple[str, str], palette: Palette, diagonal: str = "guessing"
) -> None:
    """What `curve` shows, in a part of a figure."""
    place.plot([0, 1], [0, 1], color=palette.ink, linewidth=1, linestyle=(0, (4, 3)), label=diagonal)
    for (name, (across, up)), colour in zip(lines.items(), palette.series, strict=False):
        place.plot(across, up, color=colour, linewidth=2.2, label=short(name, 2 * LETTERS), clip_on=False)
    place.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=axes[0], ylabel=axes[1])
    place.grid(color=palette.rule, linewidth=0.6)
    place.xaxis.set_major_formatter(percent)
    place.yaxis.set_major_formatter(percent)
    place.legend(loc="lower right")


@dataclass(frozen=True)
class Reaches:
    """For each name what was claimed, what was seen, and what that is at least; of one quantity."""

    names: Sequence[str]
    claimed: Sequence[float]
    seen: Sequence[float]
    least: Sequence[float]
    quantity: str


def reaches(chart: Reaches, palette: Palette) -> Figure:
    """Claims beside what was found of them, one below the other; to be drawn in the palette's style."""
    places, claimed, seen = np.arange(len(chart.names)), np.array(chart.claimed), np.array(chart.seen)
    figure = Figure(figsize=(7.4, 1.0 + 0.24 * len(places)), layout="constrained")
    place = figure.subplots()
    place.scatter(claimed, places, marker="|", s=130, linewidth=2, color=palette.series[1], label="claimed", zorder=3)
    errors = np.stack([np.maximum(seen - chart.least, 0), np.zeros(len(places))])
    look: Any = {"fmt": "o", "markersize": 4, "elinewidth": 1.4, "color": palette.series[0]}
    place.errorbar(seen, places, xerr=errors, **look, label="seen, and at least")
    place.set_yticks(places, [short(name, 3 * LETTERS) for name in chart.names], fontsize=8)
    place.set(ylim=(len(places) - 0.4, -0.6), xlim=(0, 1.05 * max(claimed.max(), seen.max())), xlabel=chart.quantity)
    place.grid(axis="x", color=palette.rule, linewidth=0.6)
    place.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(*place.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def matrix(title: str, values: NDArray[np.float64], down: Sequence[str], across: Sequence[str], full: float = 0) -> str:
    """A heat map as SVG: full colour at `full` or the largest absolute value, the second colour below zero, nothing at NaN."""
    largest = max(full, float(np.nanmax(np.abs(values), initial=0))) or 1.0
    with style(PAGE):
        figure = Figure(figsize=(1.9 + 0.36 * len(across), 1.5 + 0.36 * len(down)), layout="constrained")
        place = figure.subplots()
        for (line, column), value in np.ndenumerate(values):
            colour, depth = PAGE.series[int(value < 0)], 0.75 * abs(np.nan_to_num(value)) / largest
            place.add_patch(Rectangle((column - 0.48, line - 0.48), 0.96, 0.96, linewidth=0, color=colour, alpha=depth))
            if values.size <= SHOWN**2 and np.isfinite(value):
                place.text(column, line, _bare(value), ha="center", va="center", fontsize=8)
        place.set_xticks(range(len(across)), [*map(short, across)], rotation=60, ha="right", rotation_mode="anchor")
        place.set_yticks(range(len(down)), [*map(short, down)])
        place.set(xlim=(-0.5, len(across) - 0.5), ylim=(len(down) - 0.5, -0.5), aspect="equal")
        place.spines[:].set_visible(False)
        return svg(figure, title)


class Drawing(Figure):
    """A figure that notebooks show by themselves, without pyplot and its windows."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        write_figure(self, file, format="png", dpi=90)
        return file.getvalue()


def styled(draw_it: Callable[P, Drawing]) -> Callable[P, Drawing]:
    """In our style, whatever the user's is: a text keeps what it was made with."""

    @wraps(draw_it)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Drawing:
        with style(PAPER):
            return draw_it(*args, **kwargs)

    return drawn


@styled
def columns_of(charts: Mapping[str, Bars], title: str = "") -> Drawing:
    """A chart for each column."""
    across = min(ACROSS, max(len(charts), 1))
    down = math.ceil(len(charts) / across)
    figure = Drawing(figsize=(4.2 * across, 3.1 * down + 0.5), layout="constrained")
    places = figure.subplots(down, across, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for place, (name, chart) in zip(places, charts.items(), strict=False):
        draw(place, shown(chart), PAPER)
        place.set_title(short(name, 2 * LETTERS), loc="left", fontsize=11, fontweight="bold")
        handles |= dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    for place in places[len(charts) :]:
        place.set_axis_off()
    figure.suptitle(title, fontsize=13)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=max(len(handles), 1))
    return figure


def bins_along(column: ColumnCodec, most: int = BINS) -> int:
    """How many of a column's bins lie along a line; the others are levels."""
    return 0 if column.one_hot else bin_count(column, most) - column.levels + 1


@dataclass(frozen=True)
class Bars:
    """What `bars` draws: what each place is called, series of numbers, half-widths of some, and how many lie along a line."""

    names: list[str]
    series: Series
    errors: Series
    along: int

    @classmethod
    def of(cls, column: ColumnCodec, series: Series, errors: Series | None = None, most: int = BINS) -> Bars:
        """Shares of a column's bins."""
        return cls(bin_names(column, most), series, errors or {}, bins_along(column, most))

    def take(self, places: NDArray[Any]) -> Bars:
        series = {name: np.asarray(own)[places] for name, own in self.series.items()}
        errors = {name: np.asarray(own)[..., places] for name, own in self.errors.items()}
        return Bars([self.names[place] for place in places], series, errors, self.along)


def shown(chart: Bars) -> Bars:
    """Bins, and levels that some row has; where these are many, the smallest are summed."""
    amounts = np.nan_to_num(np.stack(list(chart.series.values())))
    seen = np.flatnonzero((amounts.max(axis=0) > 0) | (np.arange(amounts.shape[1]) < chart.along))
    if chart.along or not len(seen):
        return chart.take(seen if len(seen) else np.array([0]))
    ordered = chart.take(seen[np.argsort(-amounts[0, seen], kind="stable")])
    return _summed(ordered) if len(seen) > SHOWN + 1 else ordered


def _summed(chart: Bars) -> Bars:
    """The largest levels and the sum of all others, whose error is not known."""
    kept = chart.take(np.arange(SHOWN))
    rest = {name: np.nan if name in chart.errors else own[SHOWN:].sum() for name, own in chart.series.items()}
    series = {name: np.append(own, rest[name]) for name, own in kept.series.items()}
    errors = {name: np.insert(own, SHOWN, np.nan, axis=-1) for name, own in kept.errors.items()}
    return Bars([*kept.names, f"{len(chart.names) - SHOWN} more"], series, errors, 0)


def draw(place: Any, chart: Bars, palette: Palette) -> None:
    """Bins stand side by side, with levels of their own at the right; levels lie one below the other."""
    order = np.arange(len(chart.names))
    spots = order + 2.5 * np.maximum(order - chart.along + 1, 0) * bool(chart.along)
    for (name, own), colour in zip(chart.series.items(), palette.series, strict=False):
        group = [other for other in chart.series if (other in chart.errors) == (name in chart.errors)]
        width = (0.92 if chart.along else 0.76) / len(group)
        middles = spots + (group.index(name) - (len(group) - 1) / 2) * width
        if name in chart.errors:
            _dots(place, chart, name, middles, colour)
        else:
            (place.bar if chart.along else place.barh)(middles, own, width, color=colour, label=name)
    (_standing if chart.along else _lying)(place, chart, spots)


def _dots(place: Any, chart: Bars, name: str, middles: NDArray[Any], colour: str) -> None:
    values, errors = chart.series[name], chart.errors[name]
    look = {"fmt": "o", "markersize": 4, "elinewidth": 1.6, "capsize": 4, "color": colour, "label": name}
    if chart.along:
        place.errorbar(middles, values, yerr=errors, **look)
    else:
        place.errorbar(values, middles, xerr=errors, **look)


def _standing(place: Any, chart: Bars, spots: NDArray[Any]) -> None:
    """A bin is named by its lowest value at its left edge; there is room for three or four."""
    room = 4 if max(map(len, chart.names[: chart.along])) < 6 else 3
    named = np.arange(0, chart.along, math.ceil(chart.along / room))
    ticks = [*(spots[named] - 0.5), *spots[chart.along :]]
    place.set_xticks(ticks, [short(chart.names[bin], 10) for bin in (*named, *range(chart.along, len(spots)))])
    place.set(ylim=(0, None))
    place.yaxis.set_major_formatter(percent)
    place.spines[["top", "right", "left"]].set_visible(False)


def _lying(place: Any, chart: Bars, spots: NDArray[Any]) -> None:
    place.set_yticks(spots, [*map(short, chart.names)])
    place.set(ylim=(len(spots) - 0.4, -0.6), xlim=(0, None))
    place.xaxis.set_major_formatter(percent)
    place.locator_params(axis="x", nbins=5)
    place.spines[["top", "right", "bottom"]].set_visible(False)


def _bare(value: float) -> str:
    """Two decimals without the zero before them."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")


def percent(value: float, _: float) -> str:
    return f"{100 * value:.3g}%"


def short(name: str, most: int = LETTERS) -> str:
    """A name in one line that a chart has room for."""
    line = " ".join(visible(name).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def style(palette: Palette) -> AbstractContextManager[None]:
    """Names are never read as formulas, letters stay letters, and the same picture is the same file."""
    words = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
    look: Any = {"axes.edgecolor": palette.rule, "xtick.major.size": 0, "ytick.major.size": 0, "legend.frameon": False}
    look |= {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "dpearl", "font.family": "DejaVu Sans"}
    return matplotlib.rc_context(look | {"font.size": 10} | dict.fromkeys(words, palette.ink))
