"""The shell of every report: one HTML file that asks nothing of any network and runs no script."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image as Pictures

from dpearl.letters import visible


@dataclass(frozen=True)
class Page:
    """What stands around a report's content: its mark is on every printed page, its sections are the way through it.

    `sections` are headings by anchor, in the order of the content; `private` sets the tone of the mark.
    """

    title: str
    mark: str
    lead: str
    sections: Mapping[str, str]
    private: bool = False


def render(template: str, page: Page, **values: Any) -> str:
    """A template of this folder with its values, every text among them escaped."""
    return _TEMPLATES.get_template(template).render(page=page, **values)


def png(pixels: NDArray[np.uint8]) -> str:
    """A picture as an address that holds it."""
    file = io.BytesIO()
    Pictures.fromarray(pixels).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _harmless(value: Any) -> Any:
    """Text that cannot act on its reader; markup that a template made is left alone."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_harmless,
    trim_blocks=True,
    lstrip_blocks=True,
)
