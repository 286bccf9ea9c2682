"""A method in a process of its own: given a job, stopped at its limit of CPU seconds, and asked what it made and spent."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1")
"""A thread to a run, so that CPU seconds can be compared; the last is read by jax."""


@dataclass(frozen=True, eq=False)
class Made:
    """Rows and what they cost."""

    rows: pa.Table
    cpu: float
    peak_mb: float


@dataclass(frozen=True)
class Failed:
    """No rows, and why."""

    reason: str


def run(command: list[str], paths: str, folder: Path, limit: int) -> Made | Failed:
    """Run a driver whose job lies in this folder; the limit holds for every process that it starts, each for itself."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths}
    with open(folder / "log", "w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (limit, limit + 5))
        code = child.wait()
    return outcome(code, folder, limit)


def outcome(code: int, folder: Path, limit: int) -> Made | Failed:
    """What a driver left behind when it ended with this code."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        stopped = f"no rows within {limit:,} CPU s" if code == -signal.SIGXCPU else "killed, most likely for want of memory"
        return Failed(stopped)
    if code:
        return Failed(_complaint((folder / "log").read_text(errors="replace")))
    cost = json.loads((folder / "cost.json").read_text())
    return Made(parquet.read_table(folder / "made.parquet"), cost["cpu"], cost["peak_mb"])


def _complaint(log: str) -> str:
    """The kind of error in the last line of a traceback; its text too, where that names no path."""
    last = (log.strip() or "failed without a word").splitlines()[-1].strip()
    return last.split(":")[0] if "/" in last else last[:120]
