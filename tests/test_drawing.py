"""Rows of a mixture: their pairs scatter less than independent draws, in every chunk and over all, and keep to the components."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray

from dpearl.design import RECIPES
from dpearl.drawing import Sampler, leaning
from dpearl.mixture import Mixture, inverse
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.remainder import remainder
from dpearl.schema import Schema, parse_schema
from dpearl.settings import MIXTURE
from dpearl.train import fit

NAMES = list("abcde")
LEVELS = 6


def schema(classes: int) -> Schema:
    columns = {name: {"kind": "category", "levels": list(range(LEVELS))} for name in NAMES}
    return parse_schema({"label": "y", "columns": {**columns, "y": {"kind": "category", "levels": list(range(classes))}}})


def mixture(classes: int, components: int = 30) -> Mixture:
    """Components with probabilities at random: what they were fitted to does not matter here, and there is hardly any noise."""
    chance = np.random.default_rng(classes)
    table = pa.table({**{name: chance.integers(0, LEVELS, 3000) for name in NAMES}, "y": chance.integers(0, classes, 3000)})
    made = Mixture(release_rows(table, Offer(schema(classes), RECIPES["auto"], Budget(100.0, 1e-5))), components)
    made.begin(torch.Generator().manual_seed(1))
    with torch.no_grad():
        made.logits.copy_(2 * torch.randn(made.logits.shape, generator=torch.Generator().manual_seed(2)))
    assert not made.tables
    return made


def drawing_of(made: Mixture, chance: torch.Generator) -> Sampler:
    """By the components alone: to what the release says beyond them, which it was not fitted to, rows do not listen."""
    rest = remainder(made)
    return Sampler(made, replace(rest, pairs=np.zeros_like(rest.pairs), never=np.zeros_like(rest.never)), chance)


def scatter(made: Mixture, classes: NDArray[np.int64], codes: dict[str, NDArray[np.int64]], by_class: bool) -> float:
    """Mean squared difference of counts of pairs from what the components give, over what is expected: 1 of independent draws."""
    with torch.no_grad():
        parts = [part.double().numpy()[:, :LEVELS] for part in made.probabilities()]
    owners, found = made.owners.numpy(), []
    groups = [[place] for place in np.unique(classes)] if by_class else [np.unique(classes).tolist()]
    for one, other in combinations(range(len(NAMES)), 2):
        for group in groups:
            rows = np.isin(classes, group)
            weights = sum((owners == place) * np.sum(classes == place) / np.sum(owners == place) for place in group)
            expected = (parts[one] * weights[:, None]).T @ parts[other]
            joint = codes[NAMES[one]][rows] * LEVELS + codes[NAMES[other]][rows]
            counts = np.bincount(joint, minlength=LEVELS**2).reshape(expected.shape)
            found.append(((counts - expected) ** 2).sum() / expected.sum())
    return float(np.mean(found))


def independent(made: Mixture, classes: NDArray[np.int64], seed: int) -> dict[str, NDArray[np.int64]]:
    """The oracle: every row by itself."""
    chance = np.random.default_rng(seed)
    with torch.no_grad():
        parts = [part.numpy() for part in made.probabilities()]
    component = np.array([chance.choice(np.flatnonzero(made.owners.numpy() == place)) for place in classes])
    return {name: inverse(part[component], chance.random(len(component))) for name, part in zip(NAMES, parts, strict=True)}


@pytest.mark.parametrize("classes", [2, 8])
def test_pairs_scatter_less_than_those_of_independent_draws(classes: int) -> None:
    """By class where pairs are measured so, and over all classes where there are many."""
    made, chance = mixture(classes), torch.Generator().manual_seed(3)
    asked = torch.randint(classes, (4000,), generator=chance)
    place, codes = asked.numpy(), drawing_of(made, chance).draw(asked)
    assert np.mean([scatter(made, place, independent(made, place, seed), classes == 2) for seed in range(10)]) > 0.8
    assert scatter(made, place, codes, classes == 2) < 0.25


def test_what_one_chunk_owes_the_next_ones_make_good() -> None:
    """Differences do not add up from chunk to chunk: over sixteen they are hardly larger than in one, not four times."""
    made, chance = mixture(2), torch.Generator().manual_seed(4)
    drawing, classes, codes = drawing_of(made, chance), [], []
    for _ in range(16):
        asked = torch.arange(500) % 2
        classes.append(asked.numpy())
        codes.append(drawing.draw(asked))
    whole = {name: np.concatenate([own[name] for own in codes]) for name in NAMES}
    first = scatter(made, classes[0], codes[0], True) * 500
    assert scatter(made, np.concatenate(classes), whole, True) * 8000 < 2 * first


def test_components_that_know_one_bin_give_no_other() -> None:
    """However much other pairs want rows: a bin of no probability stays empty."""
    made = mixture(2)
    with torch.no_grad():
        made.logits[:, :LEVELS] = -100.0
        made.logits[:, 3] = 0.0
    codes = drawing_of(made, torch.Generator().manual_seed(5)).draw(torch.arange(3000) % 2)
    assert (codes["a"] == 3).all()


def test_rows_of_components_keep_what_these_say_of_columns_together() -> None:
    """Two kinds of rows, all low or all high: no row is half of one kind and half of the other."""
    made = mixture(2)
    low = torch.arange(len(made.owners)) % 2 == 0
    with torch.no_grad():
        for column in range(len(NAMES)):
            start = made.target.starts[column]
            made.logits[:, start : start + LEVELS] = -100.0
            made.logits[low, start : start + 3] = 0.0
            made.logits[~low, start + 3 : start + 6] = 0.0
    codes = drawing_of(made, torch.Generator().manual_seed(6)).draw(torch.arange(4000) % 2)
    high = np.stack([codes[name] >= 3 for name in NAMES])
    assert (high.all(axis=0) | ~high.any(axis=0)).all()
    assert high[0].mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_few_rows_can_be_asked_for(rows: int) -> None:
    codes = drawing_of(mixture(2), torch.Generator().manual_seed(7)).draw(torch.zeros(rows, dtype=torch.long))
    assert {len(own) for own in codes.values()} == {rows}


def test_components_lean_to_where_they_are_commoner() -> None:
    """Three bins of a line, not in its order, and one that is no part of it."""
    along = np.array([2, 0, 1])
    rising, flat = [0.2, 0.4, 0.1, 0.3], [0.25, 0.25, 0.25, 0.25]
    lean = leaning(along, np.array([rising, flat, [0.3, 0.1, 0.4, 0.2]], np.float32), np.ones(3, np.float32))
    assert (lean[0, :3] > 0.2).all()
    assert np.abs(lean[1, :3]).max() < 0.05
    assert (lean[2, :3] < -0.2).all()
    assert (lean[:, 3] == 0).all()
    steep = leaning(along, np.array([[0, 1, 0, 0], [1, 0, 0, 0]], np.float32), np.ones(2, np.float32))
    assert np.isfinite(steep).all()
    assert np.abs(steep).max() <= 3


def lined(rows: int = 8000) -> tuple[Schema, pa.Table]:
    """Two numbers that are nearly the same, of many more values than bins."""
    chance = np.random.default_rng(0)
    one = chance.integers(0, 1000, rows)
    two = np.clip(one + chance.integers(-30, 31, rows), 0, 999)
    number = {"kind": "number", "lower": 0, "upper": 999, "step": 1}
    return parse_schema({"columns": {"one": number, "two": number}}), pa.table({"one": one, "two": two})


def test_rows_lean_inside_their_bins_and_histograms_stay() -> None:
    """Inside a bin of one number, those whose other number is larger are larger, too; how many have which value is the same."""
    declared, rows = lined()
    release = release_rows(rows, Offer(declared, RECIPES["auto"], Budget(5.0, 1e-5)))
    model = fit(release, replace(MIXTURE, components=200, iterations=200), seed=0)
    made = model.generator
    assert isinstance(made, Mixture)
    (bins, _), found = (grid.bins.astype(np.int64) for grid in made.block.grids.values()), []
    for leans in (True, False):
        drawing = Sampler(made, remainder(made), torch.Generator().manual_seed(3))
        drawing._lean = drawing._lean if leans else [np.zeros_like(own) for own in drawing._lean]
        found.append(drawing.draw(torch.zeros(20_000, dtype=torch.int64)))
    together = []
    for codes in found:
        one, own = codes["one"].astype(float), bins[codes["one"]]
        inside = one - (np.bincount(own, one) / np.maximum(np.bincount(own), 1))[own]
        other = codes["two"] - (np.bincount(own, codes["two"]) / np.maximum(np.bincount(own), 1))[own]
        together.append(np.corrcoef(inside, other)[0, 1])
    assert together[0] > 0.04 > abs(together[1])
    histograms = [np.bincount(codes["one"] // 10, minlength=101) for codes in found]
    assert np.abs(histograms[0] - histograms[1]).sum() < 0.02 * 20_000
