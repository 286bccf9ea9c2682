"""μ ↔ (ε, δ) is exact, composition is exact, and no rounding ever promises too much."""

from __future__ import annotations

import math

import pytest
from dp_accounting import pld
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpearl.design import RECIPES, Design, Recipe, Scale, auxiliary_design, embedding_design
from dpearl.errors import BudgetError, UsageError
from dpearl.owner import Offer, recipe_with
from dpearl.privacy import Budget, Relation, Unit, compose, epsilon_of
from dpearl.schema import parse_schema

NUMBER, BOOLEAN = {"kind": "number", "lower": 0, "upper": 1}, {"kind": "boolean"}
SCHEMA = parse_schema({"label": "y", "columns": {"x": NUMBER, "y": BOOLEAN, "z": BOOLEAN}})
BUDGETS = st.builds(Budget, st.floats(-2, 1.3).map(lambda power: 10**power), st.floats(-12, -2).map(lambda power: 10**power))
UNITS = st.builds(Unit, st.sampled_from(Relation), st.integers(1, 1000))


def true_delta(mu: float, epsilon: float) -> float:
    """Balle & Wang 2018, Theorem 8, in plain floats."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def recipe(relation: Relation, frequencies: int = 50) -> Recipe:
    return recipe_with(RECIPES["auto"], relation, None, frequencies)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e-7, 1e7])
def test_an_epsilon_without_meaning_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match="epsilon must be"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf])
def test_a_delta_outside_zero_and_one_is_refused(delta: float) -> None:
    with pytest.raises(BudgetError, match="delta must lie"):
        Budget(1.0, delta)


@pytest.mark.parametrize("rows", [0, -3, math.nan])
def test_rows_per_person_below_one_are_refused(rows: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Unit(Relation.ADD_REMOVE, rows)


def test_the_known_figures_come_out() -> None:
    one = 1 / Budget(1.0, 1e-5).mu
    assert one == pytest.approx(3.7306, abs=5e-5)
    assert math.sqrt(2) * one == pytest.approx(5.276, abs=5e-4)


@given(BUDGETS)
@settings(max_examples=60, deadline=None)
def test_mu_there_and_back_uses_the_budget_and_never_more(budget: Budget) -> None:
    back = epsilon_of(budget.mu, budget.delta)
    assert back <= budget.epsilon
    assert back >= budget.epsilon * (1 - 1e-9)
    assert epsilon_of(math.nextafter(budget.mu, 1e9) * (1 + 1e-9), budget.delta) > budget.epsilon


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("delta", [1e-300, 1e-15, 0.5])
def test_extreme_budgets_are_answered_safely(epsilon: float, delta: float) -> None:
    """In floats the two terms of the formula cancel here, and dp-accounting finds δ = 0 where it is not."""
    budget = Budget(epsilon, delta)
    assert budget.mu > 0
    assert epsilon_of(budget.mu, delta) <= epsilon


@given(st.floats(1e-3, 20), st.floats(-12, -1).map(lambda power: 10**power))
@settings(max_examples=60, deadline=None)
def test_epsilon_agrees_with_dp_accounting(mu: float, delta: float) -> None:
    assert epsilon_of(mu, delta) == pytest.approx(get_epsilon_gaussian(1 / mu, delta), rel=1e-8, abs=1e-8)


def test_epsilon_grows_with_mu_from_nothing_to_beyond_meaning() -> None:
    found = [epsilon_of(mu, 1e-5) for mu in (0.0, 1e-9, 0.01, 0.1, 1, 10, 1e3, 1e9)]
    assert found == sorted(found)
    assert found[:2] == [0.0, 0.0]
    assert found[-1] == math.inf
    assert epsilon_of(math.nan, 1e-5) == math.inf, "what is unknown protects nothing"


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 3, 10])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("releases", [1, 2, 5])
def test_composition_agrees_with_the_privacy_loss_distribution(epsilon: float, delta: float, releases: int) -> None:
    """An independent accountant that knows nothing of μ: it composes the privacy losses numerically."""
    each = Budget(epsilon, delta).mu / math.sqrt(releases)
    ours = epsilon_of(compose([each] * releases), delta)
    loss = pld.privacy_loss_distribution.from_gaussian_mechanism(1 / each, value_discretization_interval=1e-4)
    theirs = loss.self_compose(releases).get_epsilon_for_delta(delta)
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert ours <= theirs + 1e-9, "the distribution is rounded up, the formula is exact"


def test_composition_of_nothing_costs_nothing_and_is_rounded_up() -> None:
    assert compose([]) == 0.0
    assert compose([3.0, 4.0]) == math.nextafter(5.0, 6.0)


def test_the_classical_formula_breaks_its_promise_at_ten_and_ours_keeps_it() -> None:
    epsilon, delta = 10.0, 1e-5
    classical = epsilon / math.sqrt(2 * math.log(1.25 / delta))
    assert true_delta(classical, epsilon) == pytest.approx(2.27e-5, rel=0.01)
    assert true_delta(Budget(epsilon, delta).mu, epsilon) <= delta * (1 + 1e-9)


def designs(relation: Relation) -> list[Design]:
    chosen = recipe(relation)
    return [auxiliary_design(SCHEMA, chosen), embedding_design(SCHEMA, chosen, 1.0, 0)]


@given(BUDGETS, UNITS)
@settings(max_examples=60, deadline=None)
def test_integer_noise_is_never_below_what_was_calibrated(budget: Budget, unit: Unit) -> None:
    for design in designs(unit.relation):
        sigmas = design.sigmas(budget.mu, unit)
        wanted = design.sensitivity(unit) / budget.mu
        for block in design.blocks:
            calibrated = wanted * math.sqrt(block.norm2) / block.weight
            assert calibrated <= sigmas[block.family] <= calibrated + 2
        seen = epsilon_of(design.mu(sigmas, unit), budget.delta)
        assert budget.epsilon - 1e-3 * max(budget.epsilon, 1) <= seen <= budget.epsilon


@given(BUDGETS, UNITS)
@settings(max_examples=40, deadline=None)
def test_an_offer_costs_its_budget_and_no_more(budget: Budget, unit: Unit) -> None:
    schema = SCHEMA.with_rows_per_person(unit.rows_per_person)
    for chosen in (recipe(unit.relation, 8), recipe_with(RECIPES["auto"], unit.relation, Scale.PUBLIC, 8)):
        offer = Offer(schema, chosen, budget)
        assert offer.unit == unit
        spent = epsilon_of(offer.mu, budget.delta)
        assert budget.epsilon - 1e-3 * max(budget.epsilon, 1) <= spent <= budget.epsilon


def test_m_rows_per_person_need_m_times_the_noise() -> None:
    for relation in Relation:
        for design in designs(relation):
            assert design.sensitivity(Unit(relation, 7)) == pytest.approx(7 * design.sensitivity(Unit(relation)), rel=1e-12)


def test_the_unit_says_whom_it_protects() -> None:
    assert str(Unit(Relation.ADD_REMOVE)) == "one person (one row), present or absent"
    assert str(Unit(Relation.REPLACE_ONE, 3)) == "one person (up to 3 rows), as they are or replaced by others"
