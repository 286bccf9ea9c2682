"""A first schema for the owner to complete: names and kinds, never a bound or a level."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pyarrow as pa

from dpearl.cells import is_number
from dpearl.read import Source

_HEAD = """\
# dpearl schema, drafted from column names and types (of a CSV: from what its first cells look like; check the kinds).
# Fill in every blank before `dpearl release`.
#
# WHY THE BLANKS: this file becomes public with the release. A bound or a level copied from the
# data tells about the people in it (the oldest person's age, the one rare diagnosis) and no noise
# covers it. Take bounds and levels from what is known without looking: questionnaires, code
# lists, laws of nature. Values outside are moved to the bound; undeclared levels become `other`.
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


def draft(sources: Sequence[Source]) -> str:
    """The text of a schema file with blanks."""
    types = sources[0].suggested
    return _HEAD + "".join(f"\n[columns.{_key(name)}]\n{_body(storage)}" for name, storage in types.items())


def _body(storage: pa.DataType) -> str:
    if isinstance(storage, pa.FixedShapeTensorType):
        height, width, channels = (*storage.shape, 1)[:3]
        return f'kind = "image"\nheight = {height}\nwidth = {width}\nchannels = {channels}\n'
    kind = _kind(storage)
    step = "step = 1                # resolution; remove for continuous\n" if pa.types.is_integer(storage) else ""
    missing = "missing = false         # true if cells may be empty\n"
    body = _BODIES[kind].replace('"1s"', '"1d"') if pa.types.is_date(storage) else _BODIES[kind]
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
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False).replace("\x7f", r"\u007f")
