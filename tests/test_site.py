"""The site builds, strictly and from nothing but the repository; what its pages tell of the program is what the program tells."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from handbook import choices, commands, hook
from handbook.__main__ import BEGIN, END, written

import dpearl
from dpearl.cli import VERBS

ROOT = hook.ROOT
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])}
FIGURE = re.compile(r"(?<![\w.])(\d{0,2}\.\d{2,}|\d+\.\d(?=%))(?![\w.])")
OF_THE_RESULTS = ("README.md", "docs/recipes.md", "docs/faq.md", "docs/limits.md", "docs/images.md")


def build(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *more]
    return subprocess.run(command, cwd=ROOT, env=QUIET, capture_output=True, text=True, check=False)


class Fetched(HTMLParser):
    """Addresses that a browser fetches by itself when it opens a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in {"script", "img", "iframe", "source"}:
            self.found += [named["src"] or ""] if "src" in named else []
        elif tag == "link" and named.get("rel") != "canonical":
            self.found.append(named["href"] or "")


def test_the_site_builds_strictly_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    names = {str(page.relative_to(tmp_path / "site")) for page in pages}
    assert names >= {"index.html", "quickstart.html", "commands.html", "api.html", "results/peers.html", "security.html"}
    fetched = {address for page in pages for address in Fetched(page).found}
    assert fetched
    assert not {address for address in fetched if re.match(r"(\w+:)?//", address)}
    sheets = "".join(sheet.read_text(encoding="utf-8") for sheet in (tmp_path / "site").rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*[\"']?(\w+:)?//", sheets)
    api = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    assert all(f'id="dpearl.{name}"' in api for name in dpearl.__all__)
    assert "ledger" in api[api.index('id="dpearl.PEARL"') :][:4000], "signatures are shown"


@pytest.mark.parametrize("wrong", ["[nowhere](nowhere.md)", "[no such heading](choose.md#nothing)"])
def test_a_broken_link_stops_the_build(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "choose.md").write_text(f"# Choose\n\n{wrong}\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("hooks: [handbook/hook.py]", f"hooks: []\ndocs_dir: {tmp_path}/docs").partition("nav:\n  -")[0]
    (tmp_path / "mkdocs.yml").write_text(settings)
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert re.search(r"\((.*)\)", wrong)[1] in done.stderr  # type: ignore[index]


def test_links_of_the_repository_become_links_of_the_site() -> None:
    assert hook.relinked("[a](docs/choose.md#x) ![b](docs/idea.svg)", "index.md") == "[a](choose.md#x) ![b](idea.svg)"
    assert hook.relinked("[a](../README.md) [b](results/peers.md)", "limits.md") == "[a](index.md) [b](results/peers.md)"
    assert hook.relinked("[a](../../SECURITY.md)", "results/peers.md") == "[a](../security.md)"
    assert hook.relinked("[`noise.py`](../src/dpearl/noise.py) [b](https://example.org)", "limits.md") == (
        "`noise.py` [b](https://example.org)"
    )
    assert hook.relinked("[a](../src/dpearl/nothing.py)", "limits.md") == "[a](../src/dpearl/nothing.py)"


def test_the_reference_is_the_program_s() -> None:
    """After a change of the command line: make docs."""
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert page == commands.reference()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(VERBS)


def test_the_choices_are_those_of_the_arithmetic() -> None:
    page = (ROOT / "docs/choose.md").read_text(encoding="utf-8")
    assert page == written(page, choices.part())
    assert page.count(BEGIN) == page.count(END) == 1
    assert "| 1 | 55.3% | 2.0 |" in page  # Φ(.268 / 2) and Φ(.268 - 2.326)


def test_every_public_name_is_on_the_page_of_python_once() -> None:
    shown = re.findall(r"^::: dpearl\.(\w+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(dpearl.__all__)
    for name in dpearl.__all__:
        assert name == "RECIPES" or getattr(dpearl, name).__doc__, name


def test_the_paper_s_equations_are_where_the_page_says() -> None:
    named = set(re.findall(r"`((?:dpearl|bench)\.[\w.]+)`", (ROOT / "docs/paper-in-code.md").read_text(encoding="utf-8")))
    assert len(named) > 40
    for name in named:
        assert pkgutil.resolve_name(name) is not None


def numbers(text: str) -> Iterator[str]:
    """Figures with two decimals and percentages with one, as shares without a leading zero."""
    for found in FIGURE.finditer(text):
        whole = text[found.end() : found.end() + 1] != "%"
        yield found[0].lstrip("0") if whole else f"{float(found[0]) / 100:.3f}".lstrip("0")


@pytest.mark.parametrize("page", OF_THE_RESULTS)
def test_figures_in_pages_are_those_of_the_results(page: str) -> None:
    """A figure that a new run changed is found here; what the page says with it must be looked at, too."""
    sources = [*(ROOT / "docs/results").glob("*.md"), ROOT / "docs/choose.md"]
    known = {number for source in sources for number in numbers(source.read_text(encoding="utf-8"))}
    told = (ROOT / page).read_text(encoding="utf-8").replace("Python 3.11", "")
    assert not set(numbers(told)) - known
