"""The command line as a user meets it: the whole way, the plan's words, help, and the documents that name it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpearl import RECIPES, Budget, Offer, cli, datasets, load_release
from dpearl.owner import recipe_with
from dpearl.plan import forecast
from dpearl.schema import Category, Column, Number, Schema, parse_declaration

DPEARL = Path(sys.executable).parent / "dpearl"


def run(*arguments: str | Path, folder: Path) -> str:
    done = subprocess.run([DPEARL, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_goes_the_whole_way_and_leaves_what_it_names(tmp_path: Path) -> None:
    out = run("demo", "demo", "--iterations", "20", folder=tmp_path)
    left = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert left == [
        "adult.dpearl",
        "histograms.png",
        "ledger.jsonl",
        "model.dpearl",
        "report.html",
        "schema.toml",
        "statement.txt",
        "synthetic.csv",
    ]
    assert all(name in out for name in left)
    made = load_release(tmp_path / "demo" / "adult.dpearl")
    assert 0.999 < made.epsilon <= 1
    assert made.digest in out
    assert (tmp_path / "demo" / "statement.txt").read_text() in out
    assert made.digest in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")


def test_adult_goes_from_a_shell_to_a_checked_statement(tmp_path: Path) -> None:
    schema = ("--schema", datasets.ADULT_SCHEMA)
    run("release", datasets.ADULT_TRAIN, *schema, "--epsilon", "1", "-k", "50", "--ledger", "l", "-o", "a", folder=tmp_path)
    told = json.loads(run("inspect", "a", "--json", folder=tmp_path))
    assert told["recomputed"]["epsilon"] <= told["stated"]["epsilon"] == 1
    assert sum(stage["share"] for stage in told["stages"].values()) == pytest.approx(1)
    words = run("inspect", "a", folder=tmp_path)
    assert "(1, 1e-05)-differentially private" in words
    assert "one person (one row), present or absent" in words
    assert re.search(r"noisy count is about 3[12],\d{3}", words)
    assert "5.0% of the budget" in words
    assert "Spent together: epsilon 1.0000;" in run("ledger", "l", folder=tmp_path)


def test_progress_is_silent_where_nobody_looks(tmp_path: Path) -> None:
    arguments = ("--schema", datasets.ADULT_SCHEMA, "--epsilon", "1", "-k", "5", "-o", "a")
    command = (DPEARL, "release", datasets.ADULT_TRAIN, *arguments)
    asked = {**os.environ, "FORCE_COLOR": "1"}  # as in a notebook
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=asked)
    assert done.stderr.strip().startswith("Written to a.")


def test_the_plan_tells_noise_that_falls_with_rows_and_epsilon() -> None:
    schema = datasets.adult_schema()
    small, large = (Offer(schema, RECIPES["auto"], Budget(epsilon, 1e-5)) for epsilon in (0.1, 1.0))
    few, many = forecast(large, 1000), forecast(large, 10_000)
    assert few.lines[-1].noise == pytest.approx(10 * many.lines[-1].noise)
    assert forecast(small, 1000).lines[-1].noise > 5 * few.lines[-1].noise
    assert sum(line.share for line in few.lines) == pytest.approx(1)
    assert not forecast(small, 1000).hopeful
    assert forecast(small, forecast(small, 1000).rows_needed).lines[-1].noise == pytest.approx(0.1, rel=1e-3)


def test_the_plan_names_the_noise_that_a_release_has() -> None:
    """Standard deviation of a noisy average of the last block, as the plan says: over two classes, or four bins."""
    for recipe, family, parts in (
        (recipe_with(RECIPES["auto"], None, None, 50), "characteristic", 2),
        (RECIPES["auto"], "interactions", 4),
    ):
        offer = Offer(datasets.adult_schema(), recipe, Budget(1.0, 1e-5))
        block = offer.sketch["embedding"].block(family)
        sigma = offer.sketch["embedding"].sigmas(offer.targets["embedding"], offer.unit)[family]
        assert forecast(offer, 30_000).lines[-1].noise == pytest.approx(parts * sigma / block.peak / 30_000)


def test_a_plan_for_too_few_rows_warns_and_says_what_would_do(tmp_path: Path) -> None:
    plan = ("plan", "--schema", datasets.ADULT_SCHEMA, "--epsilon", "0.1")
    assert "WARNING: 500 rows are too few" in run(*plan, "--rows", "500", folder=tmp_path)
    assert "WARNING" not in run(*plan, "--delta", "1e-7", "--rows", "1000000", folder=tmp_path)
    assert "WARNING: delta 1e-05 is no less than one in 1,000,000 rows" in run(*plan, "--rows", "1000000", folder=tmp_path)
    assert "makes the noise of the embedding 15.5% larger" in run(*plan, "--rows", "1000000", folder=tmp_path)
    assert "makes the noise of the embedding 2.6% larger" in run(*plan, "-k", "9", "--rows", "1000000", folder=tmp_path)


def test_a_plan_warns_of_pairs_left_out_and_of_levels_that_are_lost() -> None:
    columns: dict[str, Column] = {f"n{i}": Number(lower=0, upper=9, step=1) for i in range(140)}
    wide = Offer(Schema(columns=columns), RECIPES["auto"], Budget(1.0, 1e-7))
    assert "only 8,192 pairs are counted" in forecast(wide, 10**6).warnings[0]
    many: dict[str, Column] = {"code": Category(levels=tuple(range(10_000))), "n": Number(lower=0, upper=9, step=1)}
    (warning,) = forecast(Offer(Schema(columns=many), RECIPES["auto"], Budget(1.0, 1e-5)), 20_000).warnings
    assert warning.startswith("'code' has 10,000 levels")
    asked = parse_declaration({"columns": {name: {"kind": "category", "levels": "estimate"} for name in ("a", "b")}})
    assert not forecast(Offer(asked, RECIPES["auto"], Budget(0.1, 1e-5)), 100).warnings
    assert not forecast(Offer(datasets.adult_schema(), RECIPES["auto"], Budget(1.0, 1e-5)), 30_000).warnings


def test_every_command_and_option_has_help() -> None:
    for name in cli.VERBS:
        command = cli.loaded(name)
        assert command.help, name
        assert all(getattr(parameter, "help", None) for parameter in command.params if parameter.name != "help"), name


def test_the_carried_data_are_whole_and_fit_their_schema() -> None:
    train, test, schema = datasets.adult(), datasets.adult_test(), datasets.adult_schema()
    assert (len(train), len(test), train.num_columns) == (32_561, 16_281, 15)
    codec = Offer(schema, RECIPES["auto"], Budget(1.0, 1e-5)).sketch["embedding"].codec
    for table in (train, test):
        codes = codec.encode(table)
        for name, column in codec.columns.items():
            assert codec.decode(codes).column(name).cast("string").to_pylist() == table.column(name).cast("string").to_pylist()
            assert not (column.level(codes[name]) == column.levels - 2).any() or not column.one_hot, "no undeclared level"
    assert "CC BY 4.0" in (datasets.ADULT_SCHEMA.parent / "ATTRIBUTION.md").read_text()
