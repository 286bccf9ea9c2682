"""Results on stdout, remarks and mistakes on stderr. Light, for help and completion load nothing more."""

from __future__ import annotations

import sys

from dpearl.letters import one_line, visible

HELP = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}
"""How help is laid out: as wide as the terminal, up to this."""

_quiet = False


def hush(quiet: bool) -> bool:
    """From here on only results and mistakes are told, or all of it again."""
    global _quiet
    _quiet = quiet
    return quiet


def is_quiet() -> bool:
    """Whether remarks and progress are left out."""
    return _quiet


def result(text: str) -> None:
    """What was asked for, on stdout. Whatever names are in it, here and below, they do nothing to a terminal."""
    print(visible(text))


def note(text: str) -> None:
    """A remark that is not the result."""
    if not _quiet:
        print(visible(text), file=sys.stderr)


def next_step(text: str) -> None:
    """What to do next, in a line of its own."""
    note(f"Next: {text}")


def mistake(text: str) -> None:
    """What the user did wrong, in one line whatever names are in it."""
    print(f"dpearl: {one_line(' '.join(text.splitlines()))}", file=sys.stderr)


def examples(*lines: str) -> str:
    """The end of a command's help, line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
