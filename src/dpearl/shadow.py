"""A membership attack of the shadow kind on the whole way from rows to synthetic rows: a sanity check for the owner.

The attacker is the one that the privacy statement speaks of: all rows but one are known, and whether that one is there is
an even bet. Two tables, with it and without, are released again and again, and a classifier learns to tell them apart by
their synthetic rows. The guarantee is ε; an attack that fails proves nothing, one that succeeds too often shows a gross
mistake. No budget covers what it finds: PRIVATE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpearl.coded import Coded
from dpearl.design import Recipe
from dpearl.disclosure import Skipped, interval
from dpearl.errors import FileError, TrainingError, UsageError
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.schema import Image, Schema
from dpearl.settings import Settings, check_seed, settings_for
from dpearl.statement import best_guess
from dpearl.train import fit

Pipeline = Callable[[pa.Table], pa.Table]
"""Rows in, synthetic rows out: what is attacked."""

_POOL, _ROWS, _SEEN = 10_000, 100, 1000
"""Real rows among which the target is sought, rows of the attacked table, and synthetic rows that the attacker sees.

A small table in which one row weighs much, the same others in every trial, one seed for all training and little of it: so that
an attack on releases of Adult without noise is nearly always right. With 200 others drawn anew for every trial and three times
the training, it hardly beats a coin.
"""

_NEAR = 10
"""Synthetic rows that are near the target."""


@dataclass(frozen=True)
class Membership:
    """How often an attack told rightly whether the most outlying row was in the data, an even bet: a sanity check.

    It learnt from as many trials as it was `judged` on; `low` and `high` are the 95% interval of its accuracy, `bound` is the
    most that any attack can reach under the guarantee, Φ(μ/2).
    """

    judged: int
    right: int
    auc: float
    low: float
    high: float
    bound: float

    @property
    def accuracy(self) -> float:
        return self.right / self.judged

    @property
    def passed(self) -> bool:
        """Whether the accuracy may lie within the bound."""
        return self.low <= self.bound

    @property
    def verdict(self) -> str:
        spread = f"95% interval {100 * self.low:.0f}% to {100 * self.high:.0f}%, AUC {self.auc:.2f}"
        found = f"An attack told in {self.right} of {self.judged} trials whether the most outlying row was in the data ({spread})"
        told = f"{found}; the guarantee lets no attack be right more than {100 * self.bound:.1f}% of the time."
        return told + ("" if self.passed else " The guarantee does not seem to hold here: publish nothing before you know why.")


def membership(
    rows: Coded,
    recipe: Recipe,
    budget: Budget,
    seed: int = 0,
    trials: int = 40,
    pipeline: Pipeline | None = None,
    done: Callable[[int], None] | None = None,
) -> Membership | Skipped:
    """Attack releases of small tables under this recipe and budget; half of the trials teach, the other half judge.

    Noise comes from the operating system, so that two attacks differ whatever the seed.
    """
    check_seed(seed)
    if trials < 4 or trials % 4:
        raise UsageError("the number of trials must be a multiple of 4, such as 40: half teach, and half of each hold the target")
    if any(isinstance(column, Image) for column in rows.schema.columns.values()):
        return Skipped("Not checked: the membership attack knows tables only, and this schema has images.")
    if len(rows) < 2:
        return Skipped("Not checked: a membership attack needs at least two rows.")
    offer = _small_offer(rows.schema, recipe, budget)
    pair = _Pair.of(rows, recipe.relation, np.random.default_rng(seed))
    inside = np.arange(trials) % 2 == 1
    seen = _watch(pair, pipeline or partial(_synthetic, offer, seed), inside, done)
    return _judged(seen, inside, best_guess(offer.mu))


def _small_offer(schema: Schema, recipe: Recipe, budget: Budget) -> Offer:
    """Fewer frequencies at the same price; every row of a trial stands for a person."""
    few = None if recipe.frequencies is None else min(recipe.frequencies, 64)
    return Offer(schema.model_copy(update={"person": None}), replace(recipe, frequencies=few), budget)


def _synthetic(offer: Offer, seed: int, table: pa.Table) -> pa.Table:
    """The real thing, trained briefly; no rows where the noise leaves nothing to learn from."""
    brief = replace(settings_for(offer.sketch["embedding"]), iterations=20)
    brief = replace(brief, batch=100) if isinstance(brief, Settings) else brief
    try:
        return fit(release_rows(table, offer), brief, seed, device="cpu").sample(_SEEN, seed=seed)
    except (FileError, TrainingError):
        return table.slice(0, 0)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two neighbouring tables, without and with the target's row."""

    without: pa.Table
    present: pa.Table
    target: Coded

    @classmethod
    def of(cls, rows: Coded, relation: Relation, chance: np.random.Generator) -> _Pair:
        """The most outlying row, and some others; it comes on top, or in another's place where the number of rows is public."""
        pool = rows.take(chance.permutation(len(rows))[:_POOL])
        place = _most_outlying(pool)
        others = np.delete(np.arange(len(pool)), place)[:_ROWS]
        present = np.append(others[:-1] if relation is Relation.REPLACE_ONE else others, place)
        table = pool.codec.decode(pool.codes)
        return cls(table.take(others), table.take(present), pool.take(np.array([place])))


def _most_outlying(rows: Coded) -> int:
    """The row that is farthest from its nearest neighbour."""
    distances, _ = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows.matrix()).kneighbors()
    return int(distances[:, 0].argmax())


def _watch(pair: _Pair, pipeline: Pipeline, inside: NDArray[np.bool_], done: Callable[[int], None] | None) -> NDArray[np.float64]:
    """What the attacker sees in each trial."""
    seen = []
    for there in inside:
        made = pipeline(pair.present if there else pair.without)
        seen.append(_features(Coded.of(made, pair.target.schema), pair.target))
        if done is not None:
            done(1)
    return np.array(seen)


def _features(made: Coded, target: Coded) -> NDArray[np.float64]:
    """Distance from the target to the nearest synthetic row, to the nearest ten and to all, and for each column
    the share of synthetic rows in the target's bin; zeros where there are no rows."""
    if not made:
        return np.zeros(3 + len(made.names))
    distances = np.sort(np.linalg.norm(made.matrix() - target.matrix(), axis=1))
    shares = [np.mean(made.bins(name) == target.bins(name)) for name in made.names]
    return np.array([distances[0], distances[:_NEAR].mean(), distances.mean(), *shares])


def _judged(features: NDArray[np.float64], inside: NDArray[np.bool_], bound: float) -> Membership:
    """A logistic regression learns from the first half and is judged on the second."""
    half = len(inside) // 2
    attacker = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(features[:half], inside[:half])
    scores, truth = attacker.decision_function(features[half:]), inside[half:]
    right = int(((scores > 0) == truth).sum())
    return Membership(half, right, float(roc_auc_score(truth, scores)), *interval(right, half), bound)
