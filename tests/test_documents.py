"""Documents say what is there: files, functions and tests that they name exist, and a second reader needs nothing else."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import second_reader
from dpearl import RECIPES, Budget, Local, Offer, Relation, Release, release_rows, save_release
from dpearl.cli import program
from dpearl.owner import recipe_with
from dpearl.privacy import compose, epsilon_of
from dpearl.schema import parse_declaration
from dpearl.statement import best_guess, facts

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"([\w./-]+\.py)::(\w+)")
PATH = re.compile(r"`((?:src|tests|docs|bench)/[\w./-]*\w)`")
CODE = re.compile(r"```.*?```", re.DOTALL)


@cache
def names(path: Path) -> frozenset[str]:
    """What a module defines, methods included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(defined | stored)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Headings as links name them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def broken(document: Path, text: str) -> Iterator[str]:
    """What a document names and is not there."""
    for target in LINK.findall(CODE.sub("", text)):
        place, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        found = document.parent / place if place else document
        if not found.exists() or (anchor and anchor not in anchors(found)):
            yield target
    for place, name in NAMED.findall(text):
        module = ROOT / place if "/" in place else ROOT / "tests" / place
        if not module.is_file() or name not in names(module):
            yield f"{place}::{name}"
    for place in PATH.findall(text):
        if not (ROOT / place).exists():
            yield place


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_whatever_a_document_names_is_there(document: Path) -> None:
    assert not list(broken(document, document.read_text(encoding="utf-8")))


def test_what_is_not_there_is_noticed() -> None:
    text = "[a](nowhere.md) [b](../README.md#nothing) `src/dpearl/noise.py::loud` `tests/test_nothing.py` [c](#the-guarantee-not)"
    assert len(list(broken(ROOT / "docs" / "guarantee.md", text))) == 5


def test_every_document_can_be_found_from_the_first_page() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        linked = {(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))}
        todo += [path for path in linked - seen if path.suffix == ".md" and path.is_file() and path not in todo]
    assert {*ROOT.glob("docs/*.md"), ROOT / "SECURITY.md"} <= seen


def test_figures_of_the_pitfalls_are_those_of_the_accountant() -> None:
    text = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
    small, large = Budget(1.0, 1e-5).mu, Budget(10.0, 1e-5).mu
    assert f"twelve releases of 1 are one of {epsilon_of(compose([small] * 12), 1e-5):.1f} at" in text
    assert f"right in {100 * best_guess(large):.0f}% of even bets, at 1 in {100 * best_guess(small):.0f}%" in text
    assert f"promises {epsilon_of(2 * small, 1e-5):.2f} under replace-one" in text


NUMBER, BOOLEAN = {"kind": "number", "lower": -1, "upper": 3, "spikes": [0]}, {"kind": "boolean"}
COLUMNS: dict[str, Any] = {
    "x": NUMBER,
    "n": {"kind": "number", "lower": 0, "upper": 5000, "step": 0.5},
    "t": {"kind": "datetime", "lower": "2020-01-01", "upper": "2020-03-01", "step": "12h"},
    "c": {"kind": "category", "levels": ["a", "b"]},
    "y": BOOLEAN,
}
ASKED = {
    **COLUMNS,
    "x": {"kind": "number", "bounds": "estimate", "spikes": [0]},
    "c": {"kind": "category", "levels": "estimate", "other": "rest"},
}
MODES = {**COLUMNS, "x": {**NUMBER, "modes": 2}}
PICTURE = {"p": {"kind": "image", "height": 5, "width": 4}, "y": BOOLEAN}
REPLACED = recipe_with(RECIPES["auto"], Relation.REPLACE_ONE, None, None)
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "marginals": ({"label": "y", "columns": COLUMNS}, RECIPES["auto"]),
    "questions": ({"label": "y", "rows_per_person": 3, "columns": ASKED}, RECIPES["auto"]),
    "questions, replaced": ({"columns": ASKED}, REPLACED),
    "paper": ({"label": "y", "columns": COLUMNS}, replace(RECIPES["paper"], frequencies=5)),
    "modes": ({"label": "y", "columns": MODES}, replace(RECIPES["auto"], frequencies=5)),
    "pictures": ({"label": "y", "columns": PICTURE}, RECIPES["auto"]),
    "pictures, replaced": ({"label": "y", "rows_per_person": 2, "columns": PICTURE}, REPLACED),
    "pictures by frequencies": ({"columns": PICTURE}, replace(RECIPES["paper"], frequencies=5)),
}


def rows(count: int = 300) -> dict[str, Any]:
    chance = np.random.default_rng(0)
    return {
        "x": chance.normal(1, 1, count),
        "n": chance.integers(0, 5000, count),
        "t": np.full(count, np.datetime64("2020-02-01", "us")),
        "c": chance.choice(["a", "b", "z"], count),
        "y": chance.random(count) < 0.5,
        "p": chance.integers(0, 256, (count, 5, 4)).astype(np.uint8),
    }


@cache
def released(case: str) -> Release:
    declared, recipe = CASES[case]
    data = {name: cells for name, cells in rows().items() if name in declared["columns"]}
    return release_rows(data, Offer(parse_declaration(declared), recipe, Budget(5.0, 1e-5)), engine=Local(1))


@pytest.mark.parametrize("case", CASES)
def test_a_second_reader_agrees_with_inspect(case: str, tmp_path: Path) -> None:
    """`inspect` prints these facts; the reader was written from docs/file-format.md and imports nothing of ours."""
    release = released(case)
    save_release(release, tmp_path / "made.dpearl")
    head, arrays = second_reader.read(tmp_path / "made.dpearl")
    mu, epsilon, lost = second_reader.costs(head, arrays)
    told = facts(release)
    assert head["digest"] == told["digest"]
    assert mu == pytest.approx(told["recomputed"]["mu"], rel=1e-12)
    assert epsilon == pytest.approx(told["recomputed"]["epsilon"], rel=1e-9)
    assert lost == pytest.approx(told["delta_of_levels"], rel=1e-6)
    assert (lost > 0) == ("questions" in case)
    for name, stage in release.measurements.items():
        for family, sums in stage.sums.items():
            assert np.array_equal(arrays[f"{name}/noisy/{family}"], sums)


SURE = Budget(1e6, 1e-5)
"""So little noise that what a row adds can be read off."""


def near(release: Release, stage: str, family: str, expected: np.ndarray[Any, Any]) -> bool:
    """Whether noisy sums lie within seven σ of these: a false alarm in 10^11 draws."""
    measured = release.stages.get(stage) or release.answers[stage]
    assert 7 * measured.sigmas[family] < measured.design.block(family).peak / 4, "a row shows"
    return bool((np.abs(measured.sums[family] - expected) <= 7 * measured.sigmas[family]).all())


def counted(cells: Any, size: int) -> np.ndarray[Any, Any]:
    return np.bincount(cells, minlength=size) * 2**16


def interactions(made: Release, *rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The block of three features and a label of three classes by the page, row by row, in Python's integers."""
    parts = {name.split(".")[1]: array.astype(int) for name, array in made.embedding.design.arrays().items()}
    finest = [np.split(parts[own], [101, 101 + 4]) for own in ("bins", "cells")]
    sizes = [[int(own.max()) + 1 for own in part] for part in finest]
    centres, inner = (np.split(parts[own], np.cumsum(part)[:-1]) for own, part in zip(("centres", "inner"), sizes, strict=True))
    limit, added = made.embedding.design.block("interactions").to_dict()["limit"], []
    for *features, label in zip(*rows, strict=True):
        alone, inside, single, along = [], [], [], []
        for place, code in enumerate(features):
            bins, cells = finest[0][place], finest[1][place]
            along.append(2**8 * np.eye(sizes[0][place], dtype=int)[bins[code]] - centres[place])
            mine = np.isin(np.arange(sizes[1][place]), cells[bins == bins[code]])
            sharp, finer, values = parts["sharpness"][place]
            alone.append(sharp * along[-1])
            if finer:
                inside.append(finer * (2**8 * np.eye(sizes[1][place], dtype=int)[cells[code]] - inner[place] * mine))
            if values:
                single.append(2**8 * values * (np.arange(len(cells)) == code) * ((cells == cells[code]).sum() > 1))
        pairs = [np.outer(along[one], along[other]).ravel() for one, other in parts["pairs"]]
        length = 2**28 + sum(int(value) ** 2 for vector in [*alone, *inside, *single, *pairs] for value in vector)
        weight = min(2**7, math.isqrt(2**14 * limit // length))
        mine = weight * np.eye(3, dtype=int)[label]
        split, paired = ([np.outer(mine, vector).ravel() for vector in own] for own in ([*alone, *inside], pairs))
        added.append(np.concatenate([*split, *(weight * vector for vector in single), *paired, [2**14 * weight]]))
    return np.asarray(np.sum(added, axis=0))


def test_a_row_adds_what_the_document_says() -> None:
    """Blocks, rungs, pairs, spread and phases by docs/file-format.md, row by row."""
    chance = np.random.default_rng(3)
    x, c, y = chance.integers(0, 101, 300), chance.integers(0, 4, 300), chance.integers(0, 2, 300)  # x = 100 and c = 3: missing
    z = np.where(chance.random(300) < 0.8, 5002, chance.integers(1, 5001, 300))  # 5002: zero, a spike
    texts = [[["a", "b", "z"][i] if i < 3 else None for i in c], [bool(i) for i in y]]
    table = pa.table({"x": pa.array(x, mask=x == 100), "c": texts[0], "y": texts[1]})
    columns = {"x": {"kind": "number", "lower": 0, "upper": 99, "step": 1}, "c": {"kind": "category", "levels": ["a", "b"]}}
    schema = parse_declaration({"label": "y", "columns": {**columns, "y": BOOLEAN}})
    amount = {"z": {"kind": "number", "lower": 0, "upper": 5000, "step": 1, "spikes": [0]}}
    longer = parse_declaration({"label": "y", "columns": {**columns, **amount, "y": BOOLEAN}})
    paid = table.append_column("z", pa.array(np.where(z == 5002, 0, z)))
    made = release_rows(paid, Offer(longer, RECIPES["auto"], SURE), engine=Local(1))
    assert near(made, "embedding", "count", counted(y, 3))
    coarse = np.where(x < 100, x * 20 // 100, 20)
    rungs = [counted(np.where(z < 5001, z * line // 5001, z - 5001 + line), line + 2) for line in (20, 1000, 5001)]
    cells = [(21, counted(coarse, 21)), (21, counted(x, 101) // 2), (4, counted(c, 4))]
    cells += [(22, rungs[0]), (22, rungs[1] // 2), (22, rungs[2] // 2)]
    assert near(made, "auxiliary", "singles", np.concatenate([np.rint(k ** (1 / 3) * rows) for k, rows in cells]))
    assert made.embedding.design.arrays()["interactions.sharpness"][2, 2] > 0
    assert near(made, "embedding", "interactions", interactions(made, x, c, z, y))

    made = release_rows(table, Offer(schema, replace(RECIPES["auto"], frequencies=6), SURE), engine=Local(1))
    plain = x < 100
    place = np.where(plain, x * 2**14 // 99, 0)
    lit = [0, (~plain).sum() * 2**14, *(counted(c, 4) // 4)]
    length = (place**2 // 2**14 + 2**14 * (~plain) + 2**14) // 2
    assert near(made, "auxiliary", "spread", np.array([place.sum(), *lit, length.sum()]))
    arrays = made.embedding.design.arrays()
    lines, angles = arrays["characteristic.lines"], arrays["characteristic.angles"].astype(np.int64)
    sums = np.zeros((3, 6, 2))
    for number, level, label in zip(x.tolist(), c.tolist(), y.tolist(), strict=True):
        turned = [round(Fraction(number * int(line), 2**16)) if number < 100 else 0 for line in lines[0]]
        phase = np.array(turned) + angles[0 if number < 100 else 1] + angles[2 + level]
        turn = 2 * np.pi * (((phase + 2) % 2**16) >> 2) / 2**14
        sums[label] += np.trunc(2**15 * np.stack([np.cos(turn), np.sin(turn)], axis=1))
    assert near(made, "embedding", "characteristic", sums)


def test_a_number_lies_in_the_octave_that_the_document_names() -> None:
    values = [0.0, 1.0, -1.0, 1.99, 2.0, 0.3, -5e9, 1e300, -1e-300, math.nan]
    cells = [256, 256 + 129, 256 - 129, 256 + 129, 256 + 130, 256 + 127, 256 - 161, 512, 256, 513]
    schema = parse_declaration({"columns": {"x": {"kind": "number", "bounds": "estimate"}}})
    made = release_rows(pa.table({"x": values}), Offer(schema, RECIPES["auto"], SURE), engine=Local(1))
    assert near(made, "bounds", "octaves", counted(cells, 514))


def test_the_command_prints_what_the_second_reader_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_release(released("marginals"), tmp_path / "made.dpearl")
    program().main(["inspect", "--json", str(tmp_path / "made.dpearl")], prog_name="dpearl", standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    mu, epsilon, _ = second_reader.costs(*second_reader.read(tmp_path / "made.dpearl"))
    assert printed["recomputed"] == {"epsilon": pytest.approx(epsilon, rel=1e-9), "mu": pytest.approx(mu, rel=1e-12)}


def test_the_second_reader_refuses_flipped_bits(tmp_path: Path) -> None:
    save_release(released("paper"), tmp_path / "made.dpearl")
    content = (tmp_path / "made.dpearl").read_bytes()
    header = struct.unpack("<Q", content[:8])[0]
    chance = np.random.default_rng(0)
    places = [*range(64), *chance.integers(64, 8 * (8 + header), 100), *chance.integers(8 * header, 8 * len(content), 60)]
    for place in places:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        (tmp_path / "flipped").write_bytes(flipped)
        with pytest.raises((AssertionError, ValueError, KeyError, TypeError, AttributeError)):
            second_reader.read(tmp_path / "flipped")


@pytest.mark.parametrize("case", ["questions", "paper"])
def test_a_release_can_be_written_by_the_document_alone(case: str, tmp_path: Path) -> None:
    """So that the digest of the release inside a model can be checked, too."""
    save_release(released(case), tmp_path / "made.dpearl")
    head, arrays = second_reader.read(tmp_path / "made.dpearl")
    names_of = {dtype: name for name, dtype in second_reader.DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"dpearl": second_reader.canonical(head).decode()}}
    body = b""
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        offsets = [len(body), len(body) + array.nbytes]
        header[name] = {"dtype": names_of[array.dtype.str], "shape": list(array.shape), "data_offsets": offsets}
        body += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    assert struct.pack("<Q", len(text)) + text + body == (tmp_path / "made.dpearl").read_bytes()


def test_the_second_reader_is_short_and_knows_nothing_of_ours() -> None:
    text = (ROOT / "tests" / "second_reader.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    used = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    used |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert used == {
        "__future__",
        "hashlib",
        "json",
        "math",
        "re",
        "datetime",
        "decimal",
        "fractions",
        "pathlib",
        "typing",
        "numpy",
    }
    assert sum(bool(line) for line in text.splitlines()) <= 160


def test_a_ledger_is_as_the_document_says(tmp_path: Path) -> None:
    """The chain of a ledger, by docs/file-format.md alone."""
    declared, recipe = CASES["marginals"]
    data = pa.table({name: pa.array(cells) for name, cells in rows(20).items() if name != "p"})
    release_rows(data, Offer(parse_declaration(declared), recipe, Budget(1.0, 1e-5)), tmp_path / "ledger.jsonl", "made", Local(1))
    previous, spent = "0" * 64, 0.0
    for line in (tmp_path / "ledger.jsonl").read_text().splitlines():
        link = json.loads(line)
        assert line.encode() == second_reader.canonical(link)
        assert link["previous"] == previous
        previous = hashlib.sha256(previous.encode() + second_reader.canonical(link["entry"])).hexdigest()
        assert link["hash"] == previous
        spent += link["entry"].get("mu", 0.0) ** 2
    assert second_reader.epsilon(spent**0.5, 1e-5) == pytest.approx(1.0, rel=1e-3)
