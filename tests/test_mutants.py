"""The list of deliberate bugs is honest: every one can be made where it says, and the tests it names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from bench.mutants import MUTANTS, ROOT, Mutant

ALL = [mutant for own in MUTANTS.values() for mutant in own]


@cache
def functions(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: re.sub(r"\W+", "-", mutant.breaks))
def test_a_bug_can_be_made_and_its_tests_exist(mutant: Mutant) -> None:
    source = (ROOT / "src" / "dpearl" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    assert mutant.applied(source) != source
    ast.parse(mutant.applied(source))
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / "tests" / file).exists()
        assert not name or name in functions(ROOT / "tests" / file)


def test_the_page_tells_of_every_bug_and_that_all_were_caught() -> None:
    page = (ROOT / "docs" / "results" / "mutants.md").read_text(encoding="utf-8")
    assert all(f"| {mutant.breaks} | `{mutant.file}` | `" in page for mutant in ALL)
    assert f"Caught: {len(ALL)} of {len(ALL)}" in page
