"""What the limit withholds is put back, and what a release says beyond its mixture is told from noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray

from dpearl.codec import Codec
from dpearl.design import RECIPES
from dpearl.embeddings.marginals import SIDE, WHOLE, Side
from dpearl.grid import Grid, ladders
from dpearl.insides import _Cells, _grouped
from dpearl.mixture import Mixture
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.release import Release
from dpearl.remainder import never, remainder
from dpearl.schema import Schema, parse_schema
from dpearl.settings import MIXTURE
from dpearl.train import fit
from dpearl.withheld import ModelRows, model_rows, withheld

NAMES, LEVELS, ROWS = list("abcd"), 5, 8000
LEVELLED = parse_schema(
    {
        "label": "y",
        "columns": {
            **{name: {"kind": "category", "levels": list(range(LEVELS))} for name in NAMES},
            "y": {"kind": "category", "levels": [0, 1]},
        },
    }
)


def skewed(seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Most rows are all zeros, so that others are long; columns hang on nothing but that."""
    chance = np.random.default_rng(seed)
    usual = chance.random(ROWS) < 0.5
    columns = {name: np.where(usual | (chance.random(ROWS) < 0.5), 0, chance.integers(0, LEVELS, ROWS)) for name in NAMES}
    return {**columns, "y": chance.integers(0, 2, ROWS)}


def released(rows: dict[str, NDArray[np.int64]], epsilon: float, schema: Schema = LEVELLED) -> Release:
    return release_rows(pa.table(rows), Offer(schema, RECIPES["auto"], Budget(epsilon, 1e-5)))


def bins_of(mixture: Mixture, rows: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    block = mixture.block
    codes = mixture.release.embedding.design.codec.encode(pa.table(rows))
    columns = [grid.bins[block.ladders[name].cells(codes[name])] for name, grid in block.grids.items()]
    return np.stack(columns, axis=1).astype(np.int64)


def test_what_long_rows_lose_is_what_is_wanting() -> None:
    """Released pairs and what the rows themselves lose by the limit make up all of the rows, but for noise."""
    rows = skewed()
    mixture = Mixture(released(rows, 5.0), 10)
    block, target, bins = mixture.block, mixture.target, bins_of(mixture, rows)
    noise = 1 / np.sqrt(target.pairs[1].max())
    assert block.limited
    counted = block.usually_counted(list(bins.T))
    assert 0 < (counted < WHOLE).mean() < 0.9
    columns, pairs = withheld(mixture, ModelRows(rows["y"], bins, 1 - counted / WHOLE))
    hot = np.zeros((ROWS, sum(block.sizes)))
    hot[np.arange(ROWS)[:, None], bins + np.array(target.starts[:-1])] = 1
    for label in (0, 1):
        centred = hot[rows["y"] == label] - target.centres
        seen = target.pairs[1][label] > 0
        assert np.abs(target.pairs[0][label] - centred.T @ centred)[seen].max() > 10 * noise
        assert np.abs(target.pairs[0][label] + pairs[label] - centred.T @ centred)[seen].max() < 6 * noise
        assert np.abs(target.columns[0][label] + columns[label] - hot[rows["y"] == label].sum(axis=0)).max() < 60 * noise


def test_rows_of_a_mixture_fill_its_components_and_bins() -> None:
    mixture = Mixture(released(skewed(), 5.0), 20)
    mixture.begin(torch.Generator().manual_seed(0))
    rows = model_rows(mixture, np.random.default_rng(0))
    with torch.no_grad():
        first = (mixture.weights @ mixture.probabilities()[0]).numpy()
    drawn = np.bincount(rows.bins[:, 0], minlength=len(first)) / len(rows.owner)
    assert np.abs(drawn - first).max() < 0.01
    assert 0 <= rows.lost.min() <= rows.lost.max() < 1


def test_synthetic_pairs_are_not_too_few_where_rows_count_for_less() -> None:
    """Without what is put back, levels beside zero would come together a fifth too seldom."""
    rows, found = skewed(), []
    for _ in range(3):
        release = released(rows, 3.0)
        assert Mixture(release, 4).target.kept < 0.99
        made = fit(release, replace(MIXTURE, components=100), seed=0).sample(ROWS).to_pydict()
        found.append(np.mean((np.array(made["a"]) > 0) & (np.array(made["b"]) > 0)))
    wanted = np.mean((rows["a"] > 0) & (rows["b"] > 0))
    assert abs(np.mean(found) / wanted - 1) < 0.15


def test_what_rows_count_for_is_told() -> None:
    """The share that the release tells is that of the rows themselves, though half of them are alike."""
    rows = skewed()
    mixture = Mixture(released(rows, 5.0), 4)
    counted = mixture.block.usually_counted(list(bins_of(mixture, rows).T))
    assert mixture.target.kept == pytest.approx(counted.mean() / WHOLE, abs=0.01)
    assert mixture.target.kept < 0.97


def test_where_noise_is_small_rows_count_in_full() -> None:
    assert not Mixture(released(skewed(), 1e6), 4).block.limited


def test_a_pair_that_stands_out_is_kept_and_noise_is_not() -> None:
    """The mixture knows nothing of a cell in which two columns meet more often; the release does."""
    chance = np.random.default_rng(1)
    rows = {name: chance.integers(0, LEVELS, ROWS) for name in NAMES} | {"y": chance.integers(0, 2, ROWS)}
    both = chance.random(ROWS) < 0.06
    rows["a"], rows["b"] = np.where(both, 1, rows["a"]), np.where(both, 3, rows["b"])
    mixture = Mixture(released(rows, 2.0), 4)
    bins, starts = bins_of(mixture, rows), np.array(mixture.target.starts)
    held = [np.bincount((bins[rows["y"] == label] + starts[:-1]).ravel(), minlength=starts[-1]) for label in (0, 1)]
    with torch.no_grad():
        mixture.logits.copy_(torch.from_numpy(np.array(held) + 1e-3).log()[mixture.owners])
    found = remainder(mixture).pairs
    cell = found[:, starts[0] + 1, starts[1] + 3]
    noise = 1 / np.sqrt(mixture.target.pairs[1].max())
    elsewhere = np.abs(found[:, starts[2] : starts[3], starts[3] :])
    assert (cell > 20 * noise).all()
    assert elsewhere.max() < 10 * noise, "a sample's own chance is no noise of the release, and may stay"
    assert np.median(elsewhere) < noise
    assert (found == found.swapaxes(1, 2)).all()


def test_classes_lie_inside_bins_as_they_do_in_the_release() -> None:
    """A number's seldom values end in 1 in one class and in 6 in the other, and no bin is that narrow."""
    schema = parse_schema(
        {
            "label": "y",
            "columns": {
                "sum": {"kind": "number", "lower": 0, "upper": 999, "step": 1, "spikes": [0]},
                **{name: {"kind": "category", "levels": [0, 1, 2]} for name in "abc"},
                "y": {"kind": "category", "levels": [0, 1]},
            },
        }
    )
    chance = np.random.default_rng(2)
    y = chance.integers(0, 2, 20_000)
    values = 10 * chance.integers(20, 90, 20_000) + np.where(y == 1, 1, 6)
    rows = {name: chance.integers(0, 3, 20_000) for name in "abc"} | {
        "sum": np.where(chance.random(20_000) < 0.85, 0, values),
        "y": y,
    }
    release = released(rows, 5.0, schema)
    assert release.embedding.design.arrays()["interactions.sharpness"][0, 1] > 0
    made = fit(release, replace(MIXTURE, iterations=100, components=50), seed=0).sample(20_000).to_pydict()
    drawn, label = np.array(made["sum"]), np.array(made["y"])
    for own, last in ((1, 1), (0, 6)):
        seldom = drawn[(label == own) & (drawn > 0)]
        assert np.mean(seldom % 10 == last) > 0.6


def test_classes_share_rare_levels_as_they_share_their_bin() -> None:
    """Of two hundred levels of twenty rows each, which noise hides, one has more, of class 1 alone; all others are of both."""
    chance = np.random.default_rng(5)
    place = np.where(chance.random(ROWS) < 0.5, 0, chance.integers(1, 201, ROWS))
    y = (chance.random(ROWS) < 0.3).astype(np.int64)
    place[:200], y[:200] = 200, 1
    declared = LEVELLED.model_dump()
    levels = {"kind": "category", "levels": list(range(201))}
    schema = parse_schema({**declared, "columns": {**declared["columns"], "a": levels}})
    shares = np.array([_of_class_1({**skewed(), "a": place, "y": y}, schema) for _ in range(4)])
    assert shares[:, 200].mean() > 0.8
    assert shares[:, 1:200].std(axis=1).mean() < 0.055


def test_classes_differ_inside_a_bin_as_sharply_as_noise_lets_them() -> None:
    """A million rows and hardly any noise: each class has just its part of every cell."""
    chance, whole, share = np.random.default_rng(6), np.array([1e5, 2e5, 3e5, 4e5]), np.array([0.3, 0.37, 0.42, 0.55])
    truth = np.stack([whole * share, whole * (1 - share)])
    cells, grid = Grid(np.arange(4, dtype=np.uint16)), Grid(np.zeros(4, np.uint16))
    side = Side(grid, cells, np.zeros(1, np.int64), np.full(4, SIDE // 4), SIDE, SIDE, 0)
    held = np.repeat(truth.sum(axis=1)[:, None], 4, axis=1)
    column = _Cells(ladders(Codec(LEVELLED))["a"], side, [], truth + chance.normal(0, 10, (2, 4)), np.full((2, 4), 10.0), held)
    (found,) = _grouped([(column, whole)])
    assert found == pytest.approx(truth, rel=2e-3)
    assert found.sum(axis=0) == pytest.approx(whole)


def _of_class_1(rows: dict[str, NDArray[np.int64]], schema: Schema) -> NDArray[np.float64]:
    """What part of the rows with each level of the first column is put into class 1."""
    mixture = fit(released(rows, 0.7, schema), replace(MIXTURE, iterations=100, components=50), seed=0).generator
    assert isinstance(mixture, Mixture)
    assert mixture.block.sizes[0] < 100
    groups = np.stack(remainder(mixture).insides[0])
    return np.asarray(groups[1] / groups.sum(axis=0))


def excluded() -> dict[str, NDArray[np.int64]]:
    """Two columns are zero in the same rows, a fifth of them, and have nothing else to do with each other or with the rest."""
    chance = np.random.default_rng(2)
    rows = {name: chance.integers(0, LEVELS, ROWS) for name in NAMES} | {"y": chance.integers(0, 2, ROWS)}
    none = chance.random(ROWS) < 0.2
    return {**rows, **{name: np.where(none, 0, chance.integers(1, LEVELS, ROWS)) for name in "ab"}}


def test_what_never_comes_together_is_found_and_kept_apart() -> None:
    rows = excluded()
    release = released(rows, 3.0)
    target = Mixture(release, 4).target
    starts, wanted = target.starts, np.zeros((sum(target.sizes), sum(target.sizes)), bool)
    wanted[starts[0], starts[1] + 1 : starts[1] + LEVELS] = wanted[starts[0] + 1 : starts[0] + LEVELS, starts[1]] = True
    found = never(target)
    assert (found == found.T).all()
    assert found[wanted].all()
    held = target.columns[0].sum(axis=0) > 0.02 * ROWS
    assert not (found & ~(wanted | wanted.T) & held & held[:, None]).any()
    made = fit(release, replace(MIXTURE, components=100), seed=0).sample(ROWS).to_pydict()
    assert np.mean((np.array(made["a"]) == 0) != (np.array(made["b"]) == 0)) < 0.002
    assert np.mean(np.array(made["a"]) == 0) == pytest.approx(0.2, abs=0.02)


def test_independent_columns_exclude_nothing() -> None:
    chance = np.random.default_rng(4)
    rows = {name: chance.integers(0, LEVELS, ROWS) for name in NAMES} | {"y": chance.integers(0, 2, ROWS)}
    assert not never(Mixture(released(rows, 3.0), 4).target).any()
