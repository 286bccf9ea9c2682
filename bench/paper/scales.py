"""Which frequencies see a table best: what the paper leaves open, tried on rows that are made up.

Two generated tables (`bench.generated`), ε = 1, replace-one, a quarter of the paper's training: 15 columns of all kinds with
11,000 rows, and, as small and as plain as Credit, 30 numbers of a narrow spread and a label with 1,740 rows. Judged by histogram
boosting on fresh rows of the same people, and by the distances of the additional table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pyarrow as pa

from bench.cache import Run
from bench.generated import LABEL, World
from bench.paper.method import DELTA, Made, Method, Task, make, reaching, trained
from bench.paper.tables import FREQUENCIES, distances
from dpearl.coded import Coded
from dpearl.design import RECIPES
from dpearl.privacy import Budget
from dpearl.schema import Number, Schema
from dpearl.settings import TABLES, Omega

COLUMNS, ROWS, ITERATIONS, SEEDS = 15, 11_000, 2_000, 3
FEW_COLUMNS, FEW_ROWS = 31, 1_740
"""The second table's; few rows, that is."""

TESTED = 5_500
"""Fresh rows that boosting is tested on."""

NORMAL, PAPER, SIX, REACHING = (
    "N(0, I), DP-MERF's",
    "1/D̄, the paper's",
    "up to six octaves above",
    "up to six octaves, within reach",
)
OCTAVES = {
    PAPER: (replace(RECIPES["paper"], octaves=0), Omega.SIGMA),
    "up to three octaves above": (replace(RECIPES["paper"], octaves=3), Omega.SIGMA),
    SIX: (replace(RECIPES["paper"], octaves=6), Omega.SIGMA),
    "the same, no critic": (replace(RECIPES["paper"], octaves=6), Omega.NONE),
    REACHING: (reaching(RECIPES["paper"], 6), Omega.SIGMA),
}
"""How far above 1/D̄ some frequencies of numbers are raised, and what the critic moves."""

TRIED = {COLUMNS: (NORMAL, *OCTAVES), FEW_COLUMNS: (NORMAL, PAPER, SIX, REACHING)}
"""What is tried on the table of so many columns."""


def runs() -> list[Run]:
    """All of them, table by table and seed by seed."""
    sizes = {COLUMNS: ROWS, FEW_COLUMNS: FEW_ROWS}
    return [
        {"bench": "scales", "columns": columns, "rows": rows, "iterations": ITERATIONS, "scale": scale, "seed": seed}
        for columns, rows in sizes.items()
        for seed in range(SEEDS)
        for scale in TRIED[columns]
    ]


def schema(columns: int) -> Schema:
    """The declaration of either table; numbers of the second have bounds as wide as ten deviations, in steps of a hundredth."""
    declared = _world(columns).schema
    if columns == COLUMNS:
        return declared
    numbers = {name: Number(lower=-6, upper=6, step=0.12) for name in declared.columns if name.startswith("number")}
    return Schema(label=LABEL, columns={**numbers, LABEL: declared.columns[LABEL]})


def people(columns: int, rows: int, seed: int) -> pa.Table:
    """So many rows of either table."""
    return _world(columns).people(rows, seed).select([*schema(columns).columns])


def _world(columns: int) -> World:
    """One column in five is a plain number."""
    return World(columns if columns == COLUMNS else 5 * (columns - 1) + 1)


@cache
def task(columns: int, rows: int) -> Task:
    """The generated rows that all of them get."""
    declared, made = schema(columns), people(columns, rows, seed=10)
    return Task(declared, made, Coded.of(made, declared), FREQUENCIES, replace(TABLES, iterations=ITERATIONS), rows)


def work(run: Run) -> Run:
    """AUC of boosting, range queries, marginals and MMD."""
    from bench.peers.judge import boosting

    given = task(run["columns"], run["rows"])
    rows = _made(run, given).rows
    test = Coded.of(people(run["columns"], TESTED, seed=11), given.schema)
    return {"auc": boosting(rows, test, run["seed"])["boosting_auc"], **distances(given.coded, rows)}


def _made(run: Run, given: Task) -> Made:
    if run["scale"] == NORMAL:
        return make(Method.MERF, given, 1.0, run["seed"])
    recipe, omega = OCTAVES[run["scale"]]
    return trained(given, recipe, omega, Budget(1.0, DELTA), run["seed"])
