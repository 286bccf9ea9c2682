"""Conditions in the schema's own words: what a column can be is found, what it can never be is refused with help."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpearl.codec import Codec
from dpearl.condition import conditions, parse_where
from dpearl.errors import UsageError
from dpearl.schema import parse_schema

SCHEMA = parse_schema(
    {
        "label": "colour",
        "columns": {
            "colour": {"kind": "category", "levels": ["red", "green", "blue"]},
            "grade": {"kind": "category", "levels": [1, 2, 3], "missing": True},
            "smokes": {"kind": "category", "levels": [True, False]},
            "city": {"kind": "category", "levels": ["Berlin", "Paris"], "other": "elsewhere"},
            "many": {"kind": "category", "levels": [f"level{place}" for place in range(40)]},
            "age": {"kind": "number", "lower": 0, "upper": 120, "step": 1},
            "size": {"kind": "number", "lower": 0.1, "upper": 2.5, "missing": True},
            "wealth": {"kind": "number", "lower": 1, "upper": 1000, "log": True, "spikes": [0, -1]},
            "born": {"kind": "datetime", "lower": "2000-01-01", "upper": "2020-12-31", "step": "1d"},
            "seen": {
                "kind": "datetime",
                "lower": "2024-01-01T00:00+00:00",
                "upper": "2024-12-31T00:00+00:00",
                "step": "1h",
                "missing": True,
            },
            "member": {"kind": "boolean"},
            "ill": {"kind": "boolean", "missing": True},
            "face": {"kind": "image", "height": 2, "width": 2},
        },
    }
)
CODEC = Codec(SCHEMA)


def cell(name: str, value: Any) -> Any:
    """What rows that meet the condition hold there."""
    (found,) = conditions(SCHEMA, {name: value})
    assert found.name == name
    return CODEC.columns[name].decode(np.array([found.code]))[0].as_py()


UTC = timezone.utc
TOKYO = timezone(timedelta(hours=9))
MET: list[tuple[str, Any, Any]] = [
    ("colour", "green", "green"),
    ("colour", " green ", "green"),
    ("grade", 2, 2),
    ("grade", "2", 2),
    ("grade", 2.0, 2),
    ("grade", np.int64(2), 2),
    ("grade", None, None),
    ("grade", "", None),
    ("smokes", True, True),
    ("smokes", "false", False),
    ("city", "Paris", "Paris"),
    ("city", "elsewhere", "elsewhere"),
    ("age", 0, 0),
    ("age", 120, 120),
    ("age", "42", 42),
    ("age", 42.0, 42),
    ("size", 2.5, 2.5),
    ("size", None, None),
    ("wealth", 0, 0.0),
    ("wealth", "-1", -1.0),
    ("wealth", 1000, 1000.0),
    ("born", "2000-01-01", datetime(2000, 1, 1)),
    ("born", date(2020, 12, 31), datetime(2020, 12, 31)),
    ("born", datetime(2010, 5, 6), datetime(2010, 5, 6)),
    ("born", pd.Timestamp(2010, 5, 6), datetime(2010, 5, 6)),
    ("seen", "2024-05-06T07:00+00:00", datetime(2024, 5, 6, 7, tzinfo=UTC)),
    ("seen", datetime(2024, 5, 6, 16, tzinfo=TOKYO), datetime(2024, 5, 6, 7, tzinfo=UTC)),
    ("seen", "", None),
    ("member", True, True),
    ("member", False, False),
    ("member", "yes", True),
    ("member", "0", False),
    ("ill", None, None),
]


@pytest.mark.parametrize(("name", "value", "held"), MET, ids=lambda value: repr(value))
def test_a_value_that_can_be_is_found(name: str, value: Any, held: Any) -> None:
    assert cell(name, value) == held
    assert type(cell(name, value)) is type(held)


REFUSED: list[tuple[str, Any, str]] = [
    ("colours", "red", "there is no column 'colours'; did you mean 'colour'?"),
    ("xyz", "red", "there is no column 'xyz'$"),
    ("colour", "gren", "'colour' is never 'gren'; its levels are red, green, blue; did you mean 'green'?"),
    ("colour", "purple-ish", "its levels are red, green, blue$"),
    ("colour", "GREEN", "never 'GREEN'"),
    ("colour", None, "'colour' is never ''"),
    ("colour", "NA", "'colour' is never 'NA'"),
    ("grade", 4, "'grade' is never '4'; its levels are 1, 2, 3"),
    ("grade", 1.5, "never '1.5'"),
    ("smokes", "maybe", "its levels are true, false"),
    ("city", "London", "'city' is never 'London'; its levels are Berlin, Paris, elsewhere"),
    ("city", "Pari", "did you mean 'Paris'?"),
    ("many", "level99", "level11, ...; did you mean 'level9'?"),
    ("age", -1, "'age' is never '-1'; it lies between 0 and 120"),
    ("age", 121, "it lies between 0 and 120"),
    ("age", "inf", "it lies between"),
    ("age", "old", "'age' is never 'old'"),
    ("age", None, "'age' is never ''"),
    ("age", float("nan"), "never 'nan'"),
    ("size", "NA", "'size' is never 'NA'"),
    ("size", 0.05, "it lies between 0.1 and 2.5"),
    ("wealth", -2, "'wealth' is never '-2'"),
    ("wealth", 0.5, "'wealth' is never '0.5'"),
    ("born", "1999-12-31", "'born' is never '1999-12-31'; it lies between 2000-01-01 00:00:00 and 2020-12-31"),
    ("born", "2021-01-01", "it lies between"),
    ("born", "yesterday", "never 'yesterday'"),
    ("born", "", "never ''"),
    ("seen", "2024-12-31T00:00-01:00", "it lies between"),
    ("member", "perhaps", "'member' is never 'perhaps'; it is true or false"),
    ("member", None, "it is true or false"),
    ("ill", "perhaps", "'ill' is never 'perhaps'; it is true or false"),
    ("face", "0000", "'face' is an image"),
    ("face", None, "'face' is an image"),
]


@pytest.mark.parametrize(("name", "value", "told"), REFUSED, ids=lambda value: repr(value)[:40])
def test_a_value_that_can_never_be_is_refused_with_what_could_be_meant(name: str, value: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told.replace("?", r"\?").replace("...", r"\.\.\.")) as refused:
        conditions(SCHEMA, {name: value})
    assert str(refused.value).startswith("where: ")
    assert "\n" not in str(refused.value)


def test_a_long_list_of_levels_is_cut_short() -> None:
    with pytest.raises(UsageError) as refused:
        conditions(SCHEMA, {"many": "none"})
    assert "level11, ..." in str(refused.value)
    assert "level12" not in str(refused.value)


def test_other_comes_by_its_own_name_alone() -> None:
    """Any undeclared text is coded as other, so without this rule a misspelt level would quietly ask for it."""
    named = cell("city", "elsewhere")
    for text in ("London", "other", "Elsewhere", "other city"):
        with pytest.raises(UsageError, match="'city' is never"):
            conditions(SCHEMA, {"city": text})
    assert named == "elsewhere"
    for text in ("other", "rest"):
        with pytest.raises(UsageError, match="'colour' is never"):
            conditions(SCHEMA, {"colour": text})


def test_a_number_between_two_steps_is_never_there() -> None:
    """Rows would come back with another value than was asked for."""
    with pytest.raises(UsageError, match=r"'age' is never '41\.5'"):
        conditions(SCHEMA, {"age": 41.5})


def test_other_may_be_called_by_a_word_for_missing() -> None:
    declared = parse_schema({"columns": {"x": {"kind": "category", "levels": ["a", "b"], "other": "NA"}}})
    (found,) = conditions(declared, {"x": "NA"})
    assert Codec(declared).columns["x"].decode(np.array([found.code])).to_pylist() == ["NA"]


def test_a_condition_holds_for_just_the_rows_that_have_the_value() -> None:
    rows = pa.table({"grade": pa.array([1, 2, None, 2], pa.int8())})
    codes = {"grade": CODEC.columns["grade"].encode(rows["grade"].combine_chunks())}
    for value, held in ((2, [False, True, False, True]), (None, [False, False, True, False]), (3, [False] * 4)):
        (found,) = conditions(SCHEMA, {"grade": value})
        assert found.holds(codes).tolist() == held


def test_several_conditions_keep_their_order_and_none_is_no_condition() -> None:
    assert [str(found) for found in conditions(SCHEMA, {"age": 3, "colour": "red"})] == ["age=3", "colour=red"]
    assert conditions(SCHEMA, {}) == []


def test_the_command_line_names_column_and_value() -> None:
    assert parse_where([]) == {}
    assert parse_where(["age=3", "colour=red"]) == {"age": "3", "colour": "red"}
    assert parse_where(["a=b=c", "d="]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["age"], "--where 'age': write column=value"),
        ([""], "--where '': write column=value"),
        (["age=3", "age=4"], "--where: 'age' is given twice; a row has one value in a column"),
        (["age=3", "age=3"], "given twice"),
    ],
)
def test_what_is_no_condition_is_refused(texts: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_where(texts)
