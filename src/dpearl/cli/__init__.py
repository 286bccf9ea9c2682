"""The command line: thin, no logic of its own."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpearl import audit as auditing
from dpearl import container, owner
from dpearl import ledger as ledgers
from dpearl.cli import show
from dpearl.design import RECIPES, Recipe, Scale
from dpearl.draft import draft
from dpearl.embed import PARTIAL, load_partial, save_partial
from dpearl.embed import merge as merge_sums
from dpearl.errors import DpearlError, FileError, UsageError
from dpearl.plan import forecast
from dpearl.privacy import Budget, Relation
from dpearl.read import open_sources
from dpearl.release import Release, load_release, save_release, this_version
from dpearl.schema import Schema, load_schema
from dpearl.statement import facts, privacy_statement

app = typer.Typer(
    name="dpearl",
    help="Differentially private data synthesis by private embeddings.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130

Data = Annotated[list[str], typer.Argument(help="Files, folders or globs: CSV, Parquet, .npz, LABEL/image.png; or partial sums.")]
SchemaFile = Annotated[Path, typer.Option("--schema", help="Schema file (TOML).")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Total privacy budget of everything in the release.")]
Delta = Annotated[float, typer.Option("--delta", help="Probability that the guarantee may fail.")]
RecipeName = Annotated[str, typer.Option("--recipe", help="auto, or paper (replace-one, pairwise distance).")]
RelationName = Annotated[Relation | None, typer.Option("--relation", help="Who counts as a neighbour; the recipe's by default.")]
ScaleName = Annotated[Scale | None, typer.Option("--scale", help="How the frequencies get their scale; public needs no budget.")]
Frequencies = Annotated[int | None, typer.Option("-k", "--frequencies", help="Number of frequencies.")]
RowsPerPerson = Annotated[int | None, typer.Option("--rows-per-person", help="Most rows of one person; overrides the schema.")]
Seed = Annotated[int, typer.Option("--seed", help="Public seed of the frequencies. Noise has no seed.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads; all cores by default.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="Ledger to charge; a new one holds just this budget.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="File to write; never overwritten.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if show_version:
        print(f"dpearl {this_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _recipe(name: str, relation: Relation | None, scale: Scale | None, frequencies: int | None) -> Recipe:
    if name not in RECIPES:
        raise UsageError(f"unknown recipe {name!r}; use {' or '.join(RECIPES)}")
    return owner.recipe_with(RECIPES[name], relation, scale, frequencies)


@app.command()
def schema(
    data: Annotated[str, typer.Argument(help="Data to describe.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write, never overwritten; else printed.")] = None,
) -> None:
    """Draft a schema: names and kinds; bounds and levels are left for you to declare."""
    if output is None:
        print(draft(open_sources(data)), end="")
        return
    container.claim(output)
    container.place_file(output, draft(open_sources(data)).encode())
    show.note(f"{output}: fill in the blanks from public knowledge, then run `dpearl plan --schema {output} ...`")


@app.command()
def plan(
    schema: SchemaFile,
    rows: Annotated[int, typer.Option("--rows", help="A guess of the number of rows; do not count them for this.")],
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    recipe: RecipeName = "auto",
    relation: RelationName = None,
    scale: ScaleName = None,
    frequencies: Frequencies = None,
    rows_per_person: RowsPerPerson = None,
) -> None:
    """Tell what a budget buys, without data."""
    declared = _declared(schema, rows_per_person)
    offer = owner.Offer(declared, _recipe(recipe, relation, scale, frequencies), Budget(epsilon, delta))
    show.forecast(forecast(offer, rows))


def _declared(path: Path, rows_per_person: int | None) -> Schema:
    declared = load_schema(path)
    return declared if rows_per_person is None else declared.with_rows_per_person(rows_per_person)


@app.command()
def release(
    data: Data,
    epsilon: Epsilon,
    output: Output,
    schema: Annotated[Path | None, typer.Option("--schema", help="Schema file (TOML); partial sums bring their own.")] = None,
    delta: Delta = 1e-5,
    recipe: RecipeName = "auto",
    relation: RelationName = None,
    scale: ScaleName = None,
    frequencies: Frequencies = None,
    rows_per_person: RowsPerPerson = None,
    ledger: LedgerFile = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Sanitize sensitive rows once: everything after works from the release alone."""
    container.claim(output)
    if ledger is not None and ledger.resolve() == output.resolve():
        raise UsageError(f"{output}: is both output and ledger; give two names")
    budget, chosen = Budget(epsilon, delta), _recipe(recipe, relation, scale, frequencies)
    if owner.are_sums(data):
        declared = None if schema is None else load_schema(schema)
        sums = merge_sums([load_partial(path) for path in data])
        owner.check_agreement(sums, declared, rows_per_person, scale, frequencies, seed)
        made = owner.release_sums(sums, owner.offer_for_sums(sums, chosen, budget), ledger, output.name)
    elif schema is None:
        raise UsageError("release needs --schema; `dpearl schema DATA -o schema.toml` drafts one")
    else:
        offer = owner.Offer(_declared(schema, rows_per_person), chosen, budget, seed)
        with show.progress() as bars:
            made = owner.release_rows(data, offer, ledger, output.name, threads, bars)
    _save(made, output, ledger)
    print(privacy_statement(made))
    show.note(
        f"\nWritten to {output}. "
        + (f"Charged to {ledger}." if ledger else "No ledger was given, so nothing records this spending.")
    )


def _save(made: Release, output: Path, ledger: Path | None) -> None:
    try:
        save_release(made, output)
    except DpearlError as error:
        charged = f"; {ledger} was charged all the same, for noise is never drawn twice" if ledger else ""
        raise FileError(f"{error}{charged}") from None


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A release.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Print a release's privacy statement, with its epsilon recomputed from the file."""
    if container.kind_of(file) == PARTIAL:
        raise FileError(f"{file}: is a PRIVATE partial sum, not a release; it must not leave the owner")
    opened = load_release(file)
    print(json.dumps(facts(opened), indent=2) if as_json else privacy_statement(opened))


@app.command()
def embed(
    data: Data,
    schema: SchemaFile,
    output: Output,
    recipe: RecipeName = "auto",
    frequencies: Frequencies = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Write the PRIVATE partial sum of one shard or site (mode 0600); merge and release it later."""
    container.claim(output)
    chosen = _recipe(recipe, None, Scale.PUBLIC, frequencies)
    with show.progress() as bars:
        sums = owner.embed_shard(data, load_schema(schema), chosen, seed, threads, bars)
    save_partial(sums, output)
    show.note(f"{output}: PRIVATE partial sum; keep it secret, and delete it after the release")


@app.command()
def merge(parts: Annotated[list[Path], typer.Argument(help="Partial sums of different shards.")], output: Output) -> None:
    """Add partial sums; noise is added once, by `release`."""
    container.claim(output)
    save_partial(merge_sums([load_partial(part) for part in parts]), output)
    show.note(f"{output}: PRIVATE sum of {len(parts)} parts")


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(help="Ledger file.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Open the ledger with this total, or change it.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta; kept, or 1e-5 for a new ledger.")] = None,
) -> None:
    """Show what has been spent, in plain words; with --epsilon, set the total."""
    book = ledgers.read_ledger(file) if epsilon is None else ledgers.set_budget(file, epsilon, delta)
    show.ledger(book, str(file))


@app.command()
def audit(
    trials: Annotated[int, typer.Option("--trials", min=100, help="Releases of each of two neighbouring tables.")] = 4000,
) -> None:
    """Test statistically that the mechanism installed here keeps its promise."""
    found = auditing.audit(trials)
    show.findings(found)
    if not all(finding.passed for finding in found):
        show.note("dpearl: the audit FAILED: this installation does not keep its promise; do not release with it")
        raise typer.Exit(1)
    print("Passed: no test could tell neighbours apart better than the statement allows.")


@app.command()
def demo(folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path("demo")) -> None:
    """Run the whole way on the carried Adult data: plan, release, statement."""
    from dpearl import datasets

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made a folder ({error.strerror}); choose another") from None
    offer = owner.Offer(datasets.adult_schema(), RECIPES["auto"], Budget(1.0, 1e-5))
    show.forecast(forecast(offer, 32_000))
    path = container.claim(folder / "adult.dpearl")
    with show.progress() as bars:
        made = owner.release_rows(datasets.ADULT_TRAIN, offer, folder / "ledger.jsonl", path.name, None, bars)
    save_release(made, path)
    container.place_file(folder / "statement.txt", privacy_statement(made).encode())
    container.place_file(folder / "schema.toml", datasets.ADULT_SCHEMA.read_bytes())
    print(f"\n{privacy_statement(made)}\n")
    show.ledger(ledgers.read_ledger(folder / "ledger.jsonl"), str(folder / "ledger.jsonl"))
    print(f"\nLeft in {folder}/: adult.dpearl (the release), statement.txt, schema.toml, ledger.jsonl")


def main() -> None:
    """Run the command line: 0 fine, 2 the user's mistake in one line, 1 ours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except DpearlError as error:
        show.mistake(str(error))
        return 2
    except KeyboardInterrupt:
        show.mistake("interrupted; no file was written. If a ledger was given, `dpearl ledger` tells whether it was charged")
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody listens any more, so nothing is flushed at exit
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):
            show.mistake(f"{error.format_message()} (see `dpearl --help`)")
            return 2
        if os.environ.get("DPEARL_DEBUG"):
            raise
        show.note(f"dpearl: internal error ({type(error).__name__}); please report it. DPEARL_DEBUG=1 shows where")
        return 1
