"""How a value introduces itself: a line in a shell, a small table in a rich console or a notebook. Nothing of rows is in it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpearl.letters import visible

if TYPE_CHECKING:
    from rich.table import Table

MOST = 24
"""Lines of a card; of more the number is told."""

_CELL = "text-align: left; vertical-align: top"


@dataclass(frozen=True)
class Card:
    """A title and lines of two or three words or phrases; whatever is in them, it is shown and never acts."""

    title: str
    lines: Sequence[tuple[str, ...]]

    @property
    def _shown(self) -> list[tuple[str, ...]]:
        rest = len(self.lines) - MOST
        return [*self.lines[:MOST], *([(f"and {rest:,} more",)] if rest > 0 else [])]

    def html(self) -> str:
        """As a table of a notebook, in the notebook's own style."""
        rows = "".join(f"<tr>{''.join(_cell(text) for text in line)}</tr>" for line in self._shown)
        return f"<div><strong>{_safe(self.title)}</strong><table>{rows}</table></div>"

    def rich(self) -> Table:
        """As a table of a rich console."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(visible(self.title)), title_justify="left", show_header=False)
        for line in self._shown:
            table.add_row(*(Text(visible(text)) for text in line))
        return table


class Carded:
    """What shows itself by its card, in notebooks and on rich consoles."""

    def card(self) -> Card:
        """What is shown of it."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self.card().html()

    def __rich__(self) -> Table:
        return self.card().rich()


def _safe(text: str) -> str:
    return html.escape(visible(text))


def _cell(text: str) -> str:
    return f'<td style="{_CELL}">{_safe(text)}</td>'
