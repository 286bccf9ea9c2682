"""Readers of what others wrote, each as a function of bytes: it returns, or what it raises is a bug."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpearl import container
from dpearl.cells import to_storage
from dpearl.codec import Codec, column_codec, storage_name
from dpearl.embed import PARTIAL, load_partial
from dpearl.errors import DpearlError
from dpearl.ledger import read_ledger
from dpearl.read import Reading, open_sources
from dpearl.release import load_release_inside
from dpearl.schema import Schema, load_declaration, parse_schema
from dpearl.sites import STUDY, load_study
from dpearl.statement import facts, privacy_statement

_MOST = 2**20
"""Bytes of one input."""


@cache
def _folder() -> Path:
    """Where inputs become files: in memory where there is such a place."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="dpearl-fuzz-", dir=shared if os.access(shared, os.W_OK) else None))


@contextmanager
def _file(data: bytes, name: str) -> Iterator[Path]:
    path = _folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[:_MOST])
    yield path


def release(data: bytes) -> None:
    """A release, model, partial sum or study. What is read keeps its promise and has one spelling."""
    with _file(data, "x.dpearl") as path:
        kind = container.kind_of(path)
        with suppress(DpearlError):
            if kind == PARTIAL:
                load_partial(path)
            elif kind == STUDY:
                load_study(path)
            else:
                made, _ = load_release_inside(path)
                assert 0 <= made.epsilon <= made.budget.epsilon < math.inf
                assert made.mu > 0
                assert "epsilon" in privacy_statement(made)
                assert facts(made)["recomputed"]["epsilon"] == made.epsilon


def schema(data: bytes) -> None:
    """A schema file. What is read survives the way to JSON and back."""
    with _file(data, "x.toml") as path, suppress(DpearlError):
        declared = load_declaration(path)
        if isinstance(declared, Schema):
            assert Schema.from_dict(declared.to_dict()) == declared
            Codec(declared)


def ledger(data: bytes) -> None:
    """A ledger. What is read has cost something, and has something left or not."""
    with _file(data, "l") as path, suppress(DpearlError):
        book = read_ledger(path)
        assert book.spent >= 0
        assert 0 <= book.left <= book.budget.epsilon * (1 + 1e-9)


_COLUMNS = {
    "number": {"kind": "number", "lower": -5, "upper": 10, "step": 0.25, "spikes": [99, 0], "missing": True},
    "wide": {"kind": "number", "lower": -1e300, "upper": 1e300},
    "log": {"kind": "number", "lower": 1e-9, "upper": 1e9, "log": True},
    "modes": {"kind": "number", "lower": 0, "upper": 9, "modes": [{"mean": m, "spread": 1, "weight": 0.5} for m in (1, 7)]},
    "category": {"kind": "category", "levels": ["a", 1, True, 0.5, "ü", "-0"], "other": "other", "missing": True},
    "boolean": {"kind": "boolean", "missing": True},
    "moment": {"kind": "datetime", "lower": "2020-01-01", "upper": "2021-01-01", "step": "1h", "missing": True},
    "zoned": {"kind": "datetime", "lower": "1000-01-01T00:00+05:30", "upper": "9000-01-01T00:00+05:30", "step": "1us"},
    "image": {"kind": "image", "height": 2, "width": 3, "channels": 3},
}
_STORAGES = (
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.bool_(), pa.int8(), pa.uint64(), pa.int64()),
    *(
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.date64(),
        pa.timestamp("s"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
    ),
    *(pa.timestamp("ms", "Asia/Kolkata"), pa.binary(18), pa.decimal128(9, 3), pa.dictionary(pa.int8(), pa.string()), pa.null()),
)


@cache
def _columns() -> Schema:
    return parse_schema({"columns": _COLUMNS})


def codec(data: bytes) -> None:
    """Cells of any storage in a column of any kind: valid codes, each of its own cell alone, that can be given back."""
    if len(data) < 2:
        return
    column = list(_columns().columns.values())[data[0] % len(_COLUMNS)]
    storage = _STORAGES[data[1] % len(_STORAGES)]
    own = column_codec(column)
    if not own.accepts(storage.value_type if pa.types.is_dictionary(storage) else storage):
        return
    cells = _cells(data[2:], storage)
    codes = own.encode(cells)
    assert len(codes) == len(cells)
    alone = [own.encode(cells.slice(place, 1)) for place in range(len(cells))]
    assert not alone or np.array_equal(codes, np.concatenate(alone))
    given = own.decode(codes)
    assert len(given) == len(cells)
    name = storage_name(column, storage)
    if name is not None:
        to_storage(given, name)


def _cells(data: bytes, storage: pa.DataType) -> pa.Array:
    """Bytes as cells, not checked: what a careless writer leaves in a file."""
    if pa.types.is_null(storage):
        return pa.nulls(len(data) % 9)
    if pa.types.is_dictionary(storage):
        texts = pa.array(sorted(set(data.split(b"\xff")))[:100], pa.binary()).cast(pa.string(), safe=False)
        return pa.DictionaryArray.from_arrays(pa.array([place % len(texts) for place in range(5)], pa.int8()), texts)
    if pa.types.is_string(storage) or pa.types.is_large_string(storage) or pa.types.is_string_view(storage):
        texts = pa.array(data.split(b"\xff"), pa.large_binary() if pa.types.is_large_string(storage) else pa.binary())
        if pa.types.is_string_view(storage):
            return texts.cast(pa.string(), safe=False).cast(storage, safe=False)
        return pa.Array.from_buffers(storage, len(texts), texts.buffers())
    if pa.types.is_binary(storage):
        return pa.array(data.split(b"\xff"), storage)
    width = max(storage.bit_width // 8, 1)
    size = len(data) // width
    buffers = [pa.py_buffer(bytes(byte | 1 for byte in data[:size])) if data[:1] == b"n" else None, pa.py_buffer(data)]
    return pa.Array.from_buffers(storage, size if storage.bit_width > 1 else 8 * size, buffers)


_PICTURES = {
    "columns": {
        "image": {"kind": "image", "height": 4, "width": 4},
        "label": {"kind": "category", "levels": ["x"]},
    },
}


def picture(data: bytes) -> None:
    """A picture in a folder: its pixels, a missing cell, or a refusal by its size or colours."""
    with _file(data, "pictures/x/1.png") as path:
        _read(path.parent.parent, parse_schema(_PICTURES))


def archive(data: bytes) -> None:
    """An archive of arrays: the first of them as numbers, text or pictures, or a refusal."""
    with _file(data, "x.npz") as path, suppress(DpearlError):
        (source,) = open_sources(str(path))
        for name, storage in list(source.types.items())[:2]:
            for kind in _kinds(storage):
                _read(path, parse_schema({"columns": {name: kind}}))


def _kinds(storage: pa.DataType) -> list[dict[str, object]]:
    if isinstance(storage, pa.FixedShapeTensorType):
        height, width, channels = (*storage.shape, 1)[:3]
        small = height * width * channels <= 64 and channels in (1, 3)
        return [{"kind": "image", "height": height, "width": width, "channels": channels}] if small else []
    return [{"kind": "number", "lower": 0, "upper": 1}, {"kind": "category", "levels": ["x"]}]


def table(data: bytes) -> None:
    """A CSV with whatever header it has."""
    with _file(data, "x.csv") as path, suppress(DpearlError):
        (source,) = open_sources(str(path))
        names = list(source.types)[:3]
        _ = source.suggested
        _read(path, parse_schema({"columns": {name: {"kind": "category", "levels": ["x"]} for name in names}}))


def _read(path: Path, declared: Schema) -> None:
    with suppress(DpearlError):
        reading, own = Reading.of(open_sources(str(path)), declared), Codec(declared)
        for rows in reading.tables(64):
            assert len(rows) <= 64
            own.encode(rows)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (release, schema, ledger, codec, picture, archive, table)
}
