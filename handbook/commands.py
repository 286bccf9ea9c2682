"""docs/commands.md: the program's own help, command by command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from dpearl import cli

HEAD = """# Command line

Written by `make docs` from the program's own help; `dpearl COMMAND --help` prints the same.

Exit codes: 0 is fine, 2 is a mistake of yours, told in one line with what to do about it, 1 is a mistake of ours. Results go to
standard output, remarks and progress to standard error. A file that is there is never overwritten.
"""


def reference() -> str:
    """The whole page."""
    group: Any = get_command(cli.app)
    return "\n".join([HEAD, *_overview(group), *(line for name in group.commands for line in _section(group, name))])


def _overview(group: Any) -> Iterator[str]:
    yield "| command | what it does |"
    yield "|---|---|"
    for name, command in group.commands.items():
        yield f"| [`{name}`](#{name}) | {_cell(inspect.cleandoc(command.help).split(chr(10) * 2)[0])} |"
    yield ""
    yield from _options(group, group.make_context("dpearl", ["--version"], resilient_parsing=True))


def _section(group: Any, name: str) -> Iterator[str]:
    command = group.commands[name]
    context = command.make_context(f"dpearl {name}", [], resilient_parsing=True)
    yield from (f"## {name}", "", inspect.cleandoc(command.help), "")
    yield from ("```text", f"dpearl {name} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    yield from _options(command, context)
    if command.epilog:
        yield from ("```text", inspect.cleandoc(command.epilog), "```", "")


def _options(command: Any, context: Any) -> Iterator[str]:
    """What a command takes, arguments first, each in the words of its help."""
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
