"""What an owner may declare, how it is written back, and how a mistake is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpearl.canonical import canonical
from dpearl.errors import SchemaError
from dpearl.schema import Column, Datetime, Number, Schema, load_schema, parse_schema
from strategies import COLUMNS


def declare(column: dict[str, Any], **top: Any) -> Schema:
    return parse_schema({"columns": {"x": column, "flag": {"kind": "boolean"}}, **top})


def complaint(column: dict[str, Any], **top: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        declare(column, **top)
    return str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), COLUMNS, min_size=2, max_size=5), st.data())
def test_a_schema_survives_the_way_to_json_and_back(columns: dict[str, Column], data: st.DataObject) -> None:
    labels = [name for name, column in columns.items() if column.kind != "image"]
    label = data.draw(st.none() | st.sampled_from(labels)) if labels else None
    person = data.draw(st.none() | st.text(min_size=1).filter(lambda name: name not in columns))
    schema = Schema(columns=columns, label=label, person=person, rows_per_person=data.draw(st.integers(1, 99)))
    again = Schema.from_dict(json.loads(canonical(schema.to_dict())))
    assert again == schema
    assert list(again.columns) == list(schema.columns)


@pytest.mark.parametrize(
    ("column", "points"),
    [
        ({"lower": 0, "upper": 1, "step": 0.1}, 11),
        ({"lower": 0.1, "upper": 0.7, "step": 0.2}, 4),
        ({"lower": -1, "upper": 1, "step": 0.3}, 7),
        ({"lower": 17, "upper": 90, "step": 1}, 74),
        ({"lower": 0, "upper": 1}, 2**16),
        ({"lower": 0, "upper": 2**48 - 1, "step": 1}, 2**48),
    ],
)
def test_grid_points_are_counted_in_decimals(column: dict[str, Any], points: int) -> None:
    assert Number(**column).points == points


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"kind": "number", "lower": 1, "upper": 1}, "lower must be less"),
        ({"kind": "number", "lower": 2, "upper": 1}, "lower must be less"),
        ({"kind": "number", "lower": float("nan"), "upper": 1}, "finite"),
        ({"kind": "number", "lower": 0, "upper": float("inf")}, "finite"),
        ({"kind": "number", "lower": -1.7e308, "upper": 1.7e308}, "too large"),
        ({"kind": "number", "lower": 0, "upper": 1, "step": 0}, "step must be positive"),
        ({"kind": "number", "lower": 0, "upper": 1, "step": -1}, "step must be positive"),
        ({"kind": "number", "lower": 0, "upper": 1, "step": 2}, "at least 2"),
        ({"kind": "number", "lower": 0, "upper": 2**48, "step": 1}, "at most 2^48"),
        ({"kind": "number", "lower": 1e15, "upper": 1e15 + 8, "step": 1}, "too fine"),
        ({"kind": "number", "lower": 1e15, "upper": 1e15 + 8}, "too fine"),
        ({"kind": "number", "lower": 0, "upper": 1, "log": True}, "spikes = [0]"),
        ({"kind": "number", "lower": 1e-300, "upper": 1e300, "log": True}, "1e300"),
        ({"kind": "number", "lower": 0, "upper": 1, "spikes": [3, 3.0]}, "same value twice"),
        ({"kind": "number", "lower": 0, "upper": 1, "spikes": ["a"]}, "x.spikes"),
        ({"kind": "number", "lower": 0, "upper": 1, "levels": []}, "not a known key"),
        ({"kind": "category", "levels": ["a", " a"]}, "'a' twice"),
        ({"kind": "category", "levels": [0, "0"]}, "'0' twice"),
        ({"kind": "category", "levels": [1, 1.0]}, "'1' twice"),
        ({"kind": "category", "levels": ["true", True]}, "'true' twice"),
        ({"kind": "category", "levels": ["a", " "]}, "missing = true"),
        ({"kind": "category", "levels": [0.5, float("nan")]}, "not finite"),
        ({"kind": "category", "levels": ["a", ["b"]]}, "text, numbers or booleans"),
        ({"kind": "category", "levels": ["a", "b"], "other": "b"}, "also a level"),
        ({"kind": "category", "levels": ["a", "b"], "other": ""}, "must not be empty"),
        ({"kind": "datetime", "lower": "2021-01-01", "upper": "2020-01-01"}, "earlier"),
        ({"kind": "datetime", "lower": "soon", "upper": "2020-01-01"}, "such as 2020-01-31"),
        ({"kind": "datetime", "lower": 2019, "upper": 2020}, "such as 2020-01-31"),
        ({"kind": "datetime", "lower": "2020-01-01", "upper": "2020-01-02", "step": "1 week"}, "a number and a unit"),
        ({"kind": "datetime", "lower": "2020-01-01", "upper": "2020-01-02", "step": "0s"}, "a number and a unit"),
        ({"kind": "datetime", "lower": "2020-01-01", "upper": "2020-01-02", "step": "3d"}, "larger than the range"),
        ({"kind": "image", "height": 0, "width": 1}, "x.height"),
        ({"kind": "image", "height": 1, "width": 1, "channels": 2}, "x.channels"),
        ({"kind": "image", "height": 100, "width": 100}, "scale images down"),
        ({"kind": "text"}, "unknown kind"),
        ({}, "needs a kind"),
        ({"kind": "number", "upper": 1}, "x.lower"),
        ({"kind": "category", "levels": []}, "fill in what is blank"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused_with_its_reason(column: dict[str, Any], reason: str) -> None:
    assert reason in complaint(column)


@pytest.mark.parametrize(
    ("top", "reason"),
    [
        ({"label": "y"}, "label: 'y' is not a declared column"),
        ({"person": "x"}, "person: 'x' must not be a declared column"),
        ({"rows_per_person": 0}, "rows_per_person"),
        ({"rows_per_person": 1.5}, "rows_per_person"),
        ({"rows_per_person": True}, "rows_per_person"),
        ({"colour": "red"}, "colour: is not a known key"),
        ({"columns": {}}, "no column is declared"),
        ({"columns": {"x": {"kind": "boolean"}}, "label": "x"}, "the label is the only column"),
        ({"columns": {"x": {"kind": "image", "height": 2, "width": 2}}, "label": "x"}, "an image cannot be the label"),
        ({"columns": 3}, "columns"),
        ({"columns": {"x": 3}}, "x"),
    ],
)
def test_label_person_and_columns_are_checked_together(top: dict[str, Any], reason: str) -> None:
    assert reason in complaint({"kind": "boolean"}, **top)


def test_an_offset_at_the_edge_of_time_is_no_crash() -> None:
    column = {"kind": "datetime", "lower": "0001-01-01T00:00:00+05:00", "upper": "9999-12-31T23:59:59-05:00", "step": "1d"}
    assert declare(column).columns["x"].kind == "datetime"


def test_dates_and_moments_are_read_as_toml_spells_them(tmp_path: Path) -> None:
    spellings = ["2020-01-01", "2020-01-01T00:00:00", '"2020-01-01"', "2020-01-01T00:00:00Z", "2020-01-01T02:00:00+02:00"]
    for place, lower in enumerate(spellings):
        file = tmp_path / f"{place}.toml"
        upper = "2020-01-03T00:00:00Z" if lower[-1] == "Z" or "+" in lower else "2020-01-03"
        file.write_text(f'[columns.at]\nkind = "datetime"\nlower = {lower}\nupper = {upper}\nstep = "12h"\n')
        column = load_schema(file).columns["at"]
        assert isinstance(column, Datetime)
        assert (column.span[0], column.points) == (1577836800 * 10**6, 5)


@pytest.mark.parametrize("name", ["age", "image", "category", "größe in cm", "a.b", 'say "hi"', "年齢", "a\u2028b", "x]y"])
@pytest.mark.parametrize("gap", [0, 3])
def test_an_error_names_column_key_and_line(tmp_path: Path, name: str, gap: int) -> None:
    lines = ['label = "other"', *["# a\u2028b"] * gap, f"[columns.{json.dumps(name, ensure_ascii=False)}]  # [x]"]
    lines += ['kind = "number"', "lower = 0", 'upper = "many"', "[columns.other]", 'kind = "boolean"', "upper = 3"]
    file = tmp_path / "schema.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        load_schema(file)
    assert str(caught.value).startswith(f"{file}: {name}.upper (line {5 + gap}): ")


def test_an_error_about_the_whole_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text('# a schema\nlabel = "y"\n[columns.x]\nkind = "boolean"\n')
    with pytest.raises(SchemaError, match=r"schema\.toml: label \(line 2\): 'y' is not a declared column"):
        load_schema(file)


def test_contradicting_bounds_are_found_at_their_table(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text('[columns.y]\nkind = "boolean"\n[columns.x]\nkind = "number"\nlower = 3\nupper = 2\n')
    with pytest.raises(SchemaError, match=r"x \(line 3\): lower must be less than upper"):
        load_schema(file)


def test_all_blanks_of_a_draft_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text('[columns.x]\nkind = "number"\nlower = ""\nupper = ""\n[columns.y]\nkind = "category"\nlevels = []\n')
    with pytest.raises(SchemaError, match=r"x\.lower \(line 3\), x\.upper \(line 4\), y\.levels \(line 7\)"):
        load_schema(file)


@pytest.mark.parametrize("content", [b"", b"not toml", b"\xff\xfe", b"columns = 3", b"[columns]\nx = 3"])
def test_a_file_that_is_no_schema_is_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "schema.toml"
    file.write_bytes(content)
    with pytest.raises(SchemaError) as caught:
        load_schema(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
