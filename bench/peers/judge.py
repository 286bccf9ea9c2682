"""How good rows are, by the measures of the comparison: dpearl's own judges, at one reading for every method.

Numbers are seen plainly: 20 bins of equal width between the declared bounds, without bins for spikes and without
logarithms, since peers cannot be told of either. Distances are to the training rows, learners are tested on the test rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from threadpoolctl import threadpool_limits

from bench.tables import Table
from dpearl.coded import Coded, bin_count
from dpearl.fidelity import MEASURES, score
from dpearl.schema import Column, Number, Schema
from dpearl.utility import usefulness

Scores = dict[str, float]

CLASSIFIERS, BOOSTING, MARGINALS = "classifiers", "boosting", ("marginals_1", "marginals_2", "marginals_3")
JUDGED: Mapping[str, tuple[str, ...]] = {
    "adult": (CLASSIFIERS, BOOSTING, *MARGINALS, "ks", "range_quantile", "c2st"),
    "balanced": (CLASSIFIERS, BOOSTING, *MARGINALS),
    "credit": (CLASSIFIERS, BOOSTING, *MARGINALS),
    "wide": (BOOSTING, *MARGINALS),
    "levels": (BOOSTING, *MARGINALS),
}
"""What is asked of the rows of each table."""


TAUGHT = {"adult": 10_000}
"""Rows that the ten classifiers learn from, drawn at random where there are more; else all, as in the paper."""

MOST_LEVELS = 255
"""Most levels of a category that scikit-learn's boosting takes."""


def plain(schema: Schema) -> Schema:
    """The same columns, numbers without spikes and logarithms; a spike outside the bounds widens them."""
    return schema.model_copy(update={"columns": {name: _plain(column) for name, column in schema.columns.items()}})


def _plain(column: Column) -> Column:
    if not isinstance(column, Number):
        return column
    ends = column.lower, column.upper, *column.spikes
    return Number(lower=min(ends), upper=max(ends), step=column.step, missing=column.missing)


def judge(name: str, table: Table, made: pa.Table, seed: int) -> Scores:
    """All that is asked of the rows of this table."""
    schema = plain(table.schema)
    train, test, rows = (Coded.of(own.select([*schema.columns]), schema) for own in (table.train, table.test, made))
    found: Scores = {"invalid": rows.invalid / len(rows)}
    if CLASSIFIERS in JUDGED[name]:
        found |= classifiers(rows.take(_drawn(len(rows), TAUGHT.get(name, len(rows)), seed)), test, seed)
    if BOOSTING in JUDGED[name]:
        found |= boosting(rows, test, seed)
    return found | distances(train, rows, JUDGED[name], seed)


def _drawn(rows: int, most: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(rows)[:most]


def classifiers(rows: Coded, test: Coded, seed: int) -> Scores:
    """The paper's ten, averaged: ROC and PRC of their hard predictions. Of one class alone nothing can be learnt."""
    averages = usefulness({"made": rows}, test, seed=seed, threads=1).averages
    if "made" not in averages:
        return {"roc": 0.5, "prc": float(_truth(test).mean())}
    return {"roc": averages["made"].scores["roc_hard"], "prc": averages["made"].scores["prc_hard"]}


def boosting(rows: Coded, test: Coded, seed: int) -> Scores:
    """scikit-learn's histogram boosting as it comes, told which columns are categories; scores of the later class."""
    learner = HistGradientBoostingClassifier(categorical_features=_levels(rows), random_state=seed)
    answered = rows.take(np.flatnonzero(np.isin(rows.codes[str(rows.schema.label)], (0, 1))))
    learnt, truth = _truth(answered), _truth(test)
    told = np.full(len(truth), float(learnt.mean()))
    if 0 < learnt.mean() < 1:
        with threadpool_limits(1):
            told = learner.fit(_features(answered), learnt).predict_proba(_features(test))[:, 1]
    scores = {"auc": roc_auc_score(truth, told), "prc": average_precision_score(truth, told), "f1": f1_score(truth, told > 0.5)}
    return {f"boosting_{name}": float(own) for name, own in scores.items()}


def _truth(rows: Coded) -> NDArray[np.bool_]:
    """Which rows are of the later class."""
    return np.asarray(rows.codes[str(rows.schema.label)] == 1)


def _features(rows: Coded) -> NDArray[Any]:
    columns = [rows.values(own) if own in rows.numbers else rows.bins(own) for own in rows.names if own != rows.schema.label]
    return np.column_stack(columns).astype(float)


def _levels(rows: Coded) -> list[bool]:
    """Which features are categories; one of more levels than the learner takes is left to it as a number."""
    features = [own for own in rows.names if own != rows.schema.label]
    return [own not in rows.numbers and bin_count(rows.codec.columns[own]) <= MOST_LEVELS for own in features]


def distances(real: Coded, made: Coded, names: tuple[str, ...], seed: int) -> Scores:
    """Those measures of `dpearl.fidelity` that are named, without resamples and floors: seeds give the spread here."""
    none = real.take(np.arange(0))
    asked = [replace(measure, resamples=0) for measure in MEASURES if measure.name in names]
    found = [score(measure, real, made, (none, none), seed) for measure in asked]
    return {own.name: own.value for own in found if own is not None}
