"""Rows from databases and object stores: the same sums as from files, and no query that lets one row move another."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

from dpearl import RECIPES, Local, load_release
from dpearl.design import Design, embedding_design
from dpearl.embed import embed, load_partial, merge, save_partial
from dpearl.errors import DataError, UsageError
from dpearl.owner import Offer, embed_shard, offer_for_sums, recipe_with, release_rows, release_sums
from dpearl.privacy import Budget, Relation
from dpearl.read import QuerySource, open_sources
from dpearl.schema import parse_schema

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

DPEARL = Path(sys.executable).parent / "dpearl"
COLUMNS: dict[str, Any] = {
    "x": {"kind": "number", "lower": 0, "upper": 1},
    "n": {"kind": "number", "lower": 0, "upper": 9, "step": 1, "missing": True},
    "c": {"kind": "category", "levels": ["a", "b"], "other": "rest"},
}
SCHEMA = parse_schema({"columns": COLUMNS})
PEOPLE = parse_schema({"person": "id", "rows_per_person": 2, "columns": COLUMNS})
TOML = """
[columns.x]
kind = "number"
lower = 0
upper = 1
[columns.c]
kind = "category"
levels = ["a", "b"]
"""


def rows(count: int = 2000) -> pa.Table:
    chance = np.random.default_rng(0)
    gaps = chance.random(count) < 0.2
    columns = {
        "id": chance.integers(0, count // 4, count),
        "x": chance.integers(0, 1000, count) / 1000,
        "n": pa.array(chance.integers(-1, 11, count), mask=gaps),
        "c": pa.array(chance.choice(["a", "b", "it's; odd"], count), mask=gaps),
    }
    return pa.table(columns)


def plan(schema: Any) -> Design:
    return embedding_design(schema, recipe_with(RECIPES["auto"], None, None, 9), 1.0, 0)


def sums(data: Any, schema: Any = SCHEMA) -> tuple[int, tuple[str, ...]]:
    made = embed(open_sources(data), plan(schema), Local(2))
    return made.rows, made.shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as Parquet, CSV, DuckDB and SQLite."""
    place, table = tmp_path_factory.mktemp("databases"), rows()
    parquet.write_table(table, place / "rows.parquet")
    csv.write_csv(table, place / "rows.csv")
    with duckdb.connect(str(place / "rows.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("create table people as select * from given")
        connection.execute("create view adults as select * from people where true")
        connection.execute("create view first as select rowid as place, * from people")
        connection.execute("create macro described(cell) as stats(cell)")
        connection.execute("create view few as select * exclude (place) from first where place < 5")
    with sqlite3.connect(place / "rows.sqlite") as lite:
        lite.execute("create table people (id integer, x real, n integer, c text)")
        lite.executemany("insert into people values (?, ?, ?, ?)", [tuple(row.values()) for row in table.to_pylist()])
    lite.close()
    return place


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A real server with the same rows, in a folder of its own, on a socket of its own."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL's server is not on this machine (Debian: postgresql)")
    with tempfile.TemporaryDirectory() as place:
        user: dict[str, Any] = {}
        if os.getuid() == 0:
            user = {"user": "nobody", "env": {**os.environ, "HOME": place}}
            shutil.chown(place, "nobody")
        data, options = f"{place}/data", f"-c listen_addresses= -c unix_socket_directories={place} -c fsync=off"
        quiet: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "cwd": place, **user}
        subprocess.run(["initdb", "-D", data, "-A", "trust", "-U", "owner", "-E", "UTF8", "--locale=C"], **quiet)
        subprocess.run(["pg_ctl", "-D", data, "-w", "-l", f"{place}/log", "-o", options, "start"], **quiet)
        try:
            address = f"postgresql:///postgres?host={place}&user=owner"
            table = "id bigint, x double precision, n bigint, c text"
            ask(place, f"create table people ({table}); copy people from stdin (format csv)", csv_text())
            ask(place, "create table dirty (x text, c text); insert into dirty values ('SECRET', 'a')")
            yield address
        finally:
            subprocess.run(["pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)


def csv_text() -> bytes:
    sink = pa.BufferOutputStream()
    csv.write_csv(rows(), sink, csv.WriteOptions(include_header=False))
    return bytes(sink.getvalue().to_pybytes())


def ask(place: str, text: str, given: bytes = b"") -> None:
    command = ["psql", "-q", "-h", place, "-U", "owner", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]
    words = [word for part in text.split("; ") for word in ("-c", part)]
    subprocess.run([*command, *words], input=given, check=True)


@pytest.mark.parametrize("schema", [SCHEMA, PEOPLE], ids=["rows", "persons"])
def test_every_database_gives_the_sums_of_the_files(folder: Path, schema: Any) -> None:
    whole = sums(rows(), schema)
    assert sums(QuerySource("select * from people", str(folder / "rows.duckdb")), schema) == whole
    assert sums(QuerySource("select id, c, n, x from adults", str(folder / "rows.duckdb")), schema) == whole
    assert sums(QuerySource("select * from people", str(folder / "rows.sqlite")), schema) == whole
    assert sums(QuerySource(f"select * from '{folder}/rows.parquet'"), schema) == whole


def test_persons_are_bounded_the_same_where_rows_come_in_another_order_each_time(folder: Path) -> None:
    source = QuerySource("select * from people order by random()", str(folder / "rows.duckdb"))
    made = embed(open_sources(source), plan(PEOPLE), Local(2, batch_rows=50))
    assert (made.rows, made.shards) == sums(rows(), PEOPLE)


@pytest.mark.parametrize("schema", [SCHEMA, PEOPLE], ids=["rows", "persons"])
def test_a_postgresql_server_gives_the_sums_of_the_files(postgres: str, schema: Any) -> None:
    assert sums(QuerySource("select * from people", postgres), schema) == sums(rows(), schema)
    some = rows().filter(pa.compute.greater(rows()["x"], 0.5))
    assert sums(QuerySource("select * from people where x > 0.5", postgres), schema) == sums(some, schema)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select avg(x) over () as x, n, c, id from people", "WINDOW does not go row by row"),
        ("select x, n, c, id from people limit 5", "LIMIT does not go row by row"),
        ("select distinct x, n, c, id from people", "DISTINCT does not go row by row"),
        ("select max(x) as x, n, c, id from people group by all", "AGGREGATE does not go row by row"),
        ("select p.* from people p join people q on p.id = q.id", "COMPARISON_JOIN does not go row by row"),
        ("select * from people union all select * from people", "UNION does not go row by row"),
        ("select x - (select avg(x) from people) as x, n, c, id from people", "does not go row by row"),
        ("select unnest([x, x]) as x, n, c, id from people", "UNNEST does not go row by row"),
        ("select * from people using sample 10 rows", "SAMPLE does not go row by row"),
        ("select x from people where id in (select id from people)", "does not go row by row"),
        ("select * from '{folder}/rows.csv'", "rows would decide on how a CSV is read"),
        ("select * from read_csv('{folder}/rows.csv', all_varchar = true)", "rows would decide on how a CSV is read"),
        ("select rowid as x, n, c, id from people", "rowid hangs on other rows"),
        ("select * from people where ROWID < 5", "rowid hangs on other rows"),
        ("select file_row_number as x, n, c, id from '{folder}/rows.parquet'", "file_row_number hangs on other rows"),
        ("select x, n, stats (x) as c, id from people", "stats hangs on other rows"),
        ("select * from few", "rowid hangs on other rows"),
        ("select * from query('select rowid as x, n, c, id from people')", "rowid hangs on other rows"),
        ("select '--', rowid as x, n, c, id from people", "rowid hangs on other rows"),
        ("select x, n, described(c) as c, id from people", "stats hangs on other rows"),
        ("select * from nobody", "Table with name nobody does not exist"),
        ("select years from people", 'Referenced column "years" not found'),
        ("drop table people", "takes one SELECT"),
        ("select * from people; select 1", "takes one SELECT"),
        ("selct", "syntax error"),
    ],
)
def test_a_query_that_is_not_row_by_row_is_refused(folder: Path, query: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        sums(QuerySource(query.replace("{folder}", str(folder)), str(folder / "rows.duckdb")))


def test_words_that_mean_nothing_are_not_taken_for_row_numbers(folder: Path) -> None:
    query = "select x, n, c, id, '--' as browid /* stats(x) */ from people -- ctid"
    assert sums(QuerySource(query, str(folder / "rows.duckdb"))) == sums(rows())


def test_a_filter_is_refused_where_the_number_of_rows_is_published(folder: Path, tmp_path: Path) -> None:
    """A person who is replaced could leave the filter: the published number would tell, and no noise covers it."""
    replaced = Offer(SCHEMA, recipe_with(RECIPES["auto"], Relation.REPLACE_ONE, None, None), Budget(1.0, 1e-5))
    present = Offer(SCHEMA, RECIPES["auto"], Budget(1.0, 1e-5))
    unfiltered, filtered = (QuerySource(f"select * from {table}", str(folder / "rows.duckdb")) for table in ("people", "adults"))
    ledger = tmp_path / "ledger.jsonl"
    with pytest.raises(UsageError, match="a filter needs --relation add-remove"):
        release_rows(filtered, replaced, ledger)
    parts = [embed_shard(data, SCHEMA, RECIPES["auto"]) for data in (filtered, rows(10))]
    save_partial(merge(parts), tmp_path / "sums")
    sums = load_partial(tmp_path / "sums")
    with pytest.raises(UsageError, match="a filter needs --relation add-remove"):
        release_sums(sums, offer_for_sums(sums, replaced.recipe, replaced.budget), ledger)
    assert not ledger.exists()
    assert release_sums(parts[1], offer_for_sums(parts[1], replaced.recipe, replaced.budget)).rows == 10
    assert release_rows(unfiltered, replaced).rows == 2000
    assert release_rows(filtered, present).rows is None


def test_no_cell_is_quoted_where_a_query_stops(postgres: str) -> None:
    for source in (
        QuerySource("select cast(x as double) as x, 1 as n, c from dirty", postgres),
        QuerySource("select 1.0 as x, 1 as n, error('SECRET') as c from dirty", postgres),
    ):
        with pytest.raises(DataError, match="stopped while rows were read") as caught:
            sums(source)
        assert "SECRET" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("database", ["nowhere.duckdb", "postgresql:///x?host=/nowhere"])
def test_a_database_that_is_not_there_is_named(database: str) -> None:
    with pytest.raises(DataError, match="nowhere"):
        sums(QuerySource("select 1", database))


def test_rows_of_a_query_have_no_place(folder: Path) -> None:
    design = Design(SCHEMA, (pairwise(),))
    with pytest.raises(UsageError, match="pairs rows by their place"):
        embed(open_sources(QuerySource("select * from people", str(folder / "rows.duckdb"))), design)


def pairwise() -> Any:
    from dpearl.embeddings.spread import pairwise_distance

    return pairwise_distance(plan(SCHEMA).codec, 1.0)


def test_a_release_of_a_query_from_a_shell(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TOML)
    query = ["--query", "select x, c from people", "--database", str(folder / "rows.duckdb")]
    command = [str(DPEARL), "release", *query, "--schema", "s.toml", "--epsilon", "1000", "-o", "out.dpearl"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert load_release(tmp_path / "out.dpearl").embedding.noisy_rows == pytest.approx(2000, abs=5)
    both = subprocess.run([*command[:-1], "other", "data.csv"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (both.returncode, both.stderr) == (2, "dpearl: --query takes the place of DATA, and --database goes with it\n")


def test_files_in_a_store_are_read_like_files(folder: Path) -> None:
    """fsspec's memory is a real store: what is read comes from it and from nowhere else."""
    store = fsspec.filesystem("memory")
    table, whole = rows(), sums(rows())
    try:
        for place, start in enumerate((0, 700)):
            with store.open(f"/bucket/part{place}.parquet", "wb") as file:
                parquet.write_table(table.slice(start, 700 if not place else None), file)
        store.pipe("/bucket/.hidden/part.parquet", b"no Parquet")
        store.pipe("/bucket/note.txt.bak", b"no table")
        store.pipe("/csv/rows.csv", (folder / "rows.csv").read_bytes())
        for name in ("memory://bucket", "memory://bucket/*.parquet", "memory://csv/rows.csv"):
            assert sums(name) == whole
        assert sums(["memory://bucket/part0.parquet", "memory://bucket/part1.parquet"], PEOPLE) == sums(rows(), PEOPLE)
        with pytest.raises(DataError, match="the same file is given twice"):
            sums(["memory://bucket/part0.parquet", "memory://bucket/*"])
        with pytest.raises(DataError, match=r"memory://bucket/none\.parquet: no such file"):
            sums("memory://bucket/none.parquet")
    finally:
        store.rm("/", recursive=True)


class Bucket(BaseHTTPRequestHandler):
    """As much of S3 as reading needs: list, head, and ranges of objects."""

    objects: dict[str, bytes] = {}
    asked: list[str] = []

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        address = urlparse(self.path)
        name, options = unquote(address.path).strip("/"), parse_qs(address.query)
        self.asked.append(name)
        if "list-type" in options:
            prefix = options.get("prefix", [""])[0]
            keys = [key.partition("/")[2] for key in self.objects if key.partition("/")[2].startswith(prefix)]
            found = "".join(
                f"<Contents><Key>{key}</Key><Size>{len(self.objects['bucket/' + key])}</Size></Contents>" for key in keys
            )
            text = f"<ListBucketResult><Name>bucket</Name><KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>{found}"
            return self._send(200, (text + "</ListBucketResult>").encode(), body)
        if name not in self.objects:
            return self._send(404, b"", body)
        content = self.objects[name]
        if (wanted := self.headers.get("Range")) is not None:
            start, _, stop = wanted.removeprefix("bytes=").partition("-")
            part = content[int(start) : int(stop or len(content)) + 1]
            return self._send(206, part, body, {"Content-Range": f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}"})
        return self._send(200, content, body)

    def _send(self, code: int, content: bytes, body: bool, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {
            "Content-Length": str(len(content)),
            "ETag": '"x"',
            "Content-Type": "application/xml",
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


def test_s3_paths_are_read_with_the_users_credentials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyArrow's own S3 client against a server on this machine that speaks S3."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    Bucket.objects = {"bucket/folder/rows.parquet": (folder / "rows.parquet").read_bytes()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    Thread(target=server.serve_forever, daemon=True).start()
    options = f"?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
    try:
        assert sums(f"s3://bucket/folder/rows.parquet{options}") == sums(rows())
        assert sums(f"s3://bucket/folder/*.parquet{options}", PEOPLE) == sums(rows(), PEOPLE)
        with pytest.raises(DataError, match=r"^s3://bucket/none.parquet: no such file or folder$"):
            sums(f"s3://key:hidden@bucket/none.parquet{options}")
    finally:
        server.shutdown()
        server.server_close()
    assert "bucket/folder/rows.parquet" in Bucket.asked
