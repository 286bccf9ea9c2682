"""docs/commands.md: the program's own help, command by command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from dpearl.cli import VERBS, loaded, program

HEAD = """# Command line

Written by `make docs` from the program's own help; `dpearl COMMAND --help` prints the same.

Exit codes: 0 is fine, 2 is a mistake of yours, told in one line with what to do about it, 1 is a mistake of ours. Results go to
standard output, remarks and progress to standard error. A file that is there is never overwritten. `NO_COLOR` is honoured.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_overview(), *(line for name in VERBS for line in _section(name))])


def _overview() -> Iterator[str]:
    yield "| command | what it does |"
    yield "|---|---|"
    for name, (_, told) in VERBS.items():
        yield f"| [`{name}`](#{name}) | {_cell(told)} |"
    yield from ("", "Of `dpearl` itself:", "")
    yield from _options(program(), "dpearl")


def _section(name: str) -> Iterator[str]:
    command: Any = loaded(name)
    usage = command.collect_usage_pieces(command.make_context(f"dpearl {name}", [], resilient_parsing=True))
    yield from (f"## {name}", "", inspect.cleandoc(command.help), "")
    yield from ("```text", f"dpearl {name} {' '.join(usage)}", "```", "")
    yield from _options(command, f"dpearl {name}")
    yield from ("```sh", inspect.cleandoc(command.epilog.partition("Examples:\n")[2]), "```", "")


def _options(command: Any, name: str) -> Iterator[str]:
    """What a command takes, arguments first, each in the words of its help."""
    context = command.make_context(name, [], resilient_parsing=True)
    yield "| takes | meaning |"
    yield "|---|---|"
    for parameter in sorted(command.get_params(context), key=lambda one: one.param_type_name != "argument"):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name != "help":
            taken = record[0].split()[0] if parameter.param_type_name == "argument" else record[0]
            yield f"| `{taken.strip().replace('|', ' or ')}` | {_cell(record[1])} |"
    yield ""


def _cell(text: str) -> str:
    """Words in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("[", "\\[").replace("]", "\\]").replace("<", "&lt;")
