"""Rows in, synthetic rows out: the same kind of table in the same types, charged once, by call and by command."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
import torch

from dpearl import cli
from dpearl.design import RECIPES, Recipe
from dpearl.errors import BudgetError, DpearlError, UsageError
from dpearl.ledger import read_ledger
from dpearl.moment import Moment
from dpearl.owner import recipe_with
from dpearl.release import load_release, load_release_inside
from dpearl.schema import Schema, parse_schema
from dpearl.settings import MIXTURE, Settings
from dpearl.statement import privacy_statement
from dpearl.synth import PEARL
from dpearl.synthesizer import load_synthesizer

FEW = recipe_with(RECIPES["auto"], None, None, 8)
QUICK = Settings(iterations=2, batch=20, generator_steps=1)
ROWS = 60


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def made_of(
    data: Any, schema: Schema | str | Path, recipe: str | Recipe = FEW, progress: Any = None, watch: Any = None, **options: Any
) -> PEARL:
    return PEARL(schema, 10.0, recipe=recipe, settings=QUICK, **options).fit(data, progress=progress, watch=watch)


NUMBER = {"kind": "number", "lower": 0, "upper": 100, "step": 1}
COLOUR = {"kind": "category", "levels": ["red", "blue"]}
WHEN = {"kind": "datetime", "lower": "2020-01-01", "upper": "2021-01-01", "step": "1h"}


def test_pandas_gives_pandas_in_its_types_and_names() -> None:
    chance = np.random.default_rng(0)
    colours, flags = chance.choice(["red", "blue"], ROWS), chance.random(ROWS) < 0.5
    frame = pd.DataFrame(
        {
            "secret": chance.random(ROWS),
            "flag": flags,
            "plain": chance.integers(0, 100, ROWS),
            "nullable": pd.array([None, *chance.integers(0, 100, ROWS - 1).tolist()], "Int64"),
            "small": pd.array(chance.integers(0, 100, ROWS), "UInt8"),
            "size": chance.random(ROWS) * 100,
            "narrow": pd.array(chance.random(ROWS), "Float32"),
            "word": pd.array(colours, "string"),
            "object": pd.Series(colours, dtype=object),
            "kind": pd.Categorical(colours),
            "code": pd.Categorical(np.where(flags, 1, 2)),
            "maybe": pd.array(flags, "boolean"),
            "when": pd.to_datetime(pd.Series([datetime(2020, 5, 1)] * ROWS)),
            "zoned": pd.to_datetime(pd.Series([datetime(2020, 5, 1)] * ROWS)).dt.tz_localize("Europe/Berlin"),
            2020: chance.integers(0, 100, ROWS),
        }
    )
    columns = {
        "zoned": WHEN,
        "when": {**WHEN, "missing": True},
        "plain": NUMBER,
        "nullable": {**NUMBER, "missing": True},
        "small": NUMBER,
        "size": {"kind": "number", "lower": 0, "upper": 100},
        "narrow": {"kind": "number", "lower": 0, "upper": 1},
        "word": COLOUR,
        "object": COLOUR,
        "kind": COLOUR,
        "code": {"kind": "category", "levels": [1, 2]},
        "flag": {"kind": "boolean"},
        "maybe": {"kind": "boolean", "missing": True},
        "2020": NUMBER,
    }
    made = made_of(frame, parse_schema({"label": "kind", "columns": columns})).sample(200)
    assert isinstance(made, pd.DataFrame)
    assert len(made) == 200
    assert list(made.columns) == [2020 if name == "2020" else name for name in columns], "the schema's columns and order"
    for name in made.columns:
        if name in ("kind", "code"):
            assert made[name].dtype == "category"
            assert made[name].cat.categories.dtype == frame[name].cat.categories.dtype
        elif name != "object":
            assert made[name].dtype == frame[name].dtype, name
    assert {*made["object"]} | {*made["word"]} | {*made["kind"]} <= {"red", "blue"}
    assert made["plain"].between(0, 100).all()


def test_polars_gives_polars_in_its_types_and_names() -> None:
    frame = pl.DataFrame(
        {
            "day": [date(2020, 5, 1)] * ROWS,
            "age": pl.Series([30, None] * (ROWS // 2), dtype=pl.Int8),
            "size": pl.Series([0.5] * ROWS, dtype=pl.Float32),
            "colour": ["red", "blue"] * (ROWS // 2),
            "kind": pl.Series(["red", "blue"] * (ROWS // 2), dtype=pl.Categorical),
            "set": pl.Series(["red", "blue"] * (ROWS // 2), dtype=pl.Enum(["red", "blue"])),
            "when": pl.Series([datetime(2020, 5, 1)] * ROWS, dtype=pl.Datetime("ms", "UTC")),
            "flag": [True, False] * (ROWS // 2),
        }
    )
    columns = {
        "flag": {"kind": "boolean"},
        "age": {**NUMBER, "missing": True},
        "size": {"kind": "number", "lower": 0, "upper": 1},
        "colour": COLOUR,
        "kind": COLOUR,
        "set": COLOUR,
        "when": WHEN,
        "day": WHEN,
    }
    made = made_of(frame, parse_schema({"label": "flag", "columns": columns})).sample(200)
    assert isinstance(made, pl.DataFrame)
    assert made.columns == [*columns]
    assert len(made) == 200
    assert made.schema == {name: pl.Categorical() if name == "set" else frame.schema[name] for name in columns}
    assert {*made["colour"], *made["kind"], *made["set"]} <= {"red", "blue"}


SMALL = parse_schema({"label": "b", "columns": {"a": NUMBER, "b": COLOUR}})
TOML = """
label = "b"
[columns.a]
kind = "number"
lower = 0
upper = 100
step = 1
[columns.b]
kind = "category"
levels = ["red", "blue"]
"""


def small(rows: int = ROWS) -> pa.Table:
    chance = np.random.default_rng(0)
    return pa.table({"b": chance.choice(["red", "blue"], rows), "a": pa.array(chance.integers(0, 101, rows), pa.int8())})


def test_arrow_gives_arrow_in_its_types() -> None:
    for data in (small(), small().to_batches()[0]):
        made = made_of(data, SMALL).sample(50)
        assert isinstance(made, pa.Table)
        assert made.schema.equals(pa.schema({"a": pa.int8(), "b": pa.string()}))


def test_a_mapping_gives_arrow() -> None:
    data = {name: small()[name].to_numpy(zero_copy_only=False) for name in ("a", "b")}
    made = made_of(data, SMALL).sample(50)
    assert isinstance(made, pa.Table)
    assert made.schema.names == ["a", "b"]


@pytest.mark.parametrize("several", [False, True])
def test_a_path_gives_arrow(several: bool, tmp_path: Path) -> None:
    parquet.write_table(small(), tmp_path / "rows.parquet")
    (tmp_path / "s.toml").write_text(TOML)
    data = [str(tmp_path / "rows.parquet")] if several else tmp_path / "rows.parquet"
    made = made_of(data, tmp_path / "s.toml").sample(50)
    assert made.schema.equals(pa.schema({"a": pa.int8(), "b": pa.string()}))


def test_what_was_made_says_what_it_promises_and_samples_like_its_model() -> None:
    made = made_of(small(), SMALL, delta=1e-6, seed=5)
    assert made.statement_ == privacy_statement(made.release_) == made.model_.statement
    assert "(10, 1e-06)-differentially private" in made.statement_
    assert made.release_.epsilon <= 10
    assert made.model_.training["seed"] == 5
    assert [moment.step for moment in made.history_] == [2]
    assert made.sample(9, {"b": "red"}, seed=4).equals(made.model_.sample(9, {"b": "red"}, seed=4))
    assert {*made.sample(9, {"b": "red"})["b"].to_pylist()} == {"red"}
    assert not made.sample(9, seed=4).equals(made.sample(9, seed=3))


def test_what_was_fitted_keeps_no_row_of_what_came_in() -> None:
    for frame in (small().to_pandas(), pl.DataFrame({name: small()[name].to_pylist() for name in ("a", "b")})):
        assert len(made_of(frame, SMALL)._frame) == 0
    assert made_of(small(), SMALL)._frame is None


def test_progress_is_told_of_every_stage() -> None:
    stages: list[str] = []
    counted: list[int] = []
    seen: list[Moment] = []

    def progress(stage: str, total: int | None) -> Any:
        stages.append(stage)
        assert total == ROWS
        return counted.append

    made_of(small(), SMALL, progress=progress, watch=seen.append)
    assert stages == ["auxiliary", "embedding"]
    assert sum(counted) == 2 * ROWS
    assert [moment.step for moment in seen] == [2]


def test_recipes_go_by_their_names() -> None:
    assert made_of(small(), SMALL, "paper").release_.rows == ROWS
    quick = replace(MIXTURE, iterations=2, components=20)
    assert PEARL(SMALL, 10.0, recipe="auto", settings=quick).fit(small()).release_.recipe == "auto"


def test_the_ledger_is_charged_once_for_all_that_is_made(tmp_path: Path) -> None:
    made = made_of(small(), SMALL, ledger=tmp_path / "l")
    made.sample(10)
    made.sample(10_000)
    (charge,) = read_ledger(tmp_path / "l").charges
    assert charge.mu == made.release_.mu
    assert charge.plan == made.release_.plan
    with pytest.raises(BudgetError):
        made_of(small(), SMALL, ledger=tmp_path / "l")
    assert len(read_ledger(tmp_path / "l").charges) == 1


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown recipe": ({"recipe": "best"}, "unknown recipe 'best'; use auto or paper"),
    "a seed that is none": ({"seed": -1}, "seed must lie between 0 and 2"),
    "a seed that is too large": ({"seed": 2**63}, "seed must lie between 0 and 2"),
    "no delta": ({"delta": 0.0}, "delta"),
    "a schema that is not there": ({"schema": "none.toml"}, "no such schema file"),
    "a table that is none": ({"data": 3}, "not a table"),
}


@pytest.mark.parametrize(("change", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_told_before_anything_is_charged(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": small(), "schema": SMALL, "ledger": tmp_path / "l", **change}
    with pytest.raises(DpearlError, match=told):
        made_of(**given)
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize("epsilon", [0, -1, float("nan")])
def test_a_budget_that_is_none_is_refused(epsilon: float, tmp_path: Path) -> None:
    with pytest.raises(DpearlError):
        PEARL(SMALL, epsilon, recipe=FEW, settings=QUICK, ledger=tmp_path / "l").fit(small())
    assert not (tmp_path / "l").exists()


def test_rows_that_cannot_be_read_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    with pytest.raises(DpearlError, match="has no column 'a'"):
        made_of(small().drop_columns(["a"]), SMALL, ledger=tmp_path / "l")
    assert not (tmp_path / "l").exists()


# The command.


@dataclass(frozen=True)
class Command:
    """`dpearl synth` in a folder with rows and a schema."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        given = ("synth", "rows.csv", "--schema", "s.toml", "--epsilon", "10", "-k", "8", "--ledger", "l", "--threads", "1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["dpearl", *given, "-n", "40", "-o", "synth.csv", "--iterations", "2", *arguments])
            code = cli._run()
        return code, *self.capsys.readouterr()

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(small(300), "rows.csv")
    Path("s.toml").write_text(TOML)
    return Command(tmp_path, capsys)


BEFORE = ["rows.csv", "s.toml"]


def test_the_command_leaves_rows_release_and_model_and_prints_the_statement(command: Command) -> None:
    code, out, err = command.run("--seed", "3")
    assert code == 0, err
    assert command.files == sorted(["l", *BEFORE, "synth.csv", "synth.model.dpearl", "synth.release.dpearl"])
    release = load_release("synth.release.dpearl")
    assert out.strip() == privacy_statement(release).strip()
    assert "(10, 1e-05)-differentially private" in out
    assert "40 synthetic rows in synth.csv" in err
    assert "beside it synth.release.dpearl and synth.model.dpearl. Charged to l." in err
    assert load_release_inside("synth.model.dpearl")[0].digest == release.digest
    assert [charge.mu for charge in read_ledger("l").charges] == [release.mu]
    assert read_ledger("l").charges[0].output == "synth.release.dpearl"
    model = load_synthesizer("synth.model.dpearl")
    assert (model.training["seed"], model.training["iterations"]) == (3, 2)
    rows = csv.read_csv("synth.csv")
    assert rows.num_rows == 40
    assert rows.to_pydict() == model.sample(40, seed=3).to_pydict()


def test_with_a_report_the_command_leaves_the_public_page_with_its_charge(command: Command) -> None:
    code, _, err = command.run("--report", "page.html")
    assert code == 0, err
    page, release = Path("page.html").read_text(encoding="utf-8"), load_release("synth.release.dpearl")
    assert "The public report is page.html." in err
    assert release.digest in page
    assert read_ledger("l").charges[0].time in page


def test_without_a_ledger_the_command_says_so(command: Command) -> None:
    with pytest.MonkeyPatch.context() as patch:
        line = "dpearl synth rows.csv --schema s.toml --epsilon 1 -k 4 -n 0 -o a.parquet --iterations 1 --no-critic"
        patch.setattr(sys, "argv", line.split())
        assert cli._run() == 0
    assert "No ledger was given, so nothing records this spending" in command.capsys.readouterr().err
    assert parquet.read_table("a.parquet").num_rows == 0
    assert load_synthesizer("a.model.dpearl").training["omega"] == "none"


@pytest.mark.parametrize("name", ["synth.csv", "synth.release.dpearl", "synth.model.dpearl"])
def test_an_output_in_the_way_is_told_before_anything_is_charged(name: str, command: Command) -> None:
    Path(name).write_text("precious")
    code, out, err = command.run()
    assert (code, out) == (2, "")
    assert err == f"dpearl: {name}: already exists; choose another name or move it away\n"
    assert Path(name).read_text() == "precious"
    assert command.files == sorted([*BEFORE, name])


def test_what_another_training_left_is_told_before_anything_is_charged(command: Command) -> None:
    Path("synth.model.dpearl.part").write_text("of another training")
    code, _, err = command.run()
    assert code == 2
    assert "synth.model.dpearl.part" in err
    assert command.files == sorted([*BEFORE, "synth.model.dpearl.part"])


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a negative number of rows": (("-n", "-1"), "number of rows must be a whole number and not negative"),
    "a report of another kind": (("--report", "page.pdf"), "page.pdf: this is written as .html"),
    "a report in the way": (("--report", "rows.csv"), "rows.csv: this is written as .html"),
    "a negative seed": (("--seed", "-1"), "seed must lie between 0 and 2"),
    "no iterations": (("--iterations", "0"), "iterations must be at least 1"),
    "an unknown device": (("--device", "abacus"), "device 'abacus' is not available here"),
    "an unknown kind of file": (("-o", "synth.xlsx"), "unknown kind of file"),
    "a grid of no pictures": (("-o", "synth.png"), "needs exactly one column of pictures"),
    "no such folder": (("-o", "none/synth.csv"), "does not exist; create it first"),
    "an unknown recipe": (("--recipe", "best"), "unknown recipe"),
}


@pytest.mark.parametrize(("arguments", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_in_the_command_is_told_before_anything_is_charged(
    arguments: tuple[str, ...], told: str, command: Command
) -> None:
    code, out, err = command.run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert told in err
    assert command.files == BEFORE


def test_the_release_is_kept_when_training_breaks_down(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been paid for."""

    def broken(*_: Any, **__: Any) -> None:
        raise UsageError("no")

    monkeypatch.setattr("dpearl.train.fit", broken)
    code, _, _ = command.run()
    assert code == 2
    assert command.files == sorted(["l", *BEFORE, "synth.release.dpearl"])
    assert load_release("synth.release.dpearl").mu == read_ledger("l").charges[0].mu
