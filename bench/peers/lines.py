"""Lines of the tables: a method each, mean ± standard deviation over its seeds, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.cache import Run
from bench.peers.methods import METHODS, REAL


@dataclass(frozen=True)
class Column:
    """Names of scores that share a cell, and how many digits each is told with."""

    title: str
    scores: tuple[str, ...]
    digits: int = 3


COST = (Column("CPU s", ("cpu",), 0), Column("peak MB", ("peak_mb",), 0))
SKILL = Column("ten classifiers, ROC / PRC", ("roc", "prc"))
BOOSTING = Column("boosting AUC", ("boosting_auc",))
MARGINALS = Column("TV of 1- / 2- / 3-way marginals", ("marginals_1", "marginals_2", "marginals_3"))
COLUMNS: dict[str, tuple[Column, ...]] = {
    "adult": (
        *(SKILL, BOOSTING, Column("boosting F1", ("boosting_f1",)), MARGINALS),
        *(Column("KS", ("ks",)), Column("range queries", ("range_quantile",), 4), Column("C2ST", ("c2st",), 2), *COST),
    ),
    "balanced": (SKILL, BOOSTING, MARGINALS, *COST),
    "credit": (SKILL, Column("boosting ROC / PRC", ("boosting_auc", "boosting_prc")), MARGINALS, *COST),
    "wide": (BOOSTING, MARGINALS, *COST),
    "levels": (BOOSTING, MARGINALS, *COST),
}
PICTURES = (
    *(Column("FID", ("fid",), 2), Column("KID", ("kid",), 4)),
    *(Column("CNN accuracy / by its last step", ("accuracy", "accuracy_last")), Column("CPU s", ("cpu",), 0)),
)


def cell(column: Column, own: Sequence[Run]) -> str:
    """Means, each with its standard deviation where there is more than one seed."""
    return " / ".join(_spread([run[score] for run in own], column.digits) for score in column.scores)


def _spread(values: Sequence[float], digits: int) -> str:
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):,.{digits}f}{spread}"


def head(first: Sequence[str], columns: Sequence[Column]) -> Iterator[str]:
    titles = [*first, *(column.title for column in columns), "seeds"]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"


def line(first: Sequence[str], columns: Sequence[Column], own: Sequence[Run]) -> str:
    """What is told of runs that differ in their seed alone; runs that failed are counted and explained."""
    good, bad = [run for run in own if "failed" not in run], [run for run in own if "failed" in run]
    cells = [_known(column, good) for column in columns] if good else [bad[0]["failed"], *[""] * (len(columns) - 1)]
    seeds = f"{len(good)} of {len(own)}: {bad[0]['failed']}" if good and bad else str(len(own))
    return f"| {' | '.join([*first, *cells, seeds])} |"


def _known(column: Column, own: Sequence[Run]) -> str:
    """Costs of real rows are none, and not told."""
    return "" if own[0]["method"] == REAL and column in COST else cell(column, own)


def of(done: Sequence[Run], table: str, method: str, epsilon: float = 1.0) -> list[Run]:
    """Finished runs that differ in their seed alone."""
    return [run for run in done if (run["table"], run["method"], run["epsilon"]) == (table, method, epsilon)]


def table_lines(done: Sequence[Run], table: str) -> Iterator[str]:
    """All methods on one table at ε = 1; nothing where no run of it is finished."""
    found = {method: own for method in (REAL, *METHODS) if (own := of(done, table, method))}
    if found:
        yield from head([""], COLUMNS[table])
        yield from (line([method], COLUMNS[table], own) for method, own in found.items())


def picture_lines(done: Sequence[Run], table: str, epsilons: Sequence[float], method: str) -> Iterator[str]:
    """Ours at every ε."""
    found = {epsilon: own for epsilon in sorted(epsilons) if (own := of(done, table, method, epsilon))}
    if found:
        yield from head(["ε"], PICTURES)
        yield from (line([f"{epsilon:g}"], PICTURES, own) for epsilon, own in found.items())


def cost_lines(done: Sequence[Run]) -> Iterator[str]:
    """CPU seconds of training by rows and columns, and as a multiple of what half the columns take."""
    spent = {(run["columns"], run["rows"]): run["cpu"] for run in done if run["table"] == "cost"}
    if spent:
        yield "| columns | rows | CPU s of training | of half the columns |"
        yield "|---|---|---|---|"
    for (columns, rows), cpu in sorted(spent.items()):
        half = spent.get((columns // 2, rows))
        yield f"| {columns} | {rows:,} | {cpu:.1f} | {f'× {cpu / half:.1f}' if half else ''} |"
