"""Commands that go the whole way, from rows to synthetic rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow.csv as csv
import typer

from dpearl import container, datasets, owner
from dpearl import ledger as ledgers
from dpearl.cli import show
from dpearl.cli.app import (
    Data,
    Delta,
    Device,
    Epsilon,
    Frequencies,
    Iterations,
    LedgerFile,
    NoCritic,
    RecipeName,
    RelationName,
    RowsPerPerson,
    SampleOutput,
    SampleRows,
    ScaleName,
    SchemaFile,
    Threads,
    TrainingSeed,
    app,
)
from dpearl.cli.owner_side import chosen_recipe, declared_schema, save_charged
from dpearl.cli.public_side import need_torch, sample_to, train_to, training_settings
from dpearl.design import RECIPES
from dpearl.errors import UsageError
from dpearl.plan import forecast
from dpearl.privacy import Budget
from dpearl.settings import Omega
from dpearl.statement import privacy_statement
from dpearl.write import check_output


@app.command()
def synth(
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    rows: SampleRows,
    output: SampleOutput,
    delta: Delta = 1e-5,
    recipe: RecipeName = "auto",
    relation: RelationName = None,
    scale: ScaleName = None,
    frequencies: Frequencies = None,
    rows_per_person: RowsPerPerson = None,
    ledger: LedgerFile = None,
    seed: TrainingSeed = 0,
    iterations: Iterations = None,
    no_critic: NoCritic = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Go from sensitive rows to synthetic ones in one command; release and model are kept beside the output."""
    need_torch()
    released, trained = (output.with_name(f"{output.stem}.{part}.dpearl") for part in ("release", "model"))
    declared = declared_schema(schema, rows_per_person)
    offer = owner.Offer(declared, chosen_recipe(recipe, relation, scale, frequencies), Budget(epsilon, delta))
    check_output(output, declared, rows)
    for path in (released, trained):
        container.claim(path)
    if owner.are_sums(data):
        raise UsageError("synth takes data; release partial sums first, then train and sample")
    with show.progress() as bars:
        made = owner.release_rows(data, offer, ledger, released.name, threads, bars.stage)
        save_charged(made, released, ledger)
        settings = training_settings(made, iterations, Omega.NONE if no_critic else Omega.SIGMA, None)
        model = train_to(made, trained, settings, seed, device, threads, bars.training)
        sample_to(model, rows, output, {}, seed, bars)
    print(privacy_statement(made))
    charged = f"Charged to {ledger}." if ledger else "No ledger was given, so nothing records this spending."
    show.note(f"\n{rows:,} synthetic rows in {output}; beside it {released.name} and {trained.name}. {charged}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path("demo"),
    iterations: Iterations = None,
) -> None:
    """Run the whole way on the carried Adult data: plan, release, training, synthetic rows, pictures, statement."""
    need_torch()
    from dpearl import plot

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made a folder ({error.strerror}); choose another") from None
    for name in ("adult.dpearl", "model.dpearl", "synthetic.csv", "histograms.png", "statement.txt", "schema.toml"):
        container.claim(folder / name)
    real, offer = datasets.adult(), owner.Offer(datasets.adult_schema(), RECIPES["auto"], Budget(1.0, 1e-5))
    show.forecast(forecast(offer, 32_000))
    with show.progress() as bars:
        made = owner.release_rows(real, offer, folder / "ledger.jsonl", "adult.dpearl", None, bars.stage)
        save_charged(made, folder / "adult.dpearl", folder / "ledger.jsonl")
        settings = training_settings(made, iterations, Omega.SIGMA, None)
        model = train_to(made, folder / "model.dpearl", settings, 0, "auto", None, bars.training)
        sample_to(model, len(real), folder / "synthetic.csv", {}, 0, bars)
    container.place_file(folder / "statement.txt", privacy_statement(made).encode())
    container.place_file(folder / "schema.toml", datasets.ADULT_SCHEMA.read_bytes())
    tables = {"real rows": real, "synthetic rows": csv.read_csv(folder / "synthetic.csv")}
    plot.histograms(tables, offer.schema, _DEMO_TITLE, folder / "histograms.png")
    print(f"\n{privacy_statement(made)}\n")
    show.ledger(ledgers.read_ledger(folder / "ledger.jsonl"), str(folder / "ledger.jsonl"))
    print(f"\nLeft in {folder}/:")
    for name, what in _DEMO_FILES.items():
        print(f"  {name:15} {what}")


_DEMO_TITLE = (
    "UCI Adult, real against synthetic (epsilon 1, delta 1e-5). Made from public data: never publish such a picture of yours"
)

_DEMO_FILES = {
    "synthetic.csv": "as many synthetic rows as there are real ones",
    "histograms.png": "real against synthetic, column by column; this one is public data",
    "statement.txt": "the privacy statement",
    "adult.dpearl": "the release: all that was learnt of the rows",
    "model.dpearl": "the trained generator; `dpearl sample` draws more rows from it",
    "schema.toml": "what was declared",
    "ledger.jsonl": "what was spent",
}
