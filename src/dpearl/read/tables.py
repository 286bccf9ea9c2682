"""CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from dpearl.errors import DataError
from dpearl.schema import Schema

_BLOCK = 4 * 2**20


def unique(names: list[str], where: str) -> list[str]:
    """Column names, refused where one stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{where}: column {name!r} stands twice in the header; rename one of them")
        seen.add(name)
    return names


@dataclass
class _Tap(io.RawIOBase):
    """A byte stream that watches what passes: NUL bytes stop it, quotes are counted, the end gets a line end."""

    stream: Any
    where: str
    quotes: int = 0
    last: bytes = b"\n"
    ended: bool = field(default=False)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        data: bytes = self.stream.read(_BLOCK if size is None or size < 0 else size)
        if not data and not self.ended:
            self.ended = True
            return b"" if self.last in (b"\n", b"\r") else b"\n"
        if b"\0" in data:
            raise DataError(f"{self.where}: holds a NUL byte, so it is not a CSV text; save it as UTF-8 CSV")
        self.quotes += data.count(b'"')
        self.last = data[-1:] or self.last
        return data


@dataclass(frozen=True)
class CsvSource:
    """Delimited text with a header. All cells are read as text, so no type is guessed from content."""

    path: Path
    typed = False
    rows = None

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
                reader = arrow_csv.open_csv(pa.PythonFile(_Tap(stream, self.where), mode="r"), parse_options=parse)
                return dict(zip(reader.schema.names, reader.schema.types, strict=True))
        except pa.ArrowException:
            return self.types

    @cached_property
    def _header(self) -> tuple[list[str], str]:
        """Names and delimiter, from the first record alone."""
        first = self._first_record()
        delimiter = max(",;\t|", key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))
        names = next(csv.reader(io.StringIO(first, newline=""), delimiter=delimiter), [])
        if not any(names):
            raise DataError(f"{self.where}: its first line is no header; name the columns there")
        return unique(names, self.where), delimiter

    def _first_record(self) -> str:
        try:
            with self._open() as stream:
                head = stream.read(_BLOCK)
        except (OSError, pa.ArrowException):
            raise DataError(f"{self.where}: cannot be read; is it damaged or still compressed?") from None
        if b"\0" in head:
            raise DataError(f"{self.where}: holds a NUL byte, so it is not a CSV text; save it as UTF-8 CSV")
        end, quoted = len(head), False
        for place, byte in enumerate(head):
            quoted ^= byte == 0x22
            if byte in b"\r\n" and not quoted:
                end = place
                break
        try:
            return str(head[:end], "utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"{self.where}: is not UTF-8; save it as UTF-8 CSV") from None

    def _open(self) -> Any:
        return pa.input_stream(self.path, compression="detect", buffer_size=None)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        delimiter = self._header[1]
        ragged: list[Any] = []
        try:
            with self._open() as stream:
                tap = _Tap(stream, self.where)
                for batch in self._records(tap, schema, delimiter, ragged):
                    self._refuse_ragged(ragged)
                    yield batch
                self._refuse_ragged(ragged)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.where}: {_csv_reason(str(error))}") from None
        if tap.quotes % 2:
            self._refuse_open_quote(delimiter)

    def _records(self, tap: _Tap, schema: Schema, delimiter: str, ragged: list[Any]) -> Iterator[pa.RecordBatch]:
        def keep(row: Any) -> str:
            ragged.append(row)
            return "skip"

        reader = arrow_csv.open_csv(
            pa.PythonFile(tap, mode="r"),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=keep),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=schema.reads, column_types=dict.fromkeys(schema.reads, pa.string()), strings_can_be_null=False
            ),
        )
        yield from reader

    def _refuse_ragged(self, ragged: list[Any]) -> None:
        if ragged:
            row = ragged[0]
            at = f"row {row.number}" if row.number else "a row"
            raise DataError(
                f"{self.where}: {at} has {row.actual_columns} cells where the header has {row.expected_columns}; mend that row"
            )

    def _refuse_open_quote(self, delimiter: str) -> None:
        """An odd number of quotes may be an inch mark inside a cell; only a strict reading tells."""
        with self._open() as stream:
            text = io.TextIOWrapper(io.BufferedReader(_Tap(stream, self.where), _BLOCK), "utf-8", newline="")
            try:
                for _ in csv.reader(text, delimiter=delimiter, strict=True):
                    pass
            except csv.Error as error:
                if "unexpected end" in str(error) or "field larger" in str(error):
                    raise DataError(f"{self.where}: a quoted cell is never closed; close or remove the quote") from None


def _csv_reason(message: str) -> str:
    """Arrow's complaint without the row it quotes."""
    if "UTF8" in message:
        return "is not UTF-8; save it as UTF-8 CSV"
    if "straddl" in message or "out of sync" in message:
        return "a quoted cell is never closed, or one row is larger than 4 MB; mend that row"
    return "cannot be read as CSV; is it damaged or still compressed?"


@dataclass(frozen=True)
class ParquetSource:
    """One Parquet file, streamed."""

    path: Path
    typed = True

    @property
    def where(self) -> str:
        return str(self.path)

    @cached_property
    def _schema(self) -> pa.Schema:
        with self._open() as file:
            return file.schema_arrow

    @cached_property
    def rows(self) -> int:
        with self._open() as file:
            return int(file.metadata.num_rows)

    @property
    def types(self) -> dict[str, pa.DataType]:
        unique(self._schema.names, self.where)
        return {column.name: column.type for column in self._schema}

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        return self.types

    def _open(self) -> parquet.ParquetFile:
        try:
            return parquet.ParquetFile(self.path)
        except (OSError, pa.ArrowException):
            raise DataError(f"{self.where}: cannot be read as Parquet; is it truncated?") from None

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            try:
                for batch in file.iter_batches(batch_size=2**14, columns=schema.reads, use_threads=False):
                    yield batch.select(schema.reads)
            except (OSError, pa.ArrowException):
                raise DataError(f"{self.where}: cannot be read to its end; is it truncated?") from None
