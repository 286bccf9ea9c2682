"""Finished runs, kept by their settings: a bench that was stopped goes on where it was, on any machine.

They are part of the repository, so that every figure in the docs can be traced to its seeds. A change of
method that changes figures removes the files it makes untrue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "runs"

Run = dict[str, Any]
"""Settings of one run; plain JSON values."""


def place(run: Run) -> Path:
    """Where a run's results lie."""
    return FOLDER / f"{run['bench']}-{hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:16]}.json"


def finished(runs: Sequence[Run]) -> list[Run]:
    """Settings and results of those runs that are done."""
    return [json.loads(place(run).read_text()) for run in runs if place(run).exists()]


def work_off(runs: Sequence[Run], work: Callable[[Run], Run], workers: int) -> list[Run]:
    """Every run's settings and results; what is not there yet is worked off, one thread to a worker."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    todo = [run for run in runs if not place(run).exists()]
    with ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        for run in pool.map(partial(_finish, work=work), todo):
            print(run, flush=True)
    return finished(runs)


def _finish(run: Run, work: Callable[[Run], Run]) -> Run:
    """A worker keeps what it found at once, so that a stop loses only what is under way; another may have been faster."""
    if not place(run).exists():
        found = json.dumps({**run, **work(run)}, indent=1) + "\n"
        place(run).write_text(found)
    return finished([run])[0]
