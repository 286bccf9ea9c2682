"""Worst-case neighbours: two tables as far apart as one person can make them, for every block under every relation it serves.

They are small, so that an attacker can learn the noise of every coordinate; and what the person brings is as large as anybody
can bring, or larger: values beyond all bounds, more rows than are allowed, a picture brighter than the length at which it is cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpearl.codec import Codec
from dpearl.design import Design, asking
from dpearl.embed import Embedding, embed
from dpearl.embeddings.characteristic import draw_characteristic
from dpearl.embeddings.count import Count
from dpearl.embeddings.marginals import public_pairs, singles
from dpearl.embeddings.mixtures import Mixture, mixtures
from dpearl.embeddings.moments import picture_moments
from dpearl.embeddings.octaves import octaves, stretches
from dpearl.embeddings.pictures import wave_frequencies
from dpearl.embeddings.spread import pairwise_distance, spread
from dpearl.engines.local import Local
from dpearl.privacy import Relation, Unit
from dpearl.read import open_sources
from dpearl.schema import Schema, parse_declaration, parse_schema

Row = tuple[Any, ...]
"""The cells of a row, in the schema's order of columns."""

_FLAG = {"kind": "boolean"}
_LINE = {"kind": "number", "lower": 0, "upper": 1}
COUNTED = parse_schema({"label": "y", "columns": {"x": {**_LINE, "step": 1}, "y": _FLAG}})
_SCHEMA = parse_schema({"label": "y", "columns": {"x": _LINE, "y": _FLAG}})
_PAIRED = parse_schema({"columns": {"x": {**_LINE, "step": 1}, "y": _FLAG}})
_PERSONS = parse_schema({"person": "who", "rows_per_person": 3, "label": "y", "columns": {"x": {**_LINE, "step": 1}, "y": _FLAG}})
_PICTURES = parse_schema({"columns": {"x": {"kind": "image", "height": 1, "width": 4}}})

ABSENT, REPLACED, SEVERAL = Unit(Relation.ADD_REMOVE), Unit(Relation.REPLACE_ONE), Unit(Relation.ADD_REMOVE, 3)


@dataclass(frozen=True)
class Case:
    """A design, who is protected, the rows of all others and the person's; how many are `brought`, if more than count."""

    design: Design
    unit: Unit
    others: tuple[Row, ...]
    person: Row
    instead: Row | None = None
    note: str = ""
    brought: int | None = None

    @property
    def integers(self) -> int:
        """How many of them a release holds."""
        return sum(math.prod(block.shape) for block in self.design.blocks)

    @property
    def tables(self) -> tuple[Embedding, Embedding]:
        """The table with the other row, or none, in the person's place; and the table with the person."""
        return self._embedded(self.instead), self._embedded(self.person)

    def _embedded(self, row: Row | None) -> Embedding:
        rows = table(self.design.schema, self.others, [row] * (self.brought or self.unit.rows_per_person) if row else [])
        return embed(open_sources(rows), self.design, Local(threads=1))


def table(schema: Schema, others: tuple[Row, ...], own: list[Row]) -> pa.Table:
    """A table of others, each a person of their own, and of one person's rows."""
    columns = map(_column, zip(*others, *own, strict=True))
    who = {schema.person: [*map(str, range(len(others))), *["somebody"] * len(own)]} if schema.person else {}
    return pa.table({**dict(zip(schema.columns, columns, strict=True)), **who})


def _column(cells: Row) -> pa.Array:
    """Pictures are stored as so many bytes."""
    return pa.array(cells, pa.binary(len(cells[0])) if isinstance(cells[0], bytes) else None)


OTHERS: tuple[Row, ...] = ((0.25, True), (0.5, False), (0.75, True))


def cases() -> list[Case]:
    """Every block under every relation it serves."""
    codec = Codec(_SCHEMA)
    frequencies, modes = _frequencies(), _modes()
    apart = Design(_SCHEMA, (Count(codec.classes, 1.0), spread(codec, 1.0)))
    distance = Design(_SCHEMA, (pairwise_distance(codec, 1.0),))
    return [
        Case(frequencies, ABSENT, OTHERS, (0.0, True)),
        Case(frequencies, REPLACED, OTHERS, (0.0, True), (1.0, True)),
        Case(frequencies, REPLACED, OTHERS, (0.0, True), (1.0, False), ", class changed"),
        Case(frequencies, SEVERAL, OTHERS, (0.0, True)),
        Case(apart, ABSENT, OTHERS, (1.0, True), note=", scale"),
        Case(distance, REPLACED, ((1.0, True),), (1.0, True), (None, True), ", scale"),
        Case(marginals(COUNTED), ABSENT, OTHERS, (0.0, True), note=", marginals"),
        Case(marginals(COUNTED), REPLACED, OTHERS, (0.0, True), (1.0, False), ", marginals"),
        Case(marginals(_PAIRED), ABSENT, OTHERS, (0.0, True), note=", pairs"),
        Case(marginals(_PERSONS), SEVERAL, OTHERS, (0.0, True), note=", persons", brought=10),
        Case(asking(_SCHEMA, stretches, columns=["x"], line=4), ABSENT, OTHERS, (1e300, True), note=", ranges"),
        Case(asking(_SCHEMA, stretches, columns=["x"], line=4), REPLACED, OTHERS, (1e300, True), (-1e300, True), ", ranges"),
        Case(_octaves(), ABSENT, OTHERS, (-1e300, True), note=", octaves"),
        Case(modes, ABSENT, OTHERS, (0.5, True), note=", modes"),
        Case(modes, SEVERAL, OTHERS, (0.5, True), note=", modes"),
        Case(modes, REPLACED, OTHERS, (0.5, True), (0.97, True), ", modes"),
        Case(_pictures(), ABSENT, ((b"\x00\x40\x80\xc0",),), (b"\xff\xff\xff\xff",), note=", pictures"),
    ]


def _frequencies() -> Design:
    """Count and frequencies weigh the same, so that an error in either shows; half a turn apart at x = 0 and 1."""
    codec = Codec(_SCHEMA)
    frequencies = draw_characteristic(codec, 2, 1.0, 0, 1.0)
    half_turn = np.full_like(frequencies.lines, 2**31 // int(codec.tops[0]) + 1)
    return Design(_SCHEMA, (Count(codec.classes, 1.0), replace(frequencies, lines=half_turn)))


def marginals(schema: Schema) -> Design:
    """Single columns, columns by class and pairs, on so few cells that an attacker can learn the noise of each."""
    codec = Codec(schema)
    return Design(schema, (Count(codec.classes, 1.0), singles(codec, 1.0), public_pairs(codec, 1.0)))


def _octaves() -> Design:
    """The grid of all numbers, at whose end an extreme value lies."""
    return asking(parse_declaration({"columns": {"x": {"kind": "number", "bounds": "estimate"}, "y": _FLAG}}), octaves)


def _modes() -> Design:
    """Two modes, narrow and far apart: a row at the end of a mode's frame belongs to it alone, and adds all that it can."""
    return asking(_SCHEMA, mixtures, found={"x": Mixture(np.array([[0.2, 1.0], [0.1, 0.01], [0.5, 0.5]]))})


def _pictures() -> Design:
    """What `auto` measures of pictures, on the smallest of them and with two frequencies."""
    codec = Codec(_PICTURES)
    views = (picture_moments(codec, family, 1.0) for family in ("moments", "edges"))
    return Design(_PICTURES, (Count(codec.classes, 1.0), *views, wave_frequencies(codec, 2, 0, 1.0)))
