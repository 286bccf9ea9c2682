"""Pictures of tables, in one style."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl import container
from dpearl.codec import Codec, ColumnCodec
from dpearl.schema import Category, Image, Schema

matplotlib.use("Agg")
from matplotlib import pyplot  # the backend must be chosen first

BINS, BARS, ACROSS = 24, 14, 4
COLOURS = ("#4c6a92", "#e08a3c")


def histograms(tables: Mapping[str, pa.Table], schema: Schema, title: str, path: str | Path) -> None:
    """Every column of several tables side by side, as shares of their rows."""
    codec = Codec(schema)
    codes = {name: codec.encode(table) for name, table in tables.items()}
    shown = [name for name, column in schema.columns.items() if not isinstance(column, Image)]
    down = math.ceil(len(shown) / ACROSS)
    figure, axes = pyplot.subplots(down, ACROSS, figsize=(4 * ACROSS, 2.9 * down), squeeze=False, layout="constrained")
    for place, name in zip(axes.flat, shown, strict=False):
        _bars(place, codec.columns[name], {table: own[name] for table, own in codes.items()})
        place.set_title(name, loc="left", fontsize=11, fontweight="bold")
    for place in axes.flat[len(shown) :]:
        place.set_axis_off()
    figure.suptitle(title, fontsize=13)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(tables), frameon=False)
    with container.placing(path) as file:
        figure.savefig(file, format="png", dpi=110)
    pyplot.close(figure)


def _bars(place: Any, column: ColumnCodec, codes: Mapping[str, NDArray[Any]]) -> None:
    """Grouped bars: levels of a category, most frequent first in the first table; bins of a number, then its levels."""
    shares, labels = _shares(column, codes)
    width, middles = 0.8 / len(codes), np.arange(len(labels))
    middles += 0 if column.one_hot else 3 * (middles >= BINS)
    for rank, (table, colour) in enumerate(zip(codes, COLOURS, strict=False)):
        place.bar(middles + (rank - (len(codes) - 1) / 2) * width, shares[table], width, color=colour, label=table)
    slant = {"rotation": 60, "ha": "right"} if column.one_hot else {}
    place.set_xticks(middles, labels, **slant)
    place.tick_params(labelsize=8, length=0)
    place.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    place.spines[["top", "right"]].set_visible(False)


def _shares(column: ColumnCodec, codes: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[np.float64]], list[str]]:
    counts = {table: np.bincount(_bins(column, own), minlength=_size(column)) / max(len(own), 1) for table, own in codes.items()}
    labels = _labels(column)
    seen = np.max(list(counts.values()), axis=0) > 0
    present = np.flatnonzero(seen if column.one_hot else seen | (np.arange(len(seen)) < BINS))
    if column.one_hot:
        present = present[np.argsort(-next(iter(counts.values()))[present], kind="stable")][:BARS]
    return {table: own[present] for table, own in counts.items()}, [labels[int(bar)] for bar in present]


def _size(column: ColumnCodec) -> int:
    return column.levels if column.one_hot else BINS + column.levels - 1


def _bins(column: ColumnCodec, codes: NDArray[Any]) -> NDArray[np.int64]:
    levels = column.level(codes)
    if column.one_hot:
        return levels
    places = column.coordinate(codes)[:, 0].astype(np.int64) * BINS // (column.top + 1)
    return np.where(levels == 0, places, BINS - 1 + levels)


def _labels(column: ColumnCodec) -> list[str]:
    if column.one_hot:
        names = column.decode(np.arange(column.levels)).cast(pa.string()).to_pylist()
        other = [name or "missing" for name in names]
        declared = getattr(column, "column", None)
        if isinstance(declared, Category) and declared.other is None:
            other[-2] = "other"
        return other
    last = column.code(np.array([[0.0], [1.0]]), np.zeros(2, np.int64))
    ends = [str(value)[:10] for value in column.decode(last).to_pylist()]
    spikes = [
        str(value) for value in column.decode(column.code(np.zeros((column.levels, 1)), np.arange(column.levels))).to_pylist()
    ]
    return [ends[0], *[""] * (BINS - 2), ends[1], "missing", *(f"={spike}" for spike in spikes[2:])]
