"""What users rely on is written down in public_names.txt: names, signatures, commands and options. A change there is a decision.

After a change that is meant: `python tests/test_public_names.py > tests/public_names.txt`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

import dpearl
from dpearl import cli

PINNED = Path(__file__).parent / "public_names.txt"


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of a class that are its own, or of a class of ours above it."""
    seen = set()
    for own in kind.__mro__:
        if own.__module__.startswith("dpearl"):
            for name, value in vars(own).items():
                plain = getattr(value, "__func__", value)
                if not name.startswith(("_", "model_")) and name not in seen and _acts(plain):
                    seen.add(name)
                    yield name, plain


def _acts(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, (property, cached_property))


def exported() -> Iterator[tuple[str, Any]]:
    """Public names in order, those of public modules after their module."""
    for name in sorted(dpearl.__all__, key=str.casefold):
        value = getattr(dpearl, name)
        yield name, value
        if isinstance(value, ModuleType):
            for own, inner in vars(value).items():
                if inspect.isfunction(inner) and inner.__module__ == value.__name__ and not own.startswith("_"):
                    yield f"{name}.{own}", inner


class Plain:
    """An annotation as it is written."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def __repr__(self) -> str:
        return str(self.text)


def signature(value: Any) -> str:
    if isinstance(value, type) and issubclass(value, Enum):
        return f": {', '.join(value)}"
    if isinstance(value, type) and issubclass(value, BaseModel):
        return f"({', '.join(value.model_fields)})"
    found = inspect.signature(value)
    known = [
        one if one.annotation is one.empty else one.replace(annotation=Plain(one.annotation)) for one in found.parameters.values()
    ]
    back = found.return_annotation
    return str(found.replace(parameters=known, return_annotation=back if back is found.empty else Plain(back)))


def described() -> Iterator[str]:
    for name, value in exported():
        if isinstance(value, ModuleType) or not callable(value):
            yield f"{name}: {'module' if isinstance(value, ModuleType) else type(value).__name__}"
            continue
        protocol = getattr(value, "_is_protocol", False)
        yield name if protocol else f"{name}{signature(value)}"
        if isinstance(value, type):
            for own, member in sorted(members(value)):
                yield f"    .{own}{signature(member) if inspect.isfunction(member) else ''}"
    for name in cli.VERBS:
        yield f"dpearl {name}"
        for parameter in cli.loaded(name).params:
            needed = "" if not parameter.required else ", required"
            yield f"    {', '.join(parameter.opts) if parameter.param_type_name == 'option' else parameter.metavar}{needed}"


def test_public_names_and_commands_are_as_written_down() -> None:
    found = list(described())
    changed = set(found) ^ set(PINNED.read_text(encoding="utf-8").splitlines())
    assert found == PINNED.read_text(encoding="utf-8").splitlines(), f"changed: {sorted(changed)}; see the top of this file"


def test_every_public_name_and_its_members_have_a_docstring() -> None:
    for name, value in exported():
        if isinstance(value, ModuleType) or callable(value):
            assert (value.__doc__ or "").strip(), name
            assert not value.__doc__.startswith(f"{name}("), f"{name}: a signature is no docstring"
        if isinstance(value, type):
            for own, member in members(value):
                assert (member.__doc__ or "").strip(), f"{name}.{own}"


def test_every_command_argument_and_option_has_help() -> None:
    for name in cli.VERBS:
        command = cli.loaded(name)
        assert (command.help or "").strip(), name
        for parameter in command.params:
            assert (getattr(parameter, "help", "") or "").strip(), f"{name} {parameter.name}"
    for parameter in cli.program().params:
        assert (getattr(parameter, "help", "") or "").strip(), parameter.name


if __name__ == "__main__":
    print("\n".join(described()))
