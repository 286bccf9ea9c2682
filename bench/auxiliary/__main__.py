"""`python -m bench.auxiliary` works off what is not measured yet and writes docs/results/auxiliary.md."""

from __future__ import annotations

from pathlib import Path

from bench.auxiliary.page import page
from bench.auxiliary.parts import runs, work
from bench.cache import work_off

OUT = Path(__file__).parents[2] / "docs" / "results" / "auxiliary.md"


if __name__ == "__main__":
    OUT.write_text(page(work_off(runs(), work, workers=1)), encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))
