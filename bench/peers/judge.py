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
        found |= classifiers(rows, test, seed)
    if BOOSTING in JUDGED[name]:
        found |= boosting(rows, test, seed)
    return found | distances(train, rows, JUDGED[name], seed)


def classifiers(rows: Coded, test: Coded, seed: int) -> Scores:
    """The paper's ten, averaged: ROC and PRC of their hard predictions."""
    averages = usefulness({"made": rows}, test, seed=seed, threads=1).averages
    hard = averages["made"].scores if "made" in averages else {"roc_hard": 0.5, "prc_hard": float("nan")}
    return {"roc": hard["roc_hard"], "prc": hard["prc_hard"]}


def boosting(rows: Coded, test: Coded, seed: int) -> Scores:
    """scikit-learn's histogram boosting as it comes, told which columns are categories; F1 and AUC of the later class."""
    label = str(rows.schema.label)
    truth = test.codes[label] == 1
    learnt = np.isin(rows.codes[label], (0, 1))
    model = HistGradientBoostingClassifier(categorical_features=_levels(rows), random_state=seed)
    model.fit(_features(rows)[learnt], rows.codes[label][learnt] == 1)
    told = model.predict_proba(_features(test))[:, -1]
    return {
        "boosting_auc": float(roc_auc_score(truth, told)),
        "boosting_prc": float(average_precision_score(truth, told)),
        "boosting_f1": float(f1_score(truth, told > 0.5)),
    }


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
