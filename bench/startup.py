"""CPU time of the small things beside that of an empty interpreter, in the same run: `python -m bench.startup`."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

RUNS = 9
LIMIT = 0.3
"""Seconds of CPU that `dpearl --help` may take."""

SCRIPTS = {
    "an empty interpreter": "pass",
    "import dpearl": "import dpearl",
    "dpearl --help": "import sys; sys.argv = ['dpearl', '--help']; from dpearl.cli import main; main()",
    "dpearl release --help": "import sys; sys.argv = ['dpearl', 'release', '--help']; from dpearl.cli import main; main()",
    "import dpearl and look up release_rows": "import dpearl; dpearl.release_rows",
}


def seconds(script: str) -> float:
    """User and system time of a child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=True, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    found: dict[str, list[float]] = {name: [] for name in SCRIPTS}
    for _ in range(RUNS):
        for name, script in SCRIPTS.items():
            found[name].append(seconds(script))
    print(f"CPU seconds, median of {RUNS} runs (least, most):")
    for name, times in found.items():
        print(f"  {name:40} {statistics.median(times):.3f} ({min(times):.3f}, {max(times):.3f})")
    helped = statistics.median(found["dpearl --help"])
    print(f"dpearl --help {'keeps to' if helped < LIMIT else 'MISSES'} its {LIMIT} s")


if __name__ == "__main__":
    main()
