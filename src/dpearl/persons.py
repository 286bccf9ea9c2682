"""At most m rows of each person, the same ones whoever reads them in whatever order. Private.

Every row gets a ticket, a hash of its person and its codes, and a person keeps the rows with the m smallest. Which rows these
are hangs on that person's rows alone, so a person who comes or goes moves the sums by their own m rows and by nothing
else: the declared unit of protection. Rows with the same ticket have the same codes, so it makes no difference which of them is
kept, and sums do not depend on order, batches or machines. The person is part of the hash, or everybody who has the same
rows would lose the same ones.

A ballot is (person, ticket, batch) in five 64-bit words. Keeping the smallest m of two sets of ballots is associative and
commutative like a sum: any engine can reduce it. Hashes have 128 bits: two of 10^10 persons are taken for one with
probability below 10^-18.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpearl.cells import MISSING_WORDS, cell_texts
from dpearl.codec import Codec, Codes

Ballots = NDArray[np.uint64]
WORDS = 5
_HASH = 16
_IDENTITY = slice(0, 4)
_NOBODY = {None, *(word.encode() for word in MISSING_WORDS)}


def cast(table: pa.Table, codec: Codec, batch: int) -> Ballots:
    """A ballot for each row that names somebody."""
    tickets = [ticket for ticket in hashes(table, codec, codec.encode(table)) if ticket is not None]
    words = np.frombuffer(b"".join(tickets), ">u8").reshape(-1, 4).astype(np.uint64)
    return np.column_stack([words, np.full(len(words), batch, np.uint64)])


def hashes(table: pa.Table | pa.RecordBatch, codec: Codec, codes: Mapping[str, Codes]) -> list[bytes | None]:
    """Person and ticket of each row, None for a row that names nobody: such rows are left out."""
    people = _people(table.column(str(codec.schema.person)))
    known = {who: blake2b(who, digest_size=_HASH).digest() for who in {*people} - _NOBODY if who is not None}
    return [
        None if who in _NOBODY or who is None else known[who] + blake2b(cells, digest_size=_HASH, key=known[who]).digest()
        for who, cells in zip(people, packed(codes), strict=True)
    ]


def packed(codes: Mapping[str, Codes]) -> list[bytes]:
    """All codes of each row, as bytes."""
    flat = [np.ascontiguousarray(code).reshape(len(code), int(np.prod(code.shape[1:]))) for code in codes.values()]
    matrix = np.concatenate([code.view(np.uint8) for code in flat], axis=1)
    width, content = matrix.shape[1], matrix.tobytes()
    return [content[start : start + width] for start in range(0, len(content), width)]


def unpacked(rows: Sequence[bytes], like: Mapping[str, Codes]) -> dict[str, Codes]:
    """Codes of rows that were packed; `like` are codes of any rows of the same schema, also of none."""
    widths = {name: code.itemsize * int(np.prod(code.shape[1:])) for name, code in like.items()}
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), sum(widths.values()))
    codes, start = {}, 0
    for name, code in like.items():
        cut = np.ascontiguousarray(matrix[:, start : start + widths[name]])
        codes[name] = cut.view(code.dtype).reshape(len(rows), *code.shape[1:])
        start += widths[name]
    return codes


def keep(ballots: Ballots, most: int) -> Ballots:
    """The smallest tickets of each person, at most so many."""
    ballots = ballots[np.lexsort(ballots.T[::-1])]
    first = np.ones(len(ballots), bool)
    first[1:] = (ballots[1:, :2] != ballots[:-1, :2]).any(axis=1)
    places = np.arange(len(ballots))
    rank: NDArray[np.int64] = places - np.maximum.accumulate(np.where(first, places, 0))
    return ballots[rank < most]


def buckets(ballots: Ballots, count: int) -> list[Ballots]:
    """Ballots by person: all of one person's are in one bucket."""
    return [ballots[ballots[:, 0] % np.uint64(count) == bucket] for bucket in range(count)]


def kept(table: pa.Table, codec: Codec, ballots: Ballots) -> dict[str, Codes]:
    """Codes of the rows of a batch whose ballots were kept.

    A ballot serves one row: whatever this batch holds by now, nobody has more rows than ballots.
    """
    codes = codec.encode(table)
    left = Counter(ballot.tobytes() for ballot in ballots[:, _IDENTITY].astype(">u8"))
    chosen = np.zeros(len(table), bool)
    for place, ticket in enumerate(hashes(table, codec, codes)):
        if ticket is not None and left[ticket]:
            left[ticket] -= 1
            chosen[place] = True
    return {name: code[chosen] for name, code in codes.items()}


def _people(ids: pa.Array | pa.ChunkedArray) -> list[bytes | None]:
    """Who each row belongs to, as text: 7, 7.0 and "7" are one person, and no text stops a release."""
    people: list[bytes | None] = cell_texts(ids).cast(pa.binary()).to_pylist()
    return people
