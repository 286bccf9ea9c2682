"""How many rows hold each text of columns whose levels are not known. Everything in this file is private.

Counts are exact, in bounded memory: at most `_MOST` different texts are held at a time. Where a pass meets more, it goes on with
half of all texts, by a hash, and another pass counts the other half. Of what was counted only texts with more than `few` rows
are kept: at most rows / few of them.

With a person column, a person keeps m rows, those of the smallest hashes of person and texts: the same ones in every pass, in
whatever order rows come. Others' rows have no part in that.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpearl import persons
from dpearl.cells import absent_texts, cell_texts
from dpearl.design import Design
from dpearl.embeddings.spread import CHUNK
from dpearl.read import Reading, Source
from dpearl.schema import level_key
from dpearl.sums import Progress

_MOST = 2**20
_LONGEST = 256
"""Bytes of the longest text that can be a level; whatever is longer is `other`."""

Text = tuple[str, str]
"""A column and a text in it."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows that hold each text, for texts with more than a few, and all rows."""

    design: Design
    counts: Mapping[str, Mapping[str, int]]
    rows: int


def tally(sources: Sequence[Source], design: Design, columns: Sequence[str], few: int, progress: Progress | None = None) -> Tally:
    """Count the texts of some columns."""
    kept: dict[str, dict[str, int]] = {name: {} for name in columns}
    reading, todo, rows = Reading.of(sources, design.schema), [(0, 1)], 0
    tickets = None if design.schema.person is None else _tickets(reading, design, columns)
    while todo:
        part, parts = todo.pop()
        held: Counter[Text] = Counter()
        rows = 0
        for table in _bounded(reading, design, columns, tickets):
            rows += len(table)
            for name in columns:
                held.update(_texts(name, table.column(name), part, parts))
            while len(held) > _MOST:
                todo.append((part + parts, 2 * parts))
                parts *= 2
                held = Counter({text: count for text, count in held.items() if _in_part(text[1], part, parts)})
            if progress:
                progress(len(table))
        for (name, text), count in held.items():
            if count > few:
                kept[name][text] = count
    return Tally(design, kept, rows)


def _tickets(reading: Reading, design: Design, columns: Sequence[str]) -> Counter[bytes]:
    """Which rows count: for each person the smallest hashes, at most so many as a person may have rows."""
    held = np.empty((0, persons.WORDS), np.uint64)
    for table in reading.tables(CHUNK):
        found = [ticket for ticket in _hashes(table, design, columns) if ticket is not None]
        words = np.frombuffer(b"".join(found), ">u8").reshape(-1, persons.WORDS - 1).astype(np.uint64)
        fresh = np.column_stack([words, np.zeros(len(words), np.uint64)])
        held = persons.keep(np.concatenate([held, fresh]), design.schema.rows_per_person)
    return Counter(ballot.tobytes() for ballot in held[:, :-1].astype(">u8"))


def _hashes(table: pa.Table, design: Design, columns: Sequence[str]) -> list[bytes | None]:
    return persons.hashes(table, design.codec, {name: _digests(table.column(name)) for name in columns})


def _digests(cells: pa.ChunkedArray) -> NDArray[np.uint8]:
    """16 bytes for each text: what a row's ticket is made of."""
    texts = cell_texts(cells).cast(pa.binary()).to_pylist()
    joined = b"".join(hashlib.blake2b(text or b"", digest_size=16).digest() for text in texts)
    return np.frombuffer(joined, np.uint8).reshape(-1, 16)


def _bounded(reading: Reading, design: Design, columns: Sequence[str], tickets: Counter[bytes] | None) -> Iterator[pa.Table]:
    """The rows that count: a ticket serves one row."""
    left = None if tickets is None else Counter(tickets)
    for table in reading.tables(CHUNK):
        if left is None:
            yield table
            continue
        chosen = np.zeros(len(table), bool)
        for place, ticket in enumerate(_hashes(table, design, columns)):
            if ticket is not None and left[ticket] > 0:
                left[ticket] -= 1
                chosen[place] = True
        yield table.filter(pa.array(chosen))


def _texts(name: str, cells: pa.ChunkedArray, part: int, parts: int) -> dict[Text, int]:
    """How often each text of a batch occurs, for texts that may be levels and belong to this part."""
    texts = cell_texts(cells)
    counted = pc.value_counts(texts.filter(pa.array(~absent_texts(texts)))).flatten()
    found = {}
    for raw, count in zip(counted[0].cast(pa.binary()).to_pylist(), counted[1].to_pylist(), strict=True):
        text = _level(raw)
        if text is not None and _in_part(text, part, parts):
            found[name, text] = count
    return found


def _level(raw: bytes) -> str | None:
    """A text that can be a level: one that is compared as it is spelt."""
    if len(raw) > _LONGEST:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if text and level_key(text) == text else None


def _in_part(text: str, part: int, parts: int) -> bool:
    """Whether a text belongs to this of so many parts; nobody can choose texts that all fall in one."""
    return parts == 1 or int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) & (parts - 1) == part
