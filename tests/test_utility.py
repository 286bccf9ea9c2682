"""Learners on synthetic rows: the paper's row, scores by hand, rows that nothing can be learnt from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench.paper import adult
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import auc, average_precision_score, roc_auc_score

from dpearl.coded import Coded
from dpearl.errors import UsageError
from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number, Schema
from dpearl.utility import (
    BOOSTING,
    CEILING,
    FEWEST,
    FLOOR,
    RESAMPLES,
    Course,
    Exam,
    Fit,
    Lesson,
    Question,
    _quiet,
    _work_off,
    beside,
    independent,
    learners,
    marks,
    paper_classifiers,
    usefulness,
)

START = datetime(2020, 1, 1)
COLUMNS: dict[str, Column] = {
    "flag": Boolean(missing=True),
    "size": Number(lower=0, upper=10, step=0.1, spikes=(-5,), missing=True),
    "kind": Category(levels=("a", "b", "c"), missing=True),
    "when": Datetime(lower=START, upper=START + timedelta(days=100), step="1d", missing=True),
    "picture": Image(height=1, width=2),
}
SCHEMA = Schema(label="flag", columns=COLUMNS)


def cells(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Rows where size says nearly all about flag and when, and kind says a little."""
    chance = np.random.default_rng(seed)
    size = chance.uniform(0, 10, count)
    return {
        "flag": (size + chance.normal(0, 1, count) > 6).tolist(),
        "size": size.round(1).tolist(),
        "kind": np.array(["a", "b", "c"])[(size / 4 + chance.uniform(0, 0.5, count)).astype(int).clip(0, 2)].tolist(),
        "when": [START + timedelta(days=int(value)) for value in size * 9 + chance.uniform(0, 5, count)],
        "picture": [bytes(pixels) for pixels in chance.integers(0, 256, (count, 2)).astype(np.uint8)],
    }


def coded(columns: dict[str, list[Any]], schema: Schema = SCHEMA) -> Coded:
    types = {"flag": pa.bool_(), "size": pa.float64(), "kind": pa.string(), "when": pa.timestamp("us"), "picture": pa.binary(2)}
    return Coded.of(pa.table({name: pa.array(own, types.get(name)) for name, own in columns.items()}), schema)


def rows(count: int, seed: int = 0) -> Coded:
    return coded(cells(count, seed))


def shuffled(table: Coded, seed: int = 0) -> Coded:
    return table.take(np.random.default_rng(seed).permutation(len(table)))


def quick_learners(task: str) -> dict[str, Any]:
    """All of them, with a fiftieth of Adaboost's trees."""
    found = learners(task)
    return {**found, "Adaboost": found["Adaboost"].set_params(n_estimators=20)}


@dataclass
class Parrot:
    """Says what it was given, whatever it is asked."""

    scores: NDArray[np.float64]
    classes: tuple[int, ...] = ()
    classes_: NDArray[Any] = field(init=False)

    def fit(self, rows: NDArray[Any], answers: NDArray[Any]) -> None:
        self.classes_ = np.array(self.classes)

    def predict(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return self.scores

    def decision_function(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return self.scores


# The paper's row


@pytest.mark.skipif(
    "DPEARL_DATA" not in os.environ, reason="the paper's balanced Adult lies in the folder that DPEARL_DATA names"
)
def test_real_rows_give_the_paper_s_row_for_real_data() -> None:
    train, test = (Coded.of(adult.rows(part), adult.schema()) for part in ("train", "test"))
    found = usefulness({"real": train}, test)
    skills = {skill.learner: skill for skill in found.skills["real"]}
    paper = {"Gaussian NB": (0.629, 0.511), "Bernoulli NB": (0.769, 0.651), "Linear SVM": (0.781, 0.671), "LDA": (0.782, 0.670)}
    for name, (roc, prc) in paper.items():
        assert skills[name].scores["roc_hard"] == pytest.approx(roc, abs=0.003), name
        assert skills[name].scores["prc_hard"] == pytest.approx(prc, abs=0.003), name
    assert found.averages["real"].scores["roc_hard"] == pytest.approx(0.765, abs=0.005)
    assert found.averages["real"].scores["prc_hard"] == pytest.approx(0.654, abs=0.005)
    assert list(skills) == [*paper_classifiers(), BOOSTING]
    assert all(0 < spread < 0.03 for skill in skills.values() for spread in skill.spreads.values())


# Scores by hand


def exam(answers: list[Any], target: str) -> Exam:
    question = Question.of(rows(2).codec, target)
    return Exam.of(question, Lesson(np.zeros((len(answers), 1)), np.array(answers)), 0)


def first(grades: Any) -> dict[str, float]:
    return {name: float(values[0]) for name, values in grades.items()}


ANY = Lesson(np.zeros((2, 1)), np.array([0, 1]))


def test_two_classes_by_hand() -> None:
    """The later level is positive. Hard: 1 of 2 found, 1 of 3 wrongly. Scores: 4 of 6 pairs in order."""
    found = marks(Parrot(np.array([-3.0, 1, -1, 2, -2]), (0, 1)), ANY, exam([0, 0, 0, 1, 1], "flag"))
    assert found is not None
    assert first(found.grades) == pytest.approx(
        {
            "roc_hard": (1 / 2 + 2 / 3) / 2,
            "prc_hard": 1 / 2 * 1 / 2 + 1 / 2 * 2 / 5,
            "roc": 4 / 6,
            "prc": 1 / 2 * 1 + 1 / 2 * 2 / 4,
        }
    )


def test_many_classes_by_hand() -> None:
    """One against the rest, then the plain mean; predicted are 0, 1, 1, 2."""
    scores = np.array([[0.9, 0.1, 0], [0.4, 0.6, 0], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])
    found = marks(Parrot(scores, (0, 1, 2)), ANY, exam([0, 0, 1, 2], "kind"))
    assert found is not None
    assert found.curve is None
    assert first(found.grades) == pytest.approx(
        {
            "roc_hard": (3 / 4 + 5 / 6 + 1) / 3,
            "prc_hard": ((1 / 2 + 1 / 2 * 2 / 4) + 1 / 2 + 1) / 3,
            "roc": 1.0,
            "prc": 1.0,
        }
    )


def test_a_class_that_was_never_seen_counts_as_guessed() -> None:
    """Class 2 is in the test rows alone: 0.5, and its share of the rows."""
    found = marks(Parrot(np.array([-1.0, -1, 1, 1]), (0, 1)), ANY, exam([0, 0, 1, 2], "kind"))
    assert found is not None
    assert first(found.grades)["roc_hard"] == pytest.approx((1 + 5 / 6 + 1 / 2) / 3)
    assert first(found.grades)["roc"] == pytest.approx((1 + 5 / 6 + 1 / 2) / 3)
    assert first(found.grades)["prc"] == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)


def test_only_classes_of_the_test_rows_are_scored() -> None:
    scores = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = marks(Parrot(scores, (0, 1, 2)), ANY, exam([0, 1, 1], "kind"))
    assert found is not None
    assert first(found.grades)["roc_hard"] == pytest.approx((1 + 3 / 4) / 2)


def test_regression_by_hand() -> None:
    """Errors of 1, 1 and 2 on a range of 10, in its units; squares 6 of 8."""
    asked = exam([0.1, 0.3, 0.5], "size")
    found = marks(Parrot(np.array([0.2, 0.2, 0.3])), ANY, asked)
    assert found is not None
    assert first(found.grades) == pytest.approx({"r2": 1 - 0.06 / 0.08, "mae": 0.4 / 3})


def test_answers_are_in_units_of_the_declared_range() -> None:
    table = coded({**cells(3), "size": [2.5, -5.0, None], "when": [START, START + timedelta(days=50), None]})
    for target, expected in (("size", [0.25, -0.5]), ("when", [0.0, 0.5])):
        question = Question.of(table.codec, target)
        assert sorted(question.lesson(table, 10, 0).answers.tolist()) == pytest.approx(sorted(expected))
        assert question.task == "regression"


def test_rows_without_a_declared_answer_are_left_out() -> None:
    table = coded({**cells(4), "flag": [True, None, False, True], "kind": ["a", "undeclared", None, "b"]})
    assert len(Question.of(table.codec, "flag").lesson(table, 9, 0).answers) == 3
    assert sorted(Question.of(table.codec, "kind").lesson(table, 9, 0).answers.tolist()) == [0, 1]


def test_a_named_other_is_a_class() -> None:
    schema = Schema(columns={"x": Number(lower=0, upper=1), "y": Category(levels=("a", "b"), other="rest")})
    table = coded({"x": [0.0, 0.5, 1.0], "y": ["a", "unheard", "b"]}, schema)
    question = Question.of(table.codec, "y")
    assert question.task == "classes"
    assert sorted(question.lesson(table, 9, 0).answers.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("name", list(learners("binary")))
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_scores_are_scikit_learn_s_own(name: str, target: str, quiet: None) -> None:
    question = Question.of(rows(2).codec, target)
    lesson, test = question.lesson(rows(150), 200, 0), question.lesson(rows(80, 1), 200, 0)
    asked, model = Exam.of(question, test, 0), quick_learners(question.task)[name]
    found = marks(model, lesson, asked)
    assert found is not None
    told = model.predict(test.rows)
    hard = (told[:, None] == asked.against).astype(float).squeeze()
    assert first(found.grades)["roc_hard"] == pytest.approx(roc_auc_score(asked.truth, hard))
    assert first(found.grades)["prc_hard"] == pytest.approx(average_precision_score(asked.truth, hard))
    assert first(found.grades)["roc"] > 0.6
    assert all(len(values) == 1 + RESAMPLES for values in found.grades.values())


@pytest.fixture
def quiet() -> Any:
    with _quiet():
        yield


# Training sets


@given(st.permutations(range(15)))
@settings(max_examples=20, deadline=None)
def test_lessons_do_not_depend_on_the_order_of_rows(order: list[int]) -> None:
    table = rows(15)
    question = Question.of(table.codec)
    first, again = question.lesson(table, 9, 3), question.lesson(table.take(np.array(order)), 9, 3)
    assert np.array_equal(first.rows, again.rows)
    assert np.array_equal(first.answers, again.answers)


@given(st.integers(0, 30), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_independent_columns_keep_their_cells(count: int, seed: int) -> None:
    table = rows(count)
    found = independent(table, np.random.default_rng(seed))
    again = independent(shuffled(table), np.random.default_rng(seed))
    for name in table.names:
        assert np.array_equal(np.sort(found.codes[name]), np.sort(table.codes[name]))
        assert np.array_equal(found.codes[name], again.codes[name])
    assert sorted(map(bytes, found.codes["picture"])) == sorted(map(bytes, table.codes["picture"]))


def test_independent_columns_know_nothing_of_each_other() -> None:
    table = rows(2000)
    found = independent(table, np.random.default_rng(0))
    assert abs(np.corrcoef(table.values("size"), table.values("when"))[0, 1]) > 0.9
    assert abs(np.corrcoef(found.values("size"), found.values("when"))[0, 1]) < 0.1


def test_many_rows_are_drawn_from_and_many_classes_draw_fewer() -> None:
    levels = tuple(range(80))
    schema = Schema(columns={"x": Number(lower=0, upper=1), "y": Category(levels=levels), "z": Boolean()})
    table = coded({"x": [0.5] * 8000, "y": list(levels) * 100, "z": [True, False] * 4000}, schema)
    assert len(Question.of(table.codec, "z").lesson(table, 5000, 0).answers) == 5000
    assert len(Question.of(table.codec, "x").lesson(table, 9000, 0).answers) == 8000
    assert len(Question.of(table.codec, "y").lesson(table, 40_000, 0).answers) == 4000
    assert len(Question.of(table.codec, "y").lesson(table, 5000, 0).answers) == FEWEST


# The whole way


def test_every_set_is_measured_the_same_for_any_order_and_thread_count() -> None:
    made, test, told = rows(90), rows(120, 1), list[str]()
    course = Course.of({"made": made}, test)
    found = course.hold(told.append, threads=2)
    assert course.fits == len(told) == 11
    assert sorted(told) == sorted(learners("binary"))
    assert (found.target, found.task, found.notes) == ("flag", "binary", ())
    assert found == usefulness({"made": shuffled(made)}, shuffled(test), "flag", threads=1)
    assert list(found.skills) == list(found.averages) == list(found.curves) == ["made"]
    ten = [skill.scores["prc"] for skill in found.skills["made"] if skill.learner != BOOSTING]
    assert found.averages["made"].scores["prc"] == pytest.approx(np.mean(ten))
    boosting = next(skill for skill in found.skills["made"] if skill.learner == BOOSTING)
    curve = found.curves["made"]
    assert auc(curve.fpr, curve.tpr) == pytest.approx(boosting.scores["roc"], abs=0.01)
    assert (curve.fpr[0], curve.tpr[0], curve.fpr[-1], curve.tpr[-1]) == (0, 0, 1, 1)


def test_a_long_curve_is_thinned() -> None:
    chance = np.random.default_rng(0)
    asked = exam(chance.integers(0, 2, 5000).tolist(), "flag")
    found = marks(Parrot(chance.normal(size=5000) + asked.truth, (0, 1)), ANY, asked)
    assert found is not None
    assert found.curve is not None
    assert 150 < len(found.curve.fpr) <= 200
    assert auc(found.curve.fpr, found.curve.tpr) == pytest.approx(first(found.grades)["roc"], abs=0.002)


@pytest.mark.parametrize("target", ["size", "when"])
def test_numbers_and_moments_are_told_from_the_rest(target: str) -> None:
    """Spread over few rows is that of a bootstrap: larger for fewer."""
    found = usefulness(beside({"made": rows(400, 2)}, rows(400)), rows(300, 1), target)
    assert found.task == "regression"
    assert list(found.skills) == ["made", CEILING, FLOOR]
    assert found.averages["made"].scores["r2"] > 0.85
    assert found.averages[CEILING].scores["mae"] < 0.1
    assert found.averages[FLOOR].scores["r2"] < 0.1
    assert found.averages[FLOOR].scores["mae"] > 0.15
    few = usefulness({"made": rows(400, 2)}, rows(20, 1), target)
    assert few.averages["made"].spreads["mae"] > 1.5 * found.averages["made"].spreads["mae"] > 0


def with_target(target: str, value: Any, count: int = 30) -> Coded:
    return coded({**cells(count), target: [value] * count})


@pytest.mark.parametrize(
    ("made", "target", "note"),
    [
        (lambda: with_target("flag", True), "flag", "flag has one class only in the set 'made'"),
        (lambda: with_target("kind", "b"), "kind", "kind has one class only in the set 'made'"),
        (lambda: with_target("size", 3.0), "size", "size has one value only in the set 'made'"),
        (lambda: with_target("flag", None), "flag", "no row of the set 'made' has a declared flag"),
        (lambda: with_target("when", None), "when", "no row of the set 'made' has a declared when"),
        (lambda: rows(0), "kind", "no row of the set 'made' has a declared kind"),
        (lambda: rows(1), "flag", "flag has one class only in the set 'made'"),
    ],
)
def test_sets_that_nothing_can_be_learnt_from_are_named(made: Callable[[], Coded], target: str, note: str) -> None:
    told = list[str]()
    found = usefulness({"made": made()}, rows(30, 1), target, done=told.append)
    assert found.notes == (f"{note}; usefulness cannot be measured",)
    assert (found.skills, found.averages, found.curves, told) == ({}, {}, {}, [])
    asked = usefulness({"made": rows(30, 1)}, made(), target, done=told.append)
    assert asked.notes == (found.notes[0].replace("the set 'made'", "the test rows"),)
    assert (asked.skills, told) == ({}, [])


def test_a_set_that_is_left_out_leaves_the_others() -> None:
    course = Course.of({"poor": with_target("size", 3.0), "good": rows(60)}, rows(30, 1), "size")
    found = course.hold()
    assert course.fits == 2
    assert list(found.skills) == list(found.averages) == ["good"]
    assert len(found.notes) == 1


def test_without_other_columns_there_is_nothing_to_learn_from() -> None:
    schema = Schema(label="flag", columns={"flag": Boolean(), "picture": Image(height=1, width=2)})
    table = coded({name: own for name, own in cells(10).items() if name in schema.columns}, schema)
    found = usefulness({"made": table}, table)
    assert found.notes == ("the schema has no column beside flag to learn from; usefulness cannot be measured",)


def test_learners_that_cannot_learn_are_left_out_and_named() -> None:
    """LDA needs more rows than classes; averages are over what every set has."""
    two, more = (coded({**cells(n), "flag": [True, False] * (n // 2), "size": [9.0, 1.0] * (n // 2)}) for n in (2, 10))
    found = usefulness({"two rows": two, "more": more}, rows(40, 1))
    assert "LDA could not learn from the set 'two rows'; it is left out" in found.notes
    names = {name: [skill.learner for skill in own] for name, own in found.skills.items()}
    assert "LDA" not in names["two rows"]
    assert "LDA" in names["more"]
    assert len(names["two rows"]) > 5
    common = [skill.scores["roc"] for skill in found.skills["more"] if skill.learner in set(names["two rows"]) - {BOOSTING}]
    assert found.averages["more"].scores["roc"] == pytest.approx(np.mean(common))


def test_constant_and_missing_columns_teach_nothing_and_break_nothing(quiet: None) -> None:
    columns = {**cells(40), "size": [None] * 40, "kind": ["a"] * 40, "when": [START] * 40}
    question = Question.of(rows(2).codec)
    lesson, asked = question.lesson(coded(columns), 99, 0), Exam.of(question, question.lesson(rows(40, 1), 99, 0), 0)
    found = {name: marks(model, lesson, asked) for name, model in quick_learners("binary").items()}
    measured = {name: first(own.grades) for name, own in found.items() if own}
    assert found.keys() - measured.keys() <= {"LDA", "Gaussian NB"}
    assert np.isfinite([list(scores.values()) for scores in measured.values()]).all()
    assert {measured[name]["roc"] for name in ("Decision Tree", "GBM", BOOSTING)} == {0.5}


def test_constant_columns_leave_a_regression_without_skill() -> None:
    made = coded({**cells(40), "flag": [None] * 40, "kind": ["a"] * 40, "when": [START] * 40})
    found = usefulness({"made": made}, rows(40, 1), "size")
    assert found.notes == ()
    assert all(np.isfinite([*skill.scores.values(), *skill.spreads.values()]).all() for skill in found.skills["made"])
    assert found.averages["made"].scores["r2"] < 0.1


def test_a_class_of_one_row_is_measured(quiet: None) -> None:
    kinds = ["a", "b"] * 20
    train = coded({**cells(40), "kind": [*kinds[:-1], "c"], "size": [1.0, 9.0] * 20})
    question = Question.of(train.codec, "kind")
    test = question.lesson(coded({**cells(40, 1), "kind": [*kinds[:-1], "c"], "size": [1.0, 9.0] * 20}), 99, 0)
    for name, model in quick_learners("classes").items():
        found = marks(model, question.lesson(train, 99, 0), Exam.of(question, test, 0))
        assert found is not None, name
        assert first(found.grades)["roc"] > 0.6, name


def test_who_stops_the_work_is_not_kept_waiting() -> None:
    begun = list[float]()

    def job() -> None:
        begun.append(time.monotonic())
        time.sleep(0.01)

    def stop(learner: str) -> None:
        raise KeyboardInterrupt

    jobs: dict[Fit, Callable[[], None]] = {("made", str(number)): job for number in range(300)}
    with pytest.raises(KeyboardInterrupt):
        _work_off(jobs, stop, threads=2)
    assert len(begun) < 100


@pytest.mark.parametrize(
    ("label", "target", "message"),
    [
        (None, None, "names no label"),
        (None, "nonsense", "'nonsense' is not declared"),
        ("flag", "picture", "'picture' holds pictures"),
    ],
)
def test_targets_that_cannot_be_are_refused(label: str | None, target: str | None, message: str) -> None:
    table = coded(cells(4), Schema(label=label, columns=COLUMNS))
    with pytest.raises(UsageError, match=message):
        usefulness({"made": table}, table, target)
