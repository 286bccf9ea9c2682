"""What each engine costs on the same rows. `python -m bench.engines [ROWS [ROUNDS]]` writes docs/results/engines.md.

Every engine runs in a process of its own, two cores each, in turns; CPU is that of the process and of all that it starts
(workers, Java), read from /proc. Rows are generated: 6 numbers and 9 categories, in Parquet files of a million rows.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from bench.owner import MIXED_LEVELS, MIXED_NUMBERS, design_for, numbers_schema
from dpearl.embed import embed
from dpearl.engines import EngineName, engine_named
from dpearl.read import open_sources
from dpearl.schema import Schema, parse_schema

ROWS, FREQUENCIES, CORES, ROUNDS = 20_000_000, 1000, 2, 2
LIMITS = {"dask": 1.3, "spark": 2.0}
FILE = 1_000_000
OUT = Path(__file__).parents[1] / "docs" / "results" / "engines.md"


@dataclass(frozen=True)
class Cost:
    """One run: seconds of CPU and by the clock, and the fingerprint of its sums."""

    cpu: float
    wall: float
    sums: str


def schema(persons: bool) -> Schema:
    categories = {f"c{i}": {"kind": "category", "levels": list(range(size))} for i, size in enumerate(MIXED_LEVELS)}
    person = {"person": "id", "rows_per_person": 2} if persons else {}
    return parse_schema({"columns": numbers_schema(MIXED_NUMBERS) | categories, **person})


def write_rows(folder: Path, rows: int) -> Path:
    """Generated rows, four for each person on average."""
    folder.mkdir()
    for place, start in enumerate(range(0, rows, FILE)):
        rng, size = np.random.default_rng(place), min(FILE, rows - start)
        numbers = {f"x{i}": rng.random(size) for i in range(MIXED_NUMBERS)}
        levels = {f"c{i}": rng.integers(0, size_, size, dtype=np.int8) for i, size_ in enumerate(MIXED_LEVELS)}
        table = pa.table({**numbers, **levels, "id": rng.integers(0, max(rows // 4, 1), size)})
        parquet.write_table(table, folder / f"{place:04}.parquet", row_group_size=2**17)
    return folder


def run(engine: str, folder: str, persons: str) -> None:
    """In a process of its own: sum, and print the fingerprint."""
    plan = design_for(schema(persons == "True"), FREQUENCIES)
    with closing(engine_named(EngineName(engine), None, CORES)) as summing:
        print(*embed(open_sources(folder), plan, summing).shards)


def measured(engine: str, folder: Path, persons: bool = False) -> Cost:
    start = time.perf_counter()
    command = [sys.executable, "-m", "bench.engines", engine, str(folder), str(persons)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    seen: dict[int, float] = {}
    while child.poll() is None:
        seen |= session_cpu(child.pid)
        time.sleep(0.1)
    assert child.returncode == 0, f"{engine} failed"
    assert child.stdout is not None
    return Cost(sum(seen.values()), time.perf_counter() - start, child.stdout.read().strip())


def session_cpu(session: int) -> dict[int, float]:
    """CPU seconds of all processes of a session; a process that ended keeps what was seen of it last."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == session:
            found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def lines(rows: int, few: Path, many: Path, persons: bool, rounds: int) -> list[str]:
    """A line for each engine: least of the rounds. Starting is what a single row costs."""
    starting = {engine.value: min(measured(engine.value, few, persons).cpu for _ in range(rounds)) for engine in EngineName}
    turns = [{engine.value: measured(engine.value, many, persons) for engine in EngineName} for _ in range(rounds)]
    assert len({cost.sums for turn in turns for cost in turn.values()}) == 1, "the engines' sums differ"
    best = {engine.value: min((turn[engine.value] for turn in turns), key=lambda cost: cost.cpu) for engine in EngineName}
    return [_line(engine, cost, starting[engine], best["local"].cpu, rows, persons) for engine, cost in best.items()]


def _line(engine: str, cost: Cost, starting: float, local: float, rows: int, persons: bool) -> str:
    limit = f" (at most {LIMITS[engine]})" if engine in LIMITS and not persons else ""
    each, ratio = 1e6 * (cost.cpu - starting) / rows, f"{cost.cpu / local:.2f}{limit}"
    rates = f"{rows / cost.cpu:,.0f} | {rows / cost.wall:,.0f}"
    return f"| {engine} | {cost.cpu:.1f} | {starting:.1f} | {each:.2f} | {rates} | {ratio} |"


HEAD = [
    "| engine | CPU s | of it to start | CPU µs a row, start apart | rows per CPU s | rows per s by the clock | CPU over local |",
    "|---|---|---|---|---|---|---|",
]


def main(rows: int, rounds: int) -> None:
    some = rows // 10
    with tempfile.TemporaryDirectory() as place:
        few, many, fewer = (write_rows(Path(place) / name, size) for name, size in (("1", 1), ("n", rows), ("p", some)))
        plain, bounded = lines(rows, few, many, False, rounds), lines(some, few, fewer, True, rounds)
    machine = f"{platform.machine()}, {CORES} cores, no GPU, shared; Python {platform.python_version()}, NumPy {np.__version__}"
    what = f"{rows:,} generated rows × ({MIXED_NUMBERS} numbers, {len(MIXED_LEVELS)} categories) in Parquet, k = {FREQUENCIES:,}"
    told = "one round" if rounds == 1 else f"least CPU of {rounds} rounds in turns"
    text = [
        "# What each engine costs",
        "",
        f"`python -m bench.engines {rows} {rounds}`: {what}; every",
        f"engine with {CORES} cores in processes of its own, {told}. No noise and no ε: these are",
        "sums, and the bench stops unless all engines give the same ones, bit for bit. Machine class:",
        f"{machine}. By the clock other work shared the machine; CPU is what to",
        "compare.",
        "",
        *HEAD,
        *plain,
        "",
        f"With a person column, at most 2 rows of each; {some:,} rows, 4 for each person on average. Rows are hashed and voted",
        "on first; local and Dask read them twice, Spark shuffles them.",
        "",
        *HEAD,
        *bounded,
        "",
    ]
    OUT.write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        run(*sys.argv[1:])
    else:
        asked = [int(word) for word in sys.argv[1:]]
        main(*asked, *(ROWS, ROUNDS)[len(asked) :])
