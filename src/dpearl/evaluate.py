"""The judges together: how good synthetic rows are, for the owner's eyes.

Everything here has seen real rows and is PRIVATE: no budget covers it. The public report is another room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpearl.codec import Codec
from dpearl.coded import Coded, bin_names
from dpearl.disclosure import Closest, Copies, Skipped, closest, copies, row_ranks
from dpearl.errors import DataError, UsageError
from dpearl.fidelity import MEASURES, Score, fresh_halves, scores
from dpearl.read import batches, open_sources
from dpearl.release import this_version
from dpearl.schema import Image, Schema
from dpearl.settings import check_seed
from dpearl.utility import CEILING, FLOOR, Course, Question, Usefulness, beside

if TYPE_CHECKING:
    from dpearl.imagery import Imagery, LeNet
    from dpearl.shadow import Membership

PRIVATE = "PRIVATE: made from real rows. No privacy budget covers it; do not publish it."

Stages = Callable[[str, int], Callable[[int], None]]
"""Given a stage and its number of steps, where to report steps as they are done."""


def unwatched(stage: str, steps: int) -> Callable[[int], None]:
    """Stages that nobody watches."""
    return lambda done: None


@dataclass(frozen=True, eq=False)
class Judged:
    """What was found of one synthetic table."""

    rows: Coded
    scores: tuple[Score, ...]
    copies: Copies
    closest: Closest | Skipped
    imagery: Imagery | None

    def score(self, name: str) -> Score | None:
        """The score of this measure, where it applies."""
        return next((score for score in self.scores if score.name == name), None)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was found of synthetic tables, each against the same real rows; `train` are rows that were learnt from."""

    real: Coded
    train: Coded | None
    tables: Mapping[str, Judged]
    usefulness: Usefulness | None
    membership: Membership | Skipped | None
    seed: int

    @property
    def classes(self) -> list[str]:
        """Names of the label's codes; none without a label of classes."""
        label = self.real.codec.columns.get(self.real.schema.label or "")
        return bin_names(label) if label is not None and label.one_hot else []

    def to_dict(self) -> dict[str, Any]:
        """Everything but rows, as plain values."""
        return {
            "note": PRIVATE,
            "dpearl": this_version(),
            "seed": self.seed,
            "real_rows": len(self.real),
            "training_rows": None if self.train is None else len(self.train),
            "tables": {name: _plain(judged, self.classes) for name, judged in self.tables.items()},
            "usefulness": None if self.usefulness is None else asdict(self.usefulness),
            "membership_attack": None if self.membership is None else _told(self.membership),
        }


def _plain(judged: Judged, classes: list[str]) -> dict[str, Any]:
    return {
        "rows": len(judged.rows),
        "fidelity": {score.name: asdict(score) for score in judged.scores},
        "imagery": None if judged.imagery is None else _named(asdict(judged.imagery), classes),
        "sanity_checks": {"copies": _told(judged.copies), "closest_record": _told(judged.closest)},
    }


def _named(imagery: dict[str, Any], classes: list[str]) -> dict[str, Any]:
    """Accuracies by class, told by the names of classes instead of their codes."""
    for own in imagery.values():
        if isinstance(own, dict) and "by_class" in own:
            own["by_class"] = {classes[code]: share for code, share in own["by_class"].items()}
    return imagery


def _told(check: Copies | Closest | Membership | Skipped) -> dict[str, Any]:
    return {**asdict(check), "verdict": check.verdict}


def read_coded(data: Any, schema: Schema) -> Coded:
    """Rows of files or of a table in memory, on the schema's grid; a person column is not asked for."""
    plain, sources = schema.model_copy(update={"person": None}), open_sources(data)
    parts = [Coded.of(table, plain) for table in batches(sources, plain, 2**16)]
    if not parts:
        raise DataError(f"{sources[0].where}: holds no rows, so there is nothing to compare")
    return Coded.join(parts)


def check(schema: Schema, names: Collection[str], target: str | None = None, seed: int = 0) -> None:
    """Refuse what cannot be judged, before anything is read or measured."""
    check_seed(seed)
    if not names:
        raise UsageError("there is no synthetic table to judge; give at least one")
    for taken in {CEILING, FLOOR} & {*names}:
        raise UsageError(f"a synthetic table cannot be called {taken!r}, for something else is; give it another name")
    if target is not None:
        Question.of(Codec(schema), target)


def evaluate(
    real: Coded,
    made: Mapping[str, Coded],
    train: Coded | None = None,
    target: str | None = None,
    lenet: LeNet | Path | None = None,
    seed: int = 0,
    progress: Stages = unwatched,
) -> Evaluation:
    """Judge synthetic tables by real rows, best by such as the generator never saw.

    Without `train`, the floor is one half of the real rows against the other, and learners of the ceiling take one half and
    are tested on the other. `lenet` looks at pictures; without one it is trained here, and kept where a path is given.
    """
    check(real.schema, made, target, seed)
    for name, rows in (*made.items(), ("the training rows", train)):
        if rows is not None and rows.schema != real.schema:
            raise DataError(f"{name}: was read with another schema than the real rows; read all tables with the same one")
    taught, asked = fresh_halves(_ordered(real), seed) if train is None else (train, real)
    seen = _imagery(made, taught, asked, lenet, seed, progress)
    bar = progress("measuring", len(made) * len(MEASURES))
    tables = {name: _judge(real, rows, train, (asked, taught), seen.get(name), seed, bar) for name, rows in made.items()}
    return Evaluation(real, train, tables, _learn(made, taught, asked, target, seed, progress), None, seed)


def _ordered(rows: Coded) -> Coded:
    """The same rows in the order of their codes, so that halves of them do not hang on the order in which they came."""
    return rows.take(np.argsort(row_ranks(rows), kind="stable"))


def _judge(
    real: Coded,
    made: Coded,
    train: Coded | None,
    fresh: tuple[Coded, Coded],
    seen: Imagery | None,
    seed: int,
    bar: Callable[[int], None],
) -> Judged:
    found = tuple(scores(real, made, fresh, seed, lambda name: bar(1)))
    known, held = (real, None) if train is None else (train, real)
    return Judged(made, found, copies(made, known, held), closest(made, known, held, seed), seen)


def _imagery(
    made: Mapping[str, Coded], train: Coded, test: Coded, lenet: LeNet | Path | None, seed: int, progress: Stages
) -> dict[str, Imagery]:
    """What pictures look like, by table; torch is not asked for where there are none."""
    name = picture_column(test.schema)
    if name is None:
        return {}
    from dpearl.imagery import PictureJudge, Pictures

    bar = progress("looking", 1 + 3 * len(made))
    net, cache = (None, lenet) if isinstance(lenet, Path) else (lenet, None)
    judge = PictureJudge.of(Pictures.of(train, name), Pictures.of(test, name), net, seed, lambda step: bar(1), cache)
    return {table: judge.look(Pictures.of(rows, name), lambda step: bar(1)) for table, rows in made.items()}


def picture_column(schema: Schema) -> str | None:
    """The first column of pictures."""
    return next((name for name, column in schema.columns.items() if isinstance(column, Image)), None)


def _learn(
    made: Mapping[str, Coded], taught: Coded, asked: Coded, target: str | None, seed: int, progress: Stages
) -> Usefulness | None:
    """Nothing where there is nothing to ask for, or where nobody asked and pictures alone tell the label."""
    label = asked.schema.label
    if target is None and (label is None or (asked.names == [label] and picture_column(asked.schema))):
        return None
    course = Course.of(beside(made, taught, seed), asked, target, seed)
    bar = progress("learning", course.fits)
    return course.hold(lambda learner: bar(1))
