"""Tables made by a public recipe, as wide as wanted: people with hidden traits, of which every column shows a little.

Traits are standard normal. Numbers are noisy sums of two traits, some whole, some skewed with most of their mass at zero;
categories are the largest of noisy scores, two traits to a level; the label hangs on traits and on a product of two of them,
so that no single column tells it. The same seed gives the same people.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.schema import Category, Column, Number, Schema

TRAITS, STRUCTURE = 6, 2022
"""How many traits there are, and the seed of what hangs on what, which is the same for every draw of people."""

LABEL = "label"


@dataclass(frozen=True)
class World:
    """Which columns there are and what they hang on; `levels` adds one category of so many levels."""

    columns: int
    levels: int = 0

    @cached_property
    def schema(self) -> Schema:
        """Bounds and levels follow from the recipe, not from rows."""
        declared: dict[str, Column] = {name: _column(place) for place, name in enumerate(self._names)}
        many = {"many": Category(levels=tuple(range(self.levels)))} if self.levels else {}
        return Schema(label=LABEL, columns={**declared, **many, LABEL: Category(levels=("no", "yes"))})

    @property
    def _names(self) -> list[str]:
        """All but the label, and the wide category where there is one."""
        return [f"{_kind(place)}{place}" for place in range(self.columns - 1 - bool(self.levels))]

    def people(self, rows: int, seed: int) -> pa.Table:
        """So many rows."""
        chance = np.random.default_rng(seed)
        traits = chance.standard_normal((rows, TRAITS))
        cells = {name: _cells(place, traits, chance) for place, name in enumerate(self._names)}
        many = {"many": _many(self.levels, traits, chance)} if self.levels else {}
        return pa.table({**cells, **many, LABEL: _label(traits, chance)})


def _kind(place: int) -> str:
    """Of five columns two are categories, and one each a plain, a whole and a skewed number."""
    return ("category", "number", "category", "whole", "skewed")[place % 5]


def _column(place: int) -> Column:
    kind = _kind(place)
    if kind == "category":
        return Category(levels=tuple(f"level {level}" for level in range(_level_count(place))))
    if kind == "number":
        return Number(lower=-4, upper=4)
    return Number(lower=0, upper=60, step=1) if kind == "whole" else Number(lower=0, upper=2000, step=1, spikes=(0,))


def _level_count(place: int) -> int:
    return 2 + place * 7 % 11


def _weights(place: int, outputs: int) -> NDArray[np.float64]:
    """Two traits for each output of a column."""
    chance = np.random.default_rng((STRUCTURE, place))
    weights = np.zeros((TRAITS, outputs))
    for output in weights.T:
        output[chance.choice(TRAITS, 2, replace=False)] = chance.choice([-1, 1], 2) * chance.uniform(0.5, 1, 2)
    return weights


def _cells(place: int, traits: NDArray[np.float64], chance: np.random.Generator) -> pa.Array:
    kind, column = _kind(place), _column(place)
    if isinstance(column, Category):
        scores = 1.5 * traits @ _weights(place, len(column.levels)) + chance.gumbel(size=(len(traits), len(column.levels)))
        return pa.array(column.texts).take(pa.array(scores.argmax(axis=1)))
    line = (traits @ _weights(place, 1)).ravel() + 0.5 * chance.standard_normal(len(traits))
    if kind == "number":
        return pa.array(np.clip(line, -4, 4))
    if kind == "whole":
        return pa.array(np.clip(np.round(30 + 10 * line), 0, 60).astype(np.int64))
    return pa.array(np.where(line > 1, np.clip(np.round(100 * np.exp(line - 1)), 1, 2000), 0).astype(np.int64))


def _many(levels: int, traits: NDArray[np.float64], chance: np.random.Generator) -> pa.Array:
    """Frequent levels first, as in a list of places: rank 1/u, moved by a trait."""
    ranks = levels ** chance.random(len(traits)) * np.exp(0.5 * traits[:, 0])
    return pa.array(np.clip(ranks - 1, 0, levels - 1).astype(np.int64))


def _label(traits: NDArray[np.float64], chance: np.random.Generator) -> pa.Array:
    odds = 1.5 * traits[:, 0] - traits[:, 1] + 1.5 * traits[:, 2] * traits[:, 3] - 1.5
    told = chance.random(len(traits)) < 1 / (1 + np.exp(-odds))
    return pa.array(["no", "yes"]).take(pa.array(told.astype(np.int64)))
