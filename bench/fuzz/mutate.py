"""Other inputs from known ones: bytes changed anywhere, and values changed inside a form that is right again afterwards.

A reader that checks a digest first would never see bytes that were changed at random; so files of ours are taken apart, changed
and packed with the digest of the change, ledgers are chained anew, PNGs and archives get their checksums.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load

from dpearl.canonical import canonical
from dpearl.container import pack

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 255, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, 0.5, -0.0, 1e-320, 1e308, 1e-9),
    *("", "x", "\0", "a\nb", "\u202e", "9" * 400, "add-remove", "replace-one", "estimate", "number", "category", "auto"),
    *("paper", "dictionary[string]", "timestamp[us, tz=UTC]", "double", "embedding", "2020-01-01", [], [0], {}, {"a": []}),
)
_WORDS = (
    *(b"\0", b"\xff", b"\n", b"\r", b'"', b"'", b",", b";", b"=", b"[", b"]", b"{", b"}", b"\\", b"#", b"-0", b"1e999"),
    *(b"9" * 30, b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80", b"true", b"nan", b"inf", b"2020-01-01", b"99999-01-01"),
    *(b"\x93NUMPY", b"PK\x03\x04", b"IHDR", b"0x10", b"1_0", b"NA", b"'''", b'"""', b"estimate", b"[columns.a]\n"),
    *(b'kind = "number"\n', b"modes = 3\n", b"other = 'o'\n"),
)


def mutated(name: str, data: bytes, chance: random.Random) -> bytes:
    """Another input for this target."""
    try:
        if chance.random() < 0.8 and name in _FORMS:
            return _FORMS[name](data, chance)
    except Exception:  # what has lost its form is changed as bytes
        pass
    return _bytes(data, chance)


def _bytes(data: bytes, chance: random.Random) -> bytes:
    """A few places changed: bits, words, cuts, copies."""
    changed = bytearray(data or b"x")
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place, end = sorted(chance.randrange(len(changed) + 1) for _ in range(2))
        what = chance.randrange(6)
        if what == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif what == 1:
            changed[place:place] = chance.choice(_WORDS)
        elif what == 2:
            word = chance.choice(_WORDS)
            changed[place : place + len(word)] = word
        elif what == 3:
            del changed[place : min(end, place + 64)]
        elif what == 4:
            changed[place:place] = changed[place : min(end, place + 64)]
        else:
            changed[place : place + 8] = struct.pack("<q", chance.choice((0, -1, 1, 2**31, 2**62, 2**40)))
        changed = changed or bytearray(b"x")
    return bytes(changed)


def _value(value: Any, chance: random.Random) -> Any:
    """A JSON value with one or a few nodes put, removed, doubled or exchanged."""
    value = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = _places(value)
        if not places:
            return chance.choice(_VALUES)
        node, key = chance.choice(places)
        what = chance.randrange(8)
        if what < 4:
            node[key] = chance.choice(_VALUES)
        elif what == 4:
            other, place = chance.choice(places)
            node[key] = json.loads(json.dumps(other[place])) if place in _keys(other) else None
        elif what == 5 and isinstance(node[key], (int, float)) and not isinstance(node[key], bool):
            node[key] = chance.choice((node[key] + 1, node[key] - 1, -node[key], node[key] * 2, float(min(node[key], 2**60))))
        elif what == 6:
            del node[key]
        elif isinstance(node, list):
            node.insert(key, json.loads(json.dumps(node[key])))
        else:
            node[chance.choice(("x", "", "a", "modes", "bounds", "step", "other", "name"))] = node[key]
    return value


def _keys(node: Any) -> list[Any]:
    return list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []


def _places(value: Any) -> list[tuple[Any, Any]]:
    return [found for key in _keys(value) for found in ((value, key), *_places(value[key]))]


def _dpearl(data: bytes, chance: random.Random) -> bytes:
    """A file of ours with other values, or other numbers in a tensor, under a right digest."""
    size = int.from_bytes(data[:8], "little")
    meta = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["dpearl"])
    arrays = dict(load(data))
    if arrays and chance.random() < 0.25:
        name = chance.choice(sorted(arrays))
        arrays[name] = _array(arrays[name], chance)
    else:
        kept = {key: meta[key] for key in ("format", "version", "digest")}
        meta = _value({key: value for key, value in meta.items() if key not in kept}, chance) | kept
    if "release_digest" in meta and isinstance(meta.get("release"), dict):
        own = {name.removeprefix("release/"): array for name, array in arrays.items() if name.startswith("release/")}
        meta["release_digest"] = pack("dpearl-release", meta["release"], own)[1]
    return pack(meta["format"], meta, arrays)[0]


def _array(array: np.ndarray[Any, Any], chance: random.Random) -> np.ndarray[Any, Any]:
    what = chance.randrange(5)
    if what == 0:
        return array.ravel()[: chance.randrange(array.size + 1)]
    if what == 1:
        return array.astype(chance.choice(("<i8", "<f8", "<u1", "<i4", "<u8")))
    if what == 2:
        return array[..., None]
    changed = array.copy()
    if changed.size:
        extreme = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.inf
        changed.flat[chance.randrange(changed.size)] = chance.choice((0, 1, extreme))
    return changed


def _ledger(data: bytes, chance: random.Random) -> bytes:
    """Entries changed, and chained anew."""
    entries = _value([json.loads(line)["entry"] for line in data.decode().splitlines()], chance)
    lines, previous = [], "0" * 64
    for entry in entries:
        digest = hashlib.sha256(previous.encode() + canonical(entry)).hexdigest()
        lines.append(canonical({"entry": entry, "hash": digest, "previous": previous}) + b"\n")
        previous = digest
    return b"".join(lines)


def _schema(data: bytes, chance: random.Random) -> bytes:
    """Lines with other values, left out, doubled or moved."""
    lines = data.decode().split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.randrange(len(lines))
        key, sign, _ = lines[place].partition("=")
        what = chance.randrange(5)
        if what < 2 and sign:
            lines[place] = f"{key}= {chance.choice(_TOML)}"
        elif what == 2:
            lines.insert(chance.randrange(len(lines) + 1), lines[place])
        elif what == 3 and len(lines) > 1:
            del lines[place]
        else:
            lines.insert(place, f"{chance.choice(_KEYS)} = {chance.choice(_TOML)}")
    return "\n".join(lines).encode()


_KEYS = (
    *("lower", "upper", "step", "log", "spikes", "modes", "missing", "bounds", "levels", "other", "height", "channels"),
    *("kind", "label"),
)
_TOML = (
    *('""', '"x"', "0", "1", "-1", "2", "12", "1e308", "-1e308", "5e-324", "inf", "nan", "true", "false", "[]", "[1]", "{}"),
    *('["x", "x"]', '"estimate"', '"number"', '"category"', '"datetime"', '"image"', '"boolean"', "2020-01-01", "12:00:00"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", '"1d"', '"1us"', '"999999999d"', "[nan]", "9" * 30, "[[1]]"),
    *("[{mean = 1, spread = 1, weight = 1}]", '"\\u202e"', '"\\u0000mode"', '"a.b"', "0x7fffffffffffffff", "281474976710656"),
    *("0.1", "1e-300", "['a', 1, true, 0.5]"),
)


def _picture(data: bytes, chance: random.Random) -> bytes:
    """A PNG with a chunk changed, left out, doubled or made up, and right checksums; other pictures as bytes."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _bytes(data, chance)
    chunks, place = [], 8
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4])
        chunks.append(bytes(data[place + 4 : place + 8 + size]))
        place += 12 + size
    chosen = chance.randrange(len(chunks))
    what = chance.randrange(4)
    if what == 0:
        chunks[chosen] = chunks[chosen][:4] + _bytes(chunks[chosen][4:], chance)
    elif what == 1:
        chunks.insert(chosen, chunks[chance.randrange(len(chunks))])
    elif what == 2:
        del chunks[chosen]
    else:
        kind = chance.choice((b"tRNS", b"PLTE", b"iCCP", b"zTXt", b"gAMA", b"acTL", b"fdAT", b"eXIf", b"IDAT"))
        chunks.insert(chosen, kind + _bytes(chance.choice((b"", b"x\0\0" + zlib.compress(bytes(99)), bytes(26))), chance))
    sized = (struct.pack(">I", max(len(chunk) - 4, 0)) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return data[:8] + b"".join(sized)


def _archive(data: bytes, chance: random.Random) -> bytes:
    """An archive with one member changed, and its checksum right."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = [(info.filename, old.read(info)) for info in old.infolist()]
    chosen = chance.randrange(len(members))
    name, content = members[chosen]
    members[chosen] = (name, _header(content, chance) if chance.random() < 0.7 else _bytes(content, chance))
    stream = io.BytesIO()
    kind = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(stream, "w", kind) as new:
        for name, content in members:
            new.writestr(zipfile.ZipInfo(name), content, kind)
    return stream.getvalue()


def _header(content: bytes, chance: random.Random) -> bytes:
    """An array that says another shape or type."""
    shapes = ("()", "(0,)", "(1,)", "(2,)", "(-1,)", f"({2**62},)", "(2, 4, 4)", "(2, 4, 4, 3)", f"(1, {2**40})", "('x',)")
    types = ("<f8", ">i4", "|u1", "<U5", "|S3", "<M8[us]", "<M8[Y]", "|O", "<f2", "<c16", "|V8", "<U99999999", "<f16", "|b1")
    order, shape = chance.choice(("True", "False", "2")), chance.choice(shapes)
    head = f"{{'descr': {chance.choice(types)!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    version = bytes((chance.choice((1, 1, 1, 2, 3)), 0))
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + content[128:]


_FORMS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "release": _dpearl,
    "ledger": _ledger,
    "schema": _schema,
    "picture": _picture,
    "archive": _archive,
}
