"""Why Adult's numbers have public steps: trees on synthetic rows, with numbers to the unit and on the coarser grid.

Within training rows alone: 10,000 of them are released at ε = 1 with numbers to the unit, the other 1,077 test what can be learnt
from a generator's rows. Both grids see the same rows; training is a quarter of the paper's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bench.cache import Run
from bench.paper import adult
from bench.paper.method import Method, Task, make
from dpearl.coded import Coded
from dpearl.schema import Schema
from dpearl.settings import TABLES

RELEASED, ITERATIONS, SEEDS = 10_000, 2_000, 5
LEARNERS = ("LR", "Decision Tree", "GBM")


def runs() -> list[Run]:
    """One for each seed."""
    return [{"bench": "resolution", "released": RELEASED, "iterations": ITERATIONS, "seed": seed} for seed in range(SEEDS)]


def work(run: Run) -> Run:
    """Hard ROC by training rows, grid and learner."""
    rows, fine = adult.rows("train"), adult.schema(fine=True)
    places = np.random.default_rng(0).permutation(rows.num_rows)
    given, test = rows.take(places[: run["released"]]), rows.take(places[run["released"] :])
    settings = replace(TABLES, iterations=run["iterations"])
    task = Task(fine, given, Coded.of(given, fine), 1_000, settings, adult.WANTED)
    made = make(Method.OURS, task, 1.0, run["seed"]).rows
    tables = {"synthetic": made.codec.decode(made.codes), "real": given}
    grids = {"to the unit": fine, "coarser": adult.schema()}
    return {
        name: {grid: skills(Coded.of(table, schema), Coded.of(test, schema), schema) for grid, schema in grids.items()}
        for name, table in tables.items()
    }


def skills(train: Coded, test: Coded, schema: Schema) -> dict[str, float]:
    """Hard ROC of each learner on the test rows."""
    from sklearn.metrics import roc_auc_score

    from dpearl.utility import paper_classifiers

    label = str(schema.label)
    names = [name for name in train.names if name != label]
    found = {}
    for name, model in paper_classifiers().items():
        if name in LEARNERS:
            model.fit(train.matrix(names), train.codes[label])
            found[name] = float(roc_auc_score(test.codes[label], model.predict(test.matrix(names))))
    return found
