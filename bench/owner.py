"""What the owner's side costs: one table, with the peer in the same run. `make bench` writes docs/results/owner.md.

Times are CPU seconds of this process (all threads) unless a line says otherwise; the machine is shared, so the ratios
are what counts. Best of five, in turns. All rows are generated; Adult is the carried copy.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from dpearl import datasets
from dpearl.design import Design
from dpearl.embed import embed
from dpearl.embeddings.characteristic import draw_characteristic
from dpearl.engines.local import Local
from dpearl.noise import add_noise
from dpearl.read import open_sources
from dpearl.schema import Schema, load_schema, parse_schema

ROWS, NUMBERS, FREQUENCIES, THREADS = 200_000, 100, 1000, 2
MIXED_NUMBERS, MIXED_LEVELS = 6, (9, 16, 7, 15, 6, 5, 2, 42, 8)
OUT = Path(__file__).parents[1] / "docs" / "results" / "owner.md"


def cpu_seconds(*works: Callable[[], Any], rounds: int = 5) -> list[float]:
    """Least CPU time of each, measured in turns, so that a busy neighbour disturbs all alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for own, work in zip(times, works, strict=True):
            start = time.process_time()
            work()
            own.append(time.process_time() - start)
    return [min(own) for own in times]


def numbers_schema(count: int) -> dict[str, Any]:
    return {f"x{i}": {"kind": "number", "lower": 0, "upper": 1} for i in range(count)}


def design_for(schema: Schema, frequencies: int) -> Design:
    empty = Design(schema, ())
    return Design(schema, (draw_characteristic(empty.codec, frequencies, 3.0, 0, 1.0),))


def ours(columns: dict[str, NDArray[Any]], schema: Schema) -> Callable[[], Any]:
    """From an Arrow table in memory to sums: coding included."""
    sources, design = open_sources(pa.table(columns)), design_for(schema, FREQUENCIES)
    return lambda: embed(sources, design, Local(THREADS))


def plain_torch(rows: NDArray[np.float32], batch: int) -> Callable[[], Any]:
    """matmul + cos + sin + sum in float32, from a ready tensor."""
    import torch  # not at the top: the child that measures memory must not load it

    torch.set_num_threads(THREADS)
    points = torch.from_numpy(rows)
    frequencies = torch.randn(rows.shape[1], FREQUENCIES) / 3

    def run() -> None:
        for start in range(0, len(points), batch):
            phases = points[start : start + batch] @ frequencies
            phases.cos().sum(0), phases.sin().sum(0)

    return run


def numbers_lines(rng: np.random.Generator) -> list[str]:
    values = rng.random((ROWS, NUMBERS))
    columns = {f"x{i}": values[:, i] for i in range(NUMBERS)}
    floats = values.astype(np.float32)
    works = (
        ours(columns, parse_schema({"columns": numbers_schema(NUMBERS)})),
        plain_torch(floats, ROWS),
        plain_torch(floats, 1000),
    )
    own, whole, batched = cpu_seconds(*works)
    what = f"{ROWS:,} x {NUMBERS} numbers, k = {FREQUENCIES:,}"
    return [
        f"| Embedding, {what} | {own:.2f} s | float32 torch, whole matrix: {whole:.2f} s | {own / whole:.2f} (at most 1.0) |",
        f"| the same | {own:.2f} s | float32 torch, batches of 1,000: {batched:.2f} s | {own / batched:.2f} |",
    ]


def mixed_line(rng: np.random.Generator) -> str:
    """Levels looked up against the same rows one-hot encoded, both through dpearl."""
    numbers = {f"x{i}": rng.random(ROWS) for i in range(MIXED_NUMBERS)}
    levels = {f"c{i}": rng.integers(0, size, ROWS) for i, size in enumerate(MIXED_LEVELS)}
    categories = {f"c{i}": {"kind": "category", "levels": list(range(size))} for i, size in enumerate(MIXED_LEVELS)}
    hot = {
        f"c{i}_{level}": (levels[f"c{i}"] == level).astype(np.int8)
        for i, size in enumerate(MIXED_LEVELS)
        for level in range(size)
    }
    bits = {name: {"kind": "number", "lower": 0, "upper": 1, "step": 1} for name in hot}
    mixed, one_hot = cpu_seconds(
        ours(numbers | levels, parse_schema({"columns": numbers_schema(MIXED_NUMBERS) | categories})),
        ours(numbers | hot, parse_schema({"columns": numbers_schema(MIXED_NUMBERS) | bits})),
    )
    what = f"{ROWS:,} x ({MIXED_NUMBERS} numbers + {len(MIXED_LEVELS)} categories, {sum(MIXED_LEVELS)} levels)"
    ratio = f"{one_hot / mixed:.1f} times faster (at least 3)"
    return f"| Embedding, {what} | {mixed:.2f} s | one-hot encoded: {one_hot:.2f} s | {ratio} |"


def embed_file(path: str, schema: str) -> None:
    """Tells the CPU seconds of summing a file, and the most megabytes that this process ever held."""
    design, start = design_for(load_schema(schema), 256), time.process_time()
    embed(open_sources(path), design, Local(THREADS))
    spent, status = time.process_time() - start, Path("/proc/self/status").read_text(encoding="utf-8")
    (peak,) = re.findall(r"VmHWM:\s*(\d+)", status)
    print(spent, int(peak) / 1024)


CHILD = "import sys; from bench.owner import embed_file; embed_file(*sys.argv[1:])"


SCHEMA = """
label = "label"
[columns.label]
kind = "boolean"
[columns.small]
kind = "number"
lower = 0
upper = 99
step = 1
[columns.real]
kind = "number"
lower = -4
upper = 4
[columns.level]
kind = "category"
levels = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""


def write_rows(path: Path, rows: int) -> None:
    """Generated rows in Parquet, written in pieces."""
    rng, writer = np.random.default_rng(1), None
    for start in range(0, rows, 250_000):
        size = min(250_000, rows - start)
        part = {
            "label": rng.random(size) < 0.3,
            "small": rng.integers(0, 100, size, dtype=np.int8),
            "real": rng.standard_normal(size, dtype=np.float32),
            "level": rng.integers(0, 10, size, dtype=np.int8),
        }
        table = pa.table(part)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def scaling_lines() -> list[str]:
    """The same design over 1M and 20M rows, each in a process of its own; getrusage would tell its parent's peak."""
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder) / "schema.toml"
        schema.write_text(SCHEMA)
        for rows in (1_000_000, 20_000_000):
            path = Path(folder) / f"{rows}.parquet"
            write_rows(path, rows)
            command = [sys.executable, "-c", CHILD, str(path), str(schema)]
            runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
            measured[rows] = min((float(cpu), float(peak)) for cpu, peak in runs)
            path.unlink()
    (few, peak_few), (many, peak_many) = measured.values()
    growth, memory = many / few / 20, peak_many / peak_few
    return [
        f"| 20M generated rows in Parquet, k = 256 | {many:.1f} s | 1M rows: {few:.2f} s | {growth:.2f} x 20 (at most 1.05) |",
        f"| its peak memory | {peak_many:.0f} MB | 1M rows: {peak_few:.0f} MB | {memory:.2f} (at most 1.10; under 1 GB) |",
    ]


def noise_line() -> str:
    draws = np.zeros(1_000_000, np.int64)
    (spent,) = cpu_seconds(lambda: add_noise(draws, 4_000_000))
    return f"| Noise, exact rounded Gaussian | {len(draws) / spent:,.0f} draws/s | | {1e6 * spent / len(draws):.2f} µs each |"


def release_line() -> str:
    """The command line on Adult, wall time, interpreter start to file."""
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for run in range(3):
            start = time.perf_counter()
            arguments = [str(datasets.ADULT_TRAIN), "--schema", str(datasets.ADULT_SCHEMA), "--epsilon", "1"]
            command = [str(Path(sys.executable).parent / "dpearl"), "release", *arguments, "-o", f"{folder}/{run}.dpearl"]
            subprocess.run(command, capture_output=True, check=True)
            times.append(time.perf_counter() - start)
    return f"| `dpearl release`, Adult, 32,561 rows, start to file | {min(times):.1f} s wall | | |"


def main() -> None:
    rng = np.random.default_rng(0)
    lines = [*numbers_lines(rng), mixed_line(rng), *scaling_lines(), noise_line(), release_line()]
    machine = f"{platform.machine()}, {THREADS} cores, no GPU; Python {platform.python_version()}, NumPy {np.__version__}"
    text = "\n".join(
        [
            "# What the owner's side costs",
            "",
            f"`make bench`, CPU seconds, best of five in turns (of two for the 1M and 20M rows). Machine class: {machine}.",
            "",
            "| what | ours | peer in the same run | ratio |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )
    OUT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
