"""The machine fails: kill -9 at every point where a command touches the disk, a full disk, a read-only one, too little memory, a
clock set back, two processes at once. There is a whole file or none, every release is paid for, and the command goes on."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from dpearl import container, ledger, sites
from dpearl.embed import PARTIAL, load_partial
from dpearl.errors import BudgetError
from dpearl.ledger import read_ledger
from dpearl.privacy import Budget, Relation, Unit, compose
from dpearl.release import CHECKPOINT, MODEL, RELEASE, Release, load_release
from dpearl.synthesizer import load_synthesizer
from forks import KILLED, Done, Forks, serving

SCHEMA = """label = "y"
[columns.x]
kind = "number"
lower = 0
upper = 9
step = 1
[columns.y]
kind = "boolean"
"""
ASKING = """[columns.x]
kind = "number"
bounds = "estimate"
[columns.c]
kind = "category"
levels = "estimate"
[columns.y]
kind = "boolean"
"""
SHARD = ("--schema", "s.toml", "-k", "2", "--threads", "1")
PAID = ("--epsilon", "5", "--ledger", "book", "--threads", "1", "-o")
ROWS, PAGE = 400, 4096
DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{16}")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def world(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something for every command."""
    folder, chance = tmp_path_factory.mktemp("world"), np.random.default_rng(0)
    for name in "ab":
        cells = {"x": chance.integers(0, 10, ROWS), "c": chance.choice(["u", "v"], ROWS), "y": chance.random(ROWS) < 0.5}
        parquet.write_table(pa.table(cells), folder / f"{name}.parquet")
    for name, text in {"s": SCHEMA, "asking": ASKING}.items():
        (folder / f"{name}.toml").write_text(text)
    study = ("--schema", "s.toml", "-k", "2", "--epsilon", "1", "--site", "north", "--site", "south", "-o", "study")
    for argv in (
        ("ledger", "book", "--epsilon", "99"),
        ("release", "a.parquet", "--schema", "s.toml", "-k", "2", *PAID, "frequencies.dpearl"),
        ("release", "a.parquet", "--schema", "s.toml", *PAID, "marginals.dpearl"),
        ("train", "marginals.dpearl", "--iterations", "2", "--threads", "1", "-o", "model.dpearl"),
        ("embed", "a.parquet", *SHARD, "-o", "a.partial"),
        ("embed", "b.parquet", *SHARD, "-o", "b.partial"),
        ("study", *study),
        *(("embed", f"{d}.parquet", "--study", "study", "--site", s, "-o", s) for d, s in (("a", "north"), ("b", "south"))),
        *(("merge", f"north/north-to-{s}.share", f"south/south-to-{s}.share", "--study", "study", "--keep", "-o", f"for-{s}")
          for s in ("north", "south")),
    ):  # fmt: skip
        done = forks.run(folder, *argv)
        assert done.code == 0, (argv, done.err)
    return folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def sound(folder: Path) -> None:
    """What must hold whatever happened: files are whole, private ones closed and marked, and releases are in the ledger."""
    releases = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if any(DRAFT.fullmatch(part) for part in path.parts):
            assert mode(path) & 0o077 == 0 or b"PRIVATE" not in path.read_bytes()
            continue
        kind = container.kind_of(path)
        if kind == RELEASE:
            releases.append(load_release(path))
        elif kind == PARTIAL:
            assert load_partial(path).rows in (ROWS, 2 * ROWS)
        elif kind in (sites.SHARE, sites.COMBINED):
            sites.load_share(path, sites.load_study(folder / "study"), kind)
        elif kind == MODEL:
            load_synthesizer(path)
        elif kind is not None:
            container.read(path, kind)
        else:
            assert path.suffix in (".toml", ".parquet", ".npz", ".csv") or path.name in ("book", "new"), path
        if kind in (PARTIAL, sites.SHARE, sites.COMBINED):
            assert mode(path) == 0o600
            assert b"PRIVATE" in path.read_bytes()
    if (folder / "book").exists():
        paid(folder / "book", releases)


def paid(path: Path, releases: list[Release]) -> None:
    """A release on disk is in the ledger, which never tells of less than all of them."""
    book = read_ledger(path)
    assert {made.plan for made in releases} <= {charge.plan for charge in book.charges}
    assert book.mu >= compose(made.mu for made in releases) * (1 - 1e-12)
    assert book.spent <= book.budget.epsilon


def drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*") if DRAFT.fullmatch(path.name)]


def provided(world: Path, folder: Path, argv: Sequence[str]) -> Path:
    """A new folder with the files that a command names."""
    folder.mkdir()
    for name in argv:
        if (world / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(world / name, folder / name)
    return folder


def killed(
    forks: Forks, world: Path, tmp_path: Path, *argv: str, before: Sequence[str] = (), every: float | None = None
) -> Iterator[Path]:
    """A folder for each point at which the command was killed; the last one is that of a run to its end."""
    for point in count():
        folder = provided(world, tmp_path / str(point), argv)
        assert not before or forks.run(folder, *before).code == 0
        done = forks.run(folder, *argv, kill=point, every=every)
        sound(folder)
        yield folder
        if done.code != KILLED:
            assert done.code == 0, done.err
            print(f"{argv[0]}: killed at {point} points")
            return


def again(forks: Forks, folder: Path, *argv: str) -> Done:
    """The same command, undisturbed: it works or says in a line what to do, and cleans up after the killed one."""
    done = forks.run(folder, *argv)
    sound(folder)
    assert done.code == 0 or (done.code, done.err[:8], done.err.count("\n")) == (2, "dpearl: ", 1), done
    assert drafts(folder) == []
    return done


RELEASES = {
    "rows by marginals, in two passes": ("release", "a.parquet", "--schema", "s.toml", *PAID, "out"),
    "rows with questions, in five passes": ("release", "a.parquet", "--schema", "asking.toml", "-k", "2", *PAID, "out"),
    "partial sums": ("release", "a.partial", "b.partial", *PAID, "out"),
}


@pytest.mark.parametrize("what", RELEASES)
def test_a_release_that_is_killed_is_whole_and_paid_for_or_not_there(
    what: str, forks: Forks, world: Path, tmp_path: Path
) -> None:
    before, points, charged = len(read_ledger(world / "book").charges), 0, set()
    for folder in killed(forks, world, tmp_path, *RELEASES[what]):
        is_there, spent = (folder / "out").exists(), len(read_ledger(folder / "book").charges) - before
        assert spent == 1 or (spent, is_there) == (0, False)
        charged.add((spent, is_there))
        told = again(forks, folder, *RELEASES[what])
        assert (told.code, "already exists" in told.err) == ((2, True) if is_there else (0, False))
        assert len(read_ledger(folder / "book").charges) - before == spent + (not is_there)
        points += 1
    assert charged == {(0, False), (1, False), (1, True)}, "there are points before, between and after"
    assert points > 10


@pytest.mark.parametrize("earlier", [True, False], ids=["changed", "opened"])
def test_a_ledger_that_is_killed_holds_the_old_total_or_the_new(earlier: bool, forks: Forks, world: Path, tmp_path: Path) -> None:
    name, totals = "book" if earlier else "new", set()
    charges = read_ledger(world / "book").charges if earlier else ()
    for folder in killed(forks, world, tmp_path, "ledger", name, "--epsilon", "100"):
        if earlier or ((folder / name).exists() and (folder / name).read_bytes()):
            totals.add(read_ledger(folder / name).budget.epsilon)
            assert read_ledger(folder / name).charges == charges
        assert again(forks, folder, "ledger", name, "--epsilon", "100").code == 0
        assert read_ledger(folder / name).budget.epsilon == 100
    assert totals == ({99, 100} if earlier else {100})


def test_a_first_charge_that_is_killed_opens_a_ledger_or_none(forks: Forks, world: Path, tmp_path: Path) -> None:
    argv = ("release", "a.partial", "b.partial", "--epsilon", "1", "--ledger", "new", "-o", "out.dpearl")
    for folder in killed(forks, world, tmp_path, *argv):
        (folder / "out.dpearl").rename(tmp_path / "out") if (folder / "out.dpearl").exists() else None
        done = forks.run(folder, *argv)
        charges = read_ledger(folder / "new").charges
        assert len(charges) == 1, "a ledger of exactly this budget covers one release"
        assert done.code == 0 or "budget exceeded" in done.err


def test_partial_sums_that_are_killed_are_whole_or_not_there(forks: Forks, world: Path, tmp_path: Path) -> None:
    argv = ("embed", "a.parquet", *SHARD, "-o", "out")
    for folder in killed(forks, world, tmp_path, *argv):
        is_there = (folder / "out").exists()
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
        assert (folder / "out").read_bytes() == (world / "a.partial").read_bytes()


def test_a_running_sum_that_is_killed_is_that_of_before_or_after(forks: Forks, world: Path, tmp_path: Path) -> None:
    append, rows = (*SHARD, "--append", "-o", "running.partial"), set()
    argv = ("embed", "a.parquet", "b.parquet", *append)
    for folder in killed(forks, world, tmp_path, *argv, before=("embed", "a.parquet", *append)):
        rows.add(load_partial(folder / "running.partial").rows)
        told = again(forks, folder, *argv)
        assert told.code == 0 or "has counted every one of these files before" in told.err
        assert load_partial(folder / "running.partial").rows == 2 * ROWS
    assert rows == {ROWS, 2 * ROWS}


def test_a_merge_that_is_killed_loses_no_part_and_counts_none_twice(forks: Forks, world: Path, tmp_path: Path) -> None:
    argv, left = ("merge", "a.partial", "b.partial", "-o", "out"), set()
    for folder in killed(forks, world, tmp_path, *argv):
        parts = [name for name in ("a.partial", "b.partial") if (folder / name).exists()]
        is_there = (folder / "out").exists()
        left.add((is_there, len(parts)))
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
        assert load_partial(folder / "out").rows == 2 * ROWS
        if is_there and parts:
            assert "same shard is given twice" in forks.run(folder, "merge", "out", *parts, "-o", "more").err
    assert left == {(False, 2), (True, 2), (True, 1), (True, 0)}


def test_shares_of_a_site_that_is_killed_are_all_there_or_none(forks: Forks, world: Path, tmp_path: Path) -> None:
    argv = ("embed", "a.parquet", "--study", "study", "--site", "north", "--ledger", "book", "-o", "out")
    before = len(read_ledger(world / "book").charges)
    for folder in killed(forks, world, tmp_path, *argv):
        is_there, spent = (folder / "out").exists(), len(read_ledger(folder / "book").charges) - before
        assert spent == 1 or (spent, is_there) == (0, False)
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
        assert sorted(path.name for path in (folder / "out").iterdir()) == ["north-to-north.share", "north-to-south.share"]
        assert mode(folder / "out") == 0o700


SITES = {
    "combined": ("merge", "north/north-to-north.share", "south/south-to-north.share"),
    "opened": ("merge", "for-north", "for-south"),
}


@pytest.mark.parametrize("what", SITES)
def test_shares_that_are_merged_by_a_killed_process_are_not_lost(what: str, forks: Forks, world: Path, tmp_path: Path) -> None:
    argv, left = (*SITES[what], "--study", "study", "-o", "out"), set()
    for folder in killed(forks, world, tmp_path, *argv):
        is_there, parts = (folder / "out").exists(), [name for name in SITES[what][1:] if (folder / name).exists()]
        left.add((is_there, len(parts)))
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
    assert left == {(False, 2), (True, 2), (True, 1), (True, 0)}


@pytest.mark.parametrize("release", ["frequencies", "marginals"])
def test_training_that_is_killed_goes_on_to_the_same_model_byte_for_byte(
    release: str, forks: Forks, world: Path, tmp_path: Path
) -> None:
    """A checkpoint after each of two steps; with it and without it the model is that of a run that nothing disturbed."""
    argv, steps = ("train", f"{release}.dpearl", "--iterations", "2", "--threads", "1", "-o", "out.dpearl"), set()
    assert forks.run(world, *argv[:-1], f"whole-{release}.dpearl").code == 0
    for folder in killed(forks, world, tmp_path, *argv, every=-1.0):
        part, is_there = folder / "out.dpearl.part", (folder / "out.dpearl").exists()
        steps.add(container.read(part, CHECKPOINT)[0]["step"] if part.exists() else None)
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
        assert (folder / "out.dpearl").read_bytes() == (world / f"whole-{release}.dpearl").read_bytes()
        assert is_there or not part.exists()
    assert steps == {None, 1, 2}


def test_rows_of_a_killed_sampling_are_all_there_or_none(forks: Forks, world: Path, tmp_path: Path) -> None:
    argv, whole = ("sample", "model.dpearl", "-n", "20", "-o", "out.csv"), world / "whole.csv"
    assert forks.run(world, *argv[:-1], whole.name).code == 0
    for folder in killed(forks, world, tmp_path, *argv):
        is_there = (folder / "out.csv").exists()
        assert not is_there or (folder / "out.csv").read_bytes() == whole.read_bytes()
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
        assert (folder / "out.csv").read_bytes() == whole.read_bytes()


def test_a_draft_that_somebody_is_writing_is_left_alone(tmp_path: Path) -> None:
    for name in ("0123456789abcdef", "notes"):
        (tmp_path / f".out.{name}").touch()
    with container.placing(tmp_path / "out") as file:
        file.write(b"one")
        container.claim(tmp_path / "out")
        container.sweep(tmp_path / "out")
        assert len(drafts(tmp_path)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes", "out"]
    assert (tmp_path / "out").read_bytes() == b"one"


COMMANDS = {
    "ledger": ("ledger", "book", "--epsilon", "100"),
    "release": RELEASES["rows by marginals, in two passes"],
    "release, asking": RELEASES["rows with questions, in five passes"],
    "embed": ("embed", "a.parquet", *SHARD, "-o", "out"),
    "append": ("embed", "a.parquet", "b.parquet", *SHARD, "--append", "-o", "out"),
    "merge": ("merge", "a.partial", "b.partial", "-o", "out"),
    "share": ("embed", "a.parquet", "--study", "study", "--site", "north", "--ledger", "book", "-o", "out"),
    "train": ("train", "marginals.dpearl", "--iterations", "2", "--threads", "1", "-o", "out"),
    "sample": ("sample", "model.dpearl", "-n", "2000", "-o", "out.csv"),
}


def survives(forks: Forks, folder: Path, argv: Sequence[str], done: Done) -> None:
    """A command that something befell has done its work, or has refused and left nothing; and then it works."""
    sound(folder)
    assert drafts(folder) == []
    assert done.code in (0, 2), done
    if done.code == 2:
        assert (done.err[:8], done.err.count("\n")) == ("dpearl: ", 1)
        assert not (folder / argv[-1]).exists() or argv[0] == "ledger"
        assert again(forks, folder, *argv).code == 0


@pytest.mark.parametrize("what", COMMANDS)
def test_files_that_cannot_grow_are_refused_and_leave_nothing(what: str, forks: Forks, world: Path, tmp_path: Path) -> None:
    """The limit falls on the ledger's next line, at its start and in its middle, then on what is written after it."""
    argv, refused = COMMANDS[what], 0
    book = (world / "book").stat().st_size
    for size in (0, book, book + 100, book + 500):
        folder = provided(world, tmp_path / str(size), argv)
        done = forks.run(folder, *argv, file_size=size, every=-1.0)
        survives(forks, folder, argv, done)
        refused += done.code == 2
    assert refused


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of a few megabytes."""
    place = tmp_path_factory.mktemp("disk")
    options = f"size={1000 * PAGE},mode=700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def small(disk: Path) -> Iterator[Path]:
    """The disk, empty."""
    yield disk
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def left(disk: Path, pages: int) -> None:
    """Fill the disk up to so many pages."""
    (disk / "ballast").unlink(missing_ok=True)
    (disk / "ballast").write_bytes(bytes(max(shutil.disk_usage(disk).free - pages * PAGE, 0)))


@pytest.mark.parametrize("what", COMMANDS)
def test_a_full_disk_is_told_and_leaves_nothing(what: str, forks: Forks, world: Path, small: Path) -> None:
    argv, refused = COMMANDS[what], 0
    for pages in range(3):
        folder = provided(world, small / "folder", argv)
        left(small, pages)
        done = forks.run(folder, *argv, every=-1.0)
        (small / "ballast").unlink()
        survives(forks, folder, argv, done)
        shutil.rmtree(folder)
        refused += done.code == 2
    assert refused or what == "ledger", "a line more may fit on the page that the ledger has"


def test_a_ledger_that_fills_the_disk_loses_no_line_and_has_no_half_one(forks: Forks, small: Path) -> None:
    """Line after line until there is no page left for the next, then room again."""
    folder = small / "books"
    folder.mkdir()
    left(small, 1)
    for lines in count():
        done = forks.run(folder, "ledger", "book", "--epsilon", str(lines + 1))
        if done.code:
            break
    assert (done.code, "No space left on device" in done.err) == (2, True)
    assert [budget.epsilon for _, budget in read_ledger(folder / "book").budgets] == [line + 1 for line in range(lines)]
    (small / "ballast").unlink()
    assert forks.run(folder, "ledger", "book", "--epsilon", "99").code == 0
    assert len(read_ledger(folder / "book").budgets) == lines + 1
    shutil.rmtree(folder)


def test_nothing_is_charged_where_nothing_can_be_written(forks: Forks, world: Path, small: Path) -> None:
    for what, argv in COMMANDS.items():
        folder = provided(world, small / "folder", argv)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        done = forks.run(folder, *argv, every=-1.0)
        subprocess.run(["mount", "-o", "remount,rw", small], check=True)
        assert (done.code, done.err[:8], done.err.count("\n")) == (2, "dpearl: ", 1), (what, done)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
        shutil.rmtree(folder)


@pytest.mark.parametrize("what", ["release", "sample"])
def test_too_little_memory_leaves_nothing_half_done(what: str, forks: Forks, world: Path, tmp_path: Path) -> None:
    """Libraries may end the process in ways of their own; files know nothing of it."""
    argv, refused = COMMANDS[what], 0
    for kilobytes in (0, 1000, 4000, 12000):
        folder = provided(world, tmp_path / str(kilobytes), argv)
        done = forks.run(folder, *argv, memory=kilobytes * 2**10, every=-1.0)
        sound(folder)
        is_there = (folder / argv[-1]).exists()
        assert again(forks, folder, *argv).code == (2 if is_there else 0)
        refused += done.code != 0
    assert refused


def test_the_last_of_a_budget_is_spent_once_whoever_comes_first(forks: Forks, world: Path, tmp_path: Path) -> None:
    """Three processes ask for what is left for one."""
    for attempt in range(3):
        folder = provided(world, tmp_path / str(attempt), ["a.parquet", "s.toml"])
        assert forks.run(folder, "ledger", "book", "--epsilon", "6").code == 0
        one = ("release", "a.parquet", "--schema", "s.toml", "-k", "2", *PAID)
        ends = forks.together(folder, *((*one, f"{place}.dpearl") for place in range(3)))
        assert sorted(done.code for done in ends) == [0, 2, 2]
        assert all("budget exceeded" in done.err for done in ends if done.code)
        assert [(folder / f"{place}.dpearl").exists() for place in range(3)] == [done.code == 0 for done in ends]
        assert len(read_ledger(folder / "book").charges) == 1
        sound(folder)


@pytest.mark.parametrize("what", COMMANDS)
def test_the_same_command_twice_at_once_leaves_one_whole_result(what: str, forks: Forks, world: Path, tmp_path: Path) -> None:
    argv = COMMANDS[what]
    folder = provided(world, tmp_path / "both", argv)
    ends = forks.together(folder, argv, argv, every=-1.0)
    sound(folder)
    assert sorted(done.code for done in ends) == ([0, 0] if what == "ledger" else [0, 2]), ends
    assert all(done.err.count("\n") == 1 for done in ends if done.code)
    assert drafts(folder) == []


def test_a_clock_that_is_set_back_changes_neither_order_nor_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times in a ledger are for people to read: the chain orders entries, and μ² adds up whatever the clock says."""
    book, unit, each = tmp_path / "book", Unit(Relation.ADD_REMOVE), Budget(1.0, 1e-5)
    times = ["2030-01-01T00:00:00+00:00", "1970-01-01T00:00:00+00:00", "2029-01-01T00:00:00+00:00", "1901-01-01T00:00:00+00:00"]
    for place, now in enumerate(times):
        monkeypatch.setattr(ledger, "_now", lambda now=now: now)
        if place == 0:
            ledger.set_budget(book, 1.0)
        else:
            ledger.charge(book, each, each.mu / 2, unit, f"plan {place}", "")
    monkeypatch.undo()
    found = read_ledger(book)
    assert [(charge.plan, charge.time) for charge in found.charges] == [(f"plan {n}", times[n]) for n in (1, 2, 3)]
    assert found.mu == compose([each.mu / 2] * 3)
    ledger.charge(book, each, each.mu / 2 * (1 - 1e-9), unit, "the last", "")
    with pytest.raises(BudgetError, match="budget exceeded"):
        ledger.charge(book, each, 0.01, unit, "past it", "")
