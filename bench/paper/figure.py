"""The page's pictures: samples side by side, histograms of Adult, the power curve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image as Pictures

from bench.cache import Run
from bench.paper import adult, images, power
from bench.paper.method import Method
from dpearl.chart import Bars, columns_of
from dpearl.codec import Codec
from dpearl.plot import save
from dpearl.svg import PAPER

HISTOGRAMS = (Method.REAL, Method.MERF, Method.OURS, Method.OCTAVES)


def draw_samples(folder: Path) -> Iterator[tuple[str, str]]:
    """Grids side by side, by file and what it shows: every ε of ours, then the methods that the paper shows at ε = 1."""
    for data in images.SETS:
        grids = [images.picture_of(data, Method.OURS, epsilon) for epsilon in images.EPSILONS]
        if _beside(grids, folder / f"{data}.png"):
            yield f"{data}.png", f"{data}, ours, from the left: ε = 0.2, 1, 10, ∞"
    for data in images.SETS:
        shown = (Method.DPGAN, Method.DPCGAN, Method.MERF, Method.PRINTED_PLAIN, Method.PRINTED)
        there = [method for method in shown if images.picture_of(data, method, 1.0).exists()]
        if _beside([images.picture_of(data, method, 1.0) for method in there], folder / f"{data}-methods.png"):
            yield f"{data}-methods.png", f"{data}, ε = 1, from the left: {'; '.join(there)}"


def _beside(files: list[Path], path: Path) -> bool:
    """Whether all of them are there, and then in one picture."""
    if not files or not all(file.exists() for file in files):
        return False
    grids: list[NDArray[np.uint8]] = [np.pad(np.asarray(Pictures.open(file)), 5, constant_values=128) for file in files]
    Pictures.fromarray(np.concatenate(grids, axis=1)).save(path)
    return True


def draw_histograms(done: list[Run], path: Path) -> bool:
    """Every attribute of Adult, as far as the first seed is finished."""
    first = {run["method"]: run["shares"] for run in done if run["seed"] == 0}
    there = [method for method in HISTOGRAMS if method in first]
    if len(there) < 2:
        return False
    codec = Codec(adult.schema())
    shares = {name: {str(method): np.array(first[method][name]) for method in there} for name in codec.columns}
    path.unlink(missing_ok=True)
    charts = {name: Bars.of(codec.columns[name], own) for name, own in shares.items()}
    save(columns_of(charts, "Balanced Adult at ε = 1, δ = 1e-5"), path)
    return True


def draw_power(done: list[Run], path: Path) -> None:
    """Rejection rates over dimensions, with the standard deviation over repetitions."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    place = figure.subplots()
    along = [run["dimensions"] for run in done]
    for sort, colour in zip(power.SORTS, PAPER.series, strict=False):
        rates = np.array([run[sort] for run in done])
        place.errorbar(along, rates.mean(axis=1), rates.std(axis=1, ddof=1), color=colour, marker="o", capsize=3, label=sort)
    place.axhline(power.LEVEL, color=PAPER.rule, linestyle="--", linewidth=1)
    place.set(xlabel="dimensions", ylabel="rejection rate", ylim=(0, 1.03))
    figure.legend(*place.get_legend_handles_labels(), loc="outside upper center", ncols=len(power.SORTS), frameon=False)
    place.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
