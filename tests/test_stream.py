"""A running sum: new files are added once, whatever they are called and whoever crashes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from dpearl import RECIPES, container, stream
from dpearl.embed import embed, load_partial, merge
from dpearl.errors import DataError, UsageError
from dpearl.owner import recipe_with, shard_design
from dpearl.read import open_sources
from dpearl.schema import parse_schema

DPEARL = Path(sys.executable).parent / "dpearl"
TOML = '[columns.x]\nkind = "number"\nlower = 0\nupper = 1\n[columns.c]\nkind = "category"\nlevels = ["a", "b"]\n'
SCHEMA = parse_schema(
    {"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}, "c": {"kind": "category", "levels": ["a", "b"]}}}
)
DESIGN = shard_design(SCHEMA, recipe_with(RECIPES["auto"], None, None, 5), 0)


def write(path: Path, seed: int, count: int = 50) -> str:
    chance = np.random.default_rng(seed)
    parquet.write_table(pa.table({"x": chance.random(count), "c": chance.choice(["a", "b"], count)}), path)
    return str(path)


def same(path: Path, *files: str) -> bool:
    running, whole = load_partial(path), embed(open_sources(list(files)), DESIGN)
    return running.rows == whole.rows and all(np.array_equal(running.sums[f], whole.sums[f]) for f in whole.sums)


def test_a_nightly_job_adds_what_is_new_and_nothing_twice(tmp_path: Path) -> None:
    path, days = tmp_path / "running", [write(tmp_path / f"day{day}.parquet", day) for day in range(3)]
    pattern = [str(tmp_path / "day*.parquet")]
    assert stream.append(path, days[:1], DESIGN) == stream.Added((days[0],), 0)
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE" in path.read_bytes()
    assert stream.append(path, pattern, DESIGN) == stream.Added((days[1], days[2]), 1)
    assert same(path, *days)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="has counted every one of these files before"):
        stream.append(path, pattern, DESIGN)
    assert path.read_bytes() == before


def test_a_copy_a_changed_file_and_a_pair_of_twins_are_refused(tmp_path: Path) -> None:
    path, one = tmp_path / "running", write(tmp_path / "one.parquet", 1)
    stream.append(path, [one], DESIGN)
    before = path.read_bytes()
    shutil.copy(one, tmp_path / "copy.parquet")
    with pytest.raises(UsageError, match=r"copy.parquet: was counted before under another name"):
        stream.append(path, [str(tmp_path / "copy.parquet")], DESIGN)
    write(tmp_path / "one.parquet", 2)
    with pytest.raises(UsageError, match=r"one.parquet: was counted before with other content"):
        stream.append(path, [one], DESIGN)
    twins = [write(tmp_path / f"twin{place}.parquet", 9) for place in range(2)]
    with pytest.raises(UsageError, match="same content"):
        stream.append(path, twins, DESIGN)
    assert path.read_bytes() == before


def test_another_design_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "running"
    stream.append(path, [write(tmp_path / "one.parquet", 1)], DESIGN)
    other = shard_design(SCHEMA, recipe_with(RECIPES["auto"], None, None, 6), 0)
    with pytest.raises(UsageError, match="different designs"):
        stream.append(path, [write(tmp_path / "two.parquet", 2)], other)


def test_two_jobs_do_not_write_over_each_other(tmp_path: Path) -> None:
    path, one = tmp_path / "running", write(tmp_path / "one.parquet", 1)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(UsageError, match="another job is adding"):
        stream.append(path, [one], DESIGN)
    os.close(folder)
    stream.append(path, [one], DESIGN)
    assert same(path, one)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path, one = tmp_path / "running", write(tmp_path / "one.parquet", 1)

    def grow(stage: str, rows: int | None) -> object:
        return lambda done: write(tmp_path / "one.parquet", 2)

    with pytest.raises(DataError, match="changed while it was read"):
        stream.append(path, [one], DESIGN, progress=grow)  # type: ignore[arg-type]
    assert not path.exists()


@pytest.mark.parametrize("moment", ["_settle", "replace"])
def test_a_crash_leaves_the_sum_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    path, days = tmp_path / "running", [write(tmp_path / f"day{day}.parquet", day) for day in range(2)]
    stream.append(path, days[:1], DESIGN)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(container if moment == "_settle" else Path, moment, crash)
        with pytest.raises(KeyboardInterrupt):
            stream.append(path, days, DESIGN)
    assert same(path, days[0])
    stream.append(path, days, DESIGN)
    assert same(path, *days)


def test_sums_that_counted_the_same_file_are_not_merged(tmp_path: Path) -> None:
    one, two = (write(tmp_path / f"{place}.parquet", place) for place in range(2))
    stream.append(tmp_path / "a", [one], DESIGN)
    stream.append(tmp_path / "b", [one, two], DESIGN)
    with pytest.raises(UsageError, match="same file was counted in two"):
        merge([load_partial(tmp_path / name) for name in "ab"])


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([DPEARL, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_stream_from_a_shell_and_parts_that_go_when_they_are_merged(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TOML)
    for day in range(3):
        write(tmp_path / f"day{day}.parquet", day)
    nightly = ("embed", "--schema", "s.toml", "-k", "5", "--append", "-o", "running")
    assert run(tmp_path, *nightly, "day0.parquet")[0] == 0
    assert run(tmp_path, *nightly, "day0.parquet") == (
        2,
        "dpearl: running: has counted every one of these files before; nothing is added\n",
    )
    assert "1 files added, 1 counted before" in run(tmp_path, *nightly, "day0.parquet", "day1.parquet")[1]
    assert run(tmp_path, "embed", "--schema", "s.toml", "-k", "5", "day2.parquet", "-o", "last")[0] == 0
    assert run(tmp_path, "merge", "running", "last", "--keep", "-o", "all")[0] == 0
    assert (tmp_path / "running").exists()
    assert run(tmp_path, "merge", "running", "last", "-o", "again")[0] == 0
    assert not (tmp_path / "running").exists()
    assert not (tmp_path / "last").exists()
    assert (tmp_path / "again").stat().st_mode & 0o777 == 0o600
    assert run(tmp_path, "release", "again", "--epsilon", "1", "-o", "out.dpearl")[0] == 0
