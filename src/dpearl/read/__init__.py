"""Where rows come in: files, folders and tables in memory, in batches.

Structure is checked here (no such column, ragged file, mixed sizes) and stops the work
before anything is charged. Content is never checked: that is the codec's business.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpearl.cells import cell_texts, is_number, is_text
from dpearl.codec import check_storage, storage_name
from dpearl.errors import DataError, UsageError
from dpearl.read.database import QuerySource
from dpearl.read.memory import MemorySource
from dpearl.read.pictures import FolderSource, NpzSource, is_picture
from dpearl.read.source import Source
from dpearl.read.spark import SparkSource
from dpearl.read.stores import Remote, found, is_remote
from dpearl.read.tables import CsvSource, ParquetSource
from dpearl.schema import Column, Image, Number, Schema

__all__ = ["QuerySource", "Reading", "Source", "batches", "filtered", "open_sources", "storage_names"]

_TABLES: dict[str, type[CsvSource] | type[ParquetSource]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".txt": CsvSource,
    ".csv.gz": CsvSource,
    ".tsv.gz": CsvSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
}
_READERS = {*_TABLES, ".npz"}


def open_sources(data: Any) -> list[Source]:
    """Sources of a path, a glob, several of them, or a table in memory."""
    if hasattr(data, "mapInArrow"):
        return [SparkSource(data)]
    if isinstance(data, QuerySource):
        return [data]
    if isinstance(data, (str, Path)):
        data = [data]
    if not (isinstance(data, Sequence) and data and all(isinstance(item, (str, Path)) for item in data)):
        return [MemorySource.of(data)]
    sources = [source for item in data for source in _open_path(str(item))]
    files = [_identity(source) for source in sources]
    if len(set(files)) < len(files):
        raise DataError(f"{data[0]}: the same file is given twice, so that a person would count twice; leave one out")
    return sources


@dataclass(frozen=True)
class Reading:
    """All rows of some sources under one schema, structure checked.

    `types` hang on all of the sources, so that a piece that is read elsewhere is read the same.
    """

    sources: tuple[Source, ...]
    schema: Schema
    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, sources: Sequence[Source], schema: Schema) -> Reading:
        for source in sources:
            _check(source, schema)
        return cls(tuple(sources), schema, {name: _common(name, sources, schema) for name in schema.reads})

    @property
    def placed(self) -> bool:
        """Whether every row keeps its place from one reading to the next."""
        return all(source.placed for source in self.sources)

    @property
    def pieces(self) -> list[Source]:
        """The same rows in parts, each of which any process can read `within` this reading."""
        for source in self.sources:
            if not source.pieces and source.rows != 0:
                raise UsageError(f"{source.where}: cannot be read by other machines; use --engine local, or files that they see")
        return [piece for source in self.sources for piece in source.pieces]

    def within(self, *sources: Source) -> Reading:
        """These sources, read as all of them are; with none, what a reader elsewhere must know."""
        return replace(self, sources=sources)

    def tables(self, rows: int) -> Iterator[pa.Table]:
        """All rows in tables of exactly `rows` rows, the last one shorter; only declared columns."""
        pending: list[pa.RecordBatch] = []
        count = 0
        for source in self.sources:
            for batch in source.batches(self.schema):
                pending.append(self.cast(batch, source.where))
                count += len(batch)
                while count >= rows:
                    table = pa.Table.from_batches(pending).combine_chunks()
                    yield table.slice(0, rows)
                    pending, count = table.slice(rows).to_batches(), count - rows
        if count:
            yield pa.Table.from_batches(pending).combine_chunks()

    def cast(self, batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
        """Every cell can be read in the common type, unless a dictionary is damaged."""
        try:
            columns = [_in_type(column, self.types[name]) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        except pa.ArrowException:
            raise DataError(f"{where}: its dictionaries do not fit its cells; the file is damaged, get an intact copy") from None
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def batches(sources: Sequence[Source], schema: Schema, rows: int) -> Iterator[pa.Table]:
    """All rows of some sources, in tables of exactly `rows` rows."""
    return Reading.of(sources, schema).tables(rows)


def _check(source: Source, schema: Schema) -> None:
    types = source.types
    for name in schema.reads:
        if name not in types:
            raise DataError(f"{source.where}: has no column {name!r} in its header; mend the header or the schema's spelling")
    for name, column in schema.columns.items():
        check_storage(source.where, name, column, types[name])
    if schema.person is not None and not _holds_ids(types[schema.person]):
        raise DataError(f"{source.where}: person column {schema.person!r} holds no plain ids; use numbers or text")


def _common(name: str, sources: Sequence[Source], schema: Schema) -> pa.DataType:
    """The type in which a column is read: bytes for pictures, text where files disagree.

    It hangs on the files' types alone: a type chosen batch by batch would let one row's presence
    change how its neighbours are read.
    """
    column = schema.columns.get(name)
    if isinstance(column, Image):
        return pa.binary(column.pixels)
    storages = {_plain(source.types[name]) for source in sources} - {pa.null()}
    return storages.pop() if len(storages) == 1 else pa.string()


def _plain(storage: pa.DataType) -> pa.DataType:
    """Dictionaries may differ from file to file; their values' type does not."""
    return storage.value_type if pa.types.is_dictionary(storage) else storage


def _holds_ids(storage: pa.DataType) -> bool:
    plain = _plain(storage)
    return is_text(plain) or is_number(plain) or bool(pa.types.is_null(plain))


def _in_type(cells: pa.Array, storage: pa.DataType) -> pa.Array:
    """Cells in the common type: numbers become the text that levels and ids are compared by."""
    if cells.type == storage or isinstance(cells, pa.ExtensionArray):
        return cells
    return cell_texts(cells) if storage == pa.string() else cells.cast(storage)


def _identity(source: Source) -> tuple[int, int] | str:
    """What makes a file the same file, whatever it is called."""
    if is_remote(source.where):
        return source.where
    return _same(Path(source.where))


def _same(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _open_path(name: str) -> list[Source]:
    if is_remote(name):
        files = found(name)
        tables = [file for file in files if _suffix(file) in _TABLES] or files
        return [_reader(file, file.size) for file in tables]
    path = Path(name)
    if path.is_dir():
        return _open_folder(path)
    if path.is_file():
        return [_reader(path, path.stat().st_size)]
    if os.path.lexists(name):
        raise DataError(f"{name}: is no plain file: a pipe, a device or a link to nothing; write the rows to a file first")
    matching = sorted(item for item in glob.glob(name, recursive=True) if Path(item).is_file() or Path(item).is_dir())
    if not matching:
        raise DataError(f"{name}: no such file or folder")
    return [source for item in matching for source in _open_path(item)]


def _open_folder(path: Path) -> list[Source]:
    visible = [item for item in path.rglob("*") if not any(part.startswith(".") for part in item.relative_to(path).parts)]
    tables = sorted(item for item in visible if item.is_file() and _suffix(item) in _READERS - {".txt"})
    if tables:
        return [_reader(item, item.stat().st_size) for item in tables]
    pictures = [item for item in visible if is_picture(item) and item.parent.parent == path]
    pictures.sort(key=lambda item: (item.name, item.parent.name))  # the label is a cell: no place may hang on it
    if len({_same(item) for item in pictures}) < len(pictures):
        raise DataError(f"{path}: links make the same picture count twice; leave one of each")
    if pictures:
        return [FolderSource(path, tuple(pictures))]
    raise DataError(f"{path}: folder holds no data; expected .parquet, .csv or .npz files, or LABEL/image.png")


def _reader(path: Path | Remote, size: int) -> Source:
    suffix = _suffix(path)
    if size == 0 and suffix in _READERS:
        raise DataError(f"{path}: is empty (zero bytes); a table needs at least a header")
    if suffix in _TABLES:
        return _TABLES[suffix](path)
    if suffix == ".npz" and isinstance(path, Path):
        return NpzSource(path)
    raise DataError(f"{path}: unknown kind of file; use .csv, .parquet, .npz or a folder of images")


def _suffix(path: Path | Remote) -> str:
    last = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(last) if last[-1:] == [".gz"] else "".join(last[-1:])


def filtered(sources: Sequence[Source]) -> bool:
    """Whether cells decide on which rows are read, as far as can be seen."""
    return any(isinstance(source, QuerySource) and source.filtered for source in sources)


def storage_names(sources: Sequence[Source], schema: Schema) -> dict[str, str]:
    """Storage types of the declared columns, for rows to come back in the types they came in.

    Types are public like names, with one exception: NumPy and pandas, and files that pandas wrote, turn
    whole numbers into floats as soon as one is missing, which would tell that one is. There the
    schema decides.
    """
    first = sources[0]
    names = {name: _storage_name(first, name, column) for name, column in schema.columns.items()} if first.typed else {}
    return {name: stored for name, stored in names.items() if stored}


def _storage_name(source: Source, name: str, column: Column) -> str | None:
    kind = source.guessed.get(name)
    if kind is None:
        return storage_name(column, source.types[name])
    if kind not in "iuf" or isinstance(column, Number):
        return None
    return storage_name(column, pa.int64()) or storage_name(column, pa.float64())
