"""What is measured of what the owner need not know: bounds, levels, modes, the scale of frequencies, a choice of pairs.

All at ε = 1, δ = 1e-5. Answers are measured by the real stages, with real noise, a hundred times over; finished runs are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from numpy.typing import NDArray

from bench.cache import Run
from bench.peers.judge import judge
from bench.tables import Table, table
from dpearl import questions
from dpearl.design import RECIPES, Recipe, Scale
from dpearl.embed import embed
from dpearl.embeddings import marginals
from dpearl.embeddings.levels import Levels
from dpearl.engines.local import Local
from dpearl.measurement import Measurement
from dpearl.modes import ROUNDS as SHIPPED
from dpearl.owner import Offer, recipe_with, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.read import open_sources
from dpearl.sanitize import sanitize, sanitize_levels
from dpearl.schema import AskedCategory, AskedDatetime, AskedNumber, Category, Datetime, Declaration, Number, Schema
from dpearl.settings import TABLES as TRAINING
from dpearl.tally import Tally, tally
from dpearl.train import fit

BUDGET = Budget(1.0, 1e-5)
RUNS, ROWS = 100, 30_000
SEEDS = (0, 1)
ITERATIONS = 1000
"""Of the paper's networks; it prints 8,000, which changes all lines alike."""

ALONE = "a level of one person"
MODES = {"mean": (20.0, 50.0, 80.0), "spread": (3.0, 5.0, 2.0), "weight": (0.3, 0.45, 0.25)}
ROUNDS = (0, 1, 2)
KEPT = (1.0, 0.5)


def everything_asked(rows: pa.Table, label: str | None) -> Declaration:
    """Kinds, and whether numbers are whole; all bounds and all levels are asked for."""
    columns: dict[str, Any] = {}
    for field in rows.schema:
        if pa.types.is_timestamp(field.type):
            columns[field.name] = AskedDatetime(bounds="estimate", missing=True)
        elif field.name != label and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
            step = 1 if pa.types.is_integer(field.type) else None
            columns[field.name] = AskedNumber(bounds="estimate", step=step, missing=True)
        else:
            columns[field.name] = AskedCategory(levels="estimate", missing=True)
    return Declaration(label=label, columns=columns)


def heavy_rows() -> pa.Table:
    """Heavy tails, tails far from zero, and narrow columns far from zero."""
    chance = np.random.default_rng(2022)
    moments = [datetime(2020, 3, 1) + timedelta(seconds=int(own)) for own in chance.integers(0, 31 * 86400, ROWS)]
    return pa.table(
        {
            "Pareto, index 1": chance.pareto(1, ROWS),
            "Pareto, index 1/2": chance.pareto(0.5, ROWS),
            "Cauchy": chance.standard_cauchy(ROWS),
            "Student t2": chance.standard_t(2, ROWS),
            "log-normal, spread 2": np.exp(2 * chance.standard_normal(ROWS)),
            "log-normal, spread 3": np.exp(3 * chance.standard_normal(ROWS)),
            "Student t2 + 1000": chance.standard_t(2, ROWS) + 1000,
            "years": chance.integers(1990, 2021, ROWS),
            "moments of a month": pa.array(moments, pa.timestamp("us")),
        }
    )


def _asked_rows(name: str) -> tuple[pa.Table, str | None]:
    if name == "heavy":
        return heavy_rows(), None
    if name == "credit":
        return parquet.read_table(Path(os.environ["DPEARL_DATA"]) / "credit.parquet"), "Class"
    own = table(name)
    race = own.train.schema.get_field_index("race")
    return own.train.set_column(race, "race", _with_one_more(own.train["race"])), own.schema.label


def _with_one_more(cells: pa.ChunkedArray) -> pa.Array:
    return pa.array([ALONE, *cells.to_pylist()[1:]])


class Interviews:
    """The same rows asked again and again: exact sums are kept between runs, noise is new each time."""

    def __init__(self, rows: pa.Table, offer: Offer) -> None:
        self.sources, self.offer = open_sources(rows), offer
        self._kept: dict[str, Any] = {}

    def hold(self) -> tuple[Schema, dict[str, Measurement]]:
        """One interview: the schema that it ends in, and what was measured."""
        asked, measured = self.offer.interview(), {}
        try:
            ask = next(asked)
            while True:
                measured[ask.stage] = self._measured(ask)
                ask = asked.send(measured[ask.stage])
        except StopIteration as end:
            return end.value, measured

    def _measured(self, ask: questions.Ask) -> Measurement:
        mu, unit = self.offer.targets[ask.stage], self.offer.unit
        key = ask.design.digest
        if key not in self._kept:
            block = ask.design.find(Levels)
            few = 0 if block is None else block.few(ask.design.sigmas(mu, unit)["levels"])
            private = tally(self.sources, ask.design, block.columns, few) if block else embed(self.sources, ask.design, Local(1))
            self._kept = {**self._kept, key: private} if ask.stage in ("bounds", "levels", "shapes") else self._kept
        else:
            private = self._kept[key]
        return sanitize_levels(private, mu, unit) if isinstance(private, Tally) else sanitize(private, mu, unit)


def answers(run: Run) -> Run:
    """Bounds and levels of a whole table, many times: how often each is as it should be."""
    rows, label = _asked_rows(run["table"])
    declared = everything_asked(rows, label)
    interviews = Interviews(rows, Offer(declared, RECIPES["auto"], BUDGET))
    seen = [interviews.hold()[0] for _ in range(run["runs"])]
    numbers = {name: _bounds(rows[name], [own.columns[name] for own in seen]) for name in _numbers(declared)}
    lists = {name: _levels(rows[name], [own.columns[name] for own in seen]) for name in _categories(declared)}
    return {"bounds": numbers, "levels": lists, "share": sum(questions.shares(declared).values())}


def _numbers(declared: Declaration) -> list[str]:
    return [name for name, column in declared.columns.items() if isinstance(column, (AskedNumber, AskedDatetime))]


def _categories(declared: Declaration) -> list[str]:
    return [name for name, column in declared.columns.items() if isinstance(column, AskedCategory)]


def _bounds(cells: pa.ChunkedArray, columns: list[Any]) -> dict[str, Any]:
    """Part of the rows between the bounds, and their distance over the needed range, that of the middle 99% of the rows."""
    values = np.sort(_floats(cells))
    first, last = values[int(0.005 * len(values))], values[int(0.995 * len(values))]
    ends = np.array([_ends(column) for column in columns])
    covered = (np.searchsorted(values, ends[:, 1], "right") - np.searchsorted(values, ends[:, 0], "left")) / len(values)
    times = (ends[:, 1] - ends[:, 0]) / (last - first)
    return {
        "good": int(((covered >= 0.99) & (times <= 10)).sum()),
        "covered": [float(covered.min()), float(covered.mean())],
        "times": [float(np.median(times)), float(times.max())],
    }


def _floats(cells: pa.ChunkedArray) -> NDArray[np.float64]:
    plain = cells.cast(pa.int64()) if pa.types.is_timestamp(cells.type) else cells
    return np.asarray(plain.to_numpy()).astype(np.float64)


def _ends(column: Any) -> tuple[float, float]:
    if isinstance(column, Datetime):
        return float(column.span[0]), float(column.span[1])
    assert isinstance(column, Number)
    return column.lower, column.upper


def _levels(cells: pa.ChunkedArray, columns: list[Any]) -> dict[str, Any]:
    """Levels with at least 1% of the rows, how often one of them was missed, and how often that of one person was found."""
    counts = {str(own["values"]): int(own["counts"].as_py()) for own in cells.drop_null().value_counts()}
    large = {text for text, count in counts.items() if count >= 0.01 * len(cells)}
    found = [set(column.texts) for column in columns if isinstance(column, Category)]
    return {
        "levels": len(counts),
        "large": len(large),
        "missed": sum(len(large - own) for own in found),
        "alone": sum(ALONE in own for own in found),
        "found": [min(map(len, found)), max(map(len, found))],
    }


def three_modes(seed: int, rows: int = ROWS) -> pa.Table:
    """A number of three modes, and a boolean that hangs on them."""
    chance = np.random.default_rng(seed)
    own = chance.choice(3, rows, p=MODES["weight"])
    values = chance.normal(np.array(MODES["mean"])[own], np.array(MODES["spread"])[own])
    return pa.table({"x": values, "y": chance.random(rows) < np.array([0.2, 0.5, 0.8])[own]})


def modal_schema(modes: int | str | None) -> Declaration:
    asked = Number(lower=0, upper=100, modes=modes)  # type: ignore[arg-type]
    plain = Schema(label="y", columns={"x": Number(lower=0, upper=100), "y": {"kind": "boolean"}})  # type: ignore[dict-item]
    return plain if modes is None else plain.with_columns({"x": asked})


def modes(run: Run) -> Run:
    """How far off modes are, with so many rounds of DP-EM after the histogram; without any, it has all of the share."""
    errors = []
    with patch.object(questions, "ROUNDS", run["rounds"]), patch.object(questions, "_START", 0.5 if run["rounds"] else 1.0):
        recipe = recipe_with(RECIPES["paper"], Relation.ADD_REMOVE, None, None)
        offer = Offer(modal_schema(run["modes"]), recipe, BUDGET)
        for seed in range(run["runs"]):
            made = Interviews(three_modes(seed), offer).hold()[0].columns["x"]
            assert isinstance(made, Number)
            found = made.modes if isinstance(made.modes, tuple) else ()
            close = [[getattr(mode, part) for mode in found] for part in MODES] if len(found) == 3 else [[0.0] * 3] * 3
            errors.append([max(abs(np.array(own) / truth - 1)) for own, truth in zip(close, MODES.values(), strict=True)])
    return {"errors": np.array(errors).T.tolist()}


def ks(run: Run) -> Run:
    """KS distance of a synthetic column of three modes, by the paper's recipe."""
    torch.set_num_threads(1)
    rows = three_modes(run["seed"])
    offer = Offer(modal_schema(run["modes"]), RECIPES["paper"], BUDGET)
    model = fit(
        release_rows(rows, offer, engine=Local(1)), replace(TRAINING, iterations=run["iterations"]), run["seed"], threads=1
    )
    real, made = np.sort(rows["x"].to_numpy()), np.sort(model.sample(ROWS, seed=run["seed"])["x"].to_numpy())
    at = np.concatenate([real, made])
    return {"ks": float(np.abs(np.searchsorted(real, at, "right") - np.searchsorted(made, at, "right")).max() / ROWS)}


def _synthesized(own: Table, declared: Declaration, recipe: Recipe, run: Run) -> Run:
    """Boosting AUC and TV of pairs of a release, judged by the declared schema."""
    torch.set_num_threads(1)
    release = release_rows(own.train, Offer(declared, recipe, BUDGET, seed=run["seed"]), engine=Local(1))
    settings = replace(TRAINING, iterations=run["iterations"]) if "iterations" in run else None
    made = fit(release, settings, run["seed"], threads=1).sample(own.train.num_rows, seed=run["seed"])
    scores = judge("wide", own, made, run["seed"])
    return {name: scores[name] for name in ("boosting_auc", "marginals_1", "marginals_2")}


def adult(run: Run) -> Run:
    """Adult with its declared schema, or with all bounds and levels asked for."""
    own = table("adult")
    declared = own.schema if run["schema"] == "declared" else everything_asked(own.train, own.schema.label)
    return _synthesized(own, declared, RECIPES["auto"], run)


def scale(run: Run) -> Run:
    """Adult by frequencies, whose scale comes from one place or another."""
    own = table("adult")
    recipe = recipe_with(RECIPES[run["recipe"]], None, Scale(run["scale"]), 1000)
    return _synthesized(own, own.schema, recipe, run)


def selection(run: Run) -> Run:
    """The wide table, with a part of its pairs: those that hang together most, by the exact counts, at no cost. No private choice
    can do better than this one."""
    own = table("wide")
    chosen = _most_dependent(run["kept"])
    with patch.object(marginals, "all_pairs", chosen), patch("dpearl.density.all_pairs", chosen):
        return _synthesized(own, own.schema, RECIPES["auto"], run)


@cache
def _most_dependent(kept: float) -> Callable[[int], NDArray[np.int64]]:
    from dpearl.coded import Coded

    own = table("wide")
    coded = Coded.of(own.train, own.schema)
    names = [name for name in own.schema.columns if name != own.schema.label]
    bins = [coded.bins(name, 8) for name in names]
    pairs = marginals.all_pairs(len(names))
    told = [_information(bins[one], bins[other]) for one, other in pairs]
    best = np.sort(np.argsort(told)[::-1][: round(kept * len(pairs))])
    return lambda columns: pairs[best]


def _information(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Mutual information, with what chance alone would give taken off."""
    joint = np.histogram2d(one, other, (one.max() + 1, other.max() + 1))[0] / len(one)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / apart[seen])).sum() - joint.size / (2 * len(one)))


PARTS: Mapping[str, Callable[[Run], Run]] = {
    "answers": answers,
    "modes": modes,
    "ks": ks,
    "adult": adult,
    "scale": scale,
    "selection": selection,
}
SCALES = (("paper", "pairwise"), ("paper", "public"), ("auto", "moments"), ("auto", "public"))


def runs() -> list[Run]:
    """All that is measured."""
    todo: list[Run] = [{"part": "answers", "table": name, "runs": RUNS} for name in ("adult", "heavy")]
    todo += [{"part": "modes", "rounds": rounds, "modes": 3, "runs": RUNS} for rounds in ROUNDS]
    todo += [{"part": "adult", "schema": kind, "seed": seed} for seed in SEEDS for kind in ("declared", "estimate")]
    training = {"iterations": ITERATIONS}
    todo += [{"part": "ks", "modes": own, "seed": seed, **training} for seed in SEEDS for own in (None, 3)]
    todo += [{"part": "answers", "table": "credit", "runs": RUNS}]
    todo += [{"part": "modes", "rounds": SHIPPED, "modes": "estimate", "runs": RUNS}]
    todo += [{"part": "selection", "kept": kept, "seed": seed} for seed in SEEDS for kept in KEPT]
    todo += [
        {"part": "scale", "recipe": recipe, "scale": own, "seed": seed, **training} for seed in SEEDS for recipe, own in SCALES
    ]
    return [{"bench": "auxiliary", **run} for run in todo]


def work(run: Run) -> Run:
    return PARTS[run["part"]](run)
