"""The comparison with peers: what they are told, how they are stopped and what is said of them. No peer is installed here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from bench import cache
from bench.generated import World
from bench.paper import adult as balanced
from bench.peers import child, lines, page, plan
from bench.peers.child import Failed, Made
from bench.peers.domains import dpmm_domain, smartnoise_domain
from bench.peers.drivers.gauge import measured
from bench.peers.judge import boosting, classifiers, distances, plain
from bench.peers.methods import AUTO, METHODS, REAL, ROOT
from bench.peers.targets import target_lines
from bench.peers.work import write_job
from bench.tables import Table, credit_schema

from dpearl.coded import Coded
from dpearl.datasets import adult_schema
from dpearl.schema import Number, parse_schema

SCHEMA = parse_schema(
    {
        "label": "rich",
        "columns": {
            "age": {"kind": "number", "lower": 17, "upper": 90, "step": 1},
            "gain": {"kind": "number", "lower": 0, "upper": 99999, "step": 1, "spikes": [0], "missing": True},
            "pay": {"kind": "number", "lower": 0.5, "upper": 10, "log": True},
            "job": {"kind": "category", "levels": ["a", "b"], "missing": True},
            "rich": {"kind": "boolean"},
        },
    }
)
WORLD = World(columns=11)


def test_dpmm_is_told_bounds_and_categories_and_which_numbers_are_whole() -> None:
    assert dpmm_domain(SCHEMA) == {
        "age": {"type": "int64", "lower": 17, "upper": 90},
        "gain": {"type": "float64", "lower": 0, "upper": 99999},  # pandas has no missing int64
        "pay": {"type": "float64", "lower": 0.5, "upper": 10.0},
        "job": {"type": "category", "categories": ["a", "b"]},
        "rich": {"type": "category", "categories": [False, True]},
    }


def test_smartnoise_is_told_levels_of_small_whole_numbers_and_bins_of_others() -> None:
    assert smartnoise_domain(SCHEMA) == {
        "age": {"levels": [*range(17, 91)], "missing": False},
        "gain": {"lower": 0, "upper": 99999, "bins": 20, "missing": True},
        "pay": {"lower": 0.5, "upper": 10.0, "bins": 20, "missing": False},
        "job": {"levels": ["a", "b"], "missing": True},
        "rich": {"levels": [False, True], "missing": False},
    }


@pytest.mark.parametrize("schema", [adult_schema(), balanced.schema(fine=True), credit_schema(), World(101).schema])
def test_every_table_can_be_told_to_every_peer(schema: Any) -> None:
    for method in METHODS.values():
        told = json.loads(json.dumps(method.domain(schema)))
        assert {*schema.columns} == {*told} if method.package else told["columns"]


def test_a_moment_is_refused_rather_than_left_out() -> None:
    moments = {"kind": "datetime", "lower": "2020-01-01", "upper": "2021-01-01"}
    schema = parse_schema({"columns": {"when": moments, "job": {"kind": "boolean"}}})
    for domain in (dpmm_domain, smartnoise_domain):
        with pytest.raises(AssertionError):
            domain(schema)


def _driver(folder: Path, script: str, limit: int = 60) -> Made | Failed:
    (folder / "driver.py").write_text(script)
    return child.run([sys.executable, str(folder / "driver.py"), str(folder / "job.json")], str(ROOT), folder, limit)


def test_a_driver_is_stopped_at_its_limit_of_cpu(tmp_path: Path) -> None:
    assert _driver(tmp_path, "while True: pass", limit=1) == Failed("no rows within 1 CPU s")


def test_what_fails_is_told_without_a_path(tmp_path: Path) -> None:
    assert _driver(tmp_path, "raise ValueError('too many columns')") == Failed("ValueError: too many columns")
    assert _driver(tmp_path, "open('/nowhere/at/all')") == Failed("FileNotFoundError")
    assert _driver(tmp_path, "raise SystemExit(3)") == Failed("failed without a word")


def test_a_job_holds_the_declared_columns_alone_and_our_own_driver_answers_it(tmp_path: Path) -> None:
    rows = WORLD.people(300, seed=0).append_column("secret", pa.array(range(300)))
    method, run = METHODS["independent columns"], {"epsilon": 1.0, "seed": 3}
    job = write_job(method, run, Table(WORLD.schema, rows, rows), tmp_path)
    assert parquet.read_schema(tmp_path / "rows.parquet").names == [*WORLD.schema.columns]
    made = child.run(method.command(job), method.paths, tmp_path, 60)
    assert isinstance(made, Made)
    assert Coded.of(made.rows, WORLD.schema).invalid == 0
    assert made.rows.num_rows == 300
    assert made.cpu > 0
    assert made.peak_mb > 10


def test_the_gauge_counts_children(tmp_path: Path) -> None:
    burn = "sum(i * i for i in range(3_000_000))"
    job = {"cost": str(tmp_path / "cost.json")}
    with measured(job):
        subprocess.run([sys.executable, "-c", burn], check=True)
    assert json.loads((tmp_path / "cost.json").read_text())["cpu"] > 0.05


def test_requirements_pin_every_version_and_torch_to_the_build_without_gpus() -> None:
    for file in (ROOT / "bench" / "peers" / "requirements").iterdir():
        wanted = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in wanted), file.name
        assert [line for line in wanted if line.startswith("torch")] in ([], ["torch==2.13.0"])


def test_generated_people_are_the_same_for_the_same_seed_and_fit_their_schema() -> None:
    first, again, other = (WORLD.people(400, seed) for seed in (5, 5, 6))
    assert first.equals(again)
    assert not first.equals(other)
    assert Coded.of(first, WORLD.schema).invalid == 0
    assert [*WORLD.schema.columns] == first.column_names
    assert len(World(101).schema.columns) == 101


def test_one_generated_column_may_have_many_levels() -> None:
    world = World(columns=6, levels=10_000)
    rows = Coded.of(world.people(2_000, seed=0), world.schema)
    assert rows.invalid == 0
    assert len(world.schema.columns) == 6
    assert len(np.unique(rows.codes["many"])) > 500


def test_judges_see_numbers_plainly() -> None:
    gain = plain(adult_schema()).columns["capital-gain"]
    assert gain == Number(lower=0, upper=99_999, step=1)
    amount = plain(credit_schema()).columns["Amount"]
    assert amount == Number(lower=0, upper=30_000)


def test_real_rows_are_at_no_distance_and_their_label_can_be_learnt() -> None:
    schema = plain(WORLD.schema)
    real, test = (Coded.of(WORLD.people(2_000, seed), schema) for seed in (0, 1))
    found = distances(real, real, ("marginals_1", "marginals_2", "ks"), seed=0)
    assert found == {"marginals_1": 0, "marginals_2": 0, "ks": 0}
    assert boosting(real, test, seed=0)["boosting_auc"] > 0.65
    assert min(distances(real, test, ("marginals_1", "marginals_2", "ks"), seed=0).values()) > 0


def test_rows_of_one_class_teach_nothing() -> None:
    schema = plain(WORLD.schema)
    test = Coded.of(WORLD.people(500, seed=1), schema)
    single = test.take(np.flatnonzero(test.codes["label"] == 0))
    assert boosting(single, test, seed=0)["boosting_auc"] == 0.5
    assert classifiers(single, test, seed=0)["roc"] == 0.5


def _run(method: str, seed: int, **found: Any) -> dict[str, Any]:
    return {"bench": "peers", "table": "wide", "method": method, "epsilon": 1.0, "seed": seed, **found}


SCORES = {"boosting_auc": 0.8, "marginals_1": 0.01, "marginals_2": 0.02, "marginals_3": 0.03, "cpu": 1234.6, "peak_mb": 99.6}


def test_a_line_tells_means_and_spreads_and_how_many_seeds() -> None:
    two = [_run(AUTO, 0, **SCORES), _run(AUTO, 1, **{**SCORES, "boosting_auc": 0.9})]
    columns = (lines.BOOSTING, *lines.COST)
    assert lines.line([AUTO], columns, two[:1]) == "| dpearl auto | 0.800 | 1,235 | 100 | 1 |"
    assert lines.line([AUTO], columns, two) == "| dpearl auto | 0.850 ± 0.071 | 1,235 ± 0 | 100 ± 0 | 2 |"


def test_a_line_tells_why_there_is_nothing_to_tell() -> None:
    late = _run("dpmm AIM", 0, failed="no rows within 600 CPU s")
    columns = (lines.BOOSTING, *lines.COST)
    assert lines.line(["dpmm AIM"], columns, [late]) == "| dpmm AIM | no rows within 600 CPU s |  |  | 1 |"
    mixed = lines.line(["dpmm AIM"], columns, [late, _run("dpmm AIM", 1, **SCORES)])
    assert mixed == "| dpmm AIM | 0.800 | 1,235 | 100 | 1 of 2: no rows within 600 CPU s |"


def test_costs_stand_beside_those_of_half_the_columns() -> None:
    spent = [{**_run(AUTO, 0, cpu=cpu), "table": "cost", "rows": 9, "columns": own} for own, cpu in ((20, 3.0), (10, 1.0))]
    assert [*lines.cost_lines(spent)][2:] == ["| 10 | 9 | 1.0 |  |", "| 20 | 9 | 3.0 | × 3.0 |"]


def test_targets_are_judged_by_means_and_by_real_rows_of_the_same_tenths() -> None:
    def run(table: str, method: str, seed: int, **scores: float) -> dict[str, Any]:
        return {"table": table, "method": method, "epsilon": 1.0, "seed": seed, **scores}

    every = dict.fromkeys(("roc", "prc", "boosting_auc", "boosting_prc"), 0.9)
    real = [run("credit", REAL, 0, **every), run("credit", REAL, 1, **dict.fromkeys(every, 0.1))]
    told = [*target_lines([*real, run("credit", AUTO, 0, **{**every, "prc": 0.87})])]
    assert "| credit | ROC of the ten 97% of real rows, 0.873 | 0.9 | 1 | holds |" in told
    assert "| credit | PRC of the ten 97% of real rows, 0.873 | 0.87 | 1 | **missed** |" in told
    wide = [run("wide", AUTO, seed, cpu=cpu, peak_mb=500.0) for seed, cpu in enumerate((100.0, 150.0))]
    assert "| wide | CPU s at most 120 | 125 | 2 | **missed** |" in [*target_lines(wide)]


def test_the_page_is_written_from_whatever_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "OUT", tmp_path)
    page.write([_run(AUTO, 0, **SCORES), _run("dpmm MST", 0, failed="no rows within 600 CPU s")])
    text = (tmp_path / "peers.md").read_text()
    assert "| dpearl auto | 0.800 | 0.010 / 0.020 / 0.030 | 1,235 | 100 | 1 |" in text
    assert "| dpmm MST | no rows within 600 CPU s |" in text
    assert "Not run yet." in text
    assert (tmp_path / "peers.png").stat().st_size > 0


def test_the_most_important_runs_come_first_and_none_comes_twice() -> None:
    runs = plan.runs()
    assert len({cache.place(run) for run in runs}) == len(runs)
    first = runs[: 1 + len(METHODS)]
    assert {run["method"] for run in first} == {REAL, *METHODS}
    assert {(run["table"], run["epsilon"], run["seed"]) for run in first} == {("adult", 1.0, 0)}
    assert {run["epsilon"] for run in runs if run["method"] == "dpmm MST"} == {*plan.EPSILONS}


def test_words_choose_tables_and_methods() -> None:
    run = _run("dpmm MST", 0)
    assert plan.chosen(run, [])
    assert plan.chosen(run, ["wide"])
    assert plan.chosen(run, ["wide", "dpmm MST", AUTO])
    assert not plan.chosen(run, ["adult"])
    assert not plan.chosen(run, ["wide", AUTO])


def test_what_failed_once_is_not_tried_with_other_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FOLDER", tmp_path)
    first = _run("dpmm AIM", 0)
    assert not plan.hopeless(_run("dpmm AIM", 1))
    cache.place(first).write_text(json.dumps({**first, "failed": "no rows within 600 CPU s"}))
    assert plan.hopeless(_run("dpmm AIM", 1))
    assert not plan.hopeless(first)
    assert not plan.hopeless(_run("dpmm MST", 1))


def _table(text: str, place: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The first table after a heading: its columns, and its rows by their names."""
    block = text.split(f"\n## {place}\n")[1].split("\n|  |")[1].split("\n\n")[0]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
    return head, {row[0]: dict(zip(head, row[1:], strict=True)) for row in rows}


def test_the_readme_tells_what_the_page_tells() -> None:
    """After more runs, copy the rows. Some columns may be left out, and methods that gave no rows, but no other method."""
    columns, told = _table((ROOT / "README.md").read_text(), "What it gives")
    _, known = _table((ROOT / "docs/results/peers.md").read_text(), "Adult, all rows")
    finished = {name: row for name, row in known.items() if not any("no rows" in cell for cell in row.values())}
    assert told == {name: {column: row[column] for column in columns} for name, row in finished.items()}
