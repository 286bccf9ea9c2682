"""CSV and Parquet."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from dpearl.cells import is_text
from dpearl.errors import DataError
from dpearl.read.stores import Remote
from dpearl.schema import Schema

_BLOCK = 4 * 2**20
_PIECE = 2**18
"""Rows of a Parquet file that one task reads: seconds of work, so that little is lost with a worker."""
_HEAVY = 2**28
"""Bytes of text in one batch: a dictionary lets a few kilobytes of file claim gigabytes of cells."""


def unique(names: list[str], where: str) -> list[str]:
    """Column names, refused where one stands twice; not quoted, as a file without a header has cells there."""
    places: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if (first := places.setdefault(name, place)) < place:
            raise DataError(f"{where}: columns {first} and {place} of the header have the same name; rename one of them")
    return names


def guessed_by_pandas(schema: pa.Schema) -> dict[str, str]:
    """NumPy's kind of columns that went through pandas, where one missing cell turns whole numbers into floats."""
    if b"pandas" not in (schema.metadata or {}):
        return {}
    kinds = {column.name: _KINDS.get(str(column.type).rstrip("0123456789"), "") for column in schema}
    return {name: kind for name, kind in kinds.items() if kind}


_KINDS = {"int": "i", "uint": "u", "float": "f", "halffloat": "f", "double": "f", "bool": "b"}


@dataclass
class _Tap(io.RawIOBase):
    """A byte stream that stops where it is no UTF-8 text, and ends in a line of its own.

    The last line has a NUL, so no other line is like it, and a cell too many, so it is reported as
    ragged. It is not reported where a quote is still open: then it is part of a cell. A carriage
    return at the end of a block waits for the next: Arrow would lose a line feed behind it.
    """

    stream: Any
    where: str
    end: bytes
    held: bytes = b""
    last: bytes = b"\n"
    closed_line: bool = False
    decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8-sig"))

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        size = _BLOCK if size is None or size < 0 else size
        data: bytes = self.held + self.stream.read(size - len(self.held))
        room = size - len(data)
        _text(data[len(self.held) :], self.decoder, self.where, final=room > 0)
        self.held = b"\r" if data.endswith(b"\r") and not room else b""
        data = data[: len(data) - len(self.held)]
        self.last = data[-1:] or self.last
        if room and not self.closed_line:
            self.closed_line, self.end = True, (b"" if self.last in b"\r\n" else b"\n") + self.end
        data, self.end = data + self.end[:room], self.end[room:]
        return data


def _text(data: bytes, decoder: codecs.IncrementalDecoder, where: str, final: bool) -> str:
    """A block of text; all of the file is checked alike, so that undeclared columns make no difference."""
    if b"\0" in data:
        raise DataError(f"{where}: holds a NUL byte, so it is not a CSV text; save it as UTF-8 CSV")
    try:
        return decoder.decode(data, final)
    except UnicodeDecodeError:
        raise DataError(f"{where}: is not UTF-8; save it as UTF-8 CSV") from None


@dataclass(frozen=True)
class CsvSource:
    """Delimited text with a header. All cells are read as text, so no type is guessed from content."""

    path: Path | Remote
    typed = False
    placed = True
    rows = None
    guessed: ClassVar[dict[str, str]] = {}

    @property
    def pieces(self) -> list[CsvSource]:
        return [self]

    @property
    def where(self) -> str:
        return str(self.path)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        return {name: pa.string() for name in self._header[0]}

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        """What the cells of the first block look like, for a draft that the owner checks."""
        try:
            with self._open() as stream:
                parse = arrow_csv.ParseOptions(
                    delimiter=self._header[1], newlines_in_values=True, invalid_row_handler=lambda _: "skip"
                )
                tap = _Tap(stream, self.where, b"")
                reader = arrow_csv.open_csv(pa.PythonFile(tap, mode="r"), parse_options=parse)
                return dict(zip(reader.schema.names, reader.schema.types, strict=True))
        except pa.ArrowException:
            return self.types

    @cached_property
    def _header(self) -> tuple[list[str], str]:
        """Names and delimiter, from the first record alone: the delimiter that finds most names."""
        head = self._head
        records = {mark: _first_record(head, mark) for mark in ",;\t|"}
        delimiter = max(records, key=lambda mark: len(records[mark]))
        names = records[delimiter]
        if not any(names):
            raise DataError(f"{self.where}: its first line is no header, or leaves a quote open; name the columns there")
        return unique(names, self.where), delimiter

    @property
    def _head(self) -> str:
        try:
            with self._open() as stream:
                head: bytes = stream.read(_BLOCK)
        except (OSError, pa.ArrowException):
            raise DataError(f"{self.where}: {_DAMAGED}") from None
        return _text(head, codecs.getincrementaldecoder("utf-8-sig")(), self.where, final=False)

    @property
    def _end(self) -> bytes:
        names, delimiter = self._header
        return delimiter.encode() * len(names) + b"\0\n"

    def _open(self) -> Any:
        if isinstance(self.path, Remote):
            return self.path.store.open_input_stream(self.path.path)
        return pa.input_stream(self.path, compression="detect", buffer_size=None)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        ragged: list[Any] = []
        try:
            with self._open() as stream:
                yield from self._records(_Tap(stream, self.where, self._end), schema, ragged)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.where}: {_csv_reason(str(error))}") from None
        self._refuse_ragged(ragged)
        if not ragged:
            raise DataError(f"{self.where}: {_OPEN_QUOTE}")

    def _records(self, tap: _Tap, schema: Schema, ragged: list[Any]) -> Iterator[pa.RecordBatch]:
        def keep(row: Any) -> str:
            ragged.append(row)
            return "skip"

        reader = arrow_csv.open_csv(
            pa.PythonFile(tap, mode="r"),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._header[1],
                newlines_in_values=True,
                invalid_row_handler=keep,
                ignore_empty_lines=len(self._header[0]) > 1,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=schema.reads, column_types=dict.fromkeys(schema.reads, pa.string()), strings_can_be_null=False
            ),
        )
        for batch in reader:
            self._refuse_ragged(ragged)
            yield batch

    def _refuse_ragged(self, ragged: list[Any]) -> None:
        """The end of the file is the one row that may be ragged."""
        for row in ragged:
            if "\0" not in row.text:
                counts = f"row {row.number} has {row.actual_columns} cells where the header has {row.expected_columns}"
                raise DataError(f"{self.where}: {counts}; mend that row")
            if row.text != self._end.decode().strip("\n"):
                raise DataError(f"{self.where}: {_OPEN_QUOTE}")


_DAMAGED = "cannot be read as CSV; is it damaged or still compressed?"
_OPEN_QUOTE = "a quoted cell is never closed, or one row is larger than 4 MB; close the quote, or shorten that row"


def _first_record(head: str, delimiter: str) -> list[str]:
    """The first record, nothing where it makes no sense with this delimiter."""
    try:
        return next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _csv_reason(message: str) -> str:
    """Arrow's complaint without the row it quotes."""
    return _OPEN_QUOTE if "straddl" in message or "out of sync" in message else _DAMAGED


@dataclass(frozen=True)
class ParquetSource:
    """One Parquet file, or neighbouring row groups of it, streamed."""

    path: Path | Remote
    groups: range | None = None
    typed = True
    placed = True

    @property
    def where(self) -> str:
        return f"{self.path}{f', row groups {self.groups[0]} to {self.groups[-1]}' if self.groups else ''}"

    @cached_property
    def rows(self) -> int:
        return sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        """Rows of each row group."""
        with self._open() as file:
            groups = range(file.metadata.num_row_groups) if self.groups is None else self.groups
            return [int(file.metadata.row_group(group).num_rows) for group in groups]

    @property
    def pieces(self) -> list[ParquetSource]:
        """Row groups that together hold enough rows to be worth a task."""
        starts, held = [0], 0
        for group, rows in enumerate(self._sizes):
            if held and held + rows > _PIECE:
                starts, held = [*starts, group], 0
            held += rows
        return [replace(self, groups=range(start, stop)) for start, stop in pairwise([*starts, len(self._sizes)]) if start < stop]

    @cached_property
    def guessed(self) -> dict[str, str]:
        with self._open() as file:
            return guessed_by_pandas(file.schema_arrow)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        with self._open() as file:
            names = unique(file.schema_arrow.names, self.where)
            return dict(zip(names, file.schema_arrow.types, strict=True))

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        return self.types

    def _open(self) -> parquet.ParquetFile:
        try:
            file = self.path.store.open_input_file(self.path.path) if isinstance(self.path, Remote) else self.path
            return parquet.ParquetFile(file, pre_buffer=False, buffer_size=2**20)
        except UnicodeDecodeError:
            raise DataError(f"{self.where}: a column name is not UTF-8; rename that column") from None
        except (OSError, pa.ArrowException):
            raise DataError(f"{self.where}: cannot be read as Parquet; is it truncated?") from None

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            try:
                for batch in file.iter_batches(2**14, self.groups, schema.reads, use_threads=False):
                    if sum(column.nbytes for column in batch.columns if is_text(column.type)) > _HEAVY:
                        raise DataError(f"{self.where}: {len(batch):,} rows hold more than 256 MB of text; leave such cells out")
                    yield batch.select(schema.reads)
            except (OSError, pa.ArrowException):
                raise DataError(f"{self.where}: cannot be read to its end; is it truncated?") from None
