"""The PRIVATE report: real against synthetic, for the owner and nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpearl import chart as charts
from dpearl.coded import Coded, bin_names
from dpearl.disclosure import NOTE
from dpearl.evaluate import PRIVATE, Evaluation, Judged, picture_column
from dpearl.fidelity import ROWS, Score, associations
from dpearl.release import this_version
from dpearl.report.page import Page, png, render
from dpearl.report.words import attacks, checks, figures, summary, told
from dpearl.schema import Image
from dpearl.utility import AVERAGE, BOOSTING, CEILING, FLOOR, Skill, Usefulness
from dpearl.write import picture_grid

if TYPE_CHECKING:
    from dpearl.imagery import Accuracy, ImageScores

DRAWN, COLUMNS, PAIRS, ACROSS = 3, 60, 4, 10
"""Synthetic tables, columns and pairs of columns that are drawn; pictures in a line."""

_LINES, _NAMES = 10, 20
"""Lines of a heat map of two columns, and of a matrix of associations, that can be read side by side."""

_PIXELS, _GREY, _FRAME = 360, 128, ((0, 0), (1, 0), (1, 0), (0, 0))
"""How wide a grid of pictures may be made, and the line above and beside each picture."""

_BLANK = 0.005
"""A difference of shares that is too small to be drawn."""

_SECTIONS = {
    "summary": "What these data are good for",
    "fidelity": "How near they are to real rows",
    "pictures": "Pictures",
    "columns": "Column by column",
    "pairs": "Pairs that differ most",
    "associations": "What hangs together",
    "usefulness": "What can be learnt from them",
    "checks": "Sanity checks",
    "method": "How this was measured",
}

_HEADS = {"roc": "ROC AUC", "prc": "Average precision", "r2": "R²", "mae": "Mean error / range"}
_HARD = {"roc_hard": "ROC AUC of bare predictions", "prc_hard": "Average precision of bare predictions"}


@dataclass(frozen=True)
class Chart:
    """A drawing under its heading and caption."""

    heading: str
    caption: str
    svg: str


def private_report(evaluation: Evaluation) -> str:
    """One HTML file that opens anywhere; it is marked PRIVATE on every page."""
    parts = {
        "pictures": list(_grids(evaluation)),
        "columns": list(_columns(evaluation)),
        "pairs": dict(_pairs(evaluation)),
        "associations": list(_associations(evaluation)),
        "usefulness": _usefulness(evaluation.usefulness),
    }
    sections = {anchor: heading for anchor, heading in _SECTIONS.items() if parts.get(anchor, True)}
    return render(
        "private.html",
        Page("Real against synthetic", PRIVATE, _lead(evaluation), sections, private=True),
        tables=evaluation.tables,
        summaries={name: summary(evaluation, name) for name in evaluation.tables},
        figures={name: figures(evaluation, name) for name in evaluation.tables},
        fidelity=_fidelity(evaluation),
        worst=_worst(evaluation),
        imagery=_imagery(evaluation),
        checks={name: checks(judged) for name, judged in evaluation.tables.items()},
        attacks=attacks(evaluation),
        note=NOTE,
        meanings=_meanings(evaluation),
        facts=_facts(evaluation),
        left_out=_left_out(evaluation),
        **parts,
    )


def _lead(evaluation: Evaluation) -> str:
    *first, last = [f"{name} ({len(judged.rows):,} synthetic rows)" for name, judged in evaluation.tables.items()]
    tables = f"{', '.join(first)} and {last}" if first else last
    return f"{tables}, compared with {len(evaluation.real):,} real rows."


def _left_out(evaluation: Evaluation) -> str:
    """What charts do not show of many tables or columns."""
    tables, columns = len(evaluation.tables), len(evaluation.real.names)
    first = f"Charts show the first {DRAWN} of {tables} tables. " if tables > DRAWN else ""
    return first + (f"Of {columns} columns, the {COLUMNS} that differ most are drawn." if columns > COLUMNS else "")


def _drawn(evaluation: Evaluation) -> dict[str, Judged]:
    """The first few tables."""
    return dict(islice(evaluation.tables.items(), DRAWN))


def _series(evaluation: Evaluation) -> dict[str, Coded]:
    """Real rows and the first few tables, as charts show them."""
    return {CEILING: evaluation.real, **{name: judged.rows for name, judged in _drawn(evaluation).items()}}


def _fidelity(evaluation: Evaluation) -> dict[str, Any]:
    """A line for each measure, a column for each table, and what fresh real rows would have."""
    found = {score.name: score for judged in evaluation.tables.values() for score in judged.scores}
    rows = [
        [score.title, *(_value(judged.score(name)) for judged in evaluation.tables.values()), _number(score.floor)]
        for name, score in found.items()
    ]
    return {"head": ["measure", *evaluation.tables, "fresh real rows"], "rows": rows}


def _value(score: Score | None) -> str:
    if score is None:
        return "–"
    value = _number(score.value) + (f" ± {_number(score.spread)}" if score.spread else "")
    return value + (f" (p = {score.extra['p_value']:.2g})" if "p_value" in score.extra else "")


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if abs(value) < 0.00005:
        return "0" if value == 0 else "< 0.0001"
    return (f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}").replace("-", "−")


def _worst(evaluation: Evaluation) -> dict[str, list[list[str]]]:
    """For each table, where each measure is worst; nothing of measures that are made of one part."""
    return {
        name: [
            [score.title, "; ".join(f"{part} {_number(value)}" for part, value in score.worst[:5])]
            for score in judged.scores
            if len(score.worst) > 1
        ]
        for name, judged in evaluation.tables.items()
    }


def _columns(evaluation: Evaluation) -> Iterator[Chart]:
    """Every column, or those that differ most, in the schema's order."""
    series, real = _series(evaluation), evaluation.real
    shares = {name: {table: rows.shares(name) for table, rows in series.items()} for name in real.names}
    apart = {name: {table: _apart(own[CEILING], own[table]) for table in own if table != CEILING} for name, own in shares.items()}
    shown = sorted(real.names, key=lambda name: -max(apart[name].values()))[:COLUMNS]
    for name in (name for name in real.names if name in shown):
        column = real.codec.columns[name]
        wrong = ", ".join(f"{table} {100 * off:.1f}%" for table, off in apart[name].items())
        title = f"{name}: shares of real and synthetic rows; in the wrong place: {wrong}"
        drawn = charts.bars(title, bin_names(column), shares[name], along=charts.bins_along(column))
        yield Chart(name, f"in the wrong place: {wrong}", drawn)


def _apart(real: NDArray[np.float64], made: NDArray[np.float64]) -> float:
    return float(np.abs(real - made).sum() / 2)


def _pairs(evaluation: Evaluation) -> Iterator[tuple[str, list[Chart]]]:
    """The pairs that are worst in some table: where each table has too many rows, and where too few."""
    found = [score.worst for judged in _drawn(evaluation).values() if (score := judged.score("marginals_2")) is not None]
    worst = sorted({part for parts in found for part in parts}, key=lambda part: -part[1])
    for pair in islice(dict.fromkeys(name for name, _ in worst), PAIRS):
        yield pair, _pair_charts(_series(evaluation), _split(pair, evaluation.real.names))


def _split(pair: str, names: list[str]) -> tuple[str, str]:
    """The two columns that a pair is named after, whatever signs are in their names."""
    return next((first, second) for first in names for second in names if f"{first} × {second}" == pair)


def _table(rows: Coded, first: str, second: str) -> NDArray[np.float64]:
    """Shares of rows by bins of two columns."""
    shape = tuple(len(bin_names(rows.codec.columns[name])) for name in (first, second))
    cells = np.ravel_multi_index((rows.bins(first), rows.bins(second)), shape)
    return np.asarray(np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape) / len(rows))


def _pair_charts(series: Mapping[str, Coded], names: tuple[str, str]) -> list[Chart]:
    """Synthetic less real shares, for every table in the same lines: those in which most is wrong."""
    real, *made = (_table(rows, *names) for rows in series.values())
    excess = np.stack([own - real for own in made])
    down, across = (_most(excess, axis) for axis in (1, 2))
    first, second = (bin_names(series[CEILING].codec.columns[name]) for name in names)
    labels = [first[line] for line in down], [second[line] for line in across]
    shown = np.where(np.abs(excess) < _BLANK, np.nan, excess)[:, down][:, :, across]
    deepest = float(np.abs(excess).max())
    return [
        Chart(
            table,
            f"less real rows: {50 * np.abs(own).sum():.1f}% of the rows are in the wrong place",
            charts.matrix(
                f"{' by '.join(names)}: shares of rows in {table} less those of real rows", cells, *labels, full=deepest
            ),
        )
        for table, own, cells in zip(islice(series, 1, None), excess, shown, strict=True)
    ]


def _most(excess: NDArray[np.float64], axis: int) -> NDArray[np.int64]:
    """Lines along this axis in which most is wrong, in their own order; only such as have something to show, if any has."""
    others = tuple({0, 1, 2} - {axis})
    amounts, drawn = np.abs(excess).sum(axis=others), np.abs(excess).max(axis=others) >= _BLANK
    return np.sort(np.lexsort((-amounts, ~drawn))[: min(_LINES, np.count_nonzero(drawn) or _LINES)])


def _associations(evaluation: Evaluation) -> Iterator[Chart]:
    """A matrix for real rows and for each table; of many columns those that hang together most differently."""
    names = np.array(evaluation.real.names)
    if len(names) < 2:
        return
    found = {table: associations(_some(rows, evaluation.seed)) for table, rows in _series(evaluation).items()}
    off = {table: np.abs(matrix - found[CEILING]) for table, matrix in found.items()}
    shown = np.sort(np.argsort(-np.max([own.sum(axis=0) for own in off.values()], axis=0), kind="stable")[:_NAMES])
    for table, matrix in found.items():
        caption = "" if table == CEILING else f"at most {off[table].max():.2f} off"
        labels = names[shown].tolist()
        svg = charts.matrix(f"Associations in {table} {caption}".strip(), matrix[np.ix_(shown, shown)], labels, labels)
        yield Chart(table, caption, svg)


def _some(rows: Coded, seed: int) -> Coded:
    """As many rows as judges look at."""
    return rows if len(rows) <= ROWS else rows.take(np.random.default_rng(seed).choice(len(rows), ROWS, replace=False))


def _usefulness(found: Usefulness | None) -> dict[str, Any] | None:
    """Learners by training set: at a glance, in full, from bare predictions, and the curves of gradient boosting."""
    if found is None:
        return None
    sets = list(dict.fromkeys(place for place in (CEILING, *found.skills) if place in found.skills))
    return {
        "target": found.target,
        "notes": [told(note) for note in found.notes],
        "sets": ["learner", *sets],
        "glance": _glance(found, sets),
        "tables": {head: _skills(found, sets, key) for key, head in _HEADS.items() if _has(found, key)},
        "hard": {head: _skills(found, sets, key) for key, head in _HARD.items() if _has(found, key)},
        "chart": _roc(found),
    }


def _has(found: Usefulness, key: str) -> bool:
    return any(key in skill.scores for skills in found.skills.values() for skill in skills)


def _glance(found: Usefulness, sets: list[str]) -> dict[str, Any]:
    """For each training set, gradient boosting and the average, by the first score."""
    key = next((key for key in _HEADS if _has(found, key)), "")
    rows = [[place, *(_skill(found, place, learner, key) for learner in (BOOSTING, AVERAGE))] for place in sets]
    return {"measure": _HEADS.get(key, ""), "rows": rows}


def _skills(found: Usefulness, sets: list[str], key: str) -> list[list[str]]:
    learners = list(dict.fromkeys(skill.learner for skills in found.skills.values() for skill in skills))
    return [[learner, *(_skill(found, place, learner, key) for place in sets)] for learner in (*learners, AVERAGE)]


def _skill(found: Usefulness, place: str, learner: str, key: str) -> str:
    own: dict[str, Skill] = {skill.learner: skill for skill in found.skills[place]}
    if place in found.averages:
        own[AVERAGE] = found.averages[place]
    return f"{own[learner].scores[key]:.3f} ± {own[learner].spreads[key]:.3f}" if learner in own else "–"


def _roc(found: Usefulness) -> str:
    """Real rows, the first few tables, and the floor where there is a colour left for it."""
    tables = [name for name in found.curves if name not in (CEILING, FLOOR)]
    names = [name for name in (CEILING, *tables[:DRAWN], FLOOR) if name in found.curves]
    lines = {name: (found.curves[name].fpr, found.curves[name].tpr) for name in names[: DRAWN + 1]}
    title = f"ROC curves of {BOOSTING}, asked for {found.target}, trained on {', '.join(lines)} and tested on real rows"
    return charts.curve(title, lines, ("false positives", "true positives")) if lines else ""


def _grids(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """Some pictures of each class, real and synthetic, a class to a line."""
    name = picture_column(evaluation.real.schema)
    if name is None:
        return
    for table, rows in _series(evaluation).items():
        grid = _grid(rows, name)
        height, width = grid.shape[:2]
        times = max(_PIXELS // width, 1)
        yield {"table": table, "address": png(grid), "width": times * width, "height": times * height}


def _grid(rows: Coded, name: str) -> NDArray[np.uint8]:
    """Readable pictures, a class to a line and the same line for every table; black where there are none left."""
    declared, pixels = rows.schema.columns[name], rows.codes[name]
    assert isinstance(declared, Image)
    readable = np.flatnonzero(pixels[:, -1] == 0)
    lines = _class_lines(rows, readable) or np.array_split(readable[: 5 * ACROSS], 5)
    stack = np.zeros((len(lines), ACROSS, declared.pixels), np.uint8)
    for line, places in zip(stack, lines, strict=True):
        line[: len(places)] = pixels[places, :-1]
    framed = np.pad(stack.reshape(-1, declared.height, declared.width, declared.channels), _FRAME, constant_values=_GREY)
    return picture_grid(framed, ACROSS)


def _class_lines(rows: Coded, readable: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The first pictures of each class of the label; none where it has no classes."""
    label = rows.codec.columns.get(rows.schema.label or "")
    if label is None or not label.one_hot:
        return []
    codes, missing = rows.codes[str(rows.schema.label)][readable], label.levels - 1
    return [readable[codes == level][:ACROSS] for level in label.returns if level != missing][:_LINES]


def _imagery(evaluation: Evaluation) -> dict[str, Any] | None:
    """Distances, agreement and accuracy, a table to a line; the floor and ceiling of the first."""
    found = {name: judged.imagery for name, judged in evaluation.tables.items() if judged.imagery is not None}
    if not found:
        return None
    first = next(iter(found.values()))
    rows = [[name, *_distances(own.scores), _share(own.agreement), _share(own.accuracy)] for name, own in found.items()]
    rows.append(["fresh real pictures", *_distances(first.floor), "–", _share(first.ceiling)])
    accuracies = {CEILING: first.ceiling, **{name: own.accuracy for name, own in found.items()}}
    learnt = {name: own.by_class for name, own in accuracies.items() if own is not None}
    return {
        "rows": rows,
        "notes": dict.fromkeys(told(note) for own in found.values() for note in own.notes),
        "class_head": ["class", *learnt],
        "classes": _by_class(learnt, evaluation.classes),
    }


def _by_class(learnt: Mapping[str, Mapping[int, float]], classes: list[str]) -> list[list[str]]:
    codes = sorted({code for shares in learnt.values() for code in shares})
    return [[classes[code], *(f"{100 * shares.get(code, 0):.0f}%" for shares in learnt.values())] for code in codes]


def _distances(scores: ImageScores) -> tuple[str, str]:
    return f"{scores.fid:.3f} ± {scores.fid_spread:.3f}", f"{scores.kid:.4f} ± {scores.kid_spread:.4f}".replace("-", "−")


def _share(accuracy: Accuracy | None) -> str:
    return "–" if accuracy is None else f"{100 * accuracy.overall:.1f}% ± {100 * accuracy.spread:.1f}%"


def _meanings(evaluation: Evaluation) -> dict[str, str]:
    return {score.title: score.meaning for judged in evaluation.tables.values() for score in judged.scores}


def _facts(evaluation: Evaluation) -> dict[str, str]:
    given = evaluation.train is not None
    return {
        "Real rows": f"{len(evaluation.real):,}",
        "Rows learnt from": f"{len(evaluation.train):,}"
        if evaluation.train is not None
        else "not given; sanity checks take the real rows for them",
        "Fresh real rows": "the rows learnt from, against the real rows"
        if given
        else "one half of the real rows against the other",
        "Learners of real rows": "taught by the rows learnt from"
        if given
        else "taught by one half of the real rows, tested on the other",
        "Spread (±)": "standard deviation over resamples of the synthetic rows; of the test rows for learners",
        "Seed": str(evaluation.seed),
        "dpearl": this_version(),
    }
