"""The one command line: what its verbs are, each loaded when it is called, so that help and completion take no time."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from dpearl.cli.say import HELP, examples

VERBS = {
    "synth": ("whole_way", "Go from sensitive rows to synthetic ones in one go."),
    "demo": ("whole_way", "Run the whole way on the carried Adult data."),
    "schema": ("owner_side", "Draft a schema: names and kinds."),
    "plan": ("owner_side", "Tell what a budget buys, without data."),
    "release": ("owner_side", "Sanitize sensitive rows, once."),
    "inspect": ("public_side", "Print the privacy statement of a release or model."),
    "sign": ("signatures", "Sign a release or model, or make the keys for it."),
    "verify": ("signatures", "Check a release or model without data, and who signed it."),
    "train": ("public_side", "Train a generator on a release."),
    "sample": ("public_side", "Draw synthetic rows from a model, at no privacy cost."),
    "report": ("judges", "Write the public report of a model, made without real rows."),
    "evaluate": ("judges", "Compare synthetic rows with real ones, for the owner: PRIVATE."),
    "ledger": ("owner_side", "Show what has been spent; with --epsilon, set the total."),
    "embed": ("sums_side", "Write the PRIVATE partial sum of a shard or site."),
    "merge": ("sums_side", "Add partial sums, or a site's shares, and remove the parts."),
    "study": ("sums_side", "Write what sites agree on before they share their sums."),
    "audit": ("judges", "Test the mechanism that is installed, statistically."),
}
"""Each verb, in the order of a day's work: where it lives, and its help in one line."""

_app = typer.Typer(name="dpearl", rich_markup_mode=None, pretty_exceptions_enable=False)


@_app.callback(
    invoke_without_command=True,
    context_settings=HELP,
    epilog=examples(
        "dpearl schema people.csv -o schema.toml",
        "dpearl synth people.csv --schema schema.toml --epsilon 1 -n 1000 -o synthetic.csv",
        "dpearl release --help",
    ),
)
def root(
    context: typer.Context, show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Differentially private data synthesis by private embeddings.

    Results go to stdout, and --json gives them as JSON; progress and remarks go to stderr, and --quiet leaves them out.
    """
    if show_version:
        from importlib.metadata import version

        print(f"dpearl {version('dpearl')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


class Verb(TyperCommand):
    """A command by its name and one line of help, until it is called."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=VERBS[name][1], callback=None, params=[])

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """From here on the command itself takes over."""
        return loaded(str(self.name)).make_context(info_name, args, parent, **extra)


def loaded(name: str) -> TyperCommand:
    """A command with all of its options."""
    group = get_command(import_module(f"dpearl.cli.{VERBS[name][0]}").app)
    assert isinstance(group, TyperGroup)
    command = group.commands[name]
    assert isinstance(command, TyperCommand)
    return command


def program() -> TyperGroup:
    """The program, ready to be called."""
    group = get_command(_app)
    assert isinstance(group, TyperGroup)
    group.commands = {name: Verb(name) for name in VERBS}
    return group
