"""Every run of the comparison, the most important first, so that a bench which is stopped has told the most."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.cache import Run, place
from bench.peers.methods import AUTO, METHODS, REAL

SEEDS, EPSILONS = 5, (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TABLES = ("adult", "wide", "balanced", "credit")
PICTURES, PICTURE_EPSILONS = ("mnist", "fashion"), (1.0, 0.2, 10.0)
COST_ROWS, COST_COLUMNS = (4_000, 16_000, 64_000), (10, 20, 40, 80)
"""What training costs is measured at 20 columns for each number of rows, and at 16,000 rows for each number of columns."""


def phases() -> Iterator[list[Run]]:
    """One seed of everything at ε = 1; the other seeds; the curve over ε."""
    yield [*_tables([0]), _run("levels", REAL), _run("levels", AUTO), *pictures([1.0], [0]), *costs()]
    yield [*_tables(range(1, SEEDS)), *pictures(PICTURE_EPSILONS, range(SEEDS))]
    for seed in range(SEEDS):
        yield [*curve([seed])]


def runs() -> list[Run]:
    """All of them, each once."""
    every = [run for phase in phases() for run in phase]
    return [run for place, run in enumerate(every) if run not in every[:place]]


def _run(table: str, method: str, epsilon: float = 1.0, seed: int = 0) -> Run:
    return {"bench": "peers", "table": table, "method": method, "epsilon": epsilon, "seed": seed}


def _tables(seeds: list[int] | range) -> Iterator[Run]:
    """Real rows have no noise, but learners have seeds."""
    for seed in seeds:
        for table in TABLES:
            yield from (_run(table, method, seed=seed) for method in (REAL, *METHODS))


def pictures(epsilons: list[float] | tuple[float, ...], seeds: list[int] | range) -> Iterator[Run]:
    for seed in seeds:
        for epsilon in epsilons:
            yield from (_run(table, AUTO, epsilon, seed) for table in PICTURES)


def costs() -> Iterator[Run]:
    shapes = [*((rows, 20) for rows in COST_ROWS), *((16_000, columns) for columns in COST_COLUMNS)]
    for rows, columns in dict.fromkeys(shapes):
        yield {**_run("cost", AUTO), "rows": rows, "columns": columns}


def curve(seeds: list[int] | range) -> Iterator[Run]:
    for seed in seeds:
        for epsilon in EPSILONS:
            yield from (_run("adult", method, epsilon, seed) for method in METHODS)


def hopeless(run: Run) -> bool:
    """Whether the first seed of the same failed: then another one would only spend its limit again."""
    first = place({**run, "seed": 0})
    return run["seed"] > 0 and first.exists() and "failed" in json.loads(first.read_text())


def chosen(run: Run, words: list[str]) -> bool:
    """Whether words from the command line, names of tables and of methods, let a run through."""
    methods = [word for word in words if word in METHODS or word == REAL]
    tables = [word for word in words if word not in methods]
    return (not methods or run["method"] in methods) and (not tables or run["table"] in tables)
