"""Commands that see rows, or what protects them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dpearl import container, owner
from dpearl import ledger as ledgers
from dpearl.cli import say, show
from dpearl.cli.options import (
    AsJson,
    Database,
    DataOrSums,
    Delta,
    Engine,
    Epsilon,
    Frequencies,
    LedgerFile,
    Memory,
    Output,
    Query,
    Quiet,
    RecipeName,
    RelationName,
    RowsPerPerson,
    ScaleName,
    Scheduler,
    SchemaFile,
    Seed,
    Threads,
    verbs,
)
from dpearl.design import Recipe, Scale, recipe_named
from dpearl.draft import draft, written
from dpearl.embed import load_partial
from dpearl.embed import merge as merge_sums
from dpearl.engines import EngineName, engine_named
from dpearl.engines.local import MEGABYTES
from dpearl.errors import DpearlError, FileError, UsageError
from dpearl.plan import forecast
from dpearl.privacy import Budget, Relation
from dpearl.read import QuerySource, open_sources
from dpearl.release import MODEL, RELEASE, Release, load_release_inside, save_release
from dpearl.schema import Declaration, load_declaration, load_schema

app = verbs()


def chosen_recipe(name: str, relation: Relation | None, scale: Scale | None, frequencies: int | None) -> Recipe:
    return owner.recipe_with(recipe_named(name), relation, scale, frequencies)


@app.command(
    epilog=say.examples(
        "dpearl schema people.csv -o schema.toml",
        "dpearl schema people.parquet --estimate -o schema.toml",
        "dpearl schema people.dpearl -o completed.toml   # what a release answered",
    )
)
def schema(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Data to describe; or a release, whose schema is written down.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write, never overwritten; else printed.")] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Ask for all bounds and levels, under the budget.")] = False,
    quiet: Quiet = False,
) -> None:
    """Draft a schema: names and kinds.

    Bounds and levels are left for you to declare, or to ask for."""
    if output is not None:
        container.claim(output)
    known = container.kind_of(data) in (RELEASE, MODEL)
    text = written(load_release_inside(data)[0].schema) if known else draft(open_sources(data), estimate)
    if output is None:
        print(text, end="")
        return
    container.place_file(output, text.encode())
    todo = "check it" if known or estimate else "fill in the blanks from public knowledge"
    say.note(f"{output}: {todo}.")
    say.next_step(f"dpearl plan --schema {output} --rows 10000 --epsilon 1")


@app.command(
    epilog=say.examples(
        "dpearl plan --schema schema.toml --rows 30000 --epsilon 1",
        "dpearl plan --schema schema.toml --rows 30000 --epsilon 0.5 --recipe paper --json",
    )
)
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
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tell what a budget buys, without data."""
    declared = declared_schema(schema, rows_per_person)
    offer = owner.Offer(declared, chosen_recipe(recipe, relation, scale, frequencies), Budget(epsilon, delta))
    made = forecast(offer, rows)
    if as_json:
        show.as_json(made.to_dict())
        return
    show.forecast(made)
    say.next_step(f"dpearl release DATA --schema {schema} --epsilon {epsilon:g} --ledger ledger.jsonl -o release.dpearl")


def declared_schema(path: Path, rows_per_person: int | None) -> Declaration:
    declared = load_declaration(path)
    return declared if rows_per_person is None else declared.with_rows_per_person(rows_per_person)


@app.command(
    epilog=say.examples(
        "dpearl release people.csv --schema schema.toml --epsilon 1 --ledger l.jsonl -o people.dpearl",
        "dpearl release 'year=*/*.parquet' --schema schema.toml --epsilon 1 --engine dask -o p.dpearl",
        "dpearl release --query 'select * from t' --database d.db --schema s.toml --epsilon 1 -o t.dpearl",
        "dpearl release north.sum south.sum --epsilon 1 --ledger l.jsonl -o p.dpearl   # partial sums",
    )
)
def release(
    epsilon: Epsilon,
    output: Output,
    data: DataOrSums = None,
    schema: Annotated[Path | None, typer.Option("--schema", help="Schema file (TOML); partial sums bring their own.")] = None,
    delta: Delta = 1e-5,
    recipe: RecipeName = "auto",
    relation: RelationName = None,
    scale: ScaleName = None,
    frequencies: Frequencies = None,
    rows_per_person: RowsPerPerson = None,
    ledger: LedgerFile = None,
    seed: Seed = 0,
    query: Query = None,
    database: Database = None,
    engine: Engine = EngineName.LOCAL,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = MEGABYTES,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Sanitize sensitive rows, once.

    Everything after works from the release alone."""
    container.claim(output)
    keep_apart(ledger, output)
    budget, chosen = Budget(epsilon, delta), chosen_recipe(recipe, relation, scale, frequencies)
    if data and owner.are_sums(data):
        declared = None if schema is None else load_schema(schema)
        sums = merge_sums([load_partial(path) for path in data])
        owner.check_agreement(sums, declared, rows_per_person, scale, frequencies, seed)
        made = owner.release_sums(sums, owner.offer_for_sums(sums, chosen, budget), ledger, output.name)
    elif schema is None:
        raise UsageError("release needs --schema; `dpearl schema DATA -o schema.toml` drafts one")
    else:
        offer = owner.Offer(declared_schema(schema, rows_per_person), chosen, budget, seed)
        rows = rows_of(data, query, database)
        with closing(engine_named(engine, scheduler, threads, memory)) as chosen_engine, show.progress() as bars:
            made = owner.release_rows(rows, offer, ledger, output.name, chosen_engine, bars.stage)
    save_charged(made, output, ledger)
    show.statement(made, as_json)
    say.note(f"\nWritten to {output}. {spending(ledger)}")
    say.next_step(f"dpearl train {output} -o model.dpearl")


def rows_of(data: list[str] | None, query: str | None, database: str | None) -> list[str] | QuerySource:
    """Where rows come from: files, or a query."""
    if query is not None and not data:
        return QuerySource(query, database)
    if query is not None or database is not None:
        raise UsageError("--query takes the place of DATA, and --database goes with it")
    if not data:
        raise UsageError("nothing to read; name files, folders or globs, or give --query")
    return data


def spending(ledger: Path | None) -> str:
    """Where a release's cost is recorded, in a sentence."""
    return f"Charged to {ledger}." if ledger else "No ledger was given, so nothing records this spending."


def keep_apart(ledger: Path | None, *outputs: Path) -> None:
    """Refuse a ledger that an output would have to replace."""
    for output in outputs:
        if ledger is not None and ledger.resolve() == output.resolve():
            raise UsageError(f"{output}: is both output and ledger; give two names")


def save_charged(made: Release, output: Path, ledger: Path | None) -> None:
    with charged(ledger):
        save_release(made, output)


@contextmanager
def charged(ledger: Path | None) -> Iterator[None]:
    """What was paid for and cannot be saved is lost: say so."""
    try:
        yield
    except DpearlError as error:
        paid = f"; {ledger} was charged all the same, for noise is never drawn twice" if ledger else ""
        raise FileError(f"{error}{paid}") from None


@app.command(
    epilog=say.examples(
        "dpearl ledger ledger.jsonl",
        "dpearl ledger ledger.jsonl --epsilon 3   # open it with this total, or change it",
    )
)
def ledger(
    file: Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger file.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Open the ledger with this total, or change it.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta; kept, or 1e-5 for a new ledger.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what has been spent; with --epsilon, set the total."""
    book = ledgers.read_ledger(file) if epsilon is None else ledgers.set_budget(file, epsilon, delta)
    if as_json:
        show.as_json(book.to_dict())
        return
    show.ledger(book, str(file))
    if book.worth_a_release:
        say.next_step(f"dpearl release DATA --schema schema.toml --epsilon {_floor(book.left)} --ledger {file} -o release.dpearl")


def _floor(epsilon: float) -> str:
    """An epsilon in three digits that is surely covered."""
    return f"{math.floor(epsilon * 1000) / 1000:g}"
