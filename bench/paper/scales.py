"""Which frequencies see a table best: what the paper leaves open, tried on rows that are made up.

A generated table of 15 columns (`bench.generated`), 11,000 rows, ε = 1, replace-one, a quarter of the paper's training. Judged by
histogram boosting on fresh rows of the same people, and by the distances of the additional table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from bench.cache import Run
from bench.generated import World
from bench.paper.method import DELTA, Made, Method, Task, make, trained
from bench.paper.tables import FREQUENCIES, distances
from dpearl.coded import Coded
from dpearl.design import RECIPES
from dpearl.privacy import Budget
from dpearl.settings import TABLES, Omega

COLUMNS, ROWS, ITERATIONS, SEEDS = 15, 11_000, 2_000, 3
NORMAL = "N(0, I), DP-MERF's"
OCTAVES = {
    "1/D̄, the paper's": (0, Omega.SIGMA),
    "up to three octaves above": (3, Omega.SIGMA),
    "up to six octaves above": (6, Omega.SIGMA),
    "the same, no critic": (6, Omega.NONE),
}
"""How far above 1/D̄ some frequencies of numbers reach, and what the critic moves."""


def runs() -> list[Run]:
    """All of them, seed by seed."""
    settings = {"bench": "scales", "columns": COLUMNS, "rows": ROWS, "iterations": ITERATIONS}
    return [{**settings, "scale": scale, "seed": seed} for seed in range(SEEDS) for scale in (NORMAL, *OCTAVES)]


@cache
def task() -> Task:
    """The generated rows that all of them get."""
    world = World(COLUMNS)
    rows = world.people(ROWS, seed=10)
    return Task(world.schema, rows, Coded.of(rows, world.schema), FREQUENCIES, replace(TABLES, iterations=ITERATIONS), ROWS)


def work(run: Run) -> Run:
    """AUC of boosting, range queries, marginals and MMD."""
    from bench.peers.judge import boosting

    rows = _made(run).rows
    test = Coded.of(World(COLUMNS).people(ROWS // 2, seed=11), task().schema)
    return {"auc": boosting(rows, test, run["seed"])["boosting_auc"], **distances(task().coded, rows)}


def _made(run: Run) -> Made:
    if run["scale"] == NORMAL:
        return make(Method.MERF, task(), 1.0, run["seed"])
    octaves, omega = OCTAVES[run["scale"]]
    return trained(task(), replace(RECIPES["paper"], octaves=octaves), omega, Budget(1.0, DELTA), run["seed"])
