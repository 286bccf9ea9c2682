"""Release, train and sample in a loop while the machine fails. `python -m bench.soak [MINUTES [SEED]]` writes
docs/results/soak.md.

Every step is a command line of its own in a folder of generated rows. Something goes wrong in each: the process is killed at a
random moment or when it writes, the disk is full, files may not grow, memory is short, a file that it reads has a bit
flipped or is cut short, or the same command runs twice at once. After each fault everything on disk is looked at, the command
is run again without one, and what it made is compared with what was never disturbed. The seed repeats the faults, as far as
their moments can be repeated; noise has none.
"""

from __future__ import annotations

import os
import platform
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

import numpy as np

from dpearl.container import remove
from dpearl.design import RECIPES
from dpearl.embed import embed, load_partial
from dpearl.ledger import read_ledger
from dpearl.owner import recipe_with, shard_design
from dpearl.privacy import compose
from dpearl.read import open_sources
from dpearl.release import load_release
from dpearl.schema import load_schema
from dpearl.settings import settings_for
from dpearl.synthesizer import load_synthesizer, save_synthesizer
from dpearl.train import fit
from dpearl.write import write_rows

OUT = Path(__file__).parents[1] / "docs" / "results" / "soak.md"
MINUTES, PATIENCE, MOST = 30.0, 300.0, 4
"""How long all of it takes, seconds after which a command hangs, and faults in one step at most."""

EPSILON, SAMPLES, FREQUENCIES = 0.5, 500, 20
ROOM = 4 * 2**20
SCHEMA = """label = "rich"
[columns.age]
kind = "number"
lower = 0
upper = 100
step = 1
[columns.job]
kind = "category"
levels = ["a", "b", "c"]
[columns.rich]
kind = "boolean"
"""
ASKING = SCHEMA.replace("lower = 0\nupper = 100\n", 'bounds = "estimate"\n').replace(
    'levels = ["a", "b", "c"]', 'levels = "estimate"'
)


class Fault(StrEnum):
    """What goes wrong."""

    KILL = "kill -9 at a random moment"
    STRIKE = "kill -9 at a write"
    STOP = "Ctrl-C or SIGTERM"
    FULL = "disk full"
    LIMIT = "limit on file sizes"
    MEMORY = "limit on memory"
    FLIP = "one bit of an input flipped"
    CUT = "an input cut short"
    RACE = "the same command twice at once"


class End(StrEnum):
    """How a command ended that something happened to."""

    DONE = "did its work"
    REFUSED = "refused in a line"
    DIED = "died"


ENDS: dict[Fault, set[End]] = {fault: set(End) for fault in Fault} | {
    Fault.FULL: {End.DONE, End.REFUSED},
    Fault.LIMIT: {End.DONE, End.REFUSED},
    Fault.FLIP: {End.REFUSED},
    Fault.CUT: {End.REFUSED},
    Fault.RACE: {End.DONE},
}
"""What may come of a fault. A race is done when one of the two has done the work and the other has at least refused."""


class Bad(Exception):
    """Something that must not be."""


def must(condition: bool, told: str) -> None:
    if not condition:
        raise Bad(told)


@dataclass(frozen=True)
class Step:
    """One command: what it reads of ours, what it makes, and when that is there."""

    name: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    is_done: Callable[[Path], bool]


@dataclass
class Record:
    """What happened so far."""

    chance: random.Random
    ends: Counter[tuple[Fault, End]] = field(default_factory=Counter)
    times: dict[str, float] = field(default_factory=dict)
    commands: int = 0
    bad: list[str] = field(default_factory=list)


def exists(name: str, folder: Path) -> bool:
    return (folder / name).exists()


def counted(files: int, folder: Path) -> bool:
    return exists("running.partial", folder) and len(load_partial(folder / "running.partial").counted) == files


def steps(chance: random.Random) -> list[Step]:
    """The way from rows to synthetic rows: by partial sums, and whole."""
    shard = ("--schema", "s.toml", "-k", str(FREQUENCIES), "--threads", "1")
    paid = ("--epsilon", str(EPSILON), "--ledger", "ledger.jsonl", "-o")
    declared, measured = chance.choice(["s.toml", "asking.toml"]), chance.choice([(), ("-k", "30")])
    whole = ("release", "a.csv", "b.csv", "c.csv", "--schema", declared, *measured, "--threads", "1", *paid, "r.dpearl")
    append = ("embed", *shard, "--append", "-o", "running.partial")
    learn = ("train", "r.dpearl", "--iterations", str(chance.choice([40, 150])), "--threads", "1", "-o", "m.dpearl")

    def step(name: str, argv: tuple[str, ...], *inputs: str, is_done: Callable[[Path], bool] | None = None) -> Step:
        output = argv[argv.index("-o") + 1]
        return Step(name, argv, inputs, output, is_done or partial(exists, output))

    return [
        step("embed", ("embed", "a.csv", *shard, "-o", "a.partial")),
        step("append, first", (*append, "b.csv"), is_done=partial(counted, 1)),
        step("append", (*append, "b.csv", "c.csv"), "running.partial", is_done=partial(counted, 2)),
        step("merge", ("merge", "a.partial", "running.partial", "-o", "all.partial"), "a.partial", "running.partial"),
        step("release of sums", ("release", "all.partial", *paid, "sums.dpearl"), "all.partial", "ledger.jsonl"),
        step("release", whole, "ledger.jsonl"),
        step("train", learn, "r.dpearl"),
        step("sample", ("sample", "m.dpearl", "-n", str(SAMPLES), "-o", "x.csv"), "m.dpearl"),
    ]


def start(folder: Path, argv: tuple[str, ...], limits: dict[int, int] | None = None) -> subprocess.Popen[str]:
    """The command in a process of its own, at most with these limits."""

    def limit() -> None:
        for kind, size in (limits or {}).items():
            resource.setrlimit(kind, (size, size))

    command = [sys.executable, "-m", "dpearl", *argv]
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit if limits else None
    )


def ended(process: subprocess.Popen[str], told: str) -> tuple[End, str]:
    """How a command ended; one that does not, or that refuses in more than a line, is bad."""
    try:
        err = process.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise Bad(f"{told}: did not end") from None
    if process.returncode == 0:
        return End.DONE, err
    is_line = err.startswith("dpearl: ") and err.count("\n") == 1
    return (End.REFUSED if process.returncode == 2 and is_line else End.DIED), err


def died_of_its_own(fault: Fault, process: subprocess.Popen[str]) -> bool:
    """Without a signal and without a shortage of memory, a command has no reason to die."""
    stopped = process.returncode in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130)
    return fault is not Fault.MEMORY and not (stopped and fault in (Fault.KILL, Fault.STRIKE, Fault.STOP))


def inject(fault: Fault, folder: Path, step: Step, record: Record) -> End:
    """Run a step while something goes wrong."""
    told, chance = f"{step.name}, {fault}", record.chance
    if fault is Fault.RACE:
        return race(folder, step)
    limits = {
        Fault.LIMIT: {resource.RLIMIT_FSIZE: int(chance.choice([0, 200, 700, 3000, 20_000]) * chance.random())},
        Fault.MEMORY: {resource.RLIMIT_AS: chance.randrange(100, 1500) * 2**20},
    }.get(fault)
    spoilt = damaged if fault in (Fault.FLIP, Fault.CUT) else filled if fault is Fault.FULL else untouched
    with spoilt(fault, folder, step, chance):
        process = start(folder, step.argv, limits)
        strike(fault, process, folder, record.times.get(step.name, 3.0), chance)
        end, err = ended(process, told)
        must(end is not End.DIED or not died_of_its_own(fault, process), f"{told}: exit code {process.returncode}: {err}")
    must(end in ENDS[fault], f"{told}: {end}: {err}")
    return end


def strike(fault: Fault, process: subprocess.Popen[str], folder: Path, usual: float, chance: random.Random) -> None:
    """Send a signal at some moment of the run, or when the folder has changed a few times."""
    if fault is Fault.STRIKE:
        before = seen(folder)
        for _ in range(chance.randrange(1, 8)):
            while process.poll() is None and (now := seen(folder)) == before:
                time.sleep(0.0003)
            before = now
    elif fault in (Fault.KILL, Fault.STOP):
        with suppress(subprocess.TimeoutExpired):
            process.wait(usual * 1.1 * chance.random() ** 0.25)
    else:
        return
    process.send_signal(signal.SIGKILL if fault is not Fault.STOP else chance.choice([signal.SIGINT, signal.SIGTERM]))


def seen(folder: Path) -> list[tuple[str, int]]:
    """What lies in a folder, as anybody sees it while others write."""
    found = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            found.append((entry.name, entry.stat().st_size))
    return sorted(found)


def race(folder: Path, step: Step) -> End:
    """Two processes at once: one does the work, and the other, too, or says why not."""
    both = [start(folder, step.argv) for _ in range(2)]
    ends = [ended(process, f"{step.name}, twice at once") for process in both]
    told = f"{step.name}, twice at once: {ends}"
    must(End.DIED not in (end for end, _ in ends), told)
    must(End.DONE in (end for end, _ in ends) or any("budget exceeded" in err for _, err in ends), told)
    return End.DONE


@contextmanager
def untouched(fault: Fault, folder: Path, step: Step, chance: random.Random) -> Iterator[None]:
    yield


@contextmanager
def damaged(fault: Fault, folder: Path, step: Step, chance: random.Random) -> Iterator[None]:
    """One of the files that a step reads, with a bit flipped or its end cut off."""
    path = folder / chance.choice(step.inputs)
    intact = path.read_bytes()
    changed = bytearray(intact)
    if fault is Fault.FLIP:
        changed[chance.randrange(len(intact))] ^= 1 << chance.randrange(8)
    else:
        size = chance.randrange(1, len(intact))
        changed = changed[: size - (changed[size - 1] == ord("\n"))]  # whole lines of a ledger are what it was before
    path.write_bytes(changed)
    try:
        yield
    finally:
        path.write_bytes(intact)


@contextmanager
def filled(fault: Fault, folder: Path, step: Step, chance: random.Random) -> Iterator[None]:
    """A disk with hardly any room left."""
    ballast, left = folder.parent / "ballast", 4096 * chance.choice([0, 0, 1, 2, 5, 12])
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        file.write(bytes(max(shutil.disk_usage(folder).free - left, 0)))
    try:
        yield
    finally:
        ballast.unlink()


def look(folder: Path, expected: dict[str, dict[str, list[int]]]) -> None:
    """Everything that must hold, whatever happened before."""
    releases = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            private = "partial" in path.name
            must(not private or path.stat().st_mode & 0o077 == 0, f"{path.name}: a private draft is open to others")
        elif path.suffix == ".partial":
            sums = load_partial(path)
            found = {family: values.ravel().tolist() for family, values in sums.sums.items()}
            must(path.stat().st_mode & 0o777 == 0o600, f"{path.name}: is open to others")
            must(found in expected.values(), f"{path.name}: is not the sum of its rows")
        elif path.name in ("r.dpearl", "sums.dpearl"):
            releases.append(load_release(path))
        elif path.name == "m.dpearl":
            load_synthesizer(path)
        elif path.name == "x.csv":
            must(len(path.read_bytes().splitlines()) == SAMPLES + 1, "x.csv: is not whole")
    book = read_ledger(folder / "ledger.jsonl")
    must(book.spent <= book.budget.epsilon, "the ledger is past its total")
    plans = [charge.plan for charge in book.charges]
    must(all(made.plan in plans for made in releases), "a release was never charged")
    must(book.mu >= compose(made.mu for made in releases) * (1 - 1e-12), "the ledger tells of less than was released")


def finish(folder: Path, step: Step, record: Record) -> None:
    """The same command again: it does the work, unless that is done, or says what to do."""
    for _ in range(2):
        if step.is_done(folder):
            break
        began = time.monotonic()
        end, err = ended(start(folder, step.argv), f"{step.name}, again")
        record.commands += 1
        record.times[step.name] = time.monotonic() - began
        if end is End.REFUSED and "budget exceeded" in err:
            total = read_ledger(folder / "ledger.jsonl").budget.epsilon + 1
            end, err = ended(start(folder, ("ledger", "ledger.jsonl", "--epsilon", str(total))), "more budget")
            record.commands += 1
        must(end is End.DONE, f"{step.name}, again: {end}: {err}")
        drafts = [path.name for path in folder.iterdir() if path.name.startswith(f".{step.output}.")]
        must(not (step.is_done(folder) and drafts), f"{step.name}, again: {drafts} is left")
    must(step.is_done(folder), f"{step.name}: could not be done")
    if step.name == "merge":
        for part in step.inputs:  # a kill may come before they are removed
            remove(folder / part)


def compare(folder: Path, iterations: int) -> None:
    """Training and sampling that were disturbed give what undisturbed ones give, byte for byte."""
    release = load_release(folder / "r.dpearl")
    settings = replace(settings_for(release.embedding.design), iterations=iterations)
    model = fit(release, settings, threads=1)
    save_synthesizer(model, folder / "again.dpearl")
    must((folder / "again.dpearl").read_bytes() == (folder / "m.dpearl").read_bytes(), "training went another way")
    write_rows(model.chunks(SAMPLES), model.codec.schema, folder / "again.csv")
    must((folder / "again.csv").read_bytes() == (folder / "x.csv").read_bytes(), "sampling went another way")


def prepare(folder: Path, record: Record) -> dict[str, dict[str, list[int]]]:
    """Fresh rows, a schema and a ledger; and the exact sums that partial files may hold."""
    folder.mkdir()
    rows = np.random.default_rng(record.chance.randrange(2**32))
    for name in "abc":
        cells = [
            f"{rows.integers(0, 101)},{rows.choice(list('abc'))},{rows.random() < 0.3}" for _ in range(rows.integers(50, 400))
        ]
        (folder / f"{name}.csv").write_text("\n".join(["age,job,rich", *cells, ""]))
    (folder / "s.toml").write_text(SCHEMA)
    (folder / "asking.toml").write_text(ASKING)
    total = record.chance.choice([0.6, 0.9, 3.0])
    end, err = ended(start(folder, ("ledger", "ledger.jsonl", "--epsilon", str(total))), "a ledger")
    record.commands += 1
    must(end is End.DONE, err)
    design = shard_design(load_schema(folder / "s.toml"), recipe_with(RECIPES["auto"], None, None, FREQUENCIES), 0)
    sums = {
        names: embed(open_sources([str(folder / f"{name}.csv") for name in names]), design).sums
        for names in ("a", "b", "bc", "abc")
    }
    return {names: {family: values.ravel().tolist() for family, values in found.items()} for names, found in sums.items()}


def possible(step: Step, is_small: bool) -> list[Fault]:
    """Faults that can befall a step here."""
    without = set() if step.inputs else {Fault.FLIP, Fault.CUT}
    return [fault for fault in Fault if fault not in without and (is_small or fault is not Fault.FULL)]


def once(folder: Path, record: Record, is_small: bool) -> None:
    """All steps from rows to synthetic rows, with a fault or more in each."""
    expected, way = prepare(folder, record), steps(record.chance)
    for step in way:
        for _ in range(record.chance.randrange(1, MOST + 1)):
            if step.is_done(folder):
                break
            fault = record.chance.choice(possible(step, is_small))
            record.ends[fault, inject(fault, folder, step, record)] += 1
            record.commands += 1 + (fault is Fault.RACE)
            look(folder, expected)
        finish(folder, step, record)
        look(folder, expected)
    learn = next(step.argv for step in way if step.name == "train")
    compare(folder, int(learn[learn.index("--iterations") + 1]))


@contextmanager
def small_disk() -> Iterator[tuple[Path, bool]]:
    """A folder on a disk of a few megabytes, where this process may mount one."""
    with tempfile.TemporaryDirectory() as place:
        options = f"size={ROOM},mode=700"
        mounted = not subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True).returncode
        try:
            yield Path(place), mounted
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", place], check=True)


def soak(minutes: float, seed: int) -> tuple[Record, int]:
    """Rounds until the time is up."""
    record, rounds, end = Record(random.Random(seed)), 0, time.monotonic() + 60 * minutes
    with small_disk() as (place, is_small):
        while time.monotonic() < end:
            rounds += 1
            folder = place / "round"
            try:
                once(folder, record, is_small)
            except Exception as error:
                record.bad.append(f"round {rounds}: {type(error).__name__}: {error}")
                print(record.bad[-1], flush=True)
            shutil.rmtree(folder)
            print(f"round {rounds}: {record.ends.total()} faults, {len(record.bad)} bad", flush=True)
    return record, rounds


def page(record: Record, rounds: int, minutes: float, seed: int, cpu: float) -> str:
    """What is told of it."""
    lines = [
        "# Soak: release, train and sample while the machine fails",
        "",
        f"`python -m bench.soak {minutes:g} {seed}` (`make soak`): {rounds} rounds in {minutes:g} minutes, {record.commands:,}",
        f"commands, {cpu:,.0f} CPU seconds. Machine class: {platform.machine()}, {os.cpu_count()} cores, no GPU; shared.",
        "",
        "A round goes from generated rows by embed, embed --append, merge, release, train and sample to synthetic rows, each a",
        "process of its own, with a fault or more in each. After each fault, and again once the command ran without one:",
        "every file is whole or not there, partial sums are the exact sums of their rows and closed to others, no release is",
        "without its charge, and the ledger tells of at least what was released and is within its total. At the end of a round",
        "model and synthetic rows are, byte for byte, those of a run that nothing disturbed.",
        "",
        f"| fault | injected | {' | '.join(End)} |",
        "|---|---|---|---|---|",
    ]
    for fault in Fault:
        ends = [record.ends[fault, end] for end in End]
        lines.append(f"| {fault} | {sum(ends)} | {' | '.join(map(str, ends))} |")
    lines += [f"| all | {record.ends.total()} | {' | '.join(str(sum(record.ends[f, e] for f in Fault)) for e in End)} |", ""]
    lines += [f"Bad outcomes: {len(record.bad)}.", *(f"- {told}" for told in record.bad)]
    return "\n".join(lines) + "\n"


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    record, rounds = soak(minutes, seed)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    OUT.write_text(page(record, rounds, minutes, seed, sum(part.ru_utime + part.ru_stime for part in used)), encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))
    sys.exit(1 if record.bad else 0)


if __name__ == "__main__":
    main()
