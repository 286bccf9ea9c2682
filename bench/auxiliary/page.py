"""The page of the bench."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np

from bench.cache import Run

HEAD = """# What the owner need not know

From `python -m bench.auxiliary` (part of `make bench`): ε = 1, δ = 1e-5 in total, x86_64, 2 cores, no GPU, a shared machine.
Answers are those of the real stages with real noise.

Rules and constants of the bounds were chosen by trials on Adult, on Credit in full and on heavy-tailed rows, those below among
them, over some twenty settings; the rounds of DP-EM on columns of the same generator, in part the same seeds. So the figures say
how well that choice holds under new noise, not on new data. On the paper's small cut of Credit, with earlier constants, bounds
were good in 0 to 12 of 100 runs: too few rows to see thirty ranges at this budget.
"""


def page(found: list[Run]) -> str:
    """All tables."""
    parts = {part: [run for run in found if run["part"] == part] for part in dict.fromkeys(run["part"] for run in found)}
    tables = {"answers": (_bounds, _levels), "modes": (_modes,), "ks": (_ks,), "adult": (_adult,)}
    tables |= {"scale": (_scale,), "selection": (_selection,)}
    missing = [part for part in tables if part not in parts]
    told = f"\nNot measured yet: {', '.join(missing)}.\n" if missing else ""
    return HEAD + told + "".join(make(parts) for part, own in tables.items() if part in parts for make in own)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n" + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _spread(values: Sequence[float], digits: int = 3) -> str:
    more = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{more}"


def _bounds(parts: dict[str, list[Run]]) -> str:
    lines = [
        [
            run["table"],
            name,
            f"{own['good']} of {run['runs']}",
            f"{100 * own['covered'][1]:.2f}% ({100 * own['covered'][0]:.2f}%)",
            f"{own['times'][0]:.1f} ({own['times'][1]:.1f})",
        ]
        for run in parts["answers"]
        for name, own in run["bounds"].items()
    ]
    shares = ", ".join(f"{run['table']} {100 * run['share']:.0f}%" for run in parts["answers"])
    least = min(own["good"] for run in parts["answers"] for own in run["bounds"].values())
    return (
        "\n## Bounds\nAll bounds and levels of a table are asked for at once, add/remove, in "
        f"{parts['answers'][0]['runs']} runs; part of μ² for all questions: {shares}. Good: at least 99% of the rows lie "
        "between the bounds, and these are at most ten times as far apart as needed. Needed is the range of the middle 99% "
        f"of the rows. Target: 95 of 100. Least: {least}.\n"
        + _table(("table", "column", "good", "rows covered, mean (least)", "times the needed range, median (most)"), lines)
    )


def _levels(parts: dict[str, list[Run]]) -> str:
    lines = [
        [
            run["table"],
            name,
            str(own["levels"]),
            f"{own['found'][0]} to {own['found'][1]}",
            str(own["large"]),
            str(own["missed"]),
            str(own["alone"]),
        ]
        for run in parts["answers"]
        for name, own in run["levels"].items()
    ]
    return (
        "\n## Levels\nIn the same runs. One person of Adult has a race of their own. Targets: levels of at least 1% of the rows "
        "are never missed, that of one person shows with probability below δ.\n"
        + _table(
            ("table", "column", "levels", "found", "of 1% or more", "missed, all runs", "of one person found, all runs"), lines
        )
    )


def _modes(parts: dict[str, list[Run]]) -> str:
    lines = []
    for run in parts["modes"]:
        errors = np.array(run["errors"])
        rounds = f"histogram and {run['rounds']} rounds" if run["rounds"] else "histogram alone"
        what = "three, asked for" if run["modes"] == 3 else "number estimated too"
        ends = [f"{100 * np.quantile(own, 0.95):.1f}%" for own in errors]
        good = [f"{(own <= 0.05).sum()}" for own in (errors[0], errors.max(axis=0))]
        lines.append([rounds, what, *good, *ends])
    return (
        "\n## Modes\nA generated column of three modes (20 ± 3, 50 ± 5, 80 ± 2 with weights .3, .45, .25), 30,000 rows, bounds "
        "0 and 100, 10% of μ², add/remove; 100 runs, each with new rows. Good: the worst of the three modes is within 5% of the "
        "truth. Target: 95. Shipped: one round. The histogram alone is an ordinary mixture fitted to it with all of the share.\n"
        + _table(
            (
                "statistics",
                "modes",
                "means good, of 100",
                "means, spreads and weights good, of 100",
                "error of means, 95% below",
                "of spreads",
                "of weights",
            ),
            lines,
        )
    )


def _ks(parts: dict[str, list[Run]]) -> str:
    by = {modes: [run["ks"] for run in parts["ks"] if run["modes"] == modes] for modes in (None, 3)}
    lines = [["one line, no modes", _spread(by[None], 4)], ["modes = 3", _spread(by[3], 4)]]
    ratio = mean(by[3]) / mean(by[None])
    return (
        "\n## Mode-specific coding\nThe same column and a boolean label by the `paper` recipe (replace-one, 1,000 frequencies), "
        f"{parts['ks'][0]['iterations']:,} iterations, {len(by[3])} seeds: KS distance of the synthetic column. Target: at most "
        f"half. It is {ratio:.2f} of that without modes.\n" + _table(("coding", "KS"), lines)
    )


def _scores(runs: Sequence[Run]) -> list[str]:
    return [_spread([run[name] for run in runs]) for name in ("boosting_auc", "marginals_1", "marginals_2")]


_JUDGED = ("boosting AUC", "TV of single columns", "TV of pairs")


def _adult(parts: dict[str, list[Run]]) -> str:
    by = {kind: [run for run in parts["adult"] if run["schema"] == kind] for kind in ("declared", "estimate")}
    lines = [[kind, *_scores(own)] for kind, own in by.items()]
    lost = [
        mean(run[name] for run in by["declared"]) - mean(run[name] for run in by["estimate"])
        for name in ("boosting_auc", "marginals_2")
    ]
    return (
        "\n## Adult without a declared bound or level\n`auto`, add/remove, "
        f"{len(by['declared'])} seeds; spikes and logarithms are not declared either where all is asked for. Judged by the "
        f"declared schema. Target: a loss of at most .02 in AUC and in TV of pairs. Lost: {lost[0]:.3f} and {-lost[1]:.3f}.\n"
        + _table(("schema", *_JUDGED), lines)
    )


def _scale(parts: dict[str, list[Run]]) -> str:
    kinds = list(dict.fromkeys((run["recipe"], run["scale"]) for run in parts["scale"]))
    lines = []
    for recipe, scale in kinds:
        own = [run for run in parts["scale"] if (run["recipe"], run["scale"]) == (recipe, scale)]
        lines.append([recipe, scale, *_scores(own), str(len(own))])
    return (
        "\n## Scale of the frequencies\nFull Adult, declared schema, 1,000 frequencies, "
        f"{parts['scale'][0]['iterations']:,} iterations. `paper` is replace-one, `auto` add/remove, where rows have no pairs. "
        "`public` takes no budget: a scale that the schema suggests. `auto` looks up to six octaves above either, a public "
        "mixture of scales.\n" + _table(("recipe", "scale", *_JUDGED, "seeds"), lines)
    )


def _selection(parts: dict[str, list[Run]]) -> str:
    kept = list(dict.fromkeys(run["kept"] for run in parts["selection"]))
    lines = []
    for part in kept:
        own = [run for run in parts["selection"] if run["kept"] == part]
        lines.append([f"{100 * part:.0f}%", *_scores(own), str(len(own))])
    return (
        "\n## Choosing pairs\nThe generated table of 101 columns, 16,000 rows, `auto`: only the pairs of highest mutual "
        "information are counted, chosen from exact counts at no cost. A private choice knows less and pays for it.\n"
        + _table(("pairs kept", *_JUDGED, "seeds"), lines)
    )
