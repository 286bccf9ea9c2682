"""What a driver is asked and what it spent. Standard library alone: it runs in every peer's own environment.

A driver is given the path of a JSON file: `rows` (Parquet), `domain` in the peer's own terms, `method`, `epsilon`, `delta`,
`seed`, how many rows to make, and where to put them (`made`) and their cost (`cost`).
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def asked() -> dict[str, Any]:
    """The job that the command line names."""
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    return job


@contextmanager
def measured(job: dict[str, Any]) -> Iterator[None]:
    """CPU seconds of what is done inside, children included, and the most memory that was ever held, are kept."""
    start = _seconds()
    yield
    Path(job["cost"]).write_text(json.dumps({"cpu": _seconds() - start, "peak_mb": _megabytes()}))


def _seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def _megabytes() -> float:
    """The kernel's high-water mark of this process; `getrusage` would count what its parent held before it was started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
