"""For mkdocs: pages of the site that live at the root of the repository, and links that leave the site."""

from __future__ import annotations

import re
from os.path import normpath, relpath
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files that forges look for at the root, and what they are called on the site."""

_HOMES = {page: name for name, page in PAGES.items()}
_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages of results, which benches write, are listed whether or not the navigation names them."""
    assert config.nav is not None
    section = next(part["Results"] for part in config.nav if "Results" in part)
    pages = (path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs" / "results").glob("*.md")))
    section += [page for page in pages if page not in section]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages from the root."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has them."""
    return relinked(markdown, page.file.src_uri)


def relinked(markdown: str, page: str) -> str:
    """A page's links, which are written as files of the repository see each other, as pages of the site see each other.

    What is in the repository and not on the site keeps its name and loses its link. What is nowhere is left, for the strict build
    to stumble upon.
    """
    home = Path(_HOMES.get(page, f"docs/{page}")).parent

    def link(found: re.Match[str]) -> str:
        address = urlsplit(found["target"])
        if address.scheme or not address.path:
            return found[0]
        place = normpath(home / address.path)
        there = PAGES.get(place) or (place.removeprefix("docs/") if place.startswith("docs/") else None)
        if there is None:
            return found["text"] if (ROOT / place).exists() else found[0]
        anchor = f"#{address.fragment}" if address.fragment else ""
        return f"[{found['text']}]({relpath(there, Path(page).parent)}{anchor})"

    return _LINK.sub(link, markdown)
