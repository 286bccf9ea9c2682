"""Every input of the corpus, and some changed ones, through every reader: nothing but a `DpearlError` comes out.

`make fuzz` looks much longer, by coverage; what it finds is kept in tests/corpus and replayed here.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bench.fuzz.mutate import mutated
from bench.fuzz.seeds import BUDGET, CORPUS
from bench.fuzz.targets import TARGETS

from dpearl import load_release

CHANGES = {"release": 250, "schema": 700, "ledger": 400, "codec": 300, "picture": 400, "archive": 250, "table": 500}
"""Changed inputs for each reader: about a CPU second of each."""


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_breaks_no_reader(name: str) -> None:
    assert len(corpus(name)) >= 2
    for data in corpus(name):
        TARGETS[name](data)
        TARGETS[name](data[: len(data) // 2])
    TARGETS[name](b"")


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_break_no_reader(name: str) -> None:
    chance = random.Random(name)
    known = corpus(name)
    for _ in range(CHANGES[name]):
        data = chance.choice(known)
        for _ in range(chance.choice((1, 1, 2, 3))):
            data = mutated(name, data, chance)
        TARGETS[name](data)


@pytest.mark.parametrize("path", sorted((CORPUS / "release").glob("*.dpearl")), ids=lambda path: path.stem)
def test_releases_to_start_from_are_read(path: Path) -> None:
    """One that is refused at once, since the format went on without it, would test nothing further in."""
    assert load_release(path).epsilon <= BUDGET.epsilon


def test_changes_get_past_the_digest() -> None:
    """A mutator that only breaks checksums would test nothing: enough changes must still be read, or be refused further in."""
    from dpearl import container
    from dpearl.errors import FileError

    chance, path, told = random.Random(1), CORPUS / "release" / "pairs.dpearl", []
    for _ in range(60):
        data = mutated("release", path.read_bytes(), chance)
        try:
            container._meta(data)
            told.append(container.read(_written(data), "dpearl-release"))
        except (FileError, ValueError, KeyError):
            continue
    assert len(told) > 30


def _written(data: bytes) -> str:
    from bench.fuzz.targets import _file

    with _file(data, "past.dpearl") as path:
        return str(path)
