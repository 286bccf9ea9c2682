"""A mixture of products: exact expectations, sharp relations, valid rows, the same for the same seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray

from dpearl.coded import Coded
from dpearl.density import column_counts
from dpearl.design import RECIPES, Scale
from dpearl.distance import learnable_rows
from dpearl.drawing import Sampler
from dpearl.embeddings.marginals import WHOLE
from dpearl.errors import FileError, TrainingError, UsageError
from dpearl.fitting import Misfit, MixtureTraining, price, smoothing
from dpearl.mixture import Mixture, PairTarget, conditional, determined, mixture_of, pair_target
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.release import Release
from dpearl.remainder import remainder
from dpearl.schema import Schema, parse_schema
from dpearl.settings import MIXTURE, TABLES, MixtureSettings
from dpearl.synthesizer import load_synthesizer, save_synthesizer
from dpearl.train import fit
from dpearl.withheld import ModelRows, withheld

SCHEMA = parse_schema(
    {
        "label": "sick",
        "columns": {
            "age": {"kind": "number", "lower": 0, "upper": 99, "step": 1},
            "group": {"kind": "category", "levels": ["young", "grown", "old"]},
            "rank": {"kind": "number", "lower": 1, "upper": 3, "step": 1},
            "pay": {"kind": "number", "lower": 1, "upper": 50000, "spikes": [0], "missing": True},
            "town": {"kind": "category", "levels": ["a", "b", "c", "d"]},
            "sick": {"kind": "category", "levels": ["yes", "no"]},
        },
    }
)
FEW = replace(MIXTURE, iterations=60, components=60)


def people(rows: int, seed: int = 0) -> pa.Table:
    """Rank is the group's number; sickness hangs on age, pay on sickness, the town on nothing."""
    chance = np.random.default_rng(seed)
    age = np.clip(chance.normal(45, 18, rows), 0, 99).round()
    group = np.digitize(age, [33, 62])
    sick = chance.random(rows) < 0.1 + 0.6 * (age > 55)
    pay = np.where(sick | (chance.random(rows) < 0.3), 0, chance.lognormal(9, 0.5, rows))
    return pa.table(
        {
            "age": age,
            "group": np.array(["young", "grown", "old"])[group],
            "rank": group + 1,
            "pay": pa.array(pay, mask=chance.random(rows) < 0.05),
            "town": np.array(list("abcd"))[chance.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])],
            "sick": np.where(sick, "yes", "no"),
        }
    )


def made(epsilon: float = 3.0, rows: int = 6000, schema: Schema = SCHEMA, **kept: object) -> Release:
    recipe = replace(RECIPES["auto"], **kept)  # type: ignore[arg-type]
    return release_rows(people(rows).select(list(schema.columns)), Offer(schema, recipe, Budget(epsilon, 1e-5)))


@pytest.fixture(scope="module")
def released() -> Release:
    return made()


def test_expected_counts_are_those_of_drawn_rows(released: Release) -> None:
    """The Gram matrix of the probabilities is what many rows add up to, in every pair and class."""
    mixture = Mixture(released, 40)
    mixture.begin(torch.Generator().manual_seed(0))
    with torch.no_grad():
        parts = torch.cat(mixture.probabilities(), dim=1)
    rows, shares = 2**17, mixture.target.shares
    classes = torch.from_numpy(np.random.default_rng(0).choice(len(shares), rows, p=shares))
    rest = remainder(mixture)
    alone = replace(rest, pairs=np.zeros_like(rest.pairs), never=np.zeros_like(rest.never))
    codes = Sampler(mixture, alone, torch.Generator().manual_seed(1)).draw(classes)
    bins = [grid.bins[mixture.block.ladders[name].cells(codes[name])] for name, grid in mixture.block.grids.items()]
    starts = mixture.target.starts
    free = [place for place in range(len(bins)) if place not in mixture.tables]
    for one, other in ((free[0], free[1]), (free[-1], free[0])):
        for label in range(len(shares)):
            own, weights = mixture.owners == label, mixture.weights
            across = [parts[own][:, starts[place] : starts[place + 1]].numpy() for place in (one, other)]
            expected = (across[0] * weights[own].numpy()[:, None]).T @ across[1]
            inside = classes.numpy() == label
            joint = bins[one][inside].astype(int) * across[1].shape[1] + bins[other][inside]
            drawn = np.bincount(joint, minlength=expected.size).reshape(expected.shape) / rows
            assert 0.5 * np.abs(drawn - expected).sum() < 0.02


def misfits(release: Release) -> tuple[float, float]:
    """χ² over its number of the rows themselves, as components, and of rows whose classes are shuffled."""
    target, data = pair_target(release), people(6000)
    block = Mixture(release, 4).block
    codes = release.embedding.design.codec.encode(data)
    bins = [grid.bins[block.ladders[name].cells(codes[name])] for name, grid in block.grids.items()]
    hot = torch.cat(
        [torch.nn.functional.one_hot(torch.from_numpy(b.astype(np.int64)), s) for b, s in zip(bins, block.sizes, strict=True)], 1
    )
    weights, owners = torch.full((6000,), 1 / target.rows), torch.from_numpy(codes["sick"])
    misfit = Misfit(target)
    joined = np.stack(bins, axis=1).astype(np.int64)
    rows = ModelRows(codes["sick"], joined, 1 - block.usually_counted(list(joined.T)) / WHOLE)
    misfit.put_back(*withheld(Mixture(release, 4), rows))
    shuffled = hot[torch.randperm(6000, generator=torch.Generator().manual_seed(0))]
    true, other = (float(misfit(own.float(), weights, owners)) / misfit.values for own in (hot, shuffled))
    return true, other


def test_misfit_is_one_at_the_truth_and_more_beside_it() -> None:
    """Noise alone makes it 1, give or take a twentieth in one release."""
    found = [misfits(made(epsilon=1.0)) for _ in range(5)]
    assert np.mean([true for true, _ in found]) == pytest.approx(1, abs=0.1)
    assert min(other for _, other in found) > 2


def test_a_determined_column_is_found_and_never_contradicted(released: Release) -> None:
    target = pair_target(released)
    names = list(released.embedding.design.codec.features)
    found = {names[own]: names[one] for own, one in determined(target).items()}
    assert found in ({"rank": "group"}, {"group": "rank"})
    rows = fit(released, FEW).sample(5000)
    ranks = {"young": 1, "grown": 2, "old": 3}
    assert all(ranks[group] == rank for group, rank in zip(*(rows.column(c).to_pylist() for c in ("group", "rank")), strict=True))


def determining(counts: NDArray[np.float64], strayed: NDArray[np.float64], noise: float) -> PairTarget:
    """Two columns of three bins, one of which determines the other, and what noise adds to their pairs."""
    sizes, seen, off = [3, 3], counts + strayed, np.eye(3) - 1 / 3
    pairs, precisions = np.zeros((1, 6, 6)), np.full((1, 6, 6), noise**-2)
    pairs[0, :3, 3:] = off @ seen @ off
    pairs[0, 3:, :3] = pairs[0, :3, 3:].T
    alone = np.concatenate([counts.sum(axis=1), counts.sum(axis=0)])
    known = (alone[None], np.full((1, 6), 1e-3))
    singles = (alone, 1e-3 * np.eye(6))
    return PairTarget(counts.sum(), np.ones(1), sizes, singles, known, (pairs, precisions), np.full(6, 1 / 3))


def test_a_determined_column_is_right_where_its_rows_are_few() -> None:
    """40 rows of a bin are less than four times the noise of a pair: what no other bin explains says where they belong."""
    strayed = np.array([[0, 0, 0], [0, 0, 0], [0, 45.0, 0]])
    target = determining(np.diag([3000.0, 2000.0, 40.0]), strayed, noise=30.0)
    found = conditional(target, 0, 1, np.ones(3, bool))
    assert found.sum(axis=1) == pytest.approx(1)
    assert found.argmax(axis=1).tolist() == [0, 1, 2]
    assert found[2, 2] > 0.8


def test_a_determined_column_takes_no_bin_that_rows_may_not_come_back_with() -> None:
    """Also where next to no noise makes that bin the only likely one."""
    target = determining(np.diag([30.0, 20.0, 4.0]), np.zeros((3, 3)), noise=1e-4)
    found = conditional(target, 0, 1, np.array([True, True, False]))
    assert found.sum(axis=1) == pytest.approx(1)
    assert (found[:, 2] == 0).all()


def test_what_the_class_tells_is_free(released: Release) -> None:
    """Components that differ by class alone pay nothing; those that differ within a class do."""
    training = MixtureTraining(released, FEW, 0, torch.device("cpu"))
    mixture = training.generator
    alike = 2 * torch.eye(4)[mixture.owners]
    assert float(training.dependence(alike, mixture.weights)) == pytest.approx(0, abs=1e-4)
    apart = 2 * torch.eye(2)[torch.arange(len(mixture.owners)) % 2]
    assert float(training.dependence(apart, mixture.weights)) == pytest.approx(1 / (1 + 2 / training.bend), rel=0.01)


@pytest.mark.parametrize("bins", [9, 90])
def test_dependence_has_the_slope_of_logarithms_of_eigenvalues(released: Release, bins: int) -> None:
    """Of the covariance, and of what classes differ by, along any way, where there are fewer bins than components and where there
    are more; eigenvalues by numpy."""
    training = MixtureTraining(released, FEW, 0, torch.device("cpu"))
    owners, weights = training.generator.owners.numpy(), training.generator.weights.double().numpy()
    chance = np.random.default_rng(bins)
    roots = 2 * np.sqrt(chance.dirichlet(np.full(bins, 4.0), len(owners)))
    way = chance.standard_normal(roots.shape)

    def logarithm(own: NDArray[np.float64]) -> float:
        mine = [owners == place for place in range(owners.max() + 1)]
        shares = np.array([weights[place].sum() for place in mine])
        classes = [np.cov(own[place].T, aweights=weights[place], ddof=0) for place in mine]
        together = np.tensordot(shares, classes, 1)
        apart = sum(share * (one - together) @ (one - together) for share, one in zip(shares, classes, strict=True))
        sizes = np.linalg.eigvalsh(together), np.sqrt(np.maximum(np.linalg.eigvalsh(apart), 0))
        told = [training.bend / 2 * np.log1p(np.maximum(own, 0) / training.bend).sum() for own in sizes]
        return float(told[0] + training.settings.apart * told[1])

    short = 1e-6
    wanted = (logarithm(roots + short * way) - logarithm(roots - short * way)) / (2 * short)
    asked = torch.from_numpy(roots).float().requires_grad_(True)
    training.dependence(asked, training.generator.weights).backward()  # type: ignore[no-untyped-call]
    assert asked.grad is not None
    assert float((asked.grad.double().numpy() * way).sum()) == pytest.approx(wanted, rel=1e-3)


def test_what_goes_up_and_down_along_a_line_costs_more(released: Release) -> None:
    """Than what changes steadily, and no bin's number of rows is smoothed; levels, which have no order, cost what they did."""
    mixture = Mixture(released, 20)
    mixture.begin(torch.Generator().manual_seed(0))
    names = [name for own, name in enumerate(mixture.block.names) if own not in mixture.tables]
    made = dict(zip(names, smoothing(mixture), strict=True))
    assert (made["town"] == torch.eye(len(made["town"]))).all()
    own = mixture.block.names.index("age")
    line = torch.from_numpy(mixture.block.grids["age"].along(mixture.block.ladders["age"]))
    usual = torch.from_numpy(np.maximum(mixture.target.bins(own), 1.0)).float().sqrt()
    assert float((usual @ made["age"]).norm()) == pytest.approx(float(usual.norm()), rel=1e-5)

    def cost(change: torch.Tensor) -> float:
        along = torch.zeros_like(usual)
        along[line] = change
        return float((usual * along @ made["age"]).norm() / (usual * along).norm())

    assert 1 < cost(torch.linspace(-1, 1, len(line))) < 1.5
    assert cost((-1.0) ** torch.arange(len(line))) > 3


def test_independent_columns_determine_nothing() -> None:
    chance = np.random.default_rng(3)
    schema = parse_schema({"columns": {name: {"kind": "category", "levels": [1, 2, 3]} for name in "xyz"}})
    table = pa.table({name: chance.integers(1, 4, 5000) for name in "xyz"})
    release = release_rows(table, Offer(schema, RECIPES["auto"], Budget(1.0, 1e-5)))
    assert determined(pair_target(release)) == {}


def total_variation(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    size = max(one.max(), other.max()) + 1
    return float(
        0.5 * np.abs(np.bincount(one, minlength=size) / len(one) - np.bincount(other, minlength=size) / len(other)).sum()
    )


def test_rows_resemble_the_data_and_keep_to_the_schema(released: Release) -> None:
    rows, data = (Coded.of(table, SCHEMA) for table in (fit(released, FEW).sample(6000), people(6000)))
    assert rows.invalid == 0
    for name in rows.names:
        assert total_variation(rows.bins(name), data.bins(name)) < 0.06
    for one, other in (("group", "sick"), ("town", "sick"), ("age", "group")):
        joint = [own.bins(one) * 50 + own.bins(other) for own in (rows, data)]
        assert total_variation(joint[0], joint[1]) < 0.15


def test_missing_values_and_spikes_come_back(released: Release) -> None:
    pay = fit(released, FEW).sample(6000).column("pay")
    assert 0.02 < pay.null_count / 6000 < 0.08
    assert 0.3 < np.mean(np.array(pay.drop_null()) == 0) < 0.75


@pytest.mark.parametrize(
    "kept", [{"scale": Scale.PUBLIC}, {"relation": Relation.REPLACE_ONE, "scale": Scale.PAIRWISE}, {"count_share": 0.1}]
)
def test_other_recipes_of_marginals_train_too(kept: dict[str, object]) -> None:
    release = made(2.0, 6000, SCHEMA, **kept)
    assert fit(release, FEW).sample(100).num_rows == 100


@pytest.mark.parametrize("columns", [["age"], ["town"], ["age", "sick"], ["age", "pay", "town"]])
def test_small_schemas_train_too(columns: list[str]) -> None:
    label = "sick" if "sick" in columns else None
    schema = Schema(label=label, columns={name: SCHEMA.columns[name] for name in columns})
    assert fit(made(2.0, 2000, schema), FEW).sample(50).column_names == columns


def test_few_rows_and_small_budgets_give_valid_rows() -> None:
    for rows in (1, 10):
        release = made(0.5, rows)
        if learnable_rows(release) < 1:
            with pytest.raises(FileError, match="holds no rows"):
                fit(release, FEW)
        else:
            assert Coded.of(fit(release, FEW).sample(100), SCHEMA).invalid == 0


def test_the_same_seed_gives_the_same_rows_and_another_others(released: Release, tmp_path: Path) -> None:
    first, again, other = (fit(released, FEW, seed=seed, threads=1) for seed in (1, 1, 2))
    assert torch.equal(first.generator.state_dict()["logits"], again.generator.state_dict()["logits"])
    assert not torch.equal(first.generator.state_dict()["logits"], other.generator.state_dict()["logits"])
    save_synthesizer(first, tmp_path / "m.dpearl")
    assert load_synthesizer(tmp_path / "m.dpearl").sample(300, seed=5).equals(first.sample(300, seed=5))
    assert not first.sample(300, seed=5).equals(first.sample(300, seed=6))


def test_fitting_goes_on_from_a_checkpoint_as_if_never_stopped(released: Release, tmp_path: Path) -> None:
    whole = fit(released, FEW, seed=3, threads=1)
    halves = MixtureTraining(released, FEW, 3, torch.device("cpu"))
    for _ in range(25):
        halves.advance()
    halves.save(tmp_path / "part")
    resumed = fit(released, FEW, seed=3, threads=1, checkpoint=tmp_path / "part")
    assert torch.equal(whole.generator.state_dict()["logits"], resumed.generator.state_dict()["logits"])
    with pytest.raises(FileError, match="seed differs"):
        fit(released, FEW, seed=4, checkpoint=tmp_path / "part")


def test_a_model_that_names_impossible_parents_is_refused(released: Release) -> None:
    arrays = {name: value.clone() for name, value in Mixture(released, 20).state_dict().items()}
    for wrong in (len(arrays["parents"]), -2, 0):
        arrays["parents"][:] = wrong
        with pytest.raises(ValueError, match="mixture"):
            mixture_of(released, arrays)


def test_settings_of_another_kind_are_refused(released: Release) -> None:
    with pytest.raises(UsageError, match="MixtureSettings"):
        fit(released, TABLES)
    for wrong in ({"iterations": 0}, {"components": 0}, {"learning_rate": 0.0}, {"price": -1.0}, {"slack": 0.0}):
        with pytest.raises(UsageError):
            MixtureSettings(**wrong)


def test_a_fit_that_breaks_down_says_what_to_do(released: Release) -> None:
    training = MixtureTraining(released, FEW, 0, torch.device("cpu"))
    with torch.no_grad():
        training.generator.logits[0, 0] = torch.nan
    with pytest.raises(TrainingError, match="lower --learning-rate"):
        training.advance()


def misfit(release: Release, factor: float) -> float:
    """Where a fit ends whose price starts at so many times the usual."""
    settings = replace(MIXTURE, price=factor * MIXTURE.price, iterations=200, components=200)
    training = MixtureTraining(release, settings, 0, torch.device("cpu"))
    while training.step < settings.iterations:
        training.advance()
    return training.moment().loss


def test_the_price_keeps_noise_from_being_learnt() -> None:
    """Without it χ² falls far below 1: the fit has learnt the noise. With it, it ends by the floor, wherever the price starts."""
    names = list("abcdefghijkl")
    schema = parse_schema({"columns": {name: {"kind": "category", "levels": [1, 2, 3, 4]} for name in names}})
    chance = np.random.default_rng(8)
    table = pa.table({name: chance.integers(1, 5, 3000) for name in names})
    release = release_rows(table, Offer(schema, RECIPES["auto"], Budget(1.0, 1e-5)))
    assert price(pair_target(release), MIXTURE) > 0
    assert misfit(release, 0.0) < 0.85
    for factor in (0.5, 1.0, 2.0):
        assert misfit(release, factor) == pytest.approx(MIXTURE.floor, abs=0.1)


def test_values_inside_a_bin_follow_the_released_histogram(released: Release) -> None:
    """Rows of a mixture have the single columns' shape even within bins: their distribution functions stay close."""
    rows = Coded.of(fit(released, FEW).sample(6000), SCHEMA)
    known = column_counts(released.stages["auxiliary"], 6000)["age"]
    drawn = np.bincount(rows.codes["age"], minlength=len(known))
    assert np.abs(np.cumsum(drawn) / 6000 - np.cumsum(known) / known.sum()).max() < 0.05
