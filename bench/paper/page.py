"""docs/results/paper.md: every table and figure, the paper's figure beside ours, from the runs that are finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.cache import Run, finished
from bench.paper import complexity, images, power, printed, resolution, scales, tables
from bench.paper.figure import draw_histograms, draw_power, draw_samples
from bench.paper.method import DELTA, Method, printed_epsilon, printed_multiplier
from bench.paper.targets import Target, targets
from bench.paper.words import ADULT, BUDGETS, CREDIT, FEW, HEAD, MANY, MISSES, POWER, REACHED, READINGS, SCALES

OUT = Path(__file__).parents[2] / "docs" / "results"
NAMES = {"mnist": "MNIST", "fashion": "Fashion-MNIST", "adult": "Adult", "credit": "Credit"}
SHOWN = (Method.DPGAN, Method.DPCGAN, Method.MERF, Method.PRINTED_PLAIN, Method.PRINTED, Method.PLAIN, Method.OURS)
LEARNT = (Method.DPCGAN, Method.MERF, Method.PRINTED, Method.OURS, Method.OCTAVES, Method.INDEPENDENT)


def write() -> None:
    """The page and its pictures, of what is finished."""
    done = {"images": finished(images.runs()), "power": finished(power.runs()), "complexity": finished(complexity.runs())}
    done |= {data: finished(tables.runs(data)) for data in ("adult", "credit")}
    OUT.mkdir(parents=True, exist_ok=True)
    parts = [
        *_head(done),
        *_table_one(done["images"]),
        *_samples(done["images"]),
        *_table_two(done["adult"]),
        *_table_three({data: done[data] for data in ("adult", "credit")}),
        *_power(done["power"]),
        *_complexity(done["complexity"]),
        *_scales(finished(scales.runs())),
        READINGS,
        *_resolution(finished(resolution.runs())),
        MISSES,
    ]
    (OUT / "paper.md").write_text("\n".join(parts).rstrip() + "\n")


def line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], digits: int, bare: bool = False) -> str:
    """Mean ± standard deviation; a mean alone for one seed, a dash for none. `bare` leaves out a zero before the point."""
    if not len(values):
        return "–"
    told = [np.mean(values), *([np.std(values, ddof=1)] if len(values) > 1 else [])]
    return " ± ".join(f"{own:.{digits}f}".removeprefix("0" if bare else "") for own in told)


def own(done: Sequence[Run], **wanted: object) -> list[Run]:
    """Runs with these settings."""
    return [run for run in done if all(run[name] == value for name, value in wanted.items())]


def _head(done: dict[str, list[Run]]) -> Iterator[str]:
    exact, multiplier = printed_epsilon(1.0, DELTA), printed_multiplier(1.0, DELTA)
    yield HEAD.format(exact=exact, multiplier=multiplier)
    yield from _short(done)
    yield "## What was to be reached, at (1, 1e-5)\n"
    yield REACHED + "\n"
    yield line(["target", "here", "seeds", ""])
    yield line(["---"] * 4)
    for target in targets(done["images"], done["adult"], done["credit"]):
        yield line(_judged(target))
    yield ""


def _short(done: dict[str, list[Run]]) -> Iterator[str]:
    """The table that the README repeats."""
    columns = (Method.MERF, Method.DPCGAN, Method.PRINTED, Method.OURS)
    yield "## In short\n"
    yield line(["", "paper", "as printed", "ours", "DP-MERF", "DPCGAN", "seeds of these four"])
    yield line(["---"] * 7)
    for data in images.SETS:
        runs = {method: own(done["images"], data=data, method=method, epsilon=1.0) for method in columns}
        here = {method: " / ".join(_image_cells(data, method, runs[method])[1::2]) for method in columns}
        yield _short_line(f"{NAMES[data]}, FID / KID × 10³", " / ".join(printed.IMAGES[data, Method.PRINTED]), here, runs)
    for data in ("adult", "credit"):
        runs = {method: own(done[data], method=method) for method in columns}
        here = {method: " / ".join(_learnt(done[data], method, printed.AVERAGE, place) for place in (0, 1)) for method in columns}
        yield _short_line(f"{NAMES[data]}, ROC / PRC", " / ".join(printed.TASKS[data, Method.PRINTED][:2]), here, runs)
    yield ""


def _short_line(name: str, paper: str, here: dict[Method, str], runs: dict[Method, list[Run]]) -> str:
    order = (Method.PRINTED, Method.OURS, Method.MERF, Method.DPCGAN)
    return line([name, paper, *(here[method] for method in order), ", ".join(str(len(runs[method])) for method in order)])


def _judged(target: Target) -> list[str]:
    verdict = {True: "holds", False: "**missed**", None: "not measured"}[target.holds]
    return [target.claim, target.told, str(target.seeds), verdict]


def _table_one(done: list[Run]) -> Iterator[str]:
    yield "## Table 1: FID and KID on images\n"
    yield BUDGETS + "\n"
    pairs = [f"{NAMES[data]} {metric}" for data in images.SETS for metric in ("FID", "KID × 10³")]
    yield line(["method", *(cell for pair in pairs for cell in (f"{pair}, paper", "here")), "CPU s of training", "seeds"])
    yield line(["---"] * 11)
    for method in SHOWN:
        mine = {data: own(done, data=data, method=method, epsilon=1.0) for data in images.SETS}
        cells = [cell for data, runs in mine.items() for cell in _image_cells(data, method, runs)]
        spent = " / ".join(map(_mean_cpu, mine.values()))
        yield line([str(method), *cells, spent, " / ".join(str(len(runs)) for runs in mine.values())])
    yield ""
    yield "The other ε of the paper's figure, our setting:\n"
    yield line(["data", "ε", "FID", "FID, no critic", "KID × 10³", "KID × 10³, no critic", "seeds"])
    yield line(["---"] * 7)
    for data in images.SETS:
        for epsilon in images.EPSILONS:
            yield _epsilon_line(done, data, epsilon)
    yield ""


def _image_cells(data: str, method: Method, runs: list[Run]) -> list[str]:
    told = printed.IMAGES.get((data, _printed(method)), ("", ""))
    return [told[0], spread([run["fid"] for run in runs], 2), told[1], spread([1000 * run["kid"] for run in runs], 1)]


def _printed(method: Method) -> Method:
    """The paper's column that a method stands beside."""
    return {Method.OURS: Method.PRINTED, Method.PLAIN: Method.PRINTED_PLAIN}.get(method, method)


def _epsilon_line(done: list[Run], data: str, epsilon: float) -> str:
    both = [own(done, data=data, method=method, epsilon=epsilon) for method in (Method.OURS, Method.PLAIN)]
    fids = [spread([run["fid"] for run in runs], 2) for runs in both]
    kids = [spread([1000 * run["kid"] for run in runs], 1) for runs in both]
    name = "∞ (10⁶)" if epsilon == 1e6 else f"{epsilon:g}"
    return line([NAMES[data], name, *fids, *kids, " / ".join(str(len(runs)) for runs in both)])


def _samples(done: list[Run]) -> Iterator[str]:
    yield "## Samples, seed 0: one line a class\n"
    yield "DPGAN is told no class and makes up its labels; where it makes too few of a class, the line is short.\n"
    for name, words in draw_samples(OUT):
        yield f"{words}:\n\n![{words}]({name})\n"


def _table_two(done: list[Run]) -> Iterator[str]:
    yield "## Table 2: Adult, ten classifiers that learn from synthetic rows\n"
    yield ADULT + "\n"
    for place, (metric, told) in enumerate((("ROC", printed.ROC), ("PRC", printed.PRC))):
        heads = [cell for method in (Method.REAL, Method.DPCGAN, Method.MERF) for cell in (f"{method}: paper", "here")]
        rest = (Method.PRINTED, Method.OURS, Method.OCTAVES, Method.INDEPENDENT)
        yield line([metric, *heads, "ours: paper", *map(str, rest)])
        yield line(["---"] * 12)
        for name, paper in told.items():
            cells = [
                cell
                for method in (Method.REAL, Method.DPCGAN, Method.MERF)
                for cell in (paper.get(method, ""), _learnt(done, method, name, place))
            ]
            last = [_learnt(done, method, name, place) for method in rest]
            yield line([f"**{name}**" if name == printed.AVERAGE else name, *cells, paper[Method.PRINTED], *last])
        yield ""
    yield line(["", *(str(method) for method in LEARNT)])
    yield line(["---"] * (1 + len(LEARNT)))
    yield line(["seeds", *(str(len(own(done, method=method))) for method in LEARNT)])
    yield line(["CPU s of training", *(_mean_cpu(own(done, method=method)) for method in LEARNT)])
    yield ""
    if draw_histograms(done, OUT / "adult.png"):
        yield "Shares of every attribute, seed 0:\n\n![Histograms of Adult: real rows, DP-MERF, ours, with octaves](adult.png)\n"


def _learnt(done: list[Run], method: Method, name: str, place: int) -> str:
    """A score of a classifier, or of all on average, over seeds."""
    scores = [run["scores"] for run in own(done, method=method)]
    if name == printed.AVERAGE:
        return spread([float(np.mean([pair[place] for pair in score.values()])) for score in scores], 3, bare=True)
    return spread([score[name][place] for score in scores], 3, bare=True)


def _mean_cpu(runs: list[Run]) -> str:
    return f"{np.mean([run['cpu'] for run in runs]):.0f}" if runs else "–"


def _table_three(done: dict[str, list[Run]]) -> Iterator[str]:
    yield "## Additional table: more tasks on Adult and Credit\n"
    yield CREDIT + "\n"
    pairs = ["ROC", "PRC", "range", "marginal", "MMD"]
    yield line(["data", "method", *(cell for pair in pairs for cell in (f"{pair}, paper", "here")), "seeds"])
    yield line(["---"] * 13)
    for data, runs in done.items():
        for method in (Method.REAL, *(method for method in Method if method in tables.METHODS)):
            mine = own(runs, method=method)
            told = printed.TASKS.get((data, _printed(method)), ("",) * 5)
            here = _task_cells(runs, method, mine)
            cells = [cell for pair in zip(told, here, strict=True) for cell in pair]
            yield line([NAMES[data], str(method), *cells, str(len(mine))])
    yield ""


def _task_cells(runs: list[Run], method: Method, mine: list[Run]) -> list[str]:
    learnt = [_learnt(runs, method, printed.AVERAGE, place) for place in (0, 1)]
    if method is Method.REAL:
        return [*learnt, "0", "0", "0"]
    return [*learnt, *(spread([run[name] for run in mine], 3, bare=True) for name in ("range", "marginal")), _mmd(mine)]


def _mmd(mine: list[Run]) -> str:
    return spread([run["mmd"] for run in mine], 4, bare=True)


def _power(done: list[Run]) -> Iterator[str]:
    yield "## Fig. 2: power of the two-sample test\n"
    yield power.__doc__.split("\n\n")[1].replace("\n", " ") + "\n" if power.__doc__ else ""
    yield line(["dimensions", *power.SORTS])
    yield line(["---"] * 4)
    for run in done:
        yield line([str(run["dimensions"]), *(spread(run[sort], 2) for sort in power.SORTS)])
    yield ""
    if done:
        draw_power(done, OUT / "power.png")
        yield f"Rejection rates over {power.REPETITIONS} repetitions of {power.TRIALS} trials:\n"
        yield "![Rejection rate over dimensions for three sets of frequencies](power.png)\n"
        yield POWER + "\n"


def _complexity(done: list[Run]) -> Iterator[str]:
    yield "## Complexity (App. E)\n"
    for run in done:
        base = ", ".join(f"{axis} = {run[axis]:,}" for axis in complexity.BASE)
        yield f"CPU seconds of the embedding on one thread, one of {base} changed by a factor; the exponent of its growth:\n"
        yield line(["", *(f"× {factor:g}" for factor in run["factors"]), "exponent"])
        yield line(["---"] * (2 + len(run["factors"])))
        for axis, times in run["embedding"].items():
            yield line([axis, *(f"{seconds:.2f}" for seconds in times), f"{complexity.exponent(times):.2f}"])
        steps = ", ".join(f"{ms:.1f} ms at n = {n:,}" for n, ms in zip(run["trained"], run["step"], strict=True))
        yield f"\nA training step on Adult's schema: {steps}. It takes a release, which is as large for every n.\n"


def _scales(done: list[Run]) -> Iterator[str]:
    yield SCALES
    for columns, told in ((scales.COLUMNS, MANY), (scales.FEW_COLUMNS, FEW)):
        yield told
        yield line(["frequencies of numbers", "boosting AUC", "range", "marginal", "MMD", "seeds"])
        yield line(["---"] * 6)
        for scale in scales.TRIED[columns]:
            mine = own(done, scale=scale, columns=columns)
            cells = [spread([run[name] for run in mine], 3, bare=True) for name in ("auc", "range", "marginal")]
            yield line([scale, *cells, _mmd(mine), str(len(mine))])
        yield ""


def _resolution(done: list[Run]) -> Iterator[str]:
    yield line(["hard ROC", *(f"{name}, {grid}" for name in ("synthetic", "real") for grid in ("to the unit", "coarser"))])
    yield line(["---"] * 5)
    for learner in resolution.LEARNERS:
        cells = [
            [run[name][grid][learner] for run in done] for name in ("synthetic", "real") for grid in ("to the unit", "coarser")
        ]
        yield line([learner, *(spread(cell, 3, bare=True) for cell in cells)])
    yield line(["seeds", str(len(done)), "", "", ""])
    yield ""
