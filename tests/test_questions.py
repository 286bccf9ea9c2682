"""What the owner asks for is answered under the budget, from noisy numbers alone, and whatever the rows are."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import dpearl
from dpearl import container, owner, tally
from dpearl.bounds import TAIL, span
from dpearl.codec import Codec, ModeFeature, Rows
from dpearl.design import RECIPES, asking
from dpearl.draft import draft, written
from dpearl.embeddings.levels import Levels, levels
from dpearl.embeddings.marginals import UNIT
from dpearl.embeddings.mixtures import Mixture, Mixtures, mixtures
from dpearl.embeddings.octaves import octaves
from dpearl.engines.local import Local
from dpearl.errors import DataError, FileError, SchemaError
from dpearl.ledger import read_ledger
from dpearl.measurement import Measurement
from dpearl.octaves import CELLS, cells_of, edges
from dpearl.owner import Offer, release_rows
from dpearl.plan import forecast
from dpearl.privacy import Budget, Relation, Unit, epsilon_of
from dpearl.questions import LOST, _with_bounds, shares
from dpearl.read import open_sources
from dpearl.release import load_release, save_release, to_parts
from dpearl.schema import (
    AskedCategory,
    AskedDatetime,
    AskedNumber,
    Category,
    Column,
    Datetime,
    Mode,
    Number,
    Schema,
    load_declaration,
    load_schema,
    parse_declaration,
)
from dpearl.statement import facts, privacy_statement

BUDGET = Budget(1.0, 1e-5)
ASKED: dict[str, Any] = {
    "wage": {"kind": "number", "bounds": "estimate"},
    "when": {"kind": "datetime", "bounds": "estimate", "step": "1d"},
    "job": {"kind": "category", "levels": "estimate", "other": "rest"},
    "rich": {"kind": "boolean"},
}
DECLARED = parse_declaration({"label": "rich", "columns": ASKED})
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def rows(count: int = 4000, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    days = np.datetime64("2021-03-01") + chance.integers(0, 60, count).astype("timedelta64[D]")
    jobs = [*chance.choice(["cook", "clerk"], count - 1), "the only beekeeper"]
    return pa.table(
        {
            "wage": np.exp(chance.normal(3, 1, count)),
            "when": pa.array(days).cast(pa.timestamp("us")),
            "job": jobs,
            "rich": chance.random(count) < 0.3,
        }
    )


def released(table: pa.Table, declared: Any = DECLARED, epsilon: float = 4.0) -> dpearl.Release:
    return release_rows(table, Offer(declared, RECIPES["auto"], Budget(epsilon, 1e-5)), engine=Local(1))


# The whole way


def test_answers_complete_the_schema_and_everything_after_uses_it() -> None:
    made = released(rows(), epsilon=10.0)
    assert list(made.answers) == ["bounds", "ranges", "levels"]
    assert list(made.stages) == ["auxiliary", "embedding"]
    wage, when, job = (made.schema.columns[name] for name in ("wage", "when", "job"))
    assert isinstance(wage, Number)
    assert wage.lower <= 4 < 200 <= wage.upper <= 4200
    assert isinstance(when, Datetime)
    assert datetime(2020, 1, 1) < when.lower <= datetime(2021, 3, 2) < datetime(2021, 4, 28) <= when.upper < datetime(2022, 6, 1)
    assert isinstance(job, Category)
    assert job.other == "rest"
    assert set(job.levels) == {"cook", "clerk"}
    assert all(stage.design.schema == made.schema for stage in made.stages.values())


def test_epsilon_is_the_total_with_the_delta_of_levels_taken_off() -> None:
    made = released(rows(300), epsilon=1.0)
    assert 0 < made.lost <= LOST * BUDGET.delta
    assert 0.999 < made.epsilon <= 1
    assert made.mu < BUDGET.mu
    offer = Offer(DECLARED, RECIPES["auto"], BUDGET)
    assert made.mu <= offer.mu <= Budget(1.0, BUDGET.delta - offer.lost).mu
    assert math.isclose(sum(offer.stages.values()), 1)


def test_the_cost_is_decided_before_a_row_is_read() -> None:
    """Shares, charge and digest hang on the questions alone."""
    offers = [Offer(DECLARED, RECIPES["auto"], BUDGET) for _ in range(2)]
    release_rows(rows(50), offers[0], engine=Local(1))
    assert offers[0].mu == offers[1].mu
    assert offers[0].digest == offers[1].digest
    assert shares(DECLARED).keys() == {"bounds", "ranges", "levels"}


def test_a_release_with_answers_comes_back_from_its_file(tmp_path: Path) -> None:
    made = released(rows(500))
    save_release(made, tmp_path / "r.dpearl")
    again = load_release(tmp_path / "r.dpearl")
    assert again.digest == made.digest
    assert again.declared == DECLARED
    assert again.schema == made.schema
    assert again.epsilon == made.epsilon


@pytest.mark.parametrize("stage", ["bounds", "levels"])
def test_a_schema_that_its_answers_do_not_say_is_refused(stage: str, tmp_path: Path) -> None:
    made = released(rows(3000))
    meta, arrays = to_parts(made)
    family = {"bounds": "octaves", "levels": "levels"}[stage]
    arrays[f"{stage}/noisy/{family}"] = (
        np.roll(arrays[f"{stage}/noisy/{family}"], 7) if stage == "bounds" else arrays["levels/noisy/levels"]
    )
    if stage == "levels":
        described = next(own for own in meta["answers"] if own["name"] == "levels")
        described["design"]["blocks"][0]["found"]["job"][0] = "astronaut"
    container.place_file(tmp_path / "r.dpearl", container.pack("dpearl-release", meta, arrays)[0])
    with pytest.raises(FileError, match="do not fit together"):
        load_release(tmp_path / "r.dpearl")


def test_a_threshold_that_lets_too_much_through_is_refused(tmp_path: Path) -> None:
    made = released(rows(500))
    block = made.answers["levels"].design.block("levels")
    assert isinstance(block, Levels)
    object.__setattr__(block, "threshold", block.threshold // 2)
    made.answers["levels"].design.__dict__.pop("digest", None)
    save_release(made, tmp_path / "r.dpearl")
    with pytest.raises(FileError, match="does not support the epsilon"):
        load_release(tmp_path / "r.dpearl")


@pytest.mark.parametrize("crash", ["ranges", "levels", "auxiliary", "embedding"])
def test_a_crash_between_stages_leaves_the_whole_charge_and_no_release(
    crash: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, passed = owner._read, []

    def failing(sources: Any, ask: Any, *others: Any) -> Any:
        if ask.stage == crash:
            raise MemoryError
        passed.append(ask.stage)
        return honest(sources, ask, *others)

    monkeypatch.setattr(owner, "_read", failing)
    offer, book = Offer(DECLARED, RECIPES["auto"], BUDGET), tmp_path / "ledger.jsonl"
    with pytest.raises(MemoryError):
        release_rows(rows(100), offer, book, engine=Local(1))
    assert passed
    (charge,) = read_ledger(book).charges
    assert (charge.mu, charge.lost, charge.plan) == (offer.mu, offer.lost, offer.digest)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.jsonl"]


def test_structural_errors_stop_before_anything_is_charged(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("wage,when,job,rich\n1,2020-01-01,a,true\n1,2\n")
    with pytest.raises(DataError):
        release_rows(tmp_path / "d.csv", Offer(DECLARED, RECIPES["auto"], BUDGET), tmp_path / "l.jsonl")
    assert not (tmp_path / "l.jsonl").exists()


EDGES = {
    "ten rows": lambda: rows(10),
    "one row": lambda: rows(1),
    "no rows": lambda: rows(1).slice(0, 0),
    "all missing": lambda: pa.table({name: pa.nulls(500, rows(1).schema.field(name).type) for name in rows(1).column_names}),
    "constants": lambda: pa.table(
        {**{name: rows(1)[name].take([0] * 900) for name in rows(1).column_names}, "wage": [7.0] * 900}
    ),
    "all different": lambda: rows(600).set_column(2, "job", pa.array([f"text {place}" for place in range(600)])),
    "extreme": lambda: rows(600).set_column(0, "wage", pa.array([math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324] * 100)),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_whatever_the_rows_are_there_is_a_valid_release(name: str, recipe: str, tmp_path: Path) -> None:
    table = EDGES[name]()
    offer = Offer(DECLARED, owner.recipe_with(RECIPES[recipe], None, None, 8), BUDGET)
    made = release_rows(table, offer, engine=Local(1))
    save_release(made, tmp_path / "r.dpearl")
    assert load_release(tmp_path / "r.dpearl").digest == made.digest
    found = made.schema.columns["job"]
    assert isinstance(found, Category)
    if name == "constants":
        assert len(found.levels) == 1
    else:
        assert found.levels == () if name != "extreme" else set(found.levels) <= {"cook", "clerk"}
    assert "text" not in privacy_statement(made)


# Bounds


@given(st.lists(FINITE, min_size=1, max_size=30))
def test_every_number_lies_in_its_octave(values: list[float]) -> None:
    for value, cell in zip(values, cells_of(np.array(values)).tolist(), strict=True):
        low, high = edges(cell)
        assert 0 <= cell < CELLS
        if 2.0**-128 <= abs(value) < 2.0**128 or value == 0:
            assert low <= value <= high


@settings(max_examples=300)
@given(
    FINITE,
    FINITE,
    st.none() | st.sampled_from([1.0, 0.01, 1e-9, 1000.0]),
    st.booleans(),
    st.sampled_from(["", "lower", "upper"]),
    FINITE,
)
def test_whatever_noise_answers_the_column_is_valid(
    one: float, other: float, step: float | None, log: bool, known: str, end: float
) -> None:
    low, high = sorted(float(np.clip(value, -(2.0**128), 2.0**128)) for value in (one, other))
    try:
        asked = AskedNumber(bounds="estimate", step=step, log=log, **({known: end} if known else {}))  # type: ignore[arg-type]
    except ValueError:
        return
    for exact in (True, False):
        made = _with_bounds(asked, low, high, exact)
        assert isinstance(made, Number)
        if not known and not log:
            assert made.lower <= low * (1 + 1e-12) + 1e-300 or made.lower <= low
            assert made.upper >= high or math.isclose(made.upper, high, rel_tol=1e-9)
        Codec(Schema(columns={"x": made})).columns["x"].encode(pa.array([low, high, 0.0, None]))


@given(FINITE, FINITE, st.sampled_from(["1us", "1s", "7d", "999999d"]))
def test_whatever_noise_answers_a_moment_is_valid(one: float, other: float, step: str) -> None:
    low, high = sorted((one, other))
    made = _with_bounds(AskedDatetime(bounds="estimate", step=step), low, high)
    assert isinstance(made, Datetime)


def test_nothing_is_seen_where_there_is_nothing_but_noise() -> None:
    chance = np.random.default_rng(0)
    assert sum(span(chance.normal(0, 30, CELLS), 30) is not None for _ in range(300)) <= 1


def test_a_few_values_far_out_do_not_widen_bounds() -> None:
    counts = np.zeros(CELLS)
    counts[260:264], counts[400] = 100_000, 0.5 * TAIL * 400_000
    found = span(counts, 5.0)
    assert found is not None
    assert (found.low, found.high) == (260, 263)


def test_a_declared_end_stays_and_the_other_is_found() -> None:
    declared = DECLARED.with_columns({"wage": AskedNumber(bounds="estimate", lower=0)})
    made = released(rows(), declared).schema.columns["wage"]
    assert isinstance(made, Number)
    assert made.lower == 0
    assert 128 <= made.upper <= 4200


# Levels


def design_of(columns: int = 1, delta: float = 1e-6) -> Any:
    asked = {f"c{place}": {"kind": "category", "levels": "estimate"} for place in range(columns)}
    return asking(parse_declaration({"columns": asked}), levels, delta=delta)


@given(st.integers(1, 30), st.integers(1, 9), st.floats(1e-12, 0.2), st.floats(0.5, 200.0))
def test_the_threshold_keeps_what_one_person_brings_below_delta(rows: int, columns: int, delta: float, noise: float) -> None:
    """Against every way to spread a person's rows over new texts, by an independent formula."""
    unit, sigma = Unit(Relation.ADD_REMOVE, rows), round(noise * UNIT)
    block = design_of(columns, delta).block("levels").passing(sigma, unit)
    few = block.few(sigma)

    def passes(own: int) -> float:
        return float(norm.sf((block.threshold - (few + own) * UNIT - 0.5) / sigma))

    spreads = [
        [rows],
        [1] * rows,
        [rows - rows // 2, rows // 2],
        [rows - 1, 1],
        *([k] * (rows // k) for k in (2, 3, 5) if k <= rows),
    ]
    worst = columns * max(sum(passes(own) for own in spread if own) for spread in spreads)
    assert worst <= block.lost(sigma, unit) * (1 + 1e-9) <= delta * (1 + 1e-9)
    assert block.threshold - few * UNIT >= rows * UNIT


@pytest.mark.parametrize("relation", Relation)
def test_all_parts_together_cost_what_privacy_loss_distributions_say(relation: Relation) -> None:
    """Gaussian parts and the δ of levels, composed by dp-accounting: the stated δ is an upper bound, and a tight one."""
    made = release_rows(
        rows(200), Offer(DECLARED, owner.recipe_with(RECIPES["auto"], relation, None, None), BUDGET), engine=Local(1)
    )
    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4) for mu in made.mus.values()
    ]
    parts.append(privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(0.0, made.lost)))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    spent = whole.get_delta_for_epsilon(made.budget.epsilon)
    assert 0.97 * BUDGET.delta < spent <= 1.005 * BUDGET.delta, "dp-accounting rounds losses up to its grid"
    assert whole.get_epsilon_for_delta(BUDGET.delta) == pytest.approx(made.epsilon, rel=2e-3)


def texts_of(cells: Any, few: int = 0) -> dict[str, int]:
    design = asking(parse_declaration({"columns": {"x": {"kind": "category", "levels": "estimate"}}}), levels, delta=1e-6)
    return dict(tally.tally(open_sources(pa.table({"x": cells})), design, ["x"], few).counts["x"])


def test_texts_are_counted_as_the_codec_reads_them() -> None:
    cells = [" a ", "a", "7", "7.0", "", "NA", None, "nan", "\u00a0b", "x" * 300, "b"]
    assert texts_of(cells) == {"a": 2, "7": 2, "b": 1}
    assert texts_of([1.0, 2.5, None, 1.0]) == {"1": 2, "2.5": 1}
    assert texts_of([True, False, None]) == {"true": 1, "false": 1}
    assert texts_of(cells, few=1) == {"a": 2, "7": 2}


def test_text_that_is_no_utf8_is_never_a_level() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xffa")])
    assert texts_of(broken) == {"a": 1}


def test_counts_are_exact_however_few_texts_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [f"text {place % 700}" for place in range(3000)]
    whole = texts_of(cells)
    monkeypatch.setattr(tally, "_MOST", 50)
    assert texts_of(cells) == whole
    assert len(whole) == 700


def test_ten_thousand_levels_are_found() -> None:
    cells = np.repeat([f"place {place}" for place in range(10_000)], 40)
    declared = parse_declaration({"columns": {"x": ASKED["job"], "y": {"kind": "boolean"}}})
    made = released(pa.table({"x": cells, "y": np.ones(len(cells), bool)}), declared, epsilon=60.0)
    assert len(made.schema.columns["x"].levels) > 9_990  # type: ignore[union-attr]


def test_the_order_of_levels_tells_nothing_of_the_rows() -> None:
    """Only noisy counts and texts decide on it, not the place where a text was met first."""
    made = released(pa.table({**{name: rows()[name] for name in ("wage", "when", "rich")}, "job": ["z"] * 1000 + ["a"] * 3000}))
    noisy = made.answers["levels"].sums["levels"]
    assert list(noisy) == sorted(noisy, reverse=True)
    assert made.schema.columns["job"].levels == ("a", "z")  # type: ignore[union-attr]


def test_a_persons_rows_are_bounded_before_texts_are_counted() -> None:
    declared = parse_declaration({"person": "who", "columns": {"x": ASKED["job"], "y": {"kind": "boolean"}}})
    table = pa.table({"x": ["mine"] * 5000, "y": [True] * 5000, "who": [1] * 5000})
    assert released(table, declared).schema.columns["x"].levels == ()  # type: ignore[union-attr]


# Modes


THREE = ((20.0, 3.0, 0.3), (50.0, 5.0, 0.45), (80.0, 2.0, 0.25))


def modal_rows(count: int = 30_000, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    mean, spread, weight = np.array(THREE).T
    own = chance.choice(3, count, p=weight)
    return pa.table({"x": chance.normal(mean[own], spread[own]), "y": chance.random(count) < 0.5})


@pytest.mark.parametrize("asked", [3, "estimate"])
def test_modes_are_found_by_noisy_rounds(asked: int | str) -> None:
    declared = parse_declaration(
        {"columns": {"x": {"kind": "number", "lower": 0, "upper": 100, "modes": asked}, "y": {"kind": "boolean"}}}
    )
    budget = Budget(1.0 if asked == 3 else 10.0, BUDGET.delta)
    made = release_rows(
        modal_rows(), Offer(declared, owner.recipe_with(RECIPES["paper"], None, None, 8), budget), engine=Local(1)
    )
    assert list(made.answers) == ["shapes", "modes 1"]
    found = made.schema.columns["x"].modes  # type: ignore[union-attr]
    assert isinstance(found, tuple)
    table = np.array([(mode.mean, mode.spread, mode.weight) for mode in found])
    assert np.abs(table / np.array(THREE) - 1).max(axis=0) == pytest.approx(0, abs=0.12)
    assert made.epsilon <= budget.epsilon


def test_counts_need_no_modes_so_none_are_asked_for() -> None:
    declared = parse_declaration(
        {"columns": {"x": {"kind": "number", "lower": 0, "upper": 100, "modes": 3}, "y": {"kind": "boolean"}}}
    )
    offer = Offer(declared, RECIPES["auto"], BUDGET)
    assert offer.stages.keys() == {"auxiliary", "embedding"}
    assert offer.asked.questions == []


@st.composite
def mixture_blocks(draw: st.DrawFn) -> Mixtures:
    size = draw(st.integers(1, 4))
    part = st.floats(1e-3, 1.0)
    table = np.array([[draw(st.floats(0, 1)) for _ in range(size)], *([draw(part) for _ in range(size)] for _ in range(2))])
    codec = Codec(Schema(columns={"x": Number(lower=0, upper=1)}))
    return mixtures(codec, 1.0, {"x": Mixture(table)})


@settings(max_examples=150, deadline=None)
@given(mixture_blocks(), st.integers(0, 2**16 + 1), st.integers(0, 2**16 + 1))
def test_no_row_moves_the_statistics_of_modes_farther_than_stated(block: Mixtures, one: int, other: int) -> None:
    def added(code: int) -> NDArrayInt:
        none = np.zeros((1, 0))
        return block.sum(Rows(np.zeros(1, np.int64), none.astype(np.uint16), none.astype(np.int64), {"x": np.array([code])}))

    alone, changed = int((added(one) ** 2).sum()), int(((added(one) - added(other)) ** 2).sum())
    assert alone <= block.sensitivity2(Relation.ADD_REMOVE, True)
    assert changed <= block.sensitivity2(Relation.REPLACE_ONE, True)


NDArrayInt = np.ndarray[Any, np.dtype[np.int64]]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 12])
def test_what_a_row_adds_to_modes_hangs_on_no_other_row(size: int) -> None:
    """`exp` and the sums over modes are floats: a row must add the same in any company, or it would move others'."""
    chance = np.random.default_rng(size)
    made = Mixture(np.stack([chance.random(size), chance.uniform(2**-11, 0.3, size), chance.uniform(0.01, 1, size)]))
    points = np.arange(2**16) / (2**16 - 1)
    together = made.row_map(points)
    for _ in range(300):
        company = np.sort(chance.choice(2**16, chance.integers(1, 40), replace=False))
        assert np.array_equal(made.row_map(points[company]), together[company])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats() | st.none(), min_size=1, max_size=2), st.lists(st.floats() | st.none(), min_size=1, max_size=1))
def test_no_value_however_extreme_moves_octaves_farther_than_stated(one: list[float | None], other: list[float | None]) -> None:
    declared = parse_declaration({"columns": {name: {"kind": "number", "bounds": "estimate"} for name in ("a", "b")}})
    design = asking(declared, octaves)
    block = design.block("octaves")

    def added(cells: list[float | None]) -> NDArrayInt:
        table = pa.table({name: pa.array(cells[:1], pa.float64()) for name in ("a", "b")})
        return block.sum(design.codec.rows(design.codec.encode(table)))

    assert int((added(one) ** 2).sum()) == block.sensitivity2(Relation.ADD_REMOVE, True)
    assert int(((added(one) - added(other)) ** 2).sum()) <= block.sensitivity2(Relation.REPLACE_ONE, True)


@given(st.lists(st.floats(-50, 150) | st.none(), min_size=1, max_size=20), st.sampled_from([None, 1.0]))
def test_a_number_with_modes_comes_back_from_its_features(values: list[float | None], step: float | None) -> None:
    modes = tuple(Mode(mean=mean, spread=spread, weight=weight) for mean, spread, weight in THREE)
    column = Number(lower=0, upper=100, step=step, spikes=(33,), modes=modes, missing=True)
    codec = Codec(Schema(columns={"x": column}))
    codes = codec.columns["x"].encode(pa.array(values, pa.float64()))
    features = {}
    for name, feature in codec.features.items():
        positions = feature.coordinate(codes) / max(feature.top, 1)
        features[name] = feature.code(positions, feature.level(codes))
    again = codec.joined(features)["x"]
    mode = next(feature for feature in codec.features.values() if isinstance(feature, ModeFeature))
    inside = (mode.level(codes) >= 3) | (
        np.abs(mode.frames.places(mode.number.plain(codes), np.minimum(mode.level(codes), 2)) - 0.5) < 0.499
    )
    assert np.abs(again - codes)[inside].max(initial=0) <= 1
    assert (again == codes)[mode.level(codes) >= 3].all()
    rows = codec.rows({"x": codes})
    assert rows.levels.shape == (len(values), 2)
    assert rows.coordinates.shape == (len(values), 1)


# What people read and write


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"kind": "number", "bounds": "guess"}, 'must be "estimate"'),
        ({"kind": "category", "levels": "guess"}, 'must be "estimate"'),
        ({"kind": "number", "bounds": "estimate", "lower": 0, "upper": 1}, "both are declared"),
        ({"kind": "number", "bounds": "estimate", "log": True, "lower": 0}, "log = true needs"),
        ({"kind": "number", "bounds": "estimate", "step": -1}, "step must be"),
        ({"kind": "datetime", "bounds": "estimate", "step": "soon"}, "step must be"),
        ({"kind": "category", "levels": "estimate", "other": " "}, "other must not be empty"),
        ({"kind": "number", "lower": 0, "upper": 1, "modes": 1}, "from 2 to 12"),
        ({"kind": "number", "lower": 1, "upper": 2, "log": True, "modes": 2}, "plain line"),
        ({"kind": "boolean", "bounds": "estimate"}, "unknown kind"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_reason(column: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_declaration({"columns": {"x": column}})
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_all_must_be_known_an_open_question_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[columns.x]\nkind = "number"\nbounds = "estimate"\n[columns.y]\nkind = "boolean"\n')
    assert load_declaration(tmp_path / "s.toml").questions == ["x.bounds"]
    with pytest.raises(SchemaError, match=r"x\.bounds.*dpearl release.*dpearl schema RELEASE"):
        load_schema(tmp_path / "s.toml")


def test_a_completed_schema_is_written_down_and_read_again(tmp_path: Path) -> None:
    modes = (Mode(mean=1.5, spread=0.1, weight=0.5), Mode(mean=3, spread=0.25, weight=0.5))
    columns: dict[str, Column] = {
        'a "quoted"\nname': Number(lower=-1e-9, upper=12345.678, modes=modes, spikes=(0,)),
        "b": Category(levels=("tab\t", "ünï", 'q"uote', "\x7f"), other="rest", missing=True),
        "c": Category(levels=(), other="other"),
        "d": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1, 12), step="15min"),
        "e": Number(lower=0, upper=9, step=1),
    }
    known = Schema(label="b", columns=columns, rows_per_person=3, person="who")
    (tmp_path / "s.toml").write_text(written(known), encoding="utf-8")
    assert load_schema(tmp_path / "s.toml") == known


def test_a_draft_that_asks_for_everything_can_be_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(draft(open_sources(rows(20)), estimate=True))
    declared = load_declaration(tmp_path / "s.toml")
    assert declared.questions == ["wage.bounds", "when.bounds", "job.levels"]
    made = released(rows(200), declared)
    assert load_schema_text(written(made.schema), tmp_path) == made.schema


def load_schema_text(text: str, folder: Path) -> Schema:
    (folder / "again.toml").write_text(text, encoding="utf-8")
    return load_schema(folder / "again.toml")


def test_the_plan_tells_what_each_question_costs() -> None:
    told = forecast(Offer(DECLARED, RECIPES["auto"], BUDGET), 30_000)
    assert told.asked == {"bounds": 2, "levels": 1}
    stages = Offer(DECLARED, RECIPES["auto"], BUDGET).stages
    share = stages["bounds"] + stages["ranges"]
    assert told.costs["bounds"] == pytest.approx(math.sqrt(1 + share / stages["embedding"]) - 1)
    assert told.costs["modes"] == 0
    assert told.lines[-1].stage == "embedding"


def test_the_statement_tells_what_was_asked_and_answered() -> None:
    made = released(rows())
    text = privacy_statement(made)
    alone = facts(made)["stages"]
    assert alone["levels"]["epsilon_alone"] == epsilon_of(made.mus["levels"], BUDGET.delta - made.lost)
    assert alone["bounds"]["epsilon_alone"] == epsilon_of(made.mus["bounds"], BUDGET.delta)
    assert "Asked of the rows" in text
    assert "job.levels: 2 found" in text
    assert "wage.bounds: " in text
    assert "one person alone carries shows with probability at most" in text
    assert "beekeeper" not in text


def test_blank_measurements_answer_with_valid_columns() -> None:
    """What a plan is made of: nothing was seen."""
    offer = Offer(DECLARED, RECIPES["auto"], BUDGET)
    assert offer.inquiries.keys() == {"bounds", "ranges", "levels"}
    assert isinstance(offer.sketch["embedding"].schema, Schema)
    first = offer.inquiries["bounds"]
    blank = Measurement(first, {"octaves": np.zeros(first.blocks[0].shape, np.int64)}, {"octaves": 1})
    assert blank.design.schema == DECLARED


def test_asked_columns_are_what_they_say() -> None:
    assert isinstance(DECLARED.columns["job"], AskedCategory)
    assert not isinstance(DECLARED, Schema)
