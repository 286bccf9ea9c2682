"""A first schema for the owner to complete: names and kinds, never a bound or a level. And a complete one, written down."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dpearl.cells import is_number, is_text
from dpearl.letters import acts
from dpearl.read import Source
from dpearl.schema import Schema

_HEAD = """\
# dpearl schema, drafted from column names and types (of a CSV: from what its first cells look like; check the kinds).
# Fill in every blank before `dpearl release`.
#
# WHY THE BLANKS: this file becomes public with the release. A bound or a level copied from the
# data tells about the people in it (the oldest person's age, the one rare diagnosis) and no noise
# covers it. Take bounds and levels from what is known without looking: questionnaires, code
# lists, laws of nature. Values outside are moved to the bound; undeclared levels become `other`.
# What nobody knows can be asked of the rows, under the budget: bounds = "estimate" in place of lower
# and upper (one of them may stay), levels = "estimate". `dpearl plan` tells what each answer costs.
#
# Remove columns that should not be read. Ids must not be declared; to protect persons with
# several rows, name their id column as `person` and set `rows_per_person`.

# label = "COLUMN"          # the class to condition on, if there is one
# person = "COLUMN"         # column that identifies a person; never embedded
# rows_per_person = 1
"""

_BODIES = {
    "number": 'lower = ""              # smallest possible value\nupper = ""              # largest possible value\n'
    "# spikes = [0]           # values with a mass of their own\n# log = true             # spread over orders of magnitude\n",
    "datetime": 'lower = ""              # earliest possible moment, such as 2020-01-01\n'
    'upper = ""              # latest possible moment\nstep = "1s"             # resolution: us, ms, s, min, h or d\n',
    "category": 'levels = []             # all possible values, such as ["yes", "no"]\n',
    "boolean": "",
}


_ASKED_HEAD = _HEAD.replace(
    "# Fill in every blank before", "# Bounds and levels are asked for. Replace what you know before"
).replace("WHY THE BLANKS", "WHY NOT READ THEM OFF")
_ASKED = {
    "number": 'bounds = "estimate"     # asked of the rows; or lower and upper, if they are known\n',
    "datetime": 'bounds = "estimate"     # asked of the rows; or lower and upper, if they are known\n'
    'step = "1s"             # resolution: us, ms, s, min, h or d\n',
    "category": 'levels = "estimate"     # asked of the rows: those that enough people share; or a list\n',
    "boolean": "",
}


def draft(sources: Sequence[Source], estimate: bool = False) -> str:
    """The text of a schema file with blanks, or with questions in their place."""
    types = sources[0].suggested
    tables = (f"\n[columns.{_key(name)}]\n{_body(storage, estimate)}" for name, storage in types.items())
    return (_ASKED_HEAD if estimate else _HEAD) + "".join(tables)


def written(schema: Schema) -> str:
    """The text of a schema file that declares what is known."""
    told = schema.to_dict()
    head = [f"{key} = {_value(told[key])}\n" for key in ("label", "person", "rows_per_person") if key in told]
    tables = [
        f"\n[columns.{_key(column['name'])}]\n"
        + "".join(
            f"{key} = {_value(value)}\n"
            for key, value in column.items()
            if key != "name" and (key == "levels" or (value is not False and value != []))
        )
        for column in told["columns"]
    ]
    return "".join(["# dpearl schema, as a release knows it.\n", *head, *tables])


def _value(value: Any) -> str:
    """A TOML value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(own)}" for key, own in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _body(storage: pa.DataType, estimate: bool) -> str:
    if isinstance(storage, pa.FixedShapeTensorType):
        height, width, channels = (*storage.shape, 1)[:3]
        return f'kind = "image"\nheight = {height}\nwidth = {width}\nchannels = {channels}\n'
    kind = _kind(storage)
    step = "step = 1                # resolution; remove for continuous\n" if pa.types.is_integer(storage) else ""
    missing = f"missing = {'true ' if estimate else 'false'}         # true if cells may be empty\n"
    bodies = _ASKED if estimate else _BODIES
    body = bodies[kind].replace('"1s"', '"1d"') if pa.types.is_date(storage) else bodies[kind]
    if estimate and is_text(storage):
        body += 'other = "other"         # what all other values come back as; leave it out, and they do not\n'
    return f'kind = "{kind}"\n{body}{step if kind == "number" else ""}{missing}'


def _kind(storage: pa.DataType) -> str:
    if pa.types.is_boolean(storage):
        return "boolean"
    if pa.types.is_timestamp(storage) or pa.types.is_date(storage):
        return "datetime"
    if is_number(storage) or pa.types.is_decimal(storage):
        return "number"
    return "category"


def _key(name: str) -> str:
    """A TOML key: bare where it may be, else quoted."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    """A TOML string in which no letter acts on who reads the file."""
    return "".join(f"\\U{ord(letter):08x}" if acts(letter) else letter for letter in json.dumps(text, ensure_ascii=False))
