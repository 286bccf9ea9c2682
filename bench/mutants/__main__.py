"""Make every deliberate bug in a copy of the source and see which test notices: writes docs/results/mutants.md.

All of these tests must pass on a copy without a bug. About five minutes of one core.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
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
EVERY_TEST = sorted({test for own in MUTANTS.values() for mutant in own for test in mutant.tests})


def first_failure(mutant: Mutant | None) -> str:
    """The test that notices a bug in a copy of the source, or that none does; without a bug, the first of all that fails."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(ROOT / "src" / "dpearl", Path(name) / "dpearl")
        if mutant is not None:
            file = Path(name) / "dpearl" / mutant.file
            file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        found = _tested(Path(name), EVERY_TEST if mutant is None else mutant.tests)
    print(f"{mutant.breaks if mutant else 'No bug'}: {found}", flush=True)
    return found


def _tested(source: Path, tests: Sequence[str]) -> str:
    """A run that breaks down without a test that fails is no evidence of anything."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_run, args=(source, tests, there))
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
    mutants = [mutant for own in MUTANTS.values() for mutant in own]
    with ProcessPoolExecutor(os.cpu_count(), FORK) as pool:
        sound, *caught = pool.map(first_failure, [None, *mutants])
    if sound != SURVIVED:
        raise SystemExit(f"{sound} fails without any bug; mend that first")
    PAGE.write_text(_page(dict(zip(mutants, caught, strict=True))), encoding="utf-8")


def _page(caught: dict[Mutant, str]) -> str:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    count, seconds = sum(test != SURVIVED for test in caught.values()), spent.ru_utime + spent.ru_stime
    lines = [
        "# Deliberate bugs, and what catches them",
        "",
        "Made by `make mutants` (`python -m bench.mutants`). Each bug is one change in one place of a copy of the source; the",
        "tests that are named for it run against the copy and stop at the first that fails. Without a bug all of them pass.",
        "",
        f"Caught: {count} of {len(caught)}, in {seconds:,.0f} CPU s.",
    ]
    for group, own in MUTANTS.items():
        lines += ["", f"## {group}", "", "| bug | where | caught by |", "|---|---|---|"]
        lines += [_line(mutant, caught[mutant]) for mutant in own]
    return "\n".join(lines) + "\n"


def _line(mutant: Mutant, test: str) -> str:
    told = test if test == SURVIVED else f"`{test.replace('|', '/')}`"
    return f"| {mutant.breaks} | `{mutant.file}` | {told} |"


if __name__ == "__main__":
    main()
