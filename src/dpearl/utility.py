"""How useful synthetic rows are: learners trained on them and tested on real rows.

Beside them always what real rows teach (the ceiling) and what rows teach whose columns know nothing of each other (the
floor). Rows are put in the order of their codes and then shuffled by the seed, so that no score depends on their order.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, mean_absolute_error, r2_score, roc_auc_score, roc_curve
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.errors import UsageError
from dpearl.schema import Datetime, Image, Number

CEILING, FLOOR = "real rows", "independent columns"
"""Names of the two training sets that stand beside the synthetic ones."""

BOOSTING = "Gradient boosting (hist)"
AVERAGE = "average"

ROWS, TEST_ROWS, FEWEST = 12_000, 20_000, 2_000
"""Most rows to learn from and to be tested on, drawn at random from larger tables; what many classes leave of them."""

CLASSES = 8
"""Beyond so many classes fewer rows are drawn: trees and scores take time by rows × classes."""

RESAMPLES, POINTS = 10, 200
"""Resamples of the test rows behind a spread; most points of a curve."""

Grades = Mapping[str, NDArray[np.float64]]
"""Each score: first on the test rows, then on every resample of them."""


Fit = tuple[str, str]
"""A training set and a learner, by name."""


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


def learners(task: str, seed: int = 0) -> dict[str, Any]:
    """The paper's ten and gradient boosting over histograms; for a regression, the latter and ridge regression."""
    if task == "regression":
        boosting = HistGradientBoostingRegressor(early_stopping=False, random_state=seed)
        return {"Ridge regression": Ridge(), BOOSTING: boosting}
    return {**paper_classifiers(seed), BOOSTING: HistGradientBoostingClassifier(early_stopping=False, random_state=seed)}


@dataclass(frozen=True)
class Skill:
    """What a learner can do with the test rows, each score with its standard deviation over resamples of them.

    Classes: `roc` and `prc` are ROC AUC and average precision of its scores, `roc_hard` and `prc_hard` the same of its
    bare predictions, as in the paper. With two declared classes the later one is the positive one; with more, each class
    of the test rows stands against the rest and the plain mean is taken. A class that was never seen scores zero
    everywhere. Resamples keep the number of rows of each class. Regression: `r2`, and `mae`, the mean absolute error
    divided by the declared range.
    """

    learner: str
    scores: Mapping[str, float]
    spreads: Mapping[str, float]

    @classmethod
    def of(cls, learner: str, grades: Grades) -> Skill:
        scores = {name: float(values[0]) for name, values in grades.items()}
        return cls(learner, scores, {name: float(np.std(values[1:], ddof=1)) for name, values in grades.items()})


@dataclass(frozen=True)
class Curve:
    """Points of a ROC curve, from (0, 0) to (1, 1)."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]


@dataclass(frozen=True)
class Usefulness:
    """What could be learnt of one column, by training set.

    `averages` are over the paper's ten (a regression's two), as far as they could learn from every set; `curves` are those
    of gradient boosting, with two classes only. `notes` say what could not be measured, and why.
    """

    target: str
    task: str
    skills: Mapping[str, tuple[Skill, ...]]
    averages: Mapping[str, Skill]
    curves: Mapping[str, Curve]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """A column that is to be told from the others, pictures left aside."""

    codec: Codec
    target: str

    @classmethod
    def of(cls, codec: Codec, target: str | None = None) -> Question:
        """The schema's label unless another column is named."""
        name = target or codec.schema.label
        if name is None:
            raise UsageError("the schema names no label; name the column that is to be predicted")
        if name not in codec.columns:
            raise UsageError(f"{name!r} is not declared in the schema; name a column that is")
        if isinstance(codec.schema.columns[name], Image):
            raise UsageError(f"{name!r} holds pictures, which cannot be predicted; name a column of another kind")
        return cls(codec, name)

    @property
    def task(self) -> str:
        """By declaration, whatever the rows hold: binary, classes or regression."""
        return "binary" if len(self.classes) == 2 else "classes" if self.classes else "regression"

    @cached_property
    def classes(self) -> list[int]:
        """Codes that are an answer, declared levels and a named `other`; none for a number or datetime."""
        column = self.codec.columns[self.target]
        return [level for level in column.returns if level != column.levels - 1] if column.one_hot else []

    def answered(self, rows: Coded) -> NDArray[np.bool_]:
        """Which rows have an answer."""
        return np.isin(rows.codes[self.target], self.classes) if self.classes else ~rows.missing(self.target)

    def answers(self, rows: Coded) -> NDArray[Any]:
        """Codes of classes; numbers and moments in units of the declared range."""
        column = self.codec.schema.columns[self.target]
        if not isinstance(column, (Number, Datetime)):
            return rows.codes[self.target]
        lower, upper = (column.lower, column.upper) if isinstance(column, Number) else column.span
        return np.asarray((rows.values(self.target) - lower) / (upper - lower))

    def lesson(self, rows: Coded, most: int, seed: int) -> Lesson:
        """Rows that have an answer, at most so many, in an order that hangs on their cells and the seed alone."""
        places = np.flatnonzero(self.answered(rows))
        sort = np.lexsort([rows.codes[name][places] for name in rows.names])
        share = max(most * CLASSES // max(len(self.classes), CLASSES), FEWEST)
        some = rows.take(places[sort][np.random.default_rng(seed).permutation(len(places))[:share]])
        return Lesson(some.matrix([name for name in rows.names if name != self.target]), self.answers(some))


@dataclass(frozen=True, eq=False)
class Lesson:
    """Rows to learn from or to be tested on: numbers in [-1, 1] and one-hot levels, and the answers."""

    rows: NDArray[np.float64]
    answers: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Exam:
    """Test rows, where each class in `against` stands against the rest, and the resamples behind a spread."""

    rows: NDArray[np.float64]
    truth: NDArray[Any]
    against: list[int]
    draws: list[NDArray[np.int64]]

    @classmethod
    def of(cls, question: Question, test: Lesson, seed: int) -> Exam:
        """All rows, then resamples of them, class by class where there are classes."""
        every, chance = np.arange(len(test.answers)), np.random.default_rng(seed)
        groups = [np.flatnonzero(test.answers == one) for one in question.classes] or [every]
        draws = [np.concatenate([chance.choice(own, len(own)) for own in groups if len(own)]) for _ in range(RESAMPLES)]
        present = [one for one, own in zip(question.classes, groups, strict=False) if len(own)]
        against = present[-1:] if question.task == "binary" else present
        truth = _against(test.answers, against) if against else test.answers
        return cls(test.rows, truth, against, [every, *draws])

    def grades(self, told: NDArray[Any], **measures: Callable[..., float]) -> Grades:
        """Each measure on the test rows and on every resample."""
        return {name: np.array([own(self.truth[d], told[d]) for d in self.draws]) for name, own in measures.items()}


def _against(answers: NDArray[Any], classes: list[int]) -> NDArray[np.int64]:
    """A column for each class, 1 where it is the answer; of one class the column itself."""
    return np.asarray((answers[:, None] == classes).astype(np.int64).squeeze())


def independent(rows: Coded, chance: np.random.Generator) -> Coded:
    """The same columns, each permuted on its own: rows that know nothing but their marginals."""
    sorts = {name: np.sort(own) if own.ndim == 1 else own for name, own in rows.codes.items()}
    return Coded(rows.codec, {name: chance.permutation(own) for name, own in sorts.items()})


def beside(synthetic: Mapping[str, Coded], real: Coded, seed: int = 0) -> dict[str, Coded]:
    """Synthetic training sets, and with them the ceiling and the floor."""
    return {**synthetic, CEILING: real, FLOOR: independent(real, np.random.default_rng(seed))}


def usefulness(
    training: Mapping[str, Coded],
    test: Coded,
    target: str | None = None,
    seed: int = 0,
    done: Callable[[str], None] = lambda learner: None,
    threads: int | None = None,
) -> Usefulness:
    """What learners make of each training set when they are asked for the target of real test rows."""
    return Course.of(training, test, target, seed).hold(done, threads)


@dataclass(frozen=True, eq=False)
class Course:
    """All that is to be learnt and asked, prepared; sets that nothing can be learnt from are left out with a note."""

    question: Question
    lessons: Mapping[str, Lesson]
    test: Lesson
    notes: tuple[str, ...]
    seed: int

    @classmethod
    def of(cls, training: Mapping[str, Coded], test: Coded, target: str | None = None, seed: int = 0) -> Course:
        question = Question.of(test.codec, target)
        asked = question.lesson(test, TEST_ROWS, seed)
        obstacle = _obstacle(question, asked, "the test rows")
        if obstacle:
            return cls(question, {}, asked, (obstacle,), seed)
        lessons = {name: question.lesson(rows, ROWS, seed) for name, rows in training.items()}
        notes = {name: _obstacle(question, lesson, f"the set {name!r}") for name, lesson in lessons.items()}
        taught = {name: lesson for name, lesson in lessons.items() if not notes[name]}
        return cls(question, taught, asked, tuple(note for note in notes.values() if note), seed)

    @property
    def fits(self) -> int:
        """How many times a learner will be fitted."""
        return len(self.lessons) * len(learners(self.question.task))

    def hold(self, done: Callable[[str], None] = lambda learner: None, threads: int | None = None) -> Usefulness:
        """Fit and test every learner, and tell `done` its name. Results are the same for every number of threads."""
        if not self.lessons:
            return self._summary({})
        exam = Exam.of(self.question, self.test, self.seed)
        jobs = {
            (name, learner): partial(marks, model, lesson, exam)
            for name, lesson in self.lessons.items()
            for learner, model in learners(self.question.task, self.seed).items()
        }
        return self._summary(_work_off(jobs, done, threads))

    def _summary(self, found: Mapping[Fit, Marks | None]) -> Usefulness:
        failed = [
            f"{learner} could not learn from the set {name!r}; it is left out"
            for (name, learner), own in found.items()
            if not own
        ]
        grades = {name: {one: own.grades for (set_, one), own in found.items() if own and set_ == name} for name in self.lessons}
        return Usefulness(
            target=self.question.target,
            task=self.question.task,
            skills={name: tuple(Skill.of(*skill) for skill in own.items()) for name, own in grades.items()},
            averages=_averages(self.question.task, grades),
            curves={name: own.curve for (name, one), own in found.items() if own and own.curve and one == BOOSTING},
            notes=(*self.notes, *failed),
        )


def _obstacle(question: Question, lesson: Lesson, where: str) -> str | None:
    """Why nothing can be measured with these rows, if so."""
    kinds, target = len(np.unique(lesson.answers)), question.target
    if kinds > 1 and lesson.rows.shape[1]:
        return None
    if kinds > 1:
        reason = f"the schema has no column beside {target} to learn from"
    elif kinds:
        reason = f"{target} has one {'class' if question.classes else 'value'} only in {where}"
    else:
        reason = f"no row of {where} has a declared {target}"
    return f"{reason}; usefulness cannot be measured"


@dataclass(frozen=True)
class Marks:
    """What one fitted learner scored; its ROC curve with two classes."""

    grades: Grades
    curve: Curve | None = None


def marks(model: Any, lesson: Lesson, exam: Exam) -> Marks | None:
    """Fit and test a learner; None where it cannot deal with these rows."""
    try:
        model.fit(lesson.rows, lesson.answers)
        found = _class_marks(model, exam) if exam.against else _number_marks(model, exam)
    except (ValueError, ArithmeticError, LookupError):
        return None
    return found if all(np.isfinite(values).all() for values in found.grades.values()) else None


def _number_marks(model: Any, exam: Exam) -> Marks:
    return Marks(exam.grades(model.predict(exam.rows), r2=r2_score, mae=mean_absolute_error))


def _class_marks(model: Any, exam: Exam) -> Marks:
    """Predictions are the class of the highest score, which is what `predict` would say after the same work again."""
    told = (model.predict_proba if hasattr(model, "predict_proba") else model.decision_function)(exam.rows)
    scores = np.column_stack([-told, told]) if told.ndim == 1 else told
    hard, columns = model.classes_[scores.argmax(axis=1)], dict(zip(model.classes_.tolist(), scores.T, strict=True))
    soft = np.stack([columns.get(one, np.zeros(len(scores))) for one in exam.against], axis=1).squeeze()
    grades = {
        **exam.grades(_against(hard, exam.against), roc_hard=roc_auc_score, prc_hard=average_precision_score),
        **exam.grades(soft, roc=roc_auc_score, prc=average_precision_score),
    }
    return Marks(grades, _curve(exam, soft) if len(exam.against) == 1 else None)


def _curve(exam: Exam, scores: NDArray[np.float64]) -> Curve:
    """Corners of the ROC curve, thinned evenly where there are many."""
    fpr, tpr, _ = roc_curve(exam.truth, scores)
    shown = np.unique(np.linspace(0, len(fpr) - 1, POINTS).astype(int))
    return Curve(tuple(fpr[shown].tolist()), tuple(tpr[shown].tolist()))


def _averages(task: str, grades: Mapping[str, Mapping[str, Grades]]) -> dict[str, Skill]:
    """Over those learners that every set has, so that sets can be compared."""
    asked = learners(task) if task == "regression" else paper_classifiers()
    common = [one for one in asked if all(one in own for own in grades.values())]
    return {name: Skill.of(AVERAGE, _mean([own[one] for one in common])) for name, own in grades.items() if common}


def _mean(grades: list[Grades]) -> Grades:
    return {name: np.mean([own[name] for own in grades], axis=0) for name in grades[0]}


def _work_off(
    jobs: Mapping[Fit, Callable[[], Marks | None]], done: Callable[[str], None], threads: int | None
) -> dict[Fit, Marks | None]:
    """Every job's result, several at a time; libraries get one thread each, so that no sum depends on their number."""
    workers = ThreadPoolExecutor(threads or os.cpu_count(), initializer=threadpool_limits, initargs=(1, "openmp"))
    with _quiet(), threadpool_limits(1), workers as pool:
        running = {pool.submit(job): fit for fit, job in jobs.items()}
        try:
            for future in as_completed(running):
                future.result()
                done(running[future][1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {fit: future.result() for future, fit in running.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what learners say of hard data: no convergence yet, collinear columns, a variance of zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
