"""Each measure on full Adult against ε, a line to a method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from bench.cache import Run
from bench.peers.lines import of
from bench.peers.methods import METHODS, REAL
from bench.peers.plan import EPSILONS
from dpearl.svg import PAPER, write_figure

SHOWN = {
    "boosting_auc": "boosting AUC",
    "roc": "ten classifiers, ROC",
    "marginals_1": "TV, single columns",
    "marginals_2": "TV, pairs",
    "marginals_3": "TV, triples",
    "ks": "Kolmogorov-Smirnov",
    "range_quantile": "range queries",
    "c2st": "two-sample test",
    "cpu": "CPU s",
}
STYLES = (("-", "o"), ("--", "s"), (":", "^"))
"""Lines and marks: there are fewer colours than methods."""


def draw(done: Sequence[Run], path: Path) -> None:
    """A picture of what is finished; whiskers are standard deviations over seeds."""
    look: Any = {"font.size": 9, "axes.edgecolor": PAPER.rule, "text.color": PAPER.ink, "legend.frameon": False}
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(11, 9), layout="constrained")
        places = figure.subplots(3, 3).ravel()
        for place, (score, title) in zip(places, SHOWN.items(), strict=True):
            _panel(place, done, score, title)
        figure.legend(*places[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
        write_figure(figure, path, format="png", dpi=110)


def _panel(place: Any, done: Sequence[Run], score: str, title: str) -> None:
    known = {method: points for method in METHODS if (points := _points(done, method, score))}
    for method, points in known.items():
        rank = [*METHODS].index(method)
        line, mark = STYLES[rank // 4]
        look = {"color": PAPER.series[rank % 4], "linestyle": line, "marker": mark, "markersize": 4, "capsize": 2}
        means, spreads = ([act(own) for own in points.values()] for act in (np.mean, _deviation))
        place.errorbar([*points], means, yerr=spreads, label=method, **look)
    real = _points(done, REAL, score).get(1.0)
    if real and score != "cpu":
        place.axhline(float(np.mean(real)), color=PAPER.ink, linewidth=0.8, label=REAL)
    place.set(xscale="log", xlim=(0.17, 12), xlabel="ε", title=title, yscale="log" if score == "cpu" and known else "linear")
    place.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    place.minorticks_off()
    place.grid(color=PAPER.rule, linewidth=0.5)


def _points(done: Sequence[Run], method: str, score: str) -> dict[float, list[float]]:
    """What a method scored, by ε, where it has rows."""
    values = {epsilon: [run[score] for run in of(done, "adult", method, epsilon) if score in run] for epsilon in EPSILONS}
    return {epsilon: own for epsilon, own in values.items() if own}


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
