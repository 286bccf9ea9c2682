"""Known attacks on synthetic data, against dpearl at ε = 1 and against generators that keep no secret, where they must succeed.

`python -m bench.attacks` writes docs/results/attacks.md.

Membership: shadow models on the most outlying rows (`dpearl.shadow`; Stadler et al. 2022). Attribute inference: a secret that
nothing but the person's own row tells, asked of synthetic rows for people who are in the data and for people who are not.
Reconstruction: everybody's secret from many samples of one model, or from many releases (Dinur & Nissim 2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import beta

from dpearl.coded import Coded
from dpearl.datasets import adult, adult_schema
from dpearl.design import RECIPES, Scale
from dpearl.embeddings.marginals import Pairs
from dpearl.engines.local import Local
from dpearl.errors import BudgetError, FileError, TrainingError
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.release import Release
from dpearl.schema import Boolean, Category, Schema
from dpearl.shadow import Membership, Pipeline, membership
from dpearl.statement import best_guess
from dpearl.synthesizer import Synthesizer
from dpearl.train import fit

OURS, NO_NOISE = Budget(1.0, 1e-5), Budget(1e4, 1e-5)
"""What is attacked, and the same recipe with next to no noise."""

PEOPLE = 60
"""Of the tables with secrets: a grid tells up to 64 streets apart."""

Bits = NDArray[np.bool_]


def at_least(hits: int, trials: int, chance: float) -> float:
    """A share that is exceeded by the true one but for this chance (Clopper-Pearson)."""
    return float(beta.ppf(chance, hits, trials - hits + 1)) if hits else 0.0


def at_most(hits: int, trials: int, chance: float) -> float:
    """A share that the true one exceeds with this chance at most."""
    return 1 - at_least(trials - hits, trials, chance)


# Membership

COLUMNS = ("age", "workclass", "education-num", "occupation", "hours-per-week", "income")
POOL, SEEN = 2000, 1000
"""Rows of Adult among which a target is the most outlying, and synthetic rows that an attacker sees."""


def pool(seed: int) -> Coded:
    """Some rows of Adult, seen in six columns."""
    whole = adult_schema()
    schema = whole.model_copy(update={"columns": {name: whole.columns[name] for name in COLUMNS}})
    rows = adult().select(list(COLUMNS))
    return Coded.of(rows.take(np.random.default_rng(seed).permutation(len(rows))[:POOL]), schema)


def drawn_again(rows: pa.Table) -> pa.Table:
    """A generator that gives real rows back at random: what keeps no secret."""
    return rows.take(np.random.default_rng().integers(len(rows), size=SEEN))


@dataclass(frozen=True)
class Guesses:
    """How often an attack was right, out of so many independent guesses; `auc` where it gave scores."""

    right: int
    judged: int
    auc: float = math.nan

    @property
    def share(self) -> float:
        return self.right / self.judged

    def __add__(self, other: Guesses) -> Guesses:
        """All guesses of both."""
        return Guesses(self.right + other.right, self.judged + other.judged, (self.auc + other.auc) / 2)

    def beats(self, bound: float, chance: float = 1e-6) -> bool:
        """Whether it is right more often than a bound allows, but for this chance."""
        return at_least(self.right, self.judged, chance) > bound


def attack_members(budget: Budget, targets: int, trials: int, pipeline: Pipeline | None = None) -> Guesses:
    """Shadow models against the most outlying row of some pools."""
    found = [membership(pool(seed), RECIPES["auto"], budget, seed, trials, pipeline) for seed in range(targets)]
    told = [own for own in found if isinstance(own, Membership)]
    return Guesses(sum(own.right for own in told), sum(own.judged for own in told), float(np.mean([own.auc for own in told])))


# A secret that only the person's own row tells


@dataclass(frozen=True, eq=False)
class Street:
    """A table in which everybody lives in a street of their own and has a secret, a fair coin."""

    secrets: Bits

    @property
    def size(self) -> int:
        return len(self.secrets)

    @property
    def schema(self) -> Schema:
        return Schema(columns={"street": Category(levels=tuple(map(str, range(self.size)))), "secret": Boolean()})

    def rows(self, who: NDArray[np.int64]) -> pa.Table:
        return pa.table({"street": [str(place) for place in who], "secret": self.secrets[who]})

    def leaning(self, made: pa.Table) -> NDArray[np.float64]:
        """For each street, how many more synthetic rows say yes than no."""
        streets = np.array([int(street) for street in made["street"].to_pylist()], np.int64)
        answers = np.where(np.array(made["secret"].to_pylist(), bool), 1.0, -1.0)
        return np.bincount(streets, answers, minlength=self.size).astype(np.float64)

    def right(self, leaning: NDArray[np.float64]) -> Bits:
        """Whose secret is guessed by its sign; a coin decides where it says nothing."""
        coin = np.random.default_rng().random(self.size) < 0.5
        return np.asarray(np.where(leaning == 0, coin, leaning > 0) == self.secrets)


def street() -> Street:
    return Street(np.random.default_rng().random(PEOPLE) < 0.5)


def generator(offer: Offer) -> Callable[[pa.Table], Synthesizer | None]:
    """Rows in, a model out; none where noise leaves nothing to learn from."""

    def made(rows: pa.Table) -> Synthesizer | None:
        try:
            return fit(release_rows(rows, offer, engine=Local(threads=1)), device="cpu")
        except (FileError, TrainingError):
            return None

    return made


def synthetic(offer: Offer, rows: pa.Table) -> pa.Table:
    """What an attacker sees of a release: rows of its model."""
    model = generator(offer)(rows)
    return rows.slice(0, 0) if model is None else model.sample(20 * len(rows))


@dataclass(frozen=True)
class Inference:
    """How often a secret was guessed of people in the data, and of people who are not."""

    members: Guesses
    others: Guesses

    @property
    def advantage(self) -> float:
        return self.members.share - self.others.share

    def beats(self, bound: float, chance: float = 1e-6) -> bool:
        """Whether members are told apart better than a bound allows, but for this chance: half of it for either side."""
        low = at_least(self.members.right, self.members.judged, chance / 2)
        return low - at_most(self.others.right, self.others.judged, chance / 2) > bound


def infer_attributes(releases: int, budget: Budget, pipeline: Pipeline | None = None) -> Inference:
    """Half of the streets are in the data: is a secret told of those, and of the others?"""
    members, others = [], []
    for _ in range(releases):
        people = street()
        places = np.random.default_rng().permutation(PEOPLE)
        offer = Offer(people.schema, RECIPES["auto"], budget)
        made = (pipeline or partial(synthetic, offer))(people.rows(places[: PEOPLE // 2]))
        right = people.right(people.leaning(made))
        members.append(right[places[: PEOPLE // 2]])
        others.append(right[places[PEOPLE // 2 :]])
    told = (np.concatenate(own) for own in (members, others))
    return Inference(*(Guesses(int(own.sum()), len(own)) for own in told))


# Reconstruction

RESOLVED = replace(RECIPES["auto"], scale=Scale.PUBLIC)
"""The recipe on grids that tell every street apart, whatever the noise: `auto` would join them at ε = 1, and say nothing."""


def noisy_leaning(release: Release) -> NDArray[np.float64]:
    """For each street, how many more rows say yes than no, beyond the average street, as the release itself has it."""
    block = release.embedding.design.find(Pairs)
    assert block is not None
    (table,) = block.tables(release.embedding.sums["interactions"])[0]
    streets = block.names.index("street")
    cells = table if streets == 0 else table.T
    return np.asarray(cells[:, 1] - cells[:, 0], np.float64)


def reconstruct_from_samples(budget: Budget, samples: tuple[int, ...]) -> dict[int, Guesses]:
    """Everybody's secret from so many samples of the model of one release."""
    people = street()
    model = generator(Offer(people.schema, RESOLVED, budget))(people.rows(np.arange(PEOPLE)))
    leaning, found = np.zeros(PEOPLE), {}
    for number in range(1, max(samples) + 1):
        if model is not None:
            leaning = leaning + people.leaning(model.sample(20 * PEOPLE, seed=number))
        if number in samples:
            found[number] = Guesses(int(people.right(leaning).sum()), PEOPLE)
    return found


def reconstruct_from_releases(budget: Budget, releases: tuple[int, ...]) -> dict[int, Guesses]:
    """Everybody's secret from so many releases that no ledger counted."""
    people = street()
    offer, rows = Offer(people.schema, RESOLVED, budget), people.rows(np.arange(PEOPLE))
    leaning, found = np.zeros(PEOPLE), {}
    for number in range(1, max(releases) + 1):
        leaning = leaning + noisy_leaning(release_rows(rows, offer, engine=Local(threads=1)))[:PEOPLE]
        if number in releases:
            found[number] = Guesses(int(people.right(leaning).sum()), PEOPLE)
    return found


def reconstruct_from_counts() -> Guesses:
    """Everybody's secret from exact answers to as many random questions as there are people, by least squares."""
    people, chance = street(), np.random.default_rng()
    questions = (chance.random((2 * PEOPLE, PEOPLE)) < 0.5).astype(np.float64)
    solved = np.linalg.lstsq(questions, questions @ people.secrets, rcond=None)[0]
    return Guesses(int(people.right(np.asarray(solved - 0.5, np.float64)).sum()), PEOPLE)


def granted(attempts: int, ledger: Path) -> int:
    """How many releases at the whole budget a ledger lets pass."""
    people = street()
    offer, rows, passed = Offer(people.schema, RESOLVED, OURS), people.rows(np.arange(PEOPLE)), 0
    for _ in range(attempts):
        try:
            release_rows(rows, offer, ledger_path=ledger, engine=Local(threads=1))
            passed += 1
        except BudgetError:
            pass
    return passed


def member_bound(budget: Budget) -> float:
    """The most that any membership attack is right in an even bet: Φ(μ/2)."""
    return best_guess(budget.mu)


def advantage_bound(budget: Budget) -> float:
    """The most by which a person's presence changes the chance of any outcome: 2Φ(μ/2) - 1, the total variation distance."""
    return 2 * best_guess(budget.mu) - 1


def secret_bound(budget: Budget) -> float:
    """The most that a fair coin in a row is guessed: a row that changes is one that goes and one that comes, so 2μ-GDP (groups of
    two; Dong, Roth & Su, Theorem 2.14), and Φ(2μ/2)."""
    return best_guess(2 * budget.mu)
