"""A second reader of releases, written from docs/file-format.md: the standard library and NumPy, nothing of dpearl."""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"I64": "<i8", "I32": "<i4", "U16": "<u2", "U64": "<u8", "F64": "<f8", "F32": "<f4"}
UNITS = {"us": "microseconds", "ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
Head = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]
Reach = tuple[int, tuple[int | Fraction, ...], tuple[int, ...]]
"""N²; what a row changes in multiples of it: added, replaced in its class, by another class; the shape of the sums."""


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def read(path: Path) -> tuple[Head, Arrays]:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    assert 2 <= size <= min(len(content) - 8, 64 * 2**20)
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    head = json.loads(header.pop("__metadata__")["dpearl"])
    assert (head["format"], head["version"]) == ("dpearl-release", 1)
    mark, blank = (rf"\"digest\":\"{digest}\"".encode() for digest in (head["digest"], "0" * 64))
    assert hashlib.sha256(content.replace(mark, blank, 1)).hexdigest() == head["digest"], "digest"
    end, arrays = 0, {}
    for name, told in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = told["data_offsets"]
        assert start == end
        end, arrays[name] = stop, np.frombuffer(body[start:stop], DTYPES[told["dtype"]]).reshape(told["shape"])
    assert end == len(body)
    return head, arrays


def design_digest(design: Head, arrays: Arrays) -> str:
    digest = hashlib.sha256(canonical(design))
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def points(column: Head) -> int:
    if column["kind"] == "datetime":
        number, unit = re.findall(r"\d+|[a-z]+", column["step"])
        span = datetime.fromisoformat(column["upper"]) - datetime.fromisoformat(column["lower"])
        return span // timedelta(**{UNITS[unit]: int(number)}) + 1
    if "step" not in column:
        return 2**16
    lower, upper, step = (Fraction(Decimal(repr(column[key]))) for key in ("lower", "upper", "step"))
    return int((upper - lower) / step) + 1


def levels(column: Head) -> int:
    if column["kind"] == "category":
        return len(column["levels"]) + 2
    return {"boolean": 3, "number": 2 + len(column.get("spikes", ())), "datetime": 2, "image": 2}[column["kind"]]


def one_hot(column: Head) -> bool:
    return column["kind"] in ("category", "boolean")


def features(schema: Head) -> list[tuple[Head, int, int]]:
    """(column, coordinates, levels) of every feature."""
    found = []
    for column in schema["columns"]:
        if isinstance(column.get("modes"), list):
            found += [(column, 0, len(column["modes"]) + levels(column) - 1), (column, 1, 1)]
        elif not (column["name"] == schema.get("label") and one_hot(column)):
            pixels = math.prod(column.get(key, 1) for key in ("height", "width", "channels"))
            found.append((column, 0 if one_hot(column) else pixels, levels(column)))
    return found


def rungs(schema: Head) -> list[list[int]]:
    """Cells of every feature at each of its rungs."""
    own, full = [column for column, _, _ in features(schema)], 2**17
    while full > 40 and sum(sum(_rungs(column, len(own) > 40, full)) for column in own) > 2**18:
        full //= 2
    return [_rungs(column, len(own) > 40, full) for column in own]


def _rungs(column: Head, wide: bool, full: int) -> list[int]:
    if one_hot(column):
        return [levels(column)]
    size = points(column)
    finer = [1000] * (size > 4000) + [size] * (size <= full and "step" in column)
    lines = [size] if size <= 40 else [20] if wide else [20, *finer]
    return [line + levels(column) - 1 for line in lines]


def reach(block: Head, schema: Head, arrays: Arrays) -> Reach:
    family, seen, columns = block["family"], features(schema), {column["name"]: column for column in schema["columns"]}
    label = columns.get(schema.get("label", ""))
    classes = levels(label) if label and one_hot(label) else 1
    if family == "count":
        return 2**32, (1, 0, 2), (classes,)
    if family == "characteristic":
        frequencies = arrays["characteristic.angles"].shape[1]
        return frequencies * 2**30, (1, 4, 2), (classes, frequencies, 2)
    if family in ("moments", "edges"):
        column = next(column for column, _, _ in seen if column["kind"] == "image")
        sizes, most = (column["height"], column["width"]), 10 if column["channels"] == 1 else 6
        waves = column["channels"] * math.prod(min(most, size) for size in sizes)
        s = waves if family == "moments" else 8 * math.prod(min(6, -(-size // 4)) for size in sizes)
        return 6144**2 * 2**24 + 25 * 2**48, (1, 4, 2), (classes, s + s * (s + 1) // 2)
    if family == "pairwise-distance":
        return 2**28 * sum(max(lines, 1) + 1 for _, lines, _ in seen), (10**99, 1, 1), (1,)
    if family == "spread":
        return 2**29 * sum(max(lines, 1) for _, lines, _ in seen), (1, 2, 2), (sum(lines + own for _, lines, own in seen) + 1,)
    if family == "mixtures":
        return 3 * 2**30 * len(block["columns"]), (1, 2, 2), (3 * int(arrays["mixtures.sizes"].sum()),)
    if family == "interactions":
        return _interactions(block, schema, arrays, classes)
    if family == "singles":
        units = [(2**16 >> (rung > 0)) * min(own[0], 64) ** (1 / 3) for own in rungs(schema) for rung in range(len(own))]
        assert np.abs(np.array(block["counted"]) - units).max() <= 0.5
        return sum(unit**2 for unit in block["counted"]), (1, 2, 2), (sum(map(sum, rungs(schema))),)
    if family == "octaves":
        cells = [514 for column in columns.values() if "bounds" in column]
    elif family == "stretches":
        cells = [min(block["line"], points(columns[name])) + levels(columns[name]) - 1 for name in block["columns"]]
    else:
        cells = [len(texts) for texts in {"levels": block["found"]}[family].values()]
    return 2**32 * len(cells), (1, 2, 2), (sum(cells),)


def _interactions(block: Head, schema: Head, arrays: Arrays, classes: int) -> Reach:
    finest = [own[-1] for own in rungs(schema)]
    ends = np.cumsum(finest)[:-1]
    bins, cells = (arrays[f"interactions.{own}"] for own in ("bins", "cells"))
    assert sum(finest) == len(bins) == len(cells)
    sizes, parts = ([int(own.max()) + 1 for own in np.split(part, ends)] for part in (bins, cells))
    both = [(int(one), int(other)) for one, other in arrays["interactions.pairs"]]
    sharpness = arrays["interactions.sharpness"]
    finer = [own if weight else 0 for own, weight in zip(parts, sharpness[:, 1], strict=True)]
    single = [own if weight else 0 for own, weight in zip(finest, sharpness[:, 2], strict=True)]
    groups = classes if classes <= 6 else 1
    values = classes * sum(sizes) + groups * (sum(finer) + sum(sizes[a] * sizes[b] for a, b in both)) + sum(single) + 1
    return 2**14 * block["limit"], (1, 4, 4), (values,)


def above(score: float) -> float:
    """P(Z ≥ score)."""
    return math.erfc(score / math.sqrt(2)) / 2


def lost(block: Head, sigma: int, m: int) -> float:
    beyond = block["threshold"] - sigma // 2**18 * 2**16
    one, every = (above((beyond - c * 2**16 - 0.5) / sigma) for c in (1, m))
    return len(block["found"]) * max(every, m * one) if beyond >= m * 2**16 else 1.0


def costs(head: Head, arrays: Arrays) -> tuple[float, float, float]:
    """μ, ε at the stated δ, and the δ of levels, from the integers."""
    told, square, gone = head["statement"], Fraction(0), 0.0
    m, cases = told["rows_per_person"], {"add-remove": (0,), "replace-one": (1, 2)}[told["relation"]]
    for stage in [*head.get("answers", []), *head["stages"]]:
        name, sigmas, blocks = stage["name"], stage["sigmas"], stage["design"]["blocks"]
        own = {key.split("/", 2)[2]: array for key, array in arrays.items() if key.startswith(f"{name}/design/")}
        assert design_digest(stage["design"], own) == stage["digest"]
        noisy = {key.split("/", 2)[2]: array for key, array in arrays.items() if key.startswith(f"{name}/noisy/")}
        assert sorted(noisy) == sorted(sigmas) == sorted(block["family"] for block in blocks)
        reached = {block["family"]: reach(block, stage["design"]["schema"], own) for block in blocks}
        assert all((noisy[family].shape, noisy[family].dtype) == (reached[family][2], np.int64) for family in noisy)
        assert min(sigmas.values()) >= 1
        changes = [sum(Fraction(n2 * by[case], sigmas[family] ** 2) for family, (n2, by, _) in reached.items()) for case in cases]
        square += m**2 * max(changes)
        gone += sum(lost(block, sigmas["levels"], m) for block in blocks if block["family"] == "levels")
    mu = math.sqrt(square)
    return mu, epsilon(mu, told["delta"] - gone), gone


def epsilon(mu: float, delta: float) -> float:
    """The smallest ε with Φ(μ/2 - ε/μ) - exp(ε)·Φ(-μ/2 - ε/μ) ≤ δ."""
    low, high = 0.0, 700.0
    for _ in range(200):
        middle = (low + high) / 2
        spent = above(middle / mu - mu / 2) - math.exp(middle) * above(middle / mu + mu / 2)
        low, high = (low, middle) if spent <= delta else (middle, high)
    return high
