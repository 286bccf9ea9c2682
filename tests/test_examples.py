"""The examples run, in an empty folder and without data from elsewhere, and what they tell is so; notebooks are those scripts."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jupytext
import pandas as pd
import pytest
import torch
from threadpoolctl import threadpool_limits

import dpearl
from dpearl.ledger import read_ledger

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py"))

Run = Callable[[str], dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run an example where there is nothing, and give what it left in its names. One thread, here and in what it starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPEARL_DATA", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    with threadpool_limits(1), torch.random.fork_rng(devices=[]):
        yield lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))


def within(table: pd.DataFrame, schema: dpearl.Schema) -> bool:
    """Whether every cell is one that the schema declares."""
    assert list(schema.columns) == [name for name in table.columns if name in schema.columns]
    return all(_fits(table[name], column) for name, column in schema.columns.items())


def _fits(cells: Any, column: Any) -> bool:
    there = cells.dropna()
    known = (
        there.between(column.lower, column.upper)
        if hasattr(column, "lower")
        else there.isin(getattr(column, "levels", [True, False]))
    )
    return bool(known.all()) and (column.missing or len(there) == len(cells))


# What each one tells. Bounds on what noise moves lie six standard deviations or more (by the stated noise, or as runs spread)
# from what is expected: a chance below 1e-8.


def test_hospital(run: Run) -> None:
    left = run("hospital")
    rows, made, pearl = left["rows"], left["synthetic"], left["pearl"]
    assert within(made, pearl.schema_)
    assert (made["discharged"] > made["admitted"]).all()
    assert made[["crp", "haemoglobin"]].isna().any().all()
    assert made.dtypes[rows.columns[1:]].equals(rows.dtypes[1:])
    assert rows["patient"].value_counts().max() > pearl.release_.unit.rows_per_person == 3
    assert "up to 3 rows" in pearl.statement_
    told = left["answers"]["synthetic"]
    assert told["CRP not measured, infection"] < 0.25 < 0.3 < told["CRP not measured, others"]
    assert len(read_ledger(left["folder"] / "ledger.jsonl").charges) == 1
    assert len(pd.read_csv(left["folder"] / "synthetic.csv")) == len(rows)
    assert {"public.png", "PRIVATE.png"} <= {path.name for path in left["folder"].iterdir()}


def test_adult(run: Run) -> None:
    left = run("adult")
    folder = left["folder"]
    assert len(left["synthetic"]) == 8000
    assert within(left["synthetic"], dpearl.load_schema(folder / "schema.toml"))
    assert dpearl.load_release(folder / "synthetic.release.dpearl").digest in (folder / "report.html").read_text()
    assert read_ledger(folder / "ledger.jsonl").spent <= 1
    assert 0.8 < left["from_synthetic"] < left["from_real"] + 0.02


def test_digits(run: Run) -> None:
    left = run("digits")
    made = left["synthetic"].to_pandas()
    assert set(made["digit"]) == set(range(10))
    assert {len(cell) for cell in made["picture"]} == {64}
    assert left["from_synthetic"] > 0.6
    assert (left["folder"] / "synthetic.png").stat().st_size > 1000


def test_two_sites(run: Run) -> None:
    left = run("two_sites")
    release, made = left["release"], left["synthetic"]
    assert within(made, release.schema)
    assert not list(left["folder"].rglob("*.sums")), "exact sums are gone"
    assert not list((left["folder"] / "middle").glob("*.csv")), "no rows came to the middle"
    assert abs(made["age"].mean() - pd.concat([left["north"], left["south"]])["age"].mean()) < 5
    between, humps = made["age"].between(56, 59).mean(), made["age"].isin([44, 45, 69, 70]).mean()
    assert between < humps


def test_another_machine(run: Run) -> None:
    left = run("another_machine")
    assert {path.name for path in left["analyst"].iterdir()} == {"people.dpearl", "train.py", "model.dpearl", "synthetic.csv"}
    assert "dpearl.owner is not for the analyst" in left["done"].stdout
    assert left["release"].digest in left["done"].stdout
    assert dpearl.load_synthesizer(left["analyst"] / "model.dpearl").release.digest == left["release"].digest
    assert within(left["synthetic"], left["schema"])
    assert left["synthetic"].corr()["years"]["salary"] > 0.4


def test_own_generator(run: Run) -> None:
    left = run("own_generator")
    made = left["made"]
    assert within(made, left["schema"])
    assert left["model"].training["generator"] == "Small"
    assert left["again"].sample(100).equals(left["model"].sample(100))
    means = made.groupby("heating", observed=True)["use"].mean()
    assert means["gas"] > means["pump"] + 8


def test_conditional(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    left = run("conditional")
    assert len(left["rich_women"]) == 500
    assert set(left["rich_women"]["sex"]) == {"Female"}
    assert set(left["rich_women"]["income"]) == {">50K"}
    assert left["balanced"]["income"].value_counts().to_dict() == {"<=50K": 2000, ">50K": 2000}
    assert within(left["balanced"], left["schema"])
    assert "did you mean 'Female'?" in capsys.readouterr().out


def test_two_epsilons(run: Run) -> None:
    left = run("two_epsilons")
    assert 2 < read_ledger(left["folder"] / "ledger.jsonl").spent < 2.1
    assert {name: pearl.release_.budget for name, pearl in left["models"].items()} == left["budgets"]
    far, near = (left["table"][name]["age and relationship"] for name in left["budgets"])
    assert near < min(far, 0.15)
    for made in left["made"].values():
        assert within(made, left["schema"])


def test_every_example_is_tested_and_listed() -> None:
    assert {f"test_{name}" for name in NAMES} <= globals().keys()
    lines = (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line.startswith("- ")]
    assert sorted(re.findall(r"^- \[(\w+)\.py\]\(\1\.py\) \(\[notebook\]\(\1\.ipynb\)\): \w", "\n".join(listed), re.M)) == NAMES
    assert len(listed) == len(NAMES)


# Notebooks


def texts(notebook: Any) -> Iterator[str]:
    """All that a notebook shows but for its pictures."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            yield output.get("text", "")
            yield from ("".join(shown) for kind, shown in output.get("data", {}).items() if not kind.startswith("image/"))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_script_with_what_one_run_showed(name: str) -> None:
    script, notebook = jupytext.read(EXAMPLES / f"{name}.py", fmt="py:percent"), jupytext.read(EXAMPLES / f"{name}.ipynb")
    cells = [[(cell.cell_type, cell.source) for cell in own.cells] for own in (script, notebook)]
    assert cells[0] == cells[1], f"run `make notebooks`, or `python examples {name}`"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "from top to bottom, once"
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    told = "\n".join(texts(notebook))
    assert not re.search(r"(?<![\w.])(/(home|root|tmp|work|opt|usr|var|mnt|private|Users)/|[A-Z]:\\)", told), (
        "no path of a machine"
    )
