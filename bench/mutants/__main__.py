"""Make every deliberate bug in a copy of the source and see which test notices: writes docs/results/mutants.md.

The tests must pass on the copy without a bug first. About five minutes of one core.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.mutants import MUTANTS, ROOT, Mutant

PAGE = ROOT / "docs" / "results" / "mutants.md"
SURVIVED = "**survived**"


@dataclass(frozen=True)
class Copy:
    """A copy of the source that tests import instead of the original."""

    folder: Path

    def mutated(self, mutant: Mutant) -> str:
        """The test that notices a bug, or that none does; the copy is whole again afterwards."""
        file = self.folder / "dpearl" / mutant.file
        whole = file.read_text(encoding="utf-8")
        file.write_text(mutant.applied(whole), encoding="utf-8")
        try:
            return self.first_failure(mutant.tests)
        finally:
            file.write_text(whole, encoding="utf-8")

    def first_failure(self, tests: Sequence[str]) -> str:
        """The first of some tests that fails here. A run that breaks down otherwise is no evidence of anything."""
        command = [sys.executable, "-B", "-m", "pytest", "-x", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)]
        paths = os.pathsep.join([str(self.folder), str(ROOT)])
        settings = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
        found = re.search(r"^(?:FAILED|ERROR) tests/(\S+\.py::\w+)", done.stdout, re.MULTILINE)
        if done.returncode == 0:
            return SURVIVED
        if done.returncode != 1 or found is None:
            raise RuntimeError(f"the tests could not be run:\n{done.stdout}{done.stderr}")
        return found[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(Path(name))
        shutil.copytree(ROOT / "src" / "dpearl", copy.folder / "dpearl")
        sound = copy.first_failure(sorted({test for own in MUTANTS.values() for mutant in own for test in mutant.tests}))
        if sound != SURVIVED:
            raise SystemExit(f"{sound} fails without any bug; mend that first")
        caught = {group: [_tried(copy, mutant) for mutant in own] for group, own in MUTANTS.items()}
    PAGE.write_text(_page(caught), encoding="utf-8")


def _tried(copy: Copy, mutant: Mutant) -> str:
    found = copy.mutated(mutant)
    print(f"{mutant.breaks}: {found}", flush=True)
    return found


def _page(caught: dict[str, list[str]]) -> str:
    every = [test for own in caught.values() for test in own]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [
        "# Deliberate bugs, and what catches them",
        "",
        "Made by `make mutants` (`python -m bench.mutants`). Each bug is one change in one place of a copy of the source; the",
        "tests that are named for it run against the copy and stop at the first that fails. Without a bug all of them pass.",
        "",
        f"Caught: {sum(test != SURVIVED for test in every)} of {len(every)}, in {spent.ru_utime + spent.ru_stime:,.0f} CPU s.",
    ]
    for group, tests in caught.items():
        lines += ["", f"## {group}", "", "| bug | where | caught by |", "|---|---|---|"]
        lines += [_line(mutant, test) for mutant, test in zip(MUTANTS[group], tests, strict=True)]
    return "\n".join(lines) + "\n"


def _line(mutant: Mutant, test: str) -> str:
    told = test if test == SURVIVED else f"`{test.replace('|', '/')}`"
    return f"| {mutant.breaks} | `{mutant.file}` | {told} |"


if __name__ == "__main__":
    main()
