"""`python -m bench.peers [TABLE] [METHOD]...` works off the runs and writes docs/results/peers.md; `report` only writes it."""

from __future__ import annotations

import os
import sys

from bench.cache import finished, work_off
from bench.peers.page import write
from bench.peers.plan import chosen, hopeless, phases, runs
from bench.peers.work import work


def main() -> None:
    words = sys.argv[1:]
    if words != ["report"]:
        for phase in phases():
            todo = [run for run in phase if chosen(run, words) and not hopeless(run)]
            work_off(todo, work, int(os.environ.get("BENCH_WORKERS", "1")))
    write(finished(runs()))


if __name__ == "__main__":
    main()
