"""Tables 2 and 3: ten classifiers that learn from synthetic and are tested on real rows; range queries, marginals and MMD.

Distances are taken to the training rows, which the paper calls the original data; only the classifiers see test rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.cache import Run
from bench.paper import adult, credit
from bench.paper.method import Method, Task, make
from dpearl.coded import Coded
from dpearl.schema import Schema
from dpearl.settings import TABLES

EPSILON, FREQUENCIES, SEEDS = 1.0, 1_000, 5
METHODS = (Method.OURS, Method.PRINTED, Method.MERF, Method.OCTAVES, Method.DPCGAN, Method.INDEPENDENT)


@dataclass(frozen=True)
class Rows:
    """One data set as one seed sees it."""

    schema: Schema
    train: pa.Table
    test: pa.Table
    wanted: int


def rows(data: str, seed: int) -> Rows:
    """The same split for every seed of Adult, the paper's; a split of its own for each of Credit."""
    if data == "adult":
        return Rows(adult.schema(), adult.rows("train"), adult.rows("test"), adult.WANTED)
    return Rows(credit.schema(), credit.rows("train", seed), credit.rows("test", seed), credit.WANTED)


def runs(data: str) -> list[Run]:
    """Seed by seed, so that a stop leaves whole tables; real rows once, as in the paper."""
    return [run(data, Method.REAL, 0)] + [run(data, method, seed) for seed in range(SEEDS) for method in METHODS]


def run(data: str, method: Method, seed: int) -> Run:
    """Settings of one run."""
    chosen = {"bench": "tables", "data": data, "method": str(method), "epsilon": EPSILON, "seed": seed}
    return {**chosen, "frequencies": FREQUENCIES, "iterations": TABLES.iterations} if method.embeds else chosen


def work(run: Run) -> Run:
    """Synthetic rows by one method, what can be learnt from them, and how far they are from the real ones."""
    given, seed = rows(run["data"], run["seed"]), run["seed"]
    real = Coded.of(given.train, given.schema)
    task = Task(given.schema, given.train, real, FREQUENCIES, TABLES, given.wanted)
    made = make(Method(run["method"]), task, run["epsilon"], seed)
    found = {"scores": scores(made.rows, Coded.of(given.test, given.schema), seed), **distances(real, made.rows)}
    shown = {"shares": {name: made.rows.shares(name).round(5).tolist() for name in made.rows.names}} if seed == 0 else {}
    return {**found, **shown, "cpu": made.cpu}


def scores(made: Coded, test: Coded, seed: int) -> dict[str, tuple[float, float]]:
    """ROC and PRC of hard predictions, by classifier; one that finds a single class is guessing."""
    from dpearl.utility import paper_classifiers, usefulness

    skills = usefulness({"made": made}, test, seed=seed, threads=1).skills.get("made", ())
    told = {skill.learner: (skill.scores["roc_hard"], skill.scores["prc_hard"]) for skill in skills}
    guess = 0.5, float(np.mean(test.codes[str(test.schema.label)] == 1))
    return {name: told.get(name, guess) for name in paper_classifiers()}


def distances(real: Coded, made: Coded) -> dict[str, float]:
    """Range queries on three columns, L1 of all pairs of columns, squared MMD; the same queries for every method."""
    from dpearl.fidelity import KERNEL_ROWS, kernel_distance, marginals, range_queries

    chance = np.random.default_rng(0)
    pairs = marginals(real, made, chance, size=2)
    few = [rows.take(chance.permutation(len(rows))[:KERNEL_ROWS]) for rows in (real, made)]
    apart = kernel_distance(few[0], few[1], chance)
    assert pairs is not None
    assert apart is not None
    asked = range_queries(real, made, np.random.default_rng(0), quantiles=False)
    return {"range": asked.value, "marginal": pairs.extra["l1_mean"], "mmd": apart.value}
