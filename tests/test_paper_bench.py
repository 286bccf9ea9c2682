"""The bench of the paper's tables: accounting as printed, what is run and kept, Credit's balance, what the page tells."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench import cache
from bench.auxiliary.parts import runs as auxiliary_runs
from bench.cache import Run, finished, place, work_off
from bench.paper import adult, complexity, credit, figure, images, page, power, printed, resolution, scales, tables
from bench.paper.__main__ import TABLES, main
from bench.paper.method import Made, Method, Task, make, printed_epsilon, printed_multiplier, renyi_epsilon
from bench.paper.targets import Target, targets, values
from bench.peers.plan import runs as peers_runs
from dp_accounting.dp_event import GaussianDpEvent
from dp_accounting.rdp import RdpAccountant

from dpearl.codec import Codec
from dpearl.coded import Coded, bin_count
from dpearl.design import embedding_design
from dpearl.privacy import Budget
from dpearl.schema import Number, Schema, parse_schema
from dpearl.settings import Omega, Settings
from dpearl.utility import paper_classifiers

# Accounting as printed


@pytest.mark.parametrize("mu", [0.05, 0.25, 1.0, 3.0])
def test_renyi_accounting_is_that_of_another_package(mu: float) -> None:
    oracle = RdpAccountant([1 + own for own in np.geomspace(0.01, 5000, 400)])
    oracle.compose(GaussianDpEvent(1 / mu))
    assert renyi_epsilon(mu, 1e-5) == pytest.approx(oracle.get_epsilon(1e-5), rel=1e-3)


def test_the_paper_s_noise_is_more_than_exact_composition_asks_for() -> None:
    assert printed_multiplier(1.0, 1e-5) == pytest.approx(5.72, abs=0.005)
    assert math.sqrt(2) / Budget(1.0, 1e-5).mu == pytest.approx(5.276, abs=0.005)
    assert printed_epsilon(1.0, 1e-5) == pytest.approx(0.915, abs=0.001)


def test_octaves_are_all_that_differs_from_ours() -> None:
    assert asdict(Method.OCTAVES.recipe) == {**asdict(Method.OURS.recipe), "octaves": 6, "reach": 12}
    assert (Method.OCTAVES.omega, Method.OCTAVES.budget(1.0)) == (Method.OURS.omega, Method.OURS.budget(1.0))


@pytest.mark.parametrize(("scale", "octaves"), [(20.0, 6), (64 / 12, 6), (1.0, math.log2(12)), (1 / 12, 0), (0.01, 0)])
def test_octaves_end_at_their_reach(scale: float, octaves: float) -> None:
    """However small the scale, no frequency is raised beyond what one of 12 radians would be."""
    recipe, plain = (replace(method.recipe, frequencies=2000) for method in (Method.OCTAVES, Method.OURS))
    assert recipe.octaves_above(scale) == pytest.approx(octaves)
    assert plain.octaves_above(scale) == 0
    schema = Schema(columns={"x": Number(lower=0, upper=1)})
    designs = (embedding_design(schema, own, scale, seed=0) for own in (recipe, plain))
    raised, flat = (abs(design.block("characteristic").arrays()["lines"]) for design in designs)
    ratio = raised[flat > 100] / flat[flat > 100]
    assert np.log2(ratio.max()) == pytest.approx(octaves, abs=0.05)


@pytest.mark.parametrize(("method", "share"), [(Method.PRINTED, 0.5), (Method.PRINTED_PLAIN, 0.5), (Method.OURS, 0.05)])
def test_as_printed_both_stages_get_the_same_noise(method: Method, share: float) -> None:
    """μ of the embedding is 1/5.72 as printed; ours is the larger one."""
    assert method.recipe.auxiliary_share == share
    embedding = math.sqrt(1 - share) * method.budget(1.0).mu
    assert embedding == pytest.approx(1 / 5.7207 if share == 0.5 else 1 / 3.8275, rel=1e-3)


# Methods

SCHEMA = parse_schema(
    {
        "label": "rich",
        "columns": {"age": {"kind": "number", "lower": 0, "upper": 100, "step": 1}, "rich": {"kind": "boolean"}},
    }
)


def task() -> Task:
    rich = np.random.default_rng(0).random(500) < 0.5
    rows = {"age": np.where(rich, 80, 20), "rich": rich}
    table = Coded.of(pa.table({name: pa.array(own) for name, own in rows.items()}), SCHEMA)
    return Task(SCHEMA, rows, table, 20, Settings(iterations=3, batch=50, generator_steps=1), 300)


@pytest.mark.parametrize("method", [method for method in Method if method not in (Method.DPGAN, Method.DPCGAN)])
def test_every_method_makes_rows_of_the_schema(method: Method) -> None:
    made = make(method, task(), 1.0, seed=0)
    assert isinstance(made, Made)
    assert len(made.rows) == (500 if method is Method.REAL else 300)
    assert set(made.rows.codes) == {"age", "rich"}


@pytest.mark.parametrize(
    ("method", "omega", "epsilon"),
    [(Method.OURS, Omega.SIGMA, 1.0), (Method.PLAIN, Omega.NONE, 1.0), (Method.PRINTED, Omega.SIGMA, 0.915)],
)
def test_a_method_trains_what_it_says(method: Method, omega: Omega, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpearl.train

    seen, real = [], dpearl.train.fit

    def watched(release: Any, settings: Any, *rest: Any, **more: Any) -> Any:
        seen.append((release, settings))
        return real(release, settings, *rest, **more)

    monkeypatch.setattr(dpearl.train, "fit", watched)
    make(method, task(), 1.0, seed=0)
    ((release, settings),) = seen
    assert settings.omega is omega
    assert release.epsilon == pytest.approx(epsilon, abs=0.001)
    assert release.embedding.design.block("characteristic").frequencies == 20


# Runs that are kept


def count_up(run: Run, log: str) -> Run:
    with open(log, "a") as file:
        file.write("x")
    return {"found": run["seed"] + 1}


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FOLDER", tmp_path)
    log, runs = tmp_path / "log", [{"bench": "trial", "seed": 0}, {"bench": "trial", "seed": 1}]
    for _ in range(2):
        found = [cache._finish(run, partial(count_up, log=str(log))) for run in runs]
        assert [run["found"] for run in found] == [1, 2]
    assert log.read_text() == "xx"
    assert finished([*runs, {"bench": "trial", "seed": 2}]) == found
    assert work_off(runs, count_up, 1) == found, "nothing is left, so nothing is started"  # type: ignore[arg-type]


def test_all_runs_have_places_of_their_own() -> None:
    runs = [run for listed, _ in TABLES.values() for run in listed()]
    assert len({place(run) for run in runs}) == len(runs)
    assert all(json.loads(json.dumps(run)) == run for run in runs)


def test_kept_runs_belong_to_a_run_that_is_listed() -> None:
    """A change of settings must take its old results along or away."""
    listed = {place(run).name for listed, _ in TABLES.values() for run in listed()}
    listed |= {place(run).name for run in [*peers_runs(), *auxiliary_runs()]}
    assert {path.name for path in cache.FOLDER.glob("*.json")} <= listed


def test_table_one_has_five_seeds_of_every_method() -> None:
    table = [run for run in images.runs() if run["epsilon"] == 1]
    assert len(table) == 5 * 7 * 2
    assert {(run["frequencies"], run["iterations"]) for run in table if run["data"] == "fashion" and "iterations" in run} == {
        (3000, 3000)
    }


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such table: table7"):
        main(["table7"])


def test_without_data_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPEARL_DATA", raising=False)
    with pytest.raises(SystemExit, match="DPEARL_DATA must name"):
        main(["adult"])


# Credit


def test_every_fraud_is_kept_and_half_a_percent_of_the_others() -> None:
    frauds = np.zeros(284_807, bool)
    frauds[::579] = True
    kept = credit.balanced(frauds)
    assert kept[frauds].all()
    assert kept[~frauds].mean() == pytest.approx(0.005, abs=4 * math.sqrt(0.005 / 284_807))


def test_balancing_is_row_local() -> None:
    """A row that becomes a fraud changes nothing about the others."""
    frauds = np.random.default_rng(1).random(5000) < 0.01
    changed = frauds.copy()
    changed[77] = not changed[77]
    assert np.flatnonzero(credit.balanced(frauds) != credit.balanced(changed)).tolist() in ([], [77])


def test_the_tenths_part_the_rows() -> None:
    folds = credit.folds(1933)
    assert sorted({*folds.tolist()}) == list(range(10))
    assert np.ptp(np.bincount(folds)) <= 1


# What the page tells


def test_cells_are_means_with_their_spread() -> None:
    assert page.spread([1.0, 2.0, 3.0], 2) == "2.00 ± 1.00"
    assert page.spread([0.75], 3, bare=True) == ".750"
    assert page.spread([], 2) == "–"
    assert page.line(["a", "b"]) == "| a | b |"


def learnt(method: Method, score: float, seed: int = 0) -> Run:
    scores = dict.fromkeys(paper_classifiers(), (score, score - 0.1))
    return {**tables.run("adult", method, seed), "scores": scores, "range": 0.1, "marginal": 0.5, "mmd": 1 - score, "cpu": 1.0}


def pictured(method: Method, fid: float, data: str = "mnist") -> Run:
    return {**images.run(data, method, 1.0, 0), "fid": fid, "kid": fid / 50, "cpu": 150.0}


def judged(claim: str, *runs: Run) -> Target:
    found = targets([run for run in runs if run["bench"] == "images"], [run for run in runs if run["bench"] == "tables"], [])
    return next(target for target in found if claim in target.claim)


def test_targets_are_judged_by_our_own_runs_alone() -> None:
    assert judged("mnist: FID", pictured(Method.OURS, 2.9)).holds
    assert judged("mnist: FID", pictured(Method.OURS, 3.1)).holds is False
    assert judged("mnist: FID", pictured(Method.PRINTED, 2.9)).holds is None
    assert judged("Adult: average ROC", learnt(Method.OURS, 0.74), learnt(Method.OURS, 0.70, seed=1)).holds is False
    assert judged("Adult: average PRC", learnt(Method.OURS, 0.73)).holds
    assert judged("Adult: average PRC at least 0.62: ours, octaves", learnt(Method.OCTAVES, 0.73)).holds
    assert judged("Adult: average PRC at least 0.62: as printed", learnt(Method.OCTAVES, 0.73)).holds is None


def test_a_baseline_must_be_beaten_in_every_cell() -> None:
    ours = [pictured(Method.OURS, 2.0), learnt(Method.OURS, 0.73)]
    assert judged("than DPCGAN", *ours, pictured(Method.DPCGAN, 9.0)).told == "in all 2"
    lost = judged("than DPCGAN", *ours, pictured(Method.DPCGAN, 1.9), learnt(Method.DPCGAN, 0.6))
    assert lost.holds is False
    assert lost.told == "not in mnist FID, mnist KID, Adult RANGE, Adult MARGINAL"


def test_octaves_are_judged_by_tables_alone() -> None:
    runs = [pictured(Method.MERF, 0.1), learnt(Method.MERF, 0.7), learnt(Method.OURS, 0.6)]
    found = judged("octaves better", *runs, learnt(Method.OCTAVES, 0.8) | {"range": 0.05})
    assert found.told == "not in Adult MARGINAL"


def test_the_critic_is_judged_by_the_geometric_mean_of_its_cells() -> None:
    """Twice as good on one set outweighs a fifth worse on the other."""
    critic = [pictured(Method.OURS, 2.4), pictured(Method.OURS, 1.0, "fashion")]
    found = judged("the critic", *critic, pictured(Method.PLAIN, 2.0), pictured(Method.PLAIN, 2.0, "fashion"))
    assert found.holds
    assert found.told == "0.77 of it"
    assert judged("the critic", pictured(Method.OURS, 2.4), pictured(Method.PLAIN, 2.0)).holds is False
    assert judged("the critic", *critic).holds is None


def test_averages_are_over_classifiers() -> None:
    assert values([learnt(Method.OURS, 0.7)], Method.OURS, "prc") == pytest.approx([0.6])


def test_the_page_is_whole_with_few_runs_and_with_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table stands there, and what is not measured is said to be so."""
    monkeypatch.setattr(page, "OUT", tmp_path)
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "runs")
    monkeypatch.setattr(images, "FOLDER", tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    page.write()
    assert "not measured" in (tmp_path / "paper.md").read_text()
    real = learnt(Method.REAL, 0.765) | {"shares": _shares()}
    for run in (real, learnt(Method.OURS, 0.731) | {"shares": _shares()}):
        named = tables.run("adult", Method(run["method"]), 0)
        cache.place(named).write_text(json.dumps(run))
    page.write()
    text = (tmp_path / "paper.md").read_text()
    assert "| Adult: average ROC at least 0.73: ours | 0.731 | 1 | holds |" in text
    assert "| LR | .788 | .765 |" in text
    assert (tmp_path / "adult.png").stat().st_size > 10_000
    assert all(len({row.count("|") for row in block}) == 1 for block in _blocks(text)), "every table is rectangular"


def _shares() -> dict[str, list[float]]:
    return {name: [1.0] + [0.0] * (bin_count(column) - 1) for name, column in Codec(adult.schema()).columns.items()}


def _blocks(text: str) -> list[list[str]]:
    """Runs of lines that belong to one table."""
    parts = [part.splitlines() for part in text.split("\n\n")]
    return [rows for part in parts if (rows := [row for row in part if row.startswith("|")])]


def test_the_readme_tells_what_the_page_tells() -> None:
    """After more runs, copy ours and the paper's."""
    readme = (Path(page.__file__).parents[2] / "README.md").read_text()
    told = re.search(r"on MNIST its own recipe has FID (.+) here,\s+where it printed (.+)\.", readme)
    assert told is not None
    short = (page.OUT / "paper.md").read_text().split("## In short\n\n")[1].split("\n\n")[0]
    cells = next(row for row in short.splitlines() if row.startswith("| MNIST, FID")).split(" | ")
    assert told.groups() == (cells[3].split(" / ")[0], cells[1].split(" / ")[0])


def test_the_paper_s_figures_name_the_classifiers_that_are_run() -> None:
    assert [*printed.ROC] == [*printed.PRC] == [*paper_classifiers(), printed.AVERAGE]


def test_growth_is_read_off_the_two_largest_sizes() -> None:
    assert complexity.exponent([9.0, 1.0, 2.0]) == pytest.approx(1)
    assert complexity.exponent([1.0, 1.0, 1.0]) == 0


def test_a_grid_of_samples_has_a_line_for_each_class(tmp_path: Path) -> None:
    stack = np.random.default_rng(0).integers(0, 256, (30, 28, 28)).astype(np.uint8)
    images.grid(stack, np.arange(30) % 5, tmp_path / "grid.png")
    assert figure._beside([tmp_path / "grid.png"] * 2, tmp_path / "both.png")
    assert not figure._beside([tmp_path / "none.png"], tmp_path / "both.png")


def test_the_second_table_of_scales_is_all_numbers() -> None:
    columns = scales.schema(scales.FEW_COLUMNS).columns
    assert [type(column) for column in columns.values()].count(Number) == len(columns) - 1 == scales.FEW_COLUMNS - 1
    assert people_spread() < 0.15, "narrow within its bounds, as Credit is"


def people_spread() -> float:
    rows = scales.people(scales.FEW_COLUMNS, 2000, seed=0).drop_columns("label")
    return float(np.mean([np.std(column.to_numpy()) / 12 for column in rows.columns]))


def test_powers_and_resolutions_are_listed_once() -> None:
    assert [run["dimensions"] for run in power.runs()] == [*power.DIMENSIONS]
    assert [run["seed"] for run in resolution.runs()] == list(range(5))


@pytest.mark.parametrize("scale", [scales.NORMAL, scales.SIX, scales.REACHING])
@pytest.mark.parametrize("columns", [scales.COLUMNS, scales.FEW_COLUMNS])
def test_frequencies_are_tried_on_rows_that_are_made_up(columns: int, scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short = Settings(iterations=2, batch=50, generator_steps=1)
    few = replace(scales.task(columns, 1000), frequencies=20, settings=short, wanted=500)
    monkeypatch.setattr(scales, "task", lambda columns, rows: few)
    found = scales.work({"columns": columns, "rows": 1000, "scale": scale, "seed": 0})
    assert {*found} == {"auc", "range", "marginal", "mmd"}
    assert 0 < found["auc"] < 1
