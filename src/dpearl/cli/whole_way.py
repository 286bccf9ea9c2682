"""Commands that go the whole way, from rows to synthetic rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import pyarrow.csv as csv
import typer

from dpearl import container, datasets, owner
from dpearl import ledger as ledgers
from dpearl.cli import say, show
from dpearl.cli.judges import charge_of, claim_page, need_report, report_to
from dpearl.cli.options import (
    AsJson,
    Data,
    Delta,
    Device,
    Epsilon,
    Frequencies,
    Iterations,
    LedgerFile,
    NoCritic,
    Quiet,
    RecipeName,
    RelationName,
    RowsPerPerson,
    SampleOutput,
    SampleRows,
    ScaleName,
    SchemaFile,
    Threads,
    TrainingSeed,
    verbs,
)
from dpearl.cli.owner_side import chosen_recipe, declared_schema, keep_apart, save_charged, spending
from dpearl.cli.public_side import check_training, checkpoint_of, sample_to, train_to, training_settings
from dpearl.design import RECIPES
from dpearl.engines.local import Local
from dpearl.errors import FileError, TrainingError, UsageError
from dpearl.plan import forecast
from dpearl.privacy import Budget
from dpearl.settings import AnySettings, Omega
from dpearl.statement import privacy_statement
from dpearl.write import check_output

app = verbs()


@app.command(
    epilog=say.examples(
        "dpearl synth people.csv --schema schema.toml --epsilon 1 --ledger l.jsonl -n 30000 -o synth.csv",
        "dpearl synth people.csv --schema schema.toml --epsilon 1 -n 1000 -o s.csv --report report.html",
    )
)
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
    report: Annotated[Path | None, typer.Option("--report", help="Write the public report (.html) to this file.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go from sensitive rows to synthetic ones in one go.

    Release and model are kept beside the output."""
    released, trained = (output.with_name(f"{output.stem}.{part}.dpearl") for part in ("release", "model"))
    declared = declared_schema(schema, rows_per_person)
    offer = owner.Offer(declared, chosen_recipe(recipe, relation, scale, frequencies), Budget(epsilon, delta))
    settings = training_settings(offer.sketch["embedding"], iterations, Omega.NONE if no_critic else Omega.SIGMA, None)
    check_output(output, declared, rows)
    kept_files = [released, trained, checkpoint_of(trained)]
    for path in kept_files:
        container.claim(path)
    if report is not None:
        need_report()
        claim_page(report, ".html")
        kept_files.append(report)
    keep_apart(ledger, output, *kept_files)
    if owner.are_sums(data):
        raise UsageError("synth takes data; release partial sums first, then train and sample")
    check_training(seed, device)
    with show.progress() as bars:
        made = owner.release_rows(data, offer, ledger, released.name, Local(threads), bars.stage)
        save_charged(made, released, ledger)
        again = _again(released, trained, settings, seed)
        with _release_kept(released, again):
            model = train_to(made, trained, settings, seed, device, threads, bars.training, again)
            sample_to(model, rows, output, {}, seed, bars)
        if report is not None:
            bars.working("reporting")
            report_to(model, report, charge_of(made, ledger))
    show.statement(made, as_json)
    kept = f"beside it {released.name} and {trained.name}"
    told = "" if report is None else f" The public report is {report}."
    say.note(f"\n{rows:,} synthetic rows in {output}{bars.summary}; {kept}.{told} {spending(ledger)}")
    then = f"report {trained} -o report.html" if report is None else f"sample {trained} -n 1000 -o more{output.suffix}"
    say.next_step(f"dpearl {then}")


def _again(released: Path, trained: Path, settings: AnySettings, seed: int) -> str:
    """The command that goes on with training."""
    critic = " --no-critic" if getattr(settings, "omega", None) is Omega.NONE else ""
    return f"`dpearl train {released} -o {trained} --iterations {settings.iterations} --seed {seed}{critic}`"


@contextmanager
def _release_kept(released: Path, again: str) -> Iterator[None]:
    """What goes wrong after the release costs no budget: say how to go on."""
    try:
        yield
    except (FileError, TrainingError) as error:
        raise type(error)(f"{error}; {released} is kept and paid for: {again} goes on from it") from None


@app.command(epilog=say.examples("dpearl demo", "dpearl demo somewhere --iterations 50"))
def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write to.")] = Path("demo"),
    iterations: Iterations = None,
    quiet: Quiet = False,
) -> None:
    """Run the whole way on the carried Adult data."""
    real, offer = datasets.adult(), owner.Offer(datasets.adult_schema(), RECIPES["auto"], Budget(1.0, 1e-5))
    settings = training_settings(offer.sketch["embedding"], iterations, Omega.SIGMA, None)
    check_training(0, "auto")
    need_report()
    from dpearl import plot

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made a folder ({error.strerror}); choose another") from None
    files = {name: folder / name for name in _DEMO_FILES}
    for path in (*(path for name, path in files.items() if name != "ledger.jsonl"), checkpoint_of(files["model.dpearl"])):
        container.claim(path)
    show.forecast(forecast(offer, 32_000))
    with show.progress() as bars:
        made = owner.release_rows(real, offer, files["ledger.jsonl"], "adult.dpearl", None, bars.stage)
        save_charged(made, files["adult.dpearl"], files["ledger.jsonl"])
        again = _again(files["adult.dpearl"], files["model.dpearl"], settings, 0)
        model = train_to(made, files["model.dpearl"], settings, 0, "auto", None, bars.training, again)
        sample_to(model, len(real), files["synthetic.csv"], {}, 0, bars)
    container.place_file(files["statement.txt"], privacy_statement(made).encode())
    container.place_file(files["schema.toml"], datasets.ADULT_SCHEMA.read_bytes())
    tables = {"real rows": real, "synthetic rows": csv.read_csv(files["synthetic.csv"])}
    plot.save(plot.histograms(made.schema, tables, title=_DEMO_TITLE), files["histograms.png"])
    report_to(model, files["report.html"], charge_of(made, files["ledger.jsonl"]))
    say.result(f"\n{privacy_statement(made)}\n")
    show.ledger(ledgers.read_ledger(files["ledger.jsonl"]), str(files["ledger.jsonl"]))
    say.result(f"\nLeft in {folder}/{bars.summary}:")
    for name, what in _DEMO_FILES.items():
        say.result(f"  {name:15} {what}")
    say.next_step(f"open {files['report.html']}, or dpearl sample {files['model.dpearl']} -n 1000 -o more.csv")


_DEMO_TITLE = (
    "UCI Adult, real against synthetic (epsilon 1, delta 1e-5). Made from PUBLIC data; of private data it would be PRIVATE"
)

_DEMO_FILES = {
    "synthetic.csv": "as many synthetic rows as there are real ones",
    "report.html": "the public report: what is promised, how noisy it is, how well it fits",
    "histograms.png": "real against synthetic, column by column; this one is public data",
    "statement.txt": "the privacy statement",
    "adult.dpearl": "the release: all that was learnt of the rows",
    "model.dpearl": "the trained generator; `dpearl sample` draws more rows from it",
    "schema.toml": "what was declared",
    "ledger.jsonl": "what was spent",
}
