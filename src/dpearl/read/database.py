"""Rows of a SELECT in DuckDB: its own files, Parquet, SQLite, PostgreSQL.

A query must go row by row, or one person could move what is read of others: a window, a join or a LIMIT lets a row
depend on other rows, and the guarantee would be void. So the query's logical plan may hold nothing but scans, expressions
and filters, and its words no row number, which is a LIMIT in disguise. A CSV is refused: DuckDB finds out quotes and types from
its rows, so that one row can change how all others are read. Extensions are loaded from where pip put them; DuckDB checks
their signature, and nothing is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dpearl.errors import DataError, UsageError
from dpearl.read.tables import unique
from dpearl.schema import Schema

_ROWS = 2**14
_SCANS = {"SEQ_SCAN", "PARQUET_SCAN", "READ_PARQUET", "SQLITE_SCAN", "POSTGRES_SCAN"}
_ROW_BY_ROW = {"PROJECTION", "FILTER", "ORDER_BY", "CTE", "CTE_SCAN", *_SCANS}
_PLACES = re.compile(r"\b(rowid|file_row_number|ctid)\b|\b(stats|nextval|currval)\s*\(", re.IGNORECASE)
"""What hangs on other rows without an operator of its own: the number of a row, a column's statistics, a counter."""
_REMARK = re.compile(r"('(?:[^']|'')*')|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Comments, in which words mean nothing; literals stay, for `query('…')` runs what it is given."""
_QUIET = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class QuerySource:
    """A query over a DuckDB or SQLite file, `postgresql://…`, or, without a database, over files that it names."""

    query: str
    database: str | None = None
    typed = True
    placed = False
    pieces = ()
    rows = None
    guessed: ClassVar[dict[str, str]] = {}

    @property
    def where(self) -> str:
        return "query"

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        with self._connected() as connection:
            stored = connection.sql(f"select * from ({self.query}\n) limit 0").to_arrow_table().schema
        return dict(zip(unique(stored.names, self.where), stored.types, strict=True))

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        return self.types

    @cached_property
    def filtered(self) -> bool:
        """Whether cells decide on which rows are read."""
        with self._connected() as connection:
            return "FILTER" in _plan(connection, self.query)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Declared columns of all rows. Where persons are bounded rows come in the order of their content, to come so again."""
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.reads)
        order = " order by all" if schema.person is not None else ""
        with self._connected() as connection:
            yield from connection.sql(f"select {names} from ({self.query}\n){order}").to_arrow_reader(_ROWS)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection that only reads; whatever goes wrong is told without DuckDB's words where those may quote a cell."""
        try:
            import duckdb
        except ImportError:
            raise UsageError("--query needs duckdb; pip install 'dpearl[duckdb]'") from None
        try:
            connection = _open(duckdb, self.database)
            try:
                _check(connection, self.query)
                yield connection
            finally:
                connection.close()
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
            raise UsageError(f"--query: {str(error).splitlines()[0]}") from None
        except duckdb.IOException:
            what = self.database or "a file that it names"
            raise DataError(f"--query: {what} cannot be opened; mend the name, or start the server") from None
        except duckdb.Error as error:
            name = type(error).__name__
            raise DataError(f"--query: stopped while rows were read ({name}); let it take any cell, as try_cast does") from None


def _open(duckdb: Any, database: str | None) -> Any:
    if database is None:
        return duckdb.connect(config=_QUIET)
    if database.startswith(("postgresql://", "postgres://")):
        return _attached(duckdb, "postgres", database)
    if not Path(database).is_file():
        raise DataError(f"{database}: no such database file")
    with open(database, "rb") as file:
        lite = file.read(len(_SQLITE)) == _SQLITE
    return _attached(duckdb, "sqlite", database) if lite else duckdb.connect(database, read_only=True, config=_QUIET)


def _attached(duckdb: Any, kind: str, database: str) -> Any:
    """DuckDB with another database behind it. SQLite's cells may be of any type, so all of them are read as text."""
    extension = f"duckdb_extension_{kind}_scanner"
    found = find_spec(extension)
    folder = Path(found.origin).parent if found and found.origin else Path()
    files = sorted(folder.glob("extensions/*/*")) if found else []
    if not files:
        raise UsageError(f"{kind} databases need a DuckDB extension; pip install {extension.replace('_', '-')}")
    connection = duckdb.connect(config=_QUIET)
    connection.load_extension(str(files[-1]))
    if kind == "sqlite":
        connection.execute("set sqlite_all_varchar = true")
    connection.execute(f"attach '{database.replace(chr(39), 2 * chr(39))}' as source (type {kind}, read_only)")
    connection.execute("use source")
    return connection


def _check(connection: Any, query: str) -> None:
    """Refuse a query that is not one SELECT, does not go row by row, or lets rows decide on how others are read."""
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise UsageError("--query takes one SELECT")
    found = _plan(connection, query)
    if found & {"READ_CSV", "READ_CSV_AUTO"}:
        raise UsageError("--query: rows would decide on how a CSV is read; give the file as DATA, or write it to Parquet")
    if mixing := sorted(found - _ROW_BY_ROW):
        raise UsageError(
            f"--query: {mixing[0]} does not go row by row, so one person could move the rows of others; "
            "select and filter only, or write the result to Parquet if each of its rows is one person's"
        )
    if placed := _PLACES.search(_spelt(connection, query)):
        raise UsageError(
            f"--query: {(placed[1] or placed[2]).lower()} hangs on other rows, so one person could move the rows of others; "
            "leave it out, or rename the column if it is one of yours"
        )


def _plan(connection: Any, query: str) -> set[str]:
    """The operators of a query, views and macros seen through."""
    connection.execute("set explain_output = 'all'")
    plans = dict(connection.execute(f"explain (format json) {query}").fetchall())
    return set(_operators(json.loads(plans["logical_plan"])[0]))


def _spelt(connection: Any, query: str) -> str:
    """The words of a query, of views and macros that it names, and of those that these name: a plan hides what has an alias."""
    views = "select view_name, sql from duckdb_views() where not internal"
    macros = "select function_name, macro_definition from duckdb_functions() where not internal"
    made = dict(connection.execute(f"{views} union all {macros}").fetchall())
    text = _plain(query)
    while named := [name for name in made if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)]:
        text += "".join(f" {_plain(made.pop(name) or '')}" for name in named)
    return text


def _plain(text: str) -> str:
    return _REMARK.sub(lambda found: found[1] or " ", text)


def _operators(node: dict[str, Any]) -> Iterator[str]:
    yield node["name"].strip()
    for child in node.get("children", []):
        yield from _operators(child)
