"""Every error a user can meet, in one tree.

    DpearlError            the user's mistake: exit code 2, one line, no cell value
    ├── SchemaError        the declaration is incomplete or contradicts itself
    ├── DataError          the rows cannot be read as declared (structure, never content)
    ├── BudgetError        the privacy budget is invalid or used up
    ├── FileError          a release, model, partial sum or ledger is missing, damaged or foreign
    ├── Interrupted        the user stopped the work; what is kept can be gone on from
    ├── TrainingError      training broke down on this release
    └── UsageError         an argument is out of range or an output is in the way

A message says what is wrong, where, and how to mend it. It never holds a value from a cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' where a known name is near, else nothing. What is known must be public."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), names, n=1, cutoff=0.7)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


class DpearlError(Exception):
    """The user's mistake, said in one line."""


class SchemaError(DpearlError):
    """The schema is incomplete or contradicts itself."""


class DataError(DpearlError):
    """The data cannot be read as the schema declares it."""


class BudgetError(DpearlError):
    """The privacy budget is invalid or does not cover the request."""


class FileError(DpearlError):
    """A dpearl file is missing, damaged, foreign or from a newer version."""


class Interrupted(DpearlError):
    """Work was stopped on request; the message says how it goes on."""


class TrainingError(DpearlError):
    """Training broke down; the message says what to try."""


class UsageError(DpearlError):
    """An argument is out of range, or an output is in the way."""
