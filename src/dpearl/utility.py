"""How useful synthetic rows are: classifiers that learn from them and are tested on real rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from dpearl.codec import Codec
from dpearl.schema import Schema


def paper_classifiers(seed: int = 0) -> dict[str, Any]:
    """The ten of the paper's Table 2. It prints no parameters; these give its row for real data."""
    return {
        "LR": LogisticRegression(max_iter=5000),
        "Gaussian NB": GaussianNB(),
        "Bernoulli NB": BernoulliNB(alpha=0.02),
        "Linear SVM": LinearSVC(max_iter=10_000, random_state=seed),
        "Decision Tree": DecisionTreeClassifier(random_state=seed),
        "LDA": LinearDiscriminantAnalysis(),
        "Adaboost": AdaBoostClassifier(n_estimators=1000, learning_rate=0.7, random_state=seed),
        "Bagging": BaggingClassifier(random_state=seed),
        "GBM": GradientBoostingClassifier(random_state=seed),
        "MLP": MLPClassifier(random_state=seed),
    }


def design_matrix(table: pa.Table, schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers scaled to [-1, 1] by their declared bounds, levels one-hot; and the label's codes."""
    codec = Codec(schema)
    codes = codec.encode(table)
    parts = []
    for name, column in codec.features.items():
        parts.append(column.coordinate(codes[name]) / max(column.top, 1) * 2 - 1)
        shown = [level for level in column.returns if column.one_hot or level]
        parts.append((column.level(codes[name])[:, None] == shown).astype(float))
    return np.concatenate(parts, axis=1), codes[str(schema.label)]


def hard_scores(train: pa.Table, test: pa.Table, schema: Schema, seed: int = 0) -> Iterator[tuple[str, float, float]]:
    """Name, ROC and PRC of each classifier from its hard predictions, the paper's way; the label must have two levels."""
    rows, labels = design_matrix(train, schema)
    unseen, truth = design_matrix(test, schema)
    for name, classifier in paper_classifiers(seed).items():
        guessed = classifier.fit(rows, labels).predict(unseen)
        yield name, float(roc_auc_score(truth, guessed)), float(average_precision_score(truth, guessed))
