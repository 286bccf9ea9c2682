"""Every snippet of the README and of the pages runs: shell and Python, in the order of the page, in a folder with a small table.

Commands run in this process, through the door that users take. Tables are small and training is short; nothing else is changed. A
block that needs what a test has not (a cluster, a server) says so in its title: ```sh title="needs a cluster".
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

from dpearl import cli, datasets, settings, utility
from dpearl.schema import load_declaration
from dpearl.utility import learners

ROOT = Path(__file__).parents[1]
WRITTEN_BY_THE_PROGRAM = {"commands.md", "api.md"}
PAGES = [ROOT / "README.md", *sorted(page for page in ROOT.glob("docs/*.md") if page.name not in WRITTEN_BY_THE_PROGRAM)]
COLUMNS = ["age", "education", "sex", "hours-per-week", "income"]
ROWS, FRESH = 3000, 600
"""Noise has no seed, so rows are enough for it not to matter. Least sure is that the quickstart, asking for levels, finds ">50K":
734 rows against a threshold of 139 with noise of 27, missed with probability below 1e-100; at epsilon 0.3 that a class is there
at all: 734 rows, noise of 86, below 1e-16."""
FEWER = {"30000": "400", "30_000": "400", "--iterations 300": "--iterations 10"}
"""What a page asks for that would take a test too long, and what is run in its place."""

SCHEMA = """
label = "income"
[columns.age]
kind = "number"
lower = 17
upper = 90
step = 1
[columns.sex]
kind = "category"
levels = ["Female", "Male"]
[columns.education]
kind = "category"
levels = ["HS-grad", "Some-college", "Bachelors", "Masters"]
other = "other"
[columns.hours-per-week]
kind = "number"
lower = 0
upper = 99
step = 1
[columns.income]
kind = "category"
levels = ["<=50K", ">50K"]
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str | None
    text: str
    where: str

    @property
    def runs(self) -> bool:
        return self.language in {"sh", "python"} and self.title is None


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r'^```(\w*)(?: title="([^"\n]*)")?\n(.*?)^```$', text, re.DOTALL | re.MULTILINE):
        shorter = re.sub("|".join(FEWER), lambda many: FEWER[many[0]], found[3])
        yield Block(found[1], found[2], shorter, f"{page.name}, line {text.count(chr(10), 0, found.start()) + 1}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows, short training and few learners."""
    train, test = datasets.adult().slice(0, ROWS), datasets.adult_test().slice(0, FRESH)
    monkeypatch.setattr(datasets, "adult", lambda: train)
    monkeypatch.setattr(datasets, "adult_test", lambda: test)
    monkeypatch.setattr(settings, "MIXTURE", replace(settings.MIXTURE, iterations=10, components=50))
    monkeypatch.setattr(settings, "PICTURES", replace(settings.PICTURES, iterations=10))
    monkeypatch.setattr(utility, "learners", lambda task, seed=0: dict(list(learners(task, seed).items())[:2]))
    monkeypatch.setattr(settings, "TABLES", replace(settings.TABLES, iterations=10, batch=100))


def people(part: int = 0, parts: int = 1) -> pa.Table:
    """A part of the people."""
    rows = datasets.adult().select(COLUMNS)
    return rows.slice(part * (len(rows) // parts), len(rows) // parts)


def database(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path)) as opened:
        opened.register("rows_here", people())
        opened.sql("create table people as select * from rows_here")


def parts(write: Callable[[pa.Table, Path], object], *names: str) -> dict[str, Callable[[Path], object]]:
    """The people in as many files, of which nobody is in two."""
    return {name: partial(lambda part, path: write(people(part, len(names)), path), part) for part, name in enumerate(names)}


GIVEN: dict[str, Callable[[Path], object]] = {
    "fresh.csv": lambda path: csv.write_csv(datasets.adult_test().select(COLUMNS), path),
    "schema.toml": lambda path: path.write_text(SCHEMA),
    "completed.toml": lambda path: path.write_text(SCHEMA),
    "people.duckdb": database,
    **parts(csv.write_csv, "people.csv"),
    **parts(csv.write_csv, "north.csv", "south.csv", "west.csv"),
    **parts(parquet.write_table, "january.parquet", "february.parquet"),
    **parts(parquet.write_table, "data/part-0.parquet"),
    **parts(parquet.write_table, "incoming/part-0.parquet"),
}
"""Files that a page starts from, the quickstart's among them, where it names them; what it writes itself it is not given."""


def prepare(folder: Path, page: Path) -> None:
    """Lay out what a page starts from."""
    text = page.read_text(encoding="utf-8")
    for name, make in GIVEN.items():
        place = folder / name
        named = name.replace("part-0", "*") in text
        if named and f"-o {name}" not in text and f'title="{name}"' not in text:
            place.parent.mkdir(exist_ok=True)
            make(place)


def commands(text: str) -> Iterator[list[str]]:
    """Lines of a shell, each as its words, with patterns filled in as a shell would."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=False, punctuation_chars=False)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            plain = not set(word) & set("'\"")
            words += sorted(glob(word)) if plain and "*" in word else shlex.split(word)
        if words:
            yield words


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command: ours runs here; of those that set things up, what they name must be there."""
    match words:
        case ["dpearl", *_]:
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert ended.value.code == 0, shlex.join(words)
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        case ["pip", "install", *what]:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            extras = {extra for name in what for found in re.findall(r"\[(.*)\]", name) for extra in found.split(",")}
            assert extras <= project["optional-dependencies"].keys(), what
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module), module
        case _:
            pytest.fail(f"{shlex.join(words)}: a page may use dpearl, make, pip and python -m")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_in_order(
    page: Path, small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path, page)
    names: dict[str, object] = {"__name__": "snippet"}
    for block in blocks(page):
        if block.language == "toml" and block.title is not None:
            (tmp_path / block.title).write_text(block.text)
            load_declaration(tmp_path / block.title)
        elif block.runs and block.language == "python":
            exec(compile(block.text, block.where, "exec"), names)
        elif block.runs:
            for words in commands(block.text):
                run(words, monkeypatch)


def test_blocks_that_do_not_run_say_what_they_need_and_are_few() -> None:
    held = [block for page in PAGES for block in blocks(page) if block.language in {"sh", "python"} and not block.runs]
    assert all(str(block.title).startswith("needs ") for block in held), [block.where for block in held]
    assert len(held) <= 5
    for block in (block for page in PAGES for block in blocks(page) if block.language not in {"sh", "python"}):
        assert block.language in {"toml", "text", "json", ""}, block.where
        assert not re.search(r"^(dpearl|import|from|pip) ", block.text, re.MULTILINE), f"{block.where}: name the language"


def test_no_block_is_overlooked() -> None:
    for page in PAGES:
        fences = re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(list(blocks(page))), page.name
