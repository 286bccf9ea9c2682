"""Commands for shards, streams and sites: partial sums and secret shares."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from dpearl import container, owner, sites
from dpearl import stream as streams
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
    Scheduler,
    SchemaFile,
    Seed,
    Threads,
    verbs,
)
from dpearl.cli.owner_side import charged, chosen_recipe, declared_schema, keep_apart, rows_of, spending
from dpearl.design import Scale
from dpearl.embed import load_partial, save_partial
from dpearl.embed import merge as merge_sums
from dpearl.engines import Engine as AnyEngine
from dpearl.engines import EngineName, engine_named
from dpearl.engines.local import MEGABYTES
from dpearl.errors import UsageError
from dpearl.privacy import Budget
from dpearl.read import QuerySource, open_sources
from dpearl.release import save_release
from dpearl.schema import complete, load_schema

StudyFile = Annotated[Path | None, typer.Option("--study", help="What sites agreed on, from `dpearl study`.")]


app = verbs()

_SUM_NEXT = "dpearl release {} --epsilon 1 --ledger ledger.jsonl -o release.dpearl, with the sums of all other shards"
"""What becomes of partial sums."""


@app.command(
    epilog=say.examples(
        "dpearl embed north.csv --schema schema.toml -o north.sum",
        "dpearl embed 'day=*.parquet' --schema schema.toml --append -o running.sum",
        "dpearl embed north.csv --study study.dpearl --site north --ledger l.jsonl -o shares/",
    )
)
def embed(
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write; with --study, a new folder for the shares.")],
    data: DataOrSums = None,
    schema: Annotated[Path | None, typer.Option("--schema", help="Schema file (TOML); a study brings its own.")] = None,
    recipe: RecipeName = "auto",
    frequencies: Frequencies = None,
    seed: Seed = 0,
    append: Annotated[bool, typer.Option("--append", help="Add the files that this running sum has not counted yet.")] = False,
    study: StudyFile = None,
    site: Annotated[str | None, typer.Option("--site", help="Which of the study's sites this is.")] = None,
    ledger: LedgerFile = None,
    query: Query = None,
    database: Database = None,
    engine: Engine = EngineName.LOCAL,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = MEGABYTES,
    quiet: Quiet = False,
) -> None:
    """Write the PRIVATE partial sum of a shard or site.

    Its mode is 0600; merge and release it later. With --study, secret shares."""
    if (study is None) == (schema is None) or (study is None) != (site is None):
        raise UsageError("embed takes --schema, or --study with --site")
    if study is None and ledger is not None:
        raise UsageError("a partial sum costs nothing until it is released; give --ledger to `dpearl release`")
    if append and (study is not None or query is not None):
        raise UsageError("--append keeps a running sum of files under --schema; leave out --study and --query")
    if not append:
        container.claim(output)
    rows = rows_of(data, query, database)
    with closing(engine_named(engine, scheduler, threads, memory)) as summing, show.progress() as bars:
        if study is not None:
            told = _share(rows, study, str(site), ledger, output, summing, bars)
        else:
            assert schema is not None
            chosen = chosen_recipe(recipe, None, Scale.PUBLIC, frequencies)
            design = owner.shard_design(load_schema(schema), chosen, seed)
            if append:
                added = streams.append(output, list(data or ()), design, summing, bars.stage)
                told = f"{output}: PRIVATE running sum, {len(added.files)} files added, {added.known} counted before"
            else:
                save_partial(owner.embed_all(open_sources(rows), design, summing, bars.stage), output)
                told = f"{output}: PRIVATE partial sum; keep it secret, and delete it after the release"
    say.note(told)
    say.next_step(
        _SUM_NEXT.format(output) if study is None else f"dpearl merge SHARE... --study {study} -o combined, at each site"
    )


def _share(
    rows: list[str] | QuerySource, study: Path, site: str, ledger: Path | None, folder: Path, engine: AnyEngine, bars: show.Bars
) -> str:
    """A site's shares in a folder of their own."""
    keep_apart(ledger, folder)
    made = sites.share_rows(rows, sites.load_study(study), site, ledger, folder.name, engine, bars.stage)
    with charged(ledger):
        sites.save_shares(made, folder)
    return f"{folder}: PRIVATE shares, one for each site; send each to its site alone. {spending(ledger)}"


@app.command(
    epilog=say.examples(
        "dpearl merge north.sum south.sum -o all.sum",
        "dpearl merge from-*.share --study study.dpearl -o north.combined",
        "dpearl merge north.combined south.combined --study study.dpearl -o people.dpearl",
    )
)
def merge(
    parts: Annotated[list[Path], typer.Argument(metavar="PART", help="Partial sums of different shards, or shares of a study.")],
    output: Output,
    study: StudyFile = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the parts; else they are removed once their sum is written.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add partial sums, or a site's shares, and remove the parts.

    The combined shares of all sites of a study give its release."""
    container.claim(output)
    kinds = {container.kind_of(part) for part in parts}
    if study is None and kinds & {sites.SHARE, sites.COMBINED}:
        raise UsageError("shares are merged with --study, the file that all sites agreed on")
    if study is None:
        save_partial(merge_sums([load_partial(part) for part in parts]), output)
        told, then = f"{output}: PRIVATE sum of {len(parts)} parts", _SUM_NEXT.format(output)
    elif kinds == {sites.COMBINED}:
        agreed = sites.load_study(study)
        made = sites.open_release(agreed, [sites.load_share(part, agreed, sites.COMBINED) for part in parts])
        save_release(made, output)
        show.statement(made, as_json)
        told = f"\nWritten to {output}. Each site has charged its own ledger."
        then = f"dpearl train {output} -o model.dpearl"
    else:
        agreed = sites.load_study(study)
        sites.save_share(sites.combine(agreed, [sites.load_share(part, agreed, sites.SHARE) for part in parts]), output)
        told = f"{output}: sum of {len(parts)} shares; pass it on to whoever makes the release"
        then = f"dpearl merge COMBINED... --study {study} -o release.dpearl, once those of all sites are there"
    for part in [] if keep else parts:
        container.remove(part)
    say.note(told)
    say.next_step(then)


@app.command(
    epilog=say.examples(
        "dpearl study --schema schema.toml --epsilon 1 --site north --site south --site west -o study",
    )
)
def study(
    schema: SchemaFile,
    epsilon: Epsilon,
    site: Annotated[list[str], typer.Option("--site", help="Name of a site; repeat it for each.")],
    output: Output,
    dishonest: Annotated[int, typer.Option("--dishonest", help="Sites that may pool what they know and add no noise.")] = 1,
    delta: Delta = 1e-5,
    recipe: RecipeName = "auto",
    relation: RelationName = None,
    frequencies: Frequencies = None,
    rows_per_person: RowsPerPerson = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write what sites agree on before they share their sums."""
    container.claim(output)
    chosen = chosen_recipe(recipe, relation, Scale.PUBLIC, frequencies)
    declared = complete(declared_schema(schema, rows_per_person), str(schema))
    made = sites.plan_study(declared, chosen, Budget(epsilon, delta), site, dishonest, seed)
    sites.save_study(made, output)
    more = (len(made.sites) / made.honest) ** 0.5
    say.note(f"{output}: give it to all {len(made.sites)} sites; noise is {more:.2f} times that of a trusted aggregator")
    say.next_step(f"dpearl embed DATA --study {output} --site {site[0]} --ledger ledger.jsonl -o shares, at each site")
