"""Sites that share their sums: shares tell nothing, the noise is enough without t of them, and what is lost is named."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpearl import RECIPES, Budget, load_release, parse_schema
from dpearl.embed import embed
from dpearl.errors import BudgetError, FileError, UsageError
from dpearl.ledger import read_ledger
from dpearl.noise import rounding_gap
from dpearl.owner import offer_for_sums, recipe_with, release_sums
from dpearl.privacy import Budget as Stated
from dpearl.privacy import Relation, Unit, covered
from dpearl.read import open_sources
from dpearl.sanitize import sanitize_part
from dpearl.sharing import joined, split
from dpearl.sites import (
    SHARE,
    Study,
    combine,
    load_share,
    load_study,
    open_release,
    plan_study,
    save_share,
    save_study,
    share_rows,
)

DPEARL = Path(sys.executable).parent / "dpearl"
SCHEMA = parse_schema(
    {
        "label": "y",
        "columns": {"x": {"kind": "number", "lower": 0, "upper": 1}, "y": {"kind": "boolean"}},
    }
)
RECIPE = recipe_with(RECIPES["auto"], None, None, 200)
SITES = ("north", "south", "west")


def rows(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table({"x": chance.random(count), "y": chance.random(count) < 0.3})


def study(dishonest: int = 1, epsilon: float = 1.0, **more: Any) -> Study:
    return plan_study(SCHEMA, RECIPE, Budget(epsilon, 1e-5), SITES, dishonest, 0, **more)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(1, 6))
def test_all_shares_together_are_the_secret_and_sums_of_shares_are_shares_of_sums(secret: list[int], count: int) -> None:
    values = np.array(secret, np.int64)
    assert joined(split(values, count)).view(np.int64).tolist() == secret
    both = [joined(pair) for pair in zip(split(values, count), split(values, count), strict=True)]
    assert joined(both).view(np.int64).tolist() == (values + values).tolist()


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_any_shares_but_one_are_uniform_whatever_the_secret(left_out: int) -> None:
    """Every byte of the others, and of their sum, is uniform (false alarm below 1e-5)."""
    chances = []
    for secret in (np.zeros(4000, np.int64), np.full(4000, 2**62, np.int64)):
        shares = [share for place, share in enumerate(split(secret, 3)) if place != left_out]
        for part in (*shares, joined(shares)):
            counts = np.bincount(np.frombuffer(part.tobytes(), np.uint8), minlength=256)
            chances.append(stats.chisquare(counts).pvalue)
        joint = np.bincount((shares[0] >> np.uint64(60)) * np.uint64(16) + (shares[1] >> np.uint64(60)), minlength=256)
        chances.append(stats.chisquare(joint).pvalue)
    assert min(chances) > 1e-6


def test_the_noise_of_honest_sites_alone_is_the_calibrated_noise() -> None:
    """Dishonest sites may add none: what the others add has the σ of the statement, not less and hardly more."""
    for dishonest in (0, 1, 2):
        agreed = study(dishonest)
        offer, nothing = agreed.offer, embed(open_sources(rows(0, 0)), agreed.design)
        sigmas = agreed.design.sigmas(offer.targets["embedding"], offer.unit)
        drawn = [
            sanitize_part(nothing, agreed.budget, offer.targets["embedding"], offer.unit, agreed.honest)["characteristic"]
            for _ in range(len(SITES) - dishonest)
        ]
        total = np.sum(drawn, axis=0).ravel() / sigmas["characteristic"]
        low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], total.size)
        assert low < float((total**2).sum()) < high
        assert stats.kstest(total, "norm").pvalue > 1e-6


def exact_gap(sigma: int, parts: int) -> float:
    """Total variation between a sum of rounded Gaussians and the rounded Gaussian with uniforms, by brute force."""
    reach = 12 * sigma * parts
    places = np.arange(-reach, reach + 1)
    single = np.diff(stats.norm.cdf(np.append(places - 0.5, reach + 0.5), scale=sigma))
    law = single
    for _ in range(parts - 1):
        law = np.convolve(law, single, "same")
    fine = 64
    grid = np.arange(-reach - 0.5 + 0.5 / fine, reach + 0.5, 1 / fine)
    density = stats.norm.pdf(grid, scale=sigma * math.sqrt(parts)) / fine
    box = np.full(fine + 1, 1 / fine)
    box[[0, -1]] /= 2
    for _ in range(parts - 1):
        density = np.convolve(density, box, "same")
    return float(np.abs(law - density.reshape(-1, fine).sum(axis=1)).sum() / 2)


def test_the_gap_bound_holds_where_the_gap_can_be_seen_and_vanishes_where_noise_is_real() -> None:
    assert exact_gap(1, 2) <= float(rounding_gap(1, 2))
    assert exact_gap(1, 3) <= float(rounding_gap(1, 3))
    assert exact_gap(4, 3) < 1e-5
    beta = 2 * math.exp(-(math.pi**2) / 2) / (1 - math.exp(-4 * math.pi**2))
    assert float(rounding_gap(1, 2)) == pytest.approx(257 / 2 * (2 * beta * (1 + beta) + beta))
    assert rounding_gap(16, 5) < arb("1e-500")
    assert rounding_gap(2**20, 100) < arb("1e-800")


def test_a_budget_that_does_not_cover_the_gap_is_refused() -> None:
    budget, none = Stated(1.0, 1e-5), arb(0)
    assert covered(budget, budget.mu, none)
    assert not covered(budget, budget.mu, arb("1e-9"))
    assert covered(budget, 0.99 * budget.mu, arb("1e-9"))
    agreed = study(epsilon=1e5)
    sums = embed(open_sources(rows(3, 0)), agreed.design)
    with pytest.raises(BudgetError, match="no room for noise in parts"):
        sanitize_part(sums, agreed.budget, agreed.offer.targets["embedding"], agreed.offer.unit, 2)


def shared(agreed: Study, tables: list[pa.Table]) -> Any:
    sent = [share_rows(table, agreed, site) for site, table in zip(agreed.sites, tables, strict=True)]
    combined = [combine(agreed, [shares[place] for shares in sent]) for place in range(len(agreed.sites))]
    return open_release(agreed, combined)


def test_the_shared_release_is_that_of_a_trusted_aggregator_up_to_noise() -> None:
    tables, agreed = [rows(500, seed) for seed in range(3)], study()
    made = shared(agreed, tables)
    whole = embed(open_sources(pa.concat_tables(tables)), agreed.design)
    trusted = release_sums(whole, offer_for_sums(whole, RECIPE, agreed.budget))
    assert made.embedding.sigmas == trusted.embedding.sigmas
    assert (made.unit, made.budget, made.rows) == (trusted.unit, trusted.budget, None)
    assert 0.999 < made.epsilon <= 1
    for family, exact in whole.sums.items():
        more = math.sqrt(3 / 2)
        score = (made.embedding.sums[family] - exact) / made.embedding.sigmas[family] / more
        low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], score.size)
        assert low < float((score**2).sum()) < high


def test_persons_may_be_at_every_site() -> None:
    people = SCHEMA.model_copy(update={"person": "who", "rows_per_person": 2})
    agreed = plan_study(people, RECIPE, Budget(1.0, 1e-5), SITES, 1, 0)
    assert agreed.offer.unit == Unit(Relation.ADD_REMOVE, 6)


def test_a_share_that_is_missing_doubled_or_foreign_is_named(tmp_path: Path) -> None:
    agreed, other = study(), study()
    sent = {site: share_rows(rows(5, 0), agreed, site) for site in SITES}
    to_north = [sent[site][0] for site in SITES]
    with pytest.raises(UsageError, match="share from site 'west' is missing"):
        combine(agreed, to_north[:2])
    with pytest.raises(UsageError, match="share from site 'north' is given twice"):
        combine(agreed, [*to_north, to_north[0]])
    with pytest.raises(UsageError, match="different sites"):
        combine(agreed, [*to_north[:2], sent["west"][1]])
    with pytest.raises(UsageError, match="another study"):
        combine(other, to_north)
    combined = [combine(agreed, [sent[site][place] for site in SITES]) for place in range(3)]
    with pytest.raises(UsageError, match="combined share of site 'south' is missing"):
        open_release(agreed, [combined[0], combined[2]])
    save_share(replace(to_north[0], values=to_north[0].values[1:]), tmp_path / "short")
    with pytest.raises(FileError, match="does not fit the study's design"):
        load_share(tmp_path / "short", agreed, SHARE)


def test_a_study_survives_its_file(tmp_path: Path) -> None:
    agreed = study(2)
    save_study(agreed, tmp_path / "study")
    back = load_study(tmp_path / "study")
    assert (back.sites, back.dishonest, back.honest, back.nonce) == (SITES, 2, 1, agreed.nonce)
    assert back.design.digest == agreed.design.digest
    assert back.offer.digest == agreed.offer.digest


@pytest.mark.parametrize(
    ("sites", "dishonest", "told"),
    [
        (("a",), 0, "two sites"),
        (("a", "a"), 0, "name of its own"),
        (("a", "b"), 2, "somebody must be honest"),
        (("a/b", "c"), 0, "slash"),
    ],
)
def test_a_study_that_cannot_hold_is_refused(sites: tuple[str, ...], dishonest: int, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan_study(SCHEMA, RECIPE, Budget(1.0, 1e-5), sites, dishonest, 0)


def test_sharing_protects_the_number_of_rows() -> None:
    with pytest.raises(UsageError, match="add-remove"):
        plan_study(SCHEMA, RECIPES["paper"], Budget(1.0, 1e-5), SITES, 1, 0)


TOML = 'label = "y"\n[columns.x]\nkind = "number"\nlower = 0\nupper = 1\n[columns.y]\nkind = "boolean"\n'


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([DPEARL, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_three_sites_go_from_rows_to_a_release_from_a_shell(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TOML)
    named = [word for site in SITES for word in ("--site", site)]
    run(tmp_path, "study", "--schema", "s.toml", "--epsilon", "100", "-k", "5", *named, "-o", "study")
    for seed, site in enumerate(SITES):
        csv.write_csv(rows(400, seed), tmp_path / f"{site}.csv")
        run(tmp_path, "embed", f"{site}.csv", "--study", "study", "--site", site, "--ledger", f"{site}.jsonl", "-o", site)
        assert len(read_ledger(tmp_path / f"{site}.jsonl").charges) == 1
        for share in (tmp_path / site).iterdir():
            assert share.stat().st_mode & 0o077 == 0
            assert b"PRIVATE" in share.read_bytes()
    for site in SITES:
        run(
            tmp_path,
            "merge",
            "--study",
            "study",
            *(f"{sender}/{sender}-to-{site}.share" for sender in SITES),
            "-o",
            f"{site}.sum",
        )
    assert not list(tmp_path.glob("*/*.share"))
    told = run(tmp_path, "merge", "--study", "study", *(f"{site}.sum" for site in SITES), "-o", "out.dpearl")
    assert "(100, 1e-05)-differentially private" in told
    assert not list(tmp_path.glob("*.sum"))
    made = load_release(tmp_path / "out.dpearl")
    assert made.embedding.noisy_rows == pytest.approx(1200, abs=20)


def test_a_site_alone_has_less_than_the_calibrated_noise() -> None:
    """Why its sums must never leave as anything but shares."""
    agreed = study(0)
    offer, nothing = agreed.offer, embed(open_sources(rows(0, 0)), agreed.design)
    sigma = agreed.design.sigmas(offer.targets["embedding"], offer.unit)["characteristic"]
    part = sanitize_part(nothing, agreed.budget, offer.targets["embedding"], offer.unit, 3)["characteristic"]
    assert part.std() == pytest.approx(sigma / math.sqrt(3), rel=0.2)
