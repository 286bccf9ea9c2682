"""The baselines of the benchmarks: rows that the schema allows, noise that the accounting asks for, and that they learn."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench.baselines.independent import independent, noise, noisy_counts
from bench.baselines.merf import design, merf
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from torch.nn.utils import parameters_to_vector

from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.distance import real_frequencies
from dpearl.privacy import Budget, Relation, epsilon_of
from dpearl.schema import parse_schema
from dpearl.settings import Omega, Settings

SCHEMA = parse_schema(
    {
        "label": "rich",
        "columns": {
            "age": {"kind": "number", "lower": 0, "upper": 100, "step": 1},
            "gain": {"kind": "number", "lower": 0, "upper": 1, "spikes": [0], "missing": True},
            "born": {"kind": "datetime", "lower": "1900-01-01", "upper": "2020-01-01", "step": "1d"},
            "job": {"kind": "category", "levels": ["a", "b", "c"]},
            "rich": {"kind": "boolean"},
        },
    }
)
PICTURED = parse_schema(
    {"label": "old", "columns": {"face": {"kind": "image", "height": 5, "width": 3}, "old": {"kind": "boolean"}}}
)
HOOKS = "ignore:Full backward hook is firing:UserWarning"
"""Torch notes that real rows ask for no gradient; Opacus's hooks need none."""

PLENTY, USUAL = Budget(20.0, 1e-5), Budget(1.0, 1e-5)


def people(rows: int = 3000) -> pa.Table:
    """Rich people are older; a tenth of the gains is missing, half of them zero; some jobs are not declared."""
    chance = np.random.default_rng(1)
    rich = chance.random(rows) < 0.5
    gain = np.where(chance.random(rows) < 0.5, 0, chance.random(rows))
    return pa.table(
        {
            "age": np.where(rich, 85, 35) + chance.integers(-5, 5, rows),
            "gain": pa.array(gain, mask=chance.random(rows) < 0.1),
            "born": pa.array(chance.integers(-20_000, 10_000, rows), pa.int32()).cast(pa.date32()),
            "job": chance.choice(list("abcz"), rows),
            "rich": rich,
        }
    )


@pytest.fixture(scope="module")
def rows() -> Coded:
    return Coded.of(people(), SCHEMA)


def invalid(made: Coded) -> int:
    """Rows with a cell that the schema does not allow, judged from the table that they decode to."""
    return Coded.of(made.codec.decode(made.codes), made.schema).invalid


# Independent columns


@pytest.mark.parametrize("relation", Relation)
def test_independent_columns_have_the_marginals_and_nothing_else(rows: Coded, relation: Relation) -> None:
    made = independent(rows, PLENTY, relation, 20_000, seed=0)
    assert (len(made), invalid(made)) == (20_000, 0)
    for name in ("age", "gain", "born", "rich"):
        assert np.abs(made.shares(name) - rows.shares(name)).sum() / 2 < 0.03, name
    assert abs(np.corrcoef(made.values("age"), made.codes["rich"])[0, 1]) < 0.05
    assert np.corrcoef(rows.values("age"), rows.codes["rich"])[0, 1] > 0.9


def test_values_lie_anywhere_inside_a_bin(rows: Coded) -> None:
    """101 ages fall into 20 bins of five or six; every age of a bin that holds many rows comes up."""
    made = independent(rows, PLENTY, Relation.ADD_REMOVE, 20_000, seed=0)
    ages = np.arange(101)
    full = np.flatnonzero(rows.shares("age") > 0.05)
    assert set(ages[np.isin(ages * 20 // 101, full)]) <= set(made.values("age").astype(int))


def test_the_same_seed_gives_the_same_rows(rows: Coded) -> None:
    first, again, other = (independent(rows, USUAL, Relation.REPLACE_ONE, 200, seed) for seed in (3, 3, 4))
    assert first.codec.decode(first.codes).equals(again.codec.decode(again.codes))
    assert not first.codec.decode(first.codes).equals(other.codec.decode(other.codes))


@pytest.mark.parametrize(("relation", "moved"), [(Relation.ADD_REMOVE, 1), (Relation.REPLACE_ONE, 2)])
def test_the_noise_of_independent_columns_is_that_of_the_formula(relation: Relation, moved: int) -> None:
    """σ = √(moved · columns) / μ; dp_accounting finds ε = 1 for it; and it is what lands on every count."""
    sigma, length = noise(5, USUAL, relation), math.sqrt(moved * 5)
    assert sigma == pytest.approx(length / USUAL.mu)
    oracle = PLDAccountant()
    oracle.compose(GaussianDpEvent(sigma / length))
    assert oracle.get_epsilon(1e-5) == pytest.approx(1, rel=1e-3)
    nobody, chance = Coded.of(people(0), SCHEMA), np.random.default_rng(0)
    counts = np.concatenate([own for _ in range(100) for own in noisy_counts(nobody, sigma, chance).values()])
    assert np.std(counts) == pytest.approx(sigma, rel=4 / math.sqrt(2 * len(counts)))
    assert abs(np.mean(counts)) < 4 * sigma / math.sqrt(len(counts))


def test_where_noise_leaves_nothing_all_bins_are_alike() -> None:
    made = independent(Coded.of(people(0), SCHEMA), Budget(1e-6, 1e-5), Relation.ADD_REMOVE, 500, seed=2)
    assert invalid(made) == 0


# DP-MERF


def test_the_frequencies_of_merf_are_standard_normal() -> None:
    block = design(SCHEMA, 4000, seed=5).block("characteristic")
    drawn = real_frequencies(block, Codec(SCHEMA))  # type: ignore[arg-type]
    assert drawn.shape == (3 + 2 + 3, 4000)
    assert np.abs(drawn.mean(axis=1)).max() < 4.5 / math.sqrt(4000)
    assert np.abs(drawn.std(axis=1) - 1).max() < 4.5 / math.sqrt(2 * 4000)
    assert np.abs(np.corrcoef(drawn) - np.eye(8)).max() < 0.08


def test_merf_spends_the_whole_budget_on_one_embedding() -> None:
    settings = Settings(iterations=2, batch=50, generator_steps=1)
    model = merf(people(), SCHEMA, USUAL, 50, settings, seed=0)
    assert list(model.release.stages) == ["embedding"]
    assert model.release.unit.relation is Relation.REPLACE_ONE
    assert model.release.epsilon == pytest.approx(epsilon_of(USUAL.mu, 1e-5), rel=1e-4)
    assert model.training["omega"] == Omega.NONE
    assert invalid(Coded.of(model.sample(300), SCHEMA)) == 0


# DPGAN and DPCGAN


@pytest.fixture(scope="module")
def gan() -> Any:
    """The module, imported without the warnings of what Opacus itself imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("opacus", reason="opacus is not installed, and the DP-GANs need it")
        from bench.baselines import gan
    return gan


def faces() -> Coded:
    """Small pictures, of which old ones are brighter."""
    chance = np.random.default_rng(2)
    old = chance.integers(0, 2, 400)
    pixels = (60 + 120 * old[:, None] + chance.integers(0, 20, (400, 15))).astype(np.uint8)
    return Coded(Codec(PICTURED), {"face": np.column_stack([pixels, np.zeros(400, np.uint8)]), "old": old})


@pytest.mark.filterwarnings(HOOKS)
@pytest.mark.parametrize("conditional", [True, False])
def test_a_gan_gives_rows_that_the_schema_allows(gan: Any, rows: Coded, conditional: bool) -> None:
    few = replace(gan.TABLES, steps=50, batch=300)
    made, again = (gan.gan(rows, USUAL, conditional, 9000, seed=4, game=few) for _ in range(2))
    assert (len(made), invalid(made)) == (9000, 0)
    assert made.codec.decode(made.codes).equals(again.codec.decode(again.codes)), "the same seed gives the same rows"
    assert made.codec.decode(made.codes).column_names == list(SCHEMA.columns)


@pytest.mark.filterwarnings(HOOKS)
def test_a_gan_finds_pictures_of_each_class(gan: Any) -> None:
    """Dark ones of about 70, bright ones of about 190."""
    made = gan.gan(faces(), PLENTY, True, 1000, seed=0, game=replace(gan.IMAGES, steps=250, batch=40, draft=40))
    assert made.codes["face"].dtype == np.uint8
    assert invalid(made) == 0
    assert [made.codes["face"][made.codes["old"] == old, :-1].mean() for old in (0, 1)] == pytest.approx([70, 190], abs=25)


@pytest.mark.filterwarnings(HOOKS)
def test_a_gan_moves_towards_the_rows(gan: Any, rows: Coded) -> None:
    """An untrained generator lies at about 50 for all: told the class, it moves to 35 and 85; else the label goes along."""
    game = replace(gan.TABLES, steps=250, batch=300, draft=100, generator_rate=0.003)
    told, alone = (gan.gan(rows, PLENTY, conditional, 4000, seed=0, game=game) for conditional in (True, False))
    poor, rich = (told.values("age")[told.codes["rich"] == code].mean() for code in (0, 1))
    assert poor < 45
    assert rich > 75
    assert np.corrcoef(alone.values("age"), alone.codes["rich"])[0, 1] > 0.6


def test_real_rows_lie_on_the_generators_axes(gan: Any) -> None:
    """A generator that is sure of a row, and the row itself, are the same point."""
    row = pa.table(
        {"age": [25], "gain": [0.0], "born": pa.array([-25567], pa.int32()).cast(pa.date32()), "job": ["c"], "rich": [True]}
    )
    found = gan.axes(Coded.of(row, SCHEMA))
    assert found.tolist() == [[0.25, 0, 0, *(0, 1), *(0, 0, 1)]]


@pytest.mark.parametrize(("batch", "rows", "steps"), [(1200, 60_000, 800), (1000, 11_077, 400)])
def test_the_noise_of_a_gan_is_what_another_accountant_asks_for(gan: Any, batch: int, rows: int, steps: int) -> None:
    """Opacus's PRV accountant against the privacy loss distributions of dp_accounting, and against its looser RDP."""
    sigma = gan.noise_multiplier(USUAL, batch / rows, steps)
    spent = {}
    for oracle in (PLDAccountant(value_discretization_interval=1e-3), RdpAccountant()):
        oracle.compose(SelfComposedDpEvent(PoissonSampledDpEvent(batch / rows, GaussianDpEvent(sigma)), steps))
        spent[type(oracle)] = oracle.get_epsilon(1e-5)
    assert spent[PLDAccountant] == pytest.approx(0.99, abs=0.01)
    assert spent[PLDAccountant] < spent[RdpAccountant] < 1.1


@pytest.mark.filterwarnings(HOOKS)
def test_a_step_of_the_discriminator_is_clipped_and_noisy(gan: Any, rows: Coded) -> None:
    """Gradients of any length move it by no more than the clip; noise of σ · clip / batch lands on every weight."""
    game = replace(gan.TABLES, batch=300, steps=50, clip=0.1, discriminator_rate=1.0)
    quiet, noisy = (gan.Play(rows, USUAL, game, seed=1) for _ in range(2))
    sigma = noisy.rising.noise_multiplier
    quiet.rising.noise_multiplier = 0.0
    start = parameters_to_vector(quiet.discriminator.parameters()).detach()
    for play in (quiet, noisy):
        play.rows *= 1e4
        play._discriminate()
    clear, blurred = (parameters_to_vector(play.discriminator.parameters()).detach() for play in (quiet, noisy))
    assert 0.05 < float((clear - start).norm()) <= 2 * game.clip + 1e-6
    assert float((blurred - clear).std()) == pytest.approx(sigma * game.clip / game.batch, rel=0.1)
