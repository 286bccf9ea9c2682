"""Where rows come in: files, folders and tables in memory, in batches.

Structure is checked here (no such column, ragged file, mixed sizes) and stops the work
before anything is charged. Content is never checked: that is the codec's business.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpearl.codec import check_storage, storage_name
from dpearl.errors import DataError
from dpearl.read.memory import MemorySource
from dpearl.read.pictures import FolderSource, NpzSource, is_picture
from dpearl.read.source import Source
from dpearl.read.tables import CsvSource, ParquetSource
from dpearl.schema import Number, Schema

__all__ = ["Source", "batches", "open_sources", "storage_names"]

_READERS: dict[str, type[CsvSource] | type[ParquetSource] | type[NpzSource]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".txt": CsvSource,
    ".csv.gz": CsvSource,
    ".tsv.gz": CsvSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
    ".npz": NpzSource,
}


def open_sources(data: Any) -> list[Source]:
    """Sources of a path, a glob, several of them, or a table in memory."""
    if isinstance(data, (str, Path)):
        return _open_path(str(data))
    if isinstance(data, Sequence) and data and all(isinstance(item, (str, Path)) for item in data):
        return [source for item in data for source in _open_path(str(item))]
    return [MemorySource.of(data)]


def batches(sources: Sequence[Source], schema: Schema, rows: int) -> Iterator[pa.Table]:
    """All rows in tables of exactly `rows` rows, the last one shorter; only declared columns."""
    for source in sources:
        _check(source, schema)
    pending: list[pa.RecordBatch] = []
    count = 0
    for source in sources:
        for batch in source.batches(schema):
            pending.append(_one_type(batch))
            count += len(batch)
            while count >= rows:
                table = _joined(pending)
                yield table.slice(0, rows)
                pending, count = table.slice(rows).to_batches(), count - rows
    if count:
        yield _joined(pending)


def _check(source: Source, schema: Schema) -> None:
    types = source.types
    for name in schema.reads:
        if name not in types:
            raise DataError(f"{source.where}: has no column {name!r}; its columns are {', '.join(list(types)[:20])}")
    for name, column in schema.columns.items():
        check_storage(source.where, name, column, types[name])


def _one_type(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries may differ from file to file; their plain values do not."""
    columns = [column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _joined(parts: list[pa.RecordBatch]) -> pa.Table:
    """Batches as one table; where files disagree on a type, as text."""
    names = parts[0].schema.names
    chunks = {name: [part.column(name) for part in parts] for name in names}
    columns = []
    for arrays in chunks.values():
        storages = {array.type for array in arrays if not pa.types.is_null(array.type)}
        target = storages.pop() if len(storages) == 1 else pa.string()
        columns.append(pa.chunked_array([array.cast(target) for array in arrays], type=target))
    return pa.table(dict(zip(names, columns, strict=True))).combine_chunks()


def _open_path(name: str) -> list[Source]:
    path = Path(name)
    if path.is_dir():
        return _open_folder(path)
    if path.is_file():
        return [_reader(path)]
    found = sorted(glob.glob(name, recursive=True))
    if not found:
        raise DataError(f"{name}: no such file or folder")
    return [source for item in found for source in ([_reader(Path(item))] if Path(item).is_file() else _open_path(item))]


def _open_folder(path: Path) -> list[Source]:
    tables = sorted(item for item in path.rglob("*") if item.is_file() and _suffix(item) in _READERS)
    if tables:
        return [_reader(item) for item in tables]
    pictures = sorted(item for item in path.glob("*/*") if is_picture(item))
    if pictures:
        return [FolderSource(path, tuple(pictures))]
    raise DataError(f"{path}: folder holds no data; expected .parquet, .csv or .npz files, or LABEL/image.png")


def _reader(path: Path) -> Source:
    reader = _READERS.get(_suffix(path))
    if reader is None:
        raise DataError(f"{path}: unknown kind of file; use .csv, .parquet, .npz or a folder of images")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: is empty (zero bytes); a table needs at least a header")
    return reader(path)


def _suffix(path: Path) -> str:
    last = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(last) if last[-1:] == [".gz"] else "".join(last[-1:])


def storage_names(sources: Sequence[Source], schema: Schema) -> dict[str, str]:
    """Storage types of the declared columns, for rows to come back in the types they came in.

    Types are public like names, with one exception: pandas turns whole numbers into floats as
    soon as one is missing, which would tell that one is. There the schema alone decides.
    """
    first = sources[0]
    names = {name: storage_name(first.types[name]) for name in schema.columns} if first.typed else {}
    return {
        name: stored
        for name, stored in names.items()
        if stored and not (isinstance(first, MemorySource) and first.guessed and isinstance(schema.columns[name], Number))
    }
