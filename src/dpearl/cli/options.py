"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpearl.cli import say
from dpearl.design import RECIPES, Scale
from dpearl.engines import EngineName
from dpearl.privacy import Relation
from dpearl.settings import Omega


class Moves(StrEnum):
    """What a critic can move."""

    SIGMA = Omega.SIGMA.value
    MU_SIGMA = Omega.MU_SIGMA.value


def verbs() -> typer.Typer:
    """What the commands of a module are gathered in."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=say.HELP,
    )


Data = Annotated[list[str], typer.Argument(metavar="DATA", help="Files, folders or globs: CSV, Parquet, .npz, LABEL/image.png.")]
DataOrSums = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA", help="Files, folders, globs, s3:// and such: CSV, Parquet, .npz, LABEL/image.png; or partial sums."
    ),
]
Query = Annotated[str | None, typer.Option("--query", help="A SELECT that goes row by row, in place of DATA; needs duckdb.")]
Database = Annotated[
    str | None,
    typer.Option("--database", help="Where --query runs: a DuckDB or SQLite file, or postgresql://..."),
]
Engine = Annotated[EngineName, typer.Option("--engine", help="Who sums: this machine, a Dask cluster or a Spark session.")]
Scheduler = Annotated[str | None, typer.Option("--scheduler", help="Address of Dask's scheduler or Spark's master.")]
Memory = Annotated[int, typer.Option("--memory", min=1, help="Megabytes that batches in work may take; engine local.")]
ReleaseFile = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model.")]
SchemaFile = Annotated[Path, typer.Option("--schema", help="Schema file (TOML).")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Total privacy budget of everything in the release.")]
Delta = Annotated[float, typer.Option("--delta", help="Probability that the guarantee may fail.")]
RecipeName = Annotated[
    str, typer.Option("--recipe", help="auto, or paper (replace-one, pairwise distance).", autocompletion=lambda: list(RECIPES))
]
RelationName = Annotated[Relation | None, typer.Option("--relation", help="Who counts as a neighbour; the recipe's by default.")]
ScaleName = Annotated[Scale | None, typer.Option("--scale", help="What is looked at first; public takes no budget.")]
Frequencies = Annotated[int | None, typer.Option("-k", "--frequencies", help="Measure so many frequencies; paper: 1,000.")]
RowsPerPerson = Annotated[int | None, typer.Option("--rows-per-person", help="Most rows of one person; overrides the schema.")]
Seed = Annotated[int, typer.Option("--seed", help="Public seed of the frequencies. Noise has no seed.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=1024, help="Threads; all cores by default.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="Ledger to charge; a new one holds just this budget.")]
LedgerShown = Annotated[Path | None, typer.Option("--ledger", help="The ledger that the release was charged to, to be shown.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="File to write; never overwritten.")]

TrainingSeed = Annotated[int, typer.Option("--seed", help="Seed of training, and of rows sampled with it. Noise has no seed.")]
SampleSeed = Annotated[int, typer.Option("--seed", help="Another seed gives other rows.")]
Iterations = Annotated[int | None, typer.Option("--iterations", help="Training steps; the recipe knows how many.")]
LearningRate = Annotated[float | None, typer.Option("--learning-rate", help="At the start; the recipe's by default.")]
CriticName = Annotated[Moves, typer.Option("--critic", help="What the critic moves: sigma, or mu and sigma, of its frequencies.")]
NoCritic = Annotated[bool, typer.Option("--no-critic", help="Weigh all frequencies the same: the paper's ablation.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, or auto for a GPU where there is one.")]
SampleRows = Annotated[int, typer.Option("-n", "--rows", help="How many synthetic rows.")]
SampleOutput = Annotated[
    Path, typer.Option("-o", "--output", help="File to write (.csv, .parquet, .npz, .png); never overwritten.")
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="No progress, no remarks: results and mistakes alone.", callback=say.hush)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
