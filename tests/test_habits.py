"""The estimator as people of scikit-learn expect it, how values introduce themselves, and networks of one's own."""

from __future__ import annotations

import copy
import html
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from rich.console import Console
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import dpearl
from dpearl import PEARL, Axes, Budget, Offer, Release, Schema, Settings, Synthesizer
from dpearl.codec import Codec
from dpearl.container import read
from dpearl.design import RECIPES
from dpearl.errors import BudgetError, FileError, UsageError
from dpearl.ledger import read_ledger
from dpearl.owner import recipe_with
from dpearl.release import MODEL
from dpearl.schema import Category, Column, Number, parse_declaration, parse_schema
from dpearl.settings import MIXTURE, TABLES

FEW = recipe_with(RECIPES["auto"], None, None, 8)
QUICK = Settings(iterations=2, batch=20, generator_steps=1)
SCHEMA = parse_schema(
    {
        "label": "b",
        "columns": {
            "a": {"kind": "number", "lower": 0, "upper": 100, "step": 1, "missing": True},
            "b": {"kind": "category", "levels": ["red", "blue"]},
        },
    }
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def people(rows: int = 60) -> pd.DataFrame:
    chance = np.random.default_rng(0)
    return pd.DataFrame({"a": chance.integers(0, 101, rows), "b": chance.choice(["red", "blue"], rows)})


def quick(**given: Any) -> PEARL:
    return PEARL(**{"schema": SCHEMA, "epsilon": 10.0, "recipe": FEW, "settings": QUICK, **given})


# scikit-learn's habits


def test_a_clone_has_the_same_parameters_and_nothing_that_was_fitted() -> None:
    pearl = quick(delta=1e-6, relation="add-remove", ledger="l", seed=7)
    pearl.model_ = "as if fitted"  # type: ignore[assignment]
    again = clone(pearl)
    assert type(again) is PEARL
    assert again.get_params() == pearl.get_params()
    assert [*again.get_params()] == ["schema", "epsilon", "delta", "recipe", "relation", "ledger", "settings", "seed"]
    assert not hasattr(again, "model_")


def test_parameters_are_kept_as_given_and_judged_when_rows_come() -> None:
    odd = PEARL("no such file.toml", epsilon=-1, recipe="best")
    assert odd.get_params()["epsilon"] == -1
    assert odd.set_params(epsilon=2.0, seed=3) is odd
    assert (odd.epsilon, odd.seed) == (2.0, 3)
    with pytest.raises(UsageError, match="no parameter 'epsilonn'; did you mean 'epsilon'"):
        odd.set_params(epsilonn=1)


def test_fit_returns_itself_and_what_it_learnt_ends_in_an_underscore() -> None:
    pearl = quick()
    with pytest.raises(UsageError, match="call fit"):
        pearl.sample(3)
    assert not hasattr(pearl, "release_")
    assert not hasattr(pearl, "statement_")
    assert pearl.fit(people()) is pearl
    check_is_fitted(pearl)
    assert isinstance(pearl.release_, Release)
    assert isinstance(pearl.model_, Synthesizer)
    assert pearl.schema_ == SCHEMA
    assert pearl.statement_ == pearl.model_.statement
    assert len(pearl.sample(5, where={"b": "red"}, seed=2)) == 5


def test_a_label_apart_is_refused_before_rows_are_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out y"):
        quick(ledger=tmp_path / "l").fit(people(), people()["b"])  # type: ignore[arg-type]
    assert not (tmp_path / "l").exists()


def test_the_relation_is_the_recipes_unless_it_is_chosen() -> None:
    assert quick(relation="replace-one").fit(people()).release_.rows == 60
    with pytest.raises(UsageError, match="unknown relation 'replace_one'; did you mean 'replace-one'"):
        quick(relation="replace_one").fit(people())


def test_it_is_the_last_step_of_a_pipeline_that_looks_at_one_row_at_a_time() -> None:
    steps = Pipeline([("name", FunctionTransformer(lambda rows: rows.rename(columns={"A": "a"}))), ("pearl", quick())])
    fitted = clone(steps).set_params(pearl__seed=4).fit(people().rename(columns={"a": "A"}))
    assert fitted[-1].model_.training["seed"] == 4
    assert list(fitted[-1].sample(3).columns) == ["a", "b"]
    assert "PEARL" in steps._repr_html_()


def test_clones_share_a_ledger_that_pays_for_one_fit_alone(tmp_path: Path) -> None:
    """As folds or a search would do: without the ledger each would be a release of its own."""
    pearl = quick(ledger=tmp_path / "l")
    folds = [clone(pearl).set_params(seed=fold) for fold in range(3)]
    folds[0].fit(people())
    for fold in (*folds[1:], folds[0], pearl):
        with pytest.raises(BudgetError, match="budget exceeded"):
            fold.fit(people())
    assert len(read_ledger(tmp_path / "l").charges) == 1


# How values introduce themselves

EVIL = "<script>alert(1)</script>\x1b[31m\u202e[bold]$x$"


@pytest.fixture(scope="module")
def fitted() -> PEARL:
    columns: dict[str, Column] = {EVIL: Number(lower=0, upper=9), "b": Category(levels=(EVIL, "</td>"), missing=True)}
    rows = pa.table({EVIL: [4.25, 7.5] * 1000, "b": [EVIL, "</td>"] * 1000})
    return PEARL(Schema(columns=columns, label="b"), 3.0, recipe=FEW, settings=QUICK).fit(rows)


def consoled(value: Any, width: int = 200) -> str:
    written = io.StringIO()
    Console(file=written, width=width, force_terminal=True, color_system="truecolor").print(value)
    return written.getvalue()


def test_reprs_are_short_and_say_what_matters(fitted: PEARL) -> None:
    assert repr(SCHEMA) == str(SCHEMA) == "Schema(2 columns, label 'b')"
    asked = parse_declaration({"columns": {"a": {"kind": "number", "bounds": "estimate"}}})
    assert repr(asked) == "Declaration(1 column, 1 asked for)"
    assert repr(quick(seed=0)).startswith("PEARL(schema=Schema(2 columns, label 'b'), epsilon=10.0, recipe=Recipe(")
    assert repr(PEARL("s.toml", 1.0)) == "PEARL(schema='s.toml', epsilon=1.0)"
    assert repr(fitted.release_).startswith("Release(epsilon=3, delta=1e-05, one person (one row), present or absent, ")
    assert repr(fitted.model_) == f"Synthesizer(2 columns; {fitted.release_!r})"


def test_pages_and_consoles_show_names_and_never_obey_them(fitted: PEARL) -> None:
    for value in (fitted.schema_, fitted.release_, fitted.model_, fitted, PEARL(EVIL, 1.0)):
        page, told = value._repr_html_(), consoled(value)
        assert not re.search(r"<(?!/?(div|strong|table|tr|td)\b)", page), "no tag but our own"
        assert "alert(1)" in page
        for text in (page, told):
            assert "\x1b[31m" not in text
            assert "\u202e" not in text
        assert "[bold]" in told, "a name is no markup"


def test_cards_hold_what_is_public_and_no_cell(fitted: PEARL) -> None:
    card = html.unescape(fitted.release_._repr_html_())
    for known in ("(3, 1e-05)-differentially private", fitted.release_.digest, "one person (one row)", "auto"):
        assert known in card
    for value in (fitted, fitted.model_, fitted.release_, fitted.schema_):
        assert not re.search(r"4\.25|7\.5\b", value._repr_html_() + consoled(value) + repr(value))
    assert "not fitted yet" in PEARL("s.toml", 1.0)._repr_html_()
    assert "iterations 2" in fitted.model_._repr_html_()


def test_a_wide_schema_is_cut_short() -> None:
    wide = Schema(columns={f"n{place}": Number(lower=0, upper=1) for place in range(100)})
    page = wide._repr_html_()
    assert page.count("<tr>") == 25
    assert "and 76 more" in page
    assert "n99" not in page


def test_levels_and_bounds_are_told_in_words() -> None:
    page = SCHEMA._repr_html_()
    assert "0 to 100, step 1; may be missing" in page
    assert "category, the label" in page
    assert "red, blue" in page


# Networks of one's own


class Mine(nn.Module):
    """Two layers, a latent size of its own, and no business with dpearl but its axes."""

    latent = 3

    def __init__(self, axes: Axes) -> None:
        super().__init__()
        self.axes = axes
        self.net = nn.Sequential(nn.Linear(3 + axes.classes, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, axes.scores))

    def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
        known = nn.functional.one_hot(classes, self.axes.classes).to(latent)
        return self.axes.rows(self.net(torch.cat([latent, known], dim=1)))


@pytest.fixture(scope="module")
def release() -> Release:
    """Reds are small and never missing, blues large or missing: at this budget the noise hides nothing of it."""
    chance = np.random.default_rng(1)
    red = chance.random(2000) < 0.3
    ages = np.where(red, chance.integers(0, 20, 2000), chance.integers(70, 101, 2000)).astype(float)
    ages[~red & (chance.random(2000) < 0.4)] = np.nan
    rows = pd.DataFrame({"a": ages, "b": np.where(red, "red", "blue")})
    recipe = recipe_with(RECIPES["auto"], None, None, 60)
    return dpearl.release_rows(rows, Offer(SCHEMA, recipe, Budget(100.0, 1e-5)))


def mine(release: Release) -> Mine:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Mine(Axes.of(release))


@pytest.fixture(scope="module")
def own(release: Release) -> Synthesizer:
    settings = replace(TABLES, iterations=400, batch=200)
    return dpearl.fit(release, settings, device="cpu", generator=mine(release))


def test_a_network_of_ones_own_learns_what_a_release_tells(own: Synthesizer) -> None:
    made = own.sample(4000).to_pandas()
    assert 0.25 < (made["b"] == "red").mean() < 0.35
    assert made[made["b"] == "red"]["a"].mean() < 25
    assert made[made["b"] == "blue"]["a"].mean() > 65
    gaps = made["a"].isna().groupby(made["b"].astype(str)).mean()
    assert gaps["red"] < 0.1
    assert gaps["blue"] > 0.2
    assert own.training["generator"] == "Mine"


def test_the_users_module_stays_as_it_is_and_training_repeats_itself(release: Release) -> None:
    module = mine(release)
    before = copy.deepcopy(module.state_dict())
    first, second = (dpearl.fit(release, QUICK, device="cpu", generator=module).sample(20) for _ in range(2))
    assert first.equals(second)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_its_weights_are_saved_and_its_code_is_asked_for_again(own: Synthesizer, release: Release, tmp_path: Path) -> None:
    path = tmp_path / "m.dpearl"
    dpearl.save_synthesizer(own, path)
    fresh = mine(release)
    assert dpearl.load_synthesizer(path, generator=fresh).sample(50).equals(own.sample(50))
    _, arrays = read(path, MODEL)
    assert {name.split("/")[0] for name in arrays} == {"generator", "release"}
    with pytest.raises(FileError, match=r"own, 'Mine', and not its code.*generator="):
        dpearl.load_synthesizer(path)
    fresh.net = nn.Sequential(nn.Linear(5, Axes.of(release).scores))
    with pytest.raises(UsageError, match="weights do not fit this generator"):
        dpearl.load_synthesizer(path, generator=fresh)
    dpearl.save_synthesizer(dpearl.fit(release, QUICK, device="cpu"), tmp_path / "ours.dpearl")
    with pytest.raises(UsageError, match="was not trained with a network of your own"):
        dpearl.load_synthesizer(tmp_path / "ours.dpearl", generator=mine(release))


class Wrong(nn.Module):
    latent: Any = 2

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made

    def forward(self, latent: Tensor, classes: Tensor) -> Any:
        return self.made


def test_what_is_no_generator_is_told_what_it_lacks(release: Release) -> None:
    size = Axes.of(release).size
    assert size == 2, "a position, and whether it is missing; the label is given"
    for made, told in (
        (torch.zeros(8, 5), r"gives \(8, 5\) for 8 rows of 2 axes; return \(8, 2\)"),
        (None, "gives NoneType"),
        (torch.full((8, size), 1.5), r"must lie in \[0, 1\]"),
        (torch.full((8, size), torch.nan), r"must lie in \[0, 1\]"),
    ):
        with pytest.raises(UsageError, match=told):
            dpearl.fit(release, QUICK, generator=Wrong(made))
    nameless = Wrong(None)
    nameless.latent = None
    with pytest.raises(UsageError, match="whole number `latent`"):
        dpearl.fit(release, QUICK, generator=nameless)
    with pytest.raises(UsageError, match="is trained with Settings"):
        dpearl.fit(release, MIXTURE, generator=mine(release))


def test_counts_of_pairs_are_not_for_a_network() -> None:
    counted = dpearl.release_rows(people(), Offer(SCHEMA, RECIPES["auto"], Budget(10.0, 1e-5)))
    with pytest.raises(UsageError, match="release with frequencies"):
        dpearl.fit(counted, generator=mine(counted))


def test_rows_on_the_axes_go_back_to_the_codes_they_stand_for() -> None:
    codec = Codec(SCHEMA)
    axes = Axes(codec, 2)
    rows = torch.tensor([[0.3, 0.0], [0.0, 1.0], [0.45, 0.1], [0.1, 0.6]])
    made = codec.decode({**axes.codes(rows), "b": np.zeros(4, np.int64)})
    assert made["a"].to_pylist() == [30, None, 50, None]
