"""Names that others chose, as text that cannot act on its reader: no terminal code, no change of direction, no faked line."""

from __future__ import annotations

import unicodedata

_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_MARKS = "\u061c\u200e\u200f"
"""Invisible letters of a direction."""


def visible(text: str) -> str:
    """Text whose control characters and changes of direction are replaced by a sign; line ends and tabs stay."""
    return "".join("\N{REPLACEMENT CHARACTER}" if letter not in "\n\t" and acts(letter) else letter for letter in text)


def one_line(text: str) -> str:
    """The same where a line end would let a name pass for a line of ours."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def acts(letter: str) -> bool:
    """Whether a letter does something to its reader instead of being seen; line ends and tabs do."""
    turns = unicodedata.bidirectional(letter) in _TURNS or letter in _MARKS
    return turns or unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"} or ord(letter) & 0xFFFE == 0xFFFE
