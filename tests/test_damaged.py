"""Files cut at every byte and with bits flipped: every kind is refused in words, or is what it was, and nothing else comes of it.

The smallest release has its turn in test_release_file, every cut and every single bit; checkpoints have theirs in test_train,
and the bits of a ledger in test_ledger.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpearl import sites
from dpearl.design import RECIPES, Scale
from dpearl.embed import load_partial, save_partial
from dpearl.engines.local import Local
from dpearl.errors import FileError, SchemaError
from dpearl.ledger import Ledger, charge, read_ledger, set_budget
from dpearl.owner import Offer, embed_shard, recipe_with, release_rows
from dpearl.privacy import Budget, Relation, Unit
from dpearl.schema import load_declaration, parse_schema
from dpearl.settings import settings_for
from dpearl.synthesizer import load_synthesizer, save_synthesizer
from dpearl.train import fit

SCHEMA = parse_schema({"columns": {"x": {"kind": "boolean"}, "y": {"kind": "boolean"}}})
RECIPE = recipe_with(RECIPES["auto"], None, Scale.PUBLIC, 1)
ROWS = pa.table({"x": [True, False] * 100, "y": [True, True] * 100})
TOML = """label = "y"

[columns.x]
kind = "number"
lower = -1
upper = 9.5
spikes = [99]

[columns."y z"]
kind = "category"
levels = ["a", "b\\u00e9"]  # two
missing = true

[columns.y]
kind = "boolean"

[columns.t]
kind = "datetime"
bounds = "estimate"
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest of each kind."""
    folder = tmp_path_factory.mktemp("kept")
    save_partial(embed_shard(ROWS, SCHEMA, RECIPE, 0, Local(1)), folder / "partial")
    study = sites.plan_study(SCHEMA, RECIPE, Budget(1.0, 1e-5), ["n", "s"], 0, 0)
    sites.save_study(study, folder / "study")
    sites.save_share(sites.share_rows(ROWS, study, "n")[0], folder / "share")
    made = release_rows(ROWS, Offer(SCHEMA, RECIPES["auto"], Budget(20.0, 1e-5)))
    short = replace(settings_for(made.embedding.design), iterations=1)
    save_synthesizer(fit(made, short, threads=1), folder / "model")
    set_budget(folder / "ledger", 3.0)
    for plan in ("one", "two"):
        charge(folder / "ledger", Budget(1.0, 1e-5), 0.2, Unit(Relation.ADD_REMOVE), plan, "out.dpearl")
    (folder / "schema").write_text(TOML, encoding="utf-8")
    return folder


def files(kept: Path) -> dict[str, Callable[[Path], Any]]:
    """How each kind is read."""
    study = sites.load_study(kept / "study")
    return {
        "partial": load_partial,
        "study": sites.load_study,
        "share": lambda path: sites.load_share(path, study, sites.SHARE),
        "model": load_synthesizer,
    }


def cuts(path: Path) -> Iterator[int]:
    """The file, shorter by a byte each time."""
    for size in range(path.stat().st_size - 1, -1, -1):
        os.truncate(path, size)
        yield size


def flips(path: Path, bits: range) -> Iterator[int]:
    """The file with one of these bits turned, and turned back after."""
    with path.open("r+b", buffering=0) as file:
        for bit in bits:
            byte = os.pread(file.fileno(), 1, bit // 8)[0]
            os.pwrite(file.fileno(), bytes([byte ^ 1 << bit % 8]), bit // 8)
            yield bit
            os.pwrite(file.fileno(), bytes([byte]), bit // 8)


def copied(kept: Path, kind: str, tmp_path: Path) -> Path:
    (tmp_path / kind).write_bytes((kept / kind).read_bytes())
    return tmp_path / kind


def declared(path: Path) -> str:
    """What is said of a schema; nothing where it can be read."""
    try:
        load_declaration(path)
    except (SchemaError, FileError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["partial", "study", "share", "model"])
def test_a_file_that_is_cut_anywhere_is_refused(kind: str, kept: Path, tmp_path: Path) -> None:
    path, read = copied(kept, kind, tmp_path), files(kept)[kind]
    read(path)
    for _ in cuts(path):
        with pytest.raises(FileError):
            read(path)


@pytest.mark.parametrize("kind", ["partial", "study", "share", "model"])
def test_a_file_with_a_flipped_bit_is_refused(kind: str, kept: Path, tmp_path: Path) -> None:
    """Every bit of small files; of a model one bit of every byte, each of the eight in turn."""
    path, read = copied(kept, kind, tmp_path), files(kept)[kind]
    bits = 8 * path.stat().st_size
    for _ in flips(path, range(0, bits, 1 if bits < 2**14 else 9)):
        with pytest.raises(FileError):
            read(path)
    read(path)


def test_a_ledger_that_is_cut_is_refused_or_is_what_it_was_before_its_last_lines(kept: Path, tmp_path: Path) -> None:
    """A chain cannot know what came after it: whole lines that are gone cannot be told from lines that were never written.
    Nothing but a cut at the very end of a line passes, and what passes is the ledger of that moment."""
    path, whole = copied(kept, "ledger", tmp_path), read_ledger(kept / "ledger")
    text = path.read_bytes()
    earlier: dict[int, Ledger] = {}
    for size in cuts(path):
        try:
            earlier[size] = read_ledger(path)
        except FileError:
            assert text[:size][-1:] != b"\n"
    assert sorted(earlier) == [place + 1 for place, byte in enumerate(text[:-1]) if byte == ord("\n")]
    assert [len(found.charges) for _, found in sorted(earlier.items())] == [0, 1]
    assert all(found.charges == whole.charges[: len(found.charges)] for found in earlier.values())


def test_a_schema_that_is_cut_or_has_a_flipped_bit_is_read_or_refused_in_words(kept: Path, tmp_path: Path) -> None:
    """A schema has no digest, for people write it; whatever is in it, nothing but a SchemaError comes of it."""
    path = copied(kept, "schema", tmp_path)
    ends = [declared(path) for _ in flips(path, range(8 * path.stat().st_size))]
    ends += [declared(path) for _ in cuts(path)]
    assert "" in ends
    assert {end[: len(str(path))] for end in ends} == {"", str(path)}
