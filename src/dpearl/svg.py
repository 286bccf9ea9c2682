"""A drawing as a part of a page.

It takes its colours and letters from the page's style sheet, so that it is legible by day, by night and in print.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from matplotlib.figure import Figure

from dpearl.letters import visible


@dataclass(frozen=True)
class Palette:
    """Colours of text, of lines behind it, and of series in their order."""

    ink: str
    rule: str
    series: tuple[str, ...]


PAPER = Palette("#1d2430", "#c9ced6", ("#4c6a92", "#d9822b", "#5f8f5b", "#8b6aa8"))
PAGE = Palette("#010200", "#010201", ("#010202", "#010203", "#010204", "#010205"))
"""Colours that nobody sees: a variable of the page's style sheet takes the place of each."""

_VARIABLES = dict(zip((PAGE.ink, PAGE.rule, *PAGE.series), ("ink", "rule", "one", "two", "three", "four"), strict=True))


def svg(figure: Figure, title: str) -> str:
    """A figure in the colours of PAGE, to be put into a page as it is; the title is for those who cannot see it."""
    file = io.StringIO()
    write_figure(figure, file, format="svg", transparent=True, metadata={"Date": None})
    own = hashlib.sha256(f"{title}{file.getvalue()}".encode()).hexdigest()[:8]
    root = ElementTree.fromstring(file.getvalue())
    _strip(root)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: _on_page(key, value, own) for key, value in element.attrib.items()}
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height, "role": "img"}
    told = ElementTree.Element("title")
    told.text = visible(title)
    root.insert(0, told)
    return ElementTree.tostring(root, encoding="unicode")


def write_figure(figure: Figure, file: Any, **form: Any) -> None:
    """Write a figure; letters that the drawing's own font lacks are no mistake."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, **form)


def _strip(root: ElementTree.Element) -> None:
    """Take out what speaks of the file, rules that would hold for the whole page, and shapes that nobody sees."""
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag.endswith(("metadata", "style")) or child.get("style") == "fill: none":
                parent.remove(child)


def _on_page(key: str, value: str, own: str) -> str:
    """An attribute with the page's colours and letters, and with names of parts that no other drawing has."""
    if key == "id":
        return f"{own}-{value}"
    if key == "style":
        value = re.sub("'DejaVu Sans'[^;]*", "var(--letters)", value)
        return re.sub("#01020[0-5]", lambda found: f"var(--{_VARIABLES[found[0]]})", value)
    return value.replace("#", f"#{own}-") if key.endswith(("href", "clip-path")) else value
