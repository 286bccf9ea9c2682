"""A release file is whole, canonical and honest, or it is refused; files appear at once or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
import pickle
import stat
import tracemalloc
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from dpearl import container
from dpearl.design import RECIPES, Scale
from dpearl.embed import PARTIAL, Embedding, load_partial, merge, save_partial
from dpearl.engines.local import Local
from dpearl.errors import FileError, UsageError
from dpearl.owner import Offer, embed_shard, recipe_with, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.release import RELEASE, Release, load_release, save_release
from dpearl.schema import parse_schema

SCHEMA = parse_schema({"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}}})
LABELLED = parse_schema({"label": "y", "columns": {"x": {"kind": "number", "lower": 0, "upper": 1}, "y": {"kind": "boolean"}}})
TINY = recipe_with(RECIPES["auto"], None, Scale.PUBLIC, 1)
BUDGET = Budget(1.0, 1e-5)


def tiny_release() -> Release:
    return release_rows(pa.table({"x": [0.5, 0.25]}), Offer(SCHEMA, TINY, BUDGET))


def rich_release(relation: Relation) -> Release:
    rows = pa.table({"x": np.linspace(0, 1, 50, dtype=np.float32), "y": [True, False] * 25})
    return release_rows(rows, Offer(LABELLED, recipe_with(RECIPES["auto"], relation, None, 20), BUDGET, seed=3))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    save_release(tiny_release(), tmp_path / "tiny.dpearl")
    return tmp_path / "tiny.dpearl"


def same(left: Release, right: Release) -> bool:
    plain = ("budget", "unit", "recipe", "plan", "rows", "types", "dpearl", "mus", "epsilon")
    stages = zip(left.stages.items(), right.stages.items(), strict=True)
    return all(getattr(left, name) == getattr(right, name) for name in plain) and all(
        (name, a.design.digest, a.sigmas) == (other, b.design.digest, b.sigmas)
        and all(np.array_equal(a.sums[family], b.sums[family]) for family in a.sums)
        for (name, a), (other, b) in stages
    )


@pytest.mark.parametrize("relation", Relation)
def test_what_is_loaded_is_what_was_saved(relation: Relation, tmp_path: Path) -> None:
    made = rich_release(relation)
    save_release(made, tmp_path / "a.dpearl")
    assert same(made, load_release(tmp_path / "a.dpearl"))


@pytest.mark.parametrize("relation", Relation)
def test_one_release_has_one_spelling(relation: Relation, tmp_path: Path) -> None:
    made = rich_release(relation)
    save_release(made, tmp_path / "a.dpearl")
    assert load_release(tmp_path / "a.dpearl").digest == made.digest
    save_release(load_release(tmp_path / "a.dpearl"), tmp_path / "b.dpearl")
    assert (tmp_path / "a.dpearl").read_bytes() == (tmp_path / "b.dpearl").read_bytes()


def test_two_releases_of_the_same_rows_differ() -> None:
    assert len({rich_release(Relation.ADD_REMOVE).digest for _ in range(5)}) == 5


def test_every_single_flipped_bit_is_refused(tiny: Path) -> None:
    intact, damaged = tiny.read_bytes(), tiny.with_name("damaged.dpearl")
    assert len(intact) <= 4096, "small enough to try them all"
    for place in range(8 * len(intact)):
        changed = bytearray(intact)
        changed[place // 8] ^= 1 << place % 8
        damaged.write_bytes(changed)
        with pytest.raises(FileError):
            load_release(damaged)


def test_every_truncation_and_padding_is_refused(tiny: Path) -> None:
    intact, damaged = tiny.read_bytes(), tiny.with_name("damaged.dpearl")
    for content in [intact[:size] for size in range(len(intact))] + [intact + tail for tail in (b"\0", b" ", b"\n", intact)]:
        damaged.write_bytes(content)
        with pytest.raises(FileError):
            load_release(damaged)


def bomb(size: int) -> bytes:
    return size.to_bytes(8, "little") + b'{"__metadata__":{}}'


def shape_bomb() -> bytes:
    header = json.dumps({"a": {"dtype": "F64", "shape": [2**31, 2**29], "data_offsets": [0, 2**63 - 1]}}).encode()
    return len(header).to_bytes(8, "little") + header


FOREIGN: dict[str, bytes] = {
    "an empty file": b"",
    "text": b"ledger or something else entirely\n",
    "a pickle": pickle.dumps({"epsilon": 1}),
    "other safetensors": save({"weights": np.zeros(3)}),
    "other safetensors with notes": save({"weights": np.zeros(3)}, {"dpearl": "yes"}),
    "a header that is a list": (2).to_bytes(8, "little") + b"[]      ",
    "deep nesting": (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "a header of 2^60 bytes": bomb(2**60),
    "a header of 2^64 - 1 bytes": bomb(2**64 - 1),
    "a tensor of 2^63 bytes": shape_bomb(),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files_and_bombs_are_refused_before_memory_is_taken(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.dpearl").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"x.dpearl: is (not a dpearl file|damaged)"):
            load_release(tmp_path / "x.dpearl")
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()
    assert container.kind_of(tmp_path / "x.dpearl") is None


def test_a_file_larger_than_any_release_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge.dpearl").open("wb") as file:
        file.write(bomb(19))
        file.truncate(container.MAX_FILE + 1)
    with pytest.raises(FileError, match="larger than any dpearl file"):
        load_release(tmp_path / "huge.dpearl")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, says in ((tmp_path, "is a folder, not a file"), (tmp_path / "none.dpearl", "no such file")):
        with pytest.raises(FileError, match=says):
            load_release(path)


Arrays = dict[str, NDArray[Any]]


def forged(path: Path, change: Callable[[dict[str, Any], Arrays], None], kind: str = RELEASE) -> Path:
    """The file rewritten by somebody who knows the format: its digest is right again."""
    meta, arrays = container.read(path, RELEASE)
    change(meta, arrays)
    container.place_file(path.with_name("forged.dpearl"), container.pack(kind, meta, arrays)[0])
    return path.with_name("forged.dpearl")


def sigma(family: str, change: Callable[[int], Any]) -> Callable[[dict[str, Any], Arrays], None]:
    def forge(meta: dict[str, Any], arrays: Arrays) -> None:
        meta["stages"][0]["sigmas"][family] = change(meta["stages"][0]["sigmas"][family])

    return forge


@pytest.mark.parametrize("family", ["count", "characteristic"])
def test_less_noise_than_the_stated_epsilon_needs_is_refused(family: str, tiny: Path) -> None:
    with pytest.raises(FileError, match=r"does not support the epsilon|do not fit together"):
        load_release(forged(tiny, sigma(family, lambda honest: honest - max(1, honest // 100))))


def test_more_noise_than_needed_is_accepted(tiny: Path) -> None:
    assert load_release(forged(tiny, sigma("count", lambda honest: 2 * honest))).epsilon < 1


def statement(key: str, value: Any) -> Callable[[dict[str, Any], Arrays], None]:
    return lambda meta, arrays: meta["statement"].update({key: value})


@pytest.mark.parametrize(
    ("key", "value"), [("epsilon", 0.9), ("delta", 1e-6), ("rows_per_person", 2), ("relation", "replace-one")]
)
def test_a_statement_that_promises_more_is_refused(key: str, value: Any, tiny: Path) -> None:
    with pytest.raises(FileError, match=r"does not support the epsilon|do not fit together"):
        load_release(forged(tiny, statement(key, value)))


def drop(name: str) -> Callable[[dict[str, Any], Arrays], None]:
    return lambda meta, arrays: arrays.__delitem__(name)


def recast(name: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[dict[str, Any], Arrays], None]:
    return lambda meta, arrays: arrays.update({name: change(arrays[name])})


NONSENSE: dict[str, Callable[[dict[str, Any], Arrays], None]] = {
    "no noise": sigma("count", lambda honest: 0),
    "negative noise": sigma("count", lambda honest: -honest),
    "noise without bounds": sigma("count", lambda honest: "much"),
    "no epsilon": statement("epsilon", 0),
    "delta of one": statement("delta", 1),
    "half a row per person": statement("rows_per_person", 0.5),
    "too many rows per person": statement("rows_per_person", 10**400),
    "an unknown relation": statement("relation", "friends"),
    "no stages": lambda meta, arrays: meta.update(stages=[]),
    "stages of another kind": lambda meta, arrays: meta.update(stages=3),
    "another design's digest": lambda meta, arrays: meta["stages"][0].update(digest="0" * 63 + "1"),
    "a frequency moved": recast("embedding/design/characteristic.lines", lambda lines: lines + 1),
    "a frequency missing": drop("embedding/design/characteristic.lines"),
    "sums missing": drop("embedding/noisy/count"),
    "sums of another shape": recast("embedding/noisy/count", lambda sums: sums.repeat(2)),
    "sums in floats": recast("embedding/noisy/count", lambda sums: sums.astype(np.float64)),
    "another schema": lambda meta, arrays: meta["stages"][0]["design"]["schema"].update(columns={}),
    "an unknown block": lambda meta, arrays: meta["stages"][0]["design"]["blocks"][0].update(family="pickle"),
}


@pytest.mark.parametrize("change", NONSENSE.values(), ids=NONSENSE.keys())
def test_parts_that_do_not_fit_are_refused(change: Callable[[dict[str, Any], Arrays], None], tiny: Path) -> None:
    with pytest.raises(FileError, match=r"do not fit together|does not support the epsilon"):
        load_release(forged(tiny, change))


def test_another_kind_of_file_is_named(tiny: Path) -> None:
    with pytest.raises(FileError, match="is a dpearl-partial file, not a dpearl-release file"):
        load_release(forged(tiny, lambda meta, arrays: None, PARTIAL))


def test_a_newer_version_asks_for_an_upgrade(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "VERSION", container.VERSION + 1)
    newer = forged(tiny, lambda meta, arrays: None)
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"newer dpearl \(format 2\); upgrade"):
        load_release(newer)


def test_an_existing_file_is_never_replaced(tiny: Path) -> None:
    before = tiny.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        save_release(tiny_release(), tiny)
    assert tiny.read_bytes() == before


def test_a_file_that_appears_at_the_last_moment_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "a.dpearl", os.link

    def late(source: Path, target: Path) -> None:
        target.write_text("another's")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(FileError, match="File exists"):
        save_release(tiny_release(), path)
    assert path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["link", "fsync", "open"])
def test_a_failed_write_leaves_nothing_behind(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = tiny_release()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises((FileError, UsageError), match=r"a.dpearl: cannot be written .No space left"):
            save_release(made, tmp_path / "a.dpearl")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist; create it first"):
        save_release(tiny_release(), tmp_path / "none" / "a.dpearl")


def shard(first: int, last: int, seed: int = 0) -> Embedding:
    rows = pa.table({"x": np.arange(first, last) / 1000, "y": [place % 3 == 0 for place in range(first, last)]})
    return embed_shard(rows, LABELLED, recipe_with(RECIPES["auto"], None, None, 20), seed, Local(threads=1))


def equal(left: Embedding, right: Embedding) -> bool:
    bitwise = all(np.array_equal(left.sums[family], right.sums[family]) for family in left.sums)
    return bitwise and (left.rows, left.design.digest) == (right.rows, right.design.digest)


def test_partial_sums_are_marked_private_and_closed_to_others(tmp_path: Path) -> None:
    path, previous = tmp_path / "a.partial", os.umask(0)
    try:
        save_partial(shard(0, 10), path)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"PRIVATE" in path.read_bytes()
    assert equal(load_partial(path), shard(0, 10))
    assert load_partial(path).shards == shard(0, 10).shards
    with pytest.raises(FileError, match="is a dpearl-partial file, not a dpearl-release file"):
        load_release(path)


def test_a_flipped_bit_of_private_sums_is_refused(tmp_path: Path) -> None:
    """Nothing but the digest tells: other sums are sums as well."""
    save_partial(shard(0, 10), tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    for place in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 100):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(FileError):
            load_partial(tmp_path / "a")


def test_merging_is_associative_and_commutative_and_equals_the_whole_bit_for_bit() -> None:
    parts = [shard(0, 300), shard(300, 301), shard(301, 1000)]
    whole = shard(0, 1000)
    for a, b, c in permutations(parts):
        left, right = merge([merge([a, b]), c]), merge([a, merge([b, c])])
        assert equal(left, right)
        assert left.shards == right.shards == tuple(sorted(shard for part in parts for shard in part.shards))
        assert equal(merge([a, b, c]), whole)


def test_an_empty_shard_changes_nothing() -> None:
    assert equal(merge([shard(0, 10), shard(0, 0)]), shard(0, 10))


def test_a_shard_twice_or_of_another_design_is_refused() -> None:
    with pytest.raises(UsageError, match="same shard is given twice"):
        merge([shard(0, 10), shard(10, 20), shard(0, 10)])
    with pytest.raises(UsageError, match="different designs"):
        merge([shard(0, 10), shard(10, 20, seed=1)])


def test_a_loaded_release_states_no_more_than_it_keeps(tiny: Path) -> None:
    made = load_release(tiny)
    assert math.isclose(made.epsilon, 1.0, rel_tol=1e-3)
    assert made.epsilon <= made.budget.epsilon
