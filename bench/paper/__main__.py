"""`python -m bench.paper [TABLE] ...` works off the runs of these tables (all without a name) and writes docs/results/paper.md.

With `page`, nothing is run: the page tells what is finished. BENCH_WORKERS says how many processes work at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from bench.cache import Run, work_off
from bench.paper import complexity, images, page, power, resolution, scales, tables

TABLES: dict[str, tuple[Callable[[], list[Run]], Callable[[Run], Run]]] = {
    "images": (images.runs, images.work),
    "adult": (partial(tables.runs, "adult"), tables.work),
    "credit": (partial(tables.runs, "credit"), tables.work),
    "resolution": (resolution.runs, resolution.work),
    "scales": (scales.runs, scales.work),
    "power": (power.runs, power.work),
    "complexity": (complexity.runs, complexity.work),
}


def main(wanted: list[str]) -> None:
    unknown = sorted({*wanted} - {*TABLES, "page"})
    if unknown:
        sys.exit(f"no such table: {', '.join(unknown)}; there are {', '.join(TABLES)} and page")
    if {*(wanted or TABLES)} - {"page", "scales", "power", "complexity"} and "DPEARL_DATA" not in os.environ:
        sys.exit("DPEARL_DATA must name the folder of the data sets")
    workers = int(os.environ.get("BENCH_WORKERS", "2"))
    for name in wanted or TABLES:
        if name != "page":
            runs, work = TABLES[name]
            work_off(runs(), work, workers)
    page.write()


if __name__ == "__main__":
    main(sys.argv[1:])
