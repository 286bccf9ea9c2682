"""Make every deliberate bug in a copy of the source and see which test notices: writes docs/results/mutants.md.

The tests must pass on the copy without a bug first. About five minutes of one core.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bench.mutants import MUTANTS, ROOT, Mutant

FORK = multiprocessing.get_context("fork")
LOADED = (
    *("dp_accounting", "flint", "opendp.prelude", "pandas", "PIL.Image", "pyarrow.parquet", "pydantic", "rich.progress"),
    *("safetensors.numpy", "scipy.stats", "threadpoolctl", "typer"),
)
"""What tests need of others, loaded once for all: it takes longer than most tests."""

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
        here, there = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_run, args=(self.folder, tests, there))
        child.start()
        there.close()
        code, failed = here.recv()
        child.join()
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or bool(code) != bool(failed):
            raise RuntimeError(f"the tests could not be run: {tests}")
        return str(failed[0]) if failed else SURVIVED


class _Failures:
    """What pytest tells of tests that fail, before, in or after them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names.append(report.nodeid.removeprefix("tests/").partition("[")[0])


def _run(source: Path, tests: Sequence[str], told: Connection) -> None:
    """In a process of its own, which has loaded what tests need of others and nothing of dpearl."""
    sys.path.insert(0, str(source))
    os.environ |= {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}
    os.chdir(ROOT)
    failures = _Failures()
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        code = pytest.main(["-x", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)], [failures])
    told.send((int(code), failures.names))


def main() -> None:
    sys.dont_write_bytecode = True
    for name in LOADED:
        import_module(name)
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
