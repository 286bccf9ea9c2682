"""What the owner declares about the data, before anybody looks at it.

Names, kinds, bounds, levels, the label and who a person is. Nothing here is ever
computed from rows: a bound or a level copied from the data would leave the private
side outside the budget. What the owner does not know may be asked for (`bounds = "estimate"`):
a `Declaration` holds such questions, a `Schema` holds none. `questions` answers them under the budget.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    model_validator,
)

from dpearl.card import Card, Carded
from dpearl.errors import SchemaError, meant
from dpearl.privacy import MAX_ROWS

MAX_GRID = 2**48
"""Most grid points of a column: up to here float64 arithmetic finds a point's index without error."""

MAX_COORDINATES = 2**13
"""Most numbers and pixels in a row: 2^13 products of 40 bits still add up exactly in a float64."""

MAX_FILE = 2**26
"""Bytes of a schema file: a million levels fit."""

_UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_EPOCH = datetime(1970, 1, 1)
_EXACT = 2**53


def microseconds(moment: datetime) -> int:
    """Whole microseconds since 1970, UTC where the moment has a zone."""
    span = moment - (_EPOCH if moment.tzinfo is None else _EPOCH.replace(tzinfo=timezone.utc))
    return (span.days * 86400 + span.seconds) * 10**6 + span.microseconds


def _moment(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime):
        raise ValueError("must be a date or time such as 2020-01-31 or 2020-01-31T12:00:00")
    return value


WHOLE = r"^(-?[0-9]+)\.0+$"
"""A whole number spelt with a fraction, as programs write integers when one is missing: 7.0 is 7."""


def level_key(text: str) -> str:
    """What a level's text and a cell's are compared by."""
    return re.sub(WHOLE, r"\1", text.strip())


def level_text(value: Any) -> str:
    """The text by which a level and a cell are compared: 0, 0.0 and "0" are one level."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _whole(value: float) -> bool:
    return float(value).is_integer() and abs(value) < _EXACT


def _plain(value: float) -> float | int:
    """Whole numbers are written without a fraction, so that a schema reads as it was declared."""
    return int(value) if _whole(value) else value


def _digits(value: float) -> str:
    """A number for people."""
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:g}"


def _number(value: Any) -> Any:
    if isinstance(value, (str, bool)):
        raise ValueError("must be a number, such as 17")
    return value


Finite = Annotated[float, BeforeValidator(_number), AfterValidator(_finite), PlainSerializer(_plain)]
Moment = Annotated[datetime, BeforeValidator(_moment), PlainSerializer(lambda moment: moment.isoformat())]
Level = StrictStr | StrictBool | StrictInt | StrictFloat
Estimate = Literal["estimate"]

_NAMED = 60
"""Most levels that are named where a column is described."""

_SHORT = 80
"""Letters of it on a card."""

MAX_MODES = 12
"""Most modes of a number."""

MODE = "\0mode"
"""After a number's name: the feature that tells its mode."""


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mode(_Declared):
    """One of the Gaussians that a number's values come from."""

    mean: Finite
    spread: Annotated[Finite, Field(gt=0)]
    weight: Annotated[Finite, Field(gt=0)]


def _modes(value: Any) -> Any:
    asked = type(value) is int and 2 <= value <= MAX_MODES
    if not (value is None or value == "estimate" or asked or isinstance(value, (list, tuple))):
        raise ValueError(f'must be a number from 2 to {MAX_MODES}, or "estimate", or a list of modes')
    return value


Modes = Annotated[tuple[Mode, ...] | int | Estimate | None, BeforeValidator(_modes)]
"""Known modes, or how many to find, or that their number too is asked for."""


class Number(_Declared):
    """A number on a grid between two public bounds; `step` omitted means continuous (2^16 points)."""

    kind: Literal["number"] = "number"
    lower: Finite
    upper: Finite
    step: Finite | None = None
    log: StrictBool = False
    spikes: tuple[Finite, ...] = ()
    modes: Modes = None
    missing: StrictBool = False

    @model_validator(mode="after")
    def _consistent(self) -> Number:
        if self.lower >= self.upper:
            raise ValueError("lower must be less than upper")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError("the range between lower and upper is too large for a float")
        if self.log and self.lower <= 0:
            raise ValueError("log = true needs lower > 0; declare zero as a spike: spikes = [0]")
        if self.log and self.upper / self.lower > 1e300:
            raise ValueError("log = true needs upper / lower of at most 1e300")
        if self.step is not None and self.step <= 0:
            raise ValueError("step must be positive; omit it for a continuous number")
        if self.points < 2 or self.points > MAX_GRID:
            raise ValueError("step must divide the range into at least 2 and at most 2^48 points")
        if max(abs(self.lower), abs(self.upper)) > MAX_GRID * (self.step or (self.upper - self.lower) / self.points):
            raise ValueError("the grid is too fine for bounds of this size; use a larger step or a wider range")
        if len(set(self.spikes)) != len(self.spikes):
            raise ValueError("spikes holds the same value twice")
        if self.modes is not None and self.log:
            raise ValueError("modes lie on a plain line; leave out log = true, or modes")
        return self

    @property
    def points(self) -> int:
        """How many grid points lie between the bounds, both included."""
        if self.step is None:
            return 2**16
        span = Fraction(Decimal(repr(self.upper))) - Fraction(Decimal(repr(self.lower)))
        return int(span / Fraction(Decimal(repr(self.step)))) + 1

    @property
    def values(self) -> str:
        """What it may be, in words."""
        spikes = ", ".join(map(_digits, self.spikes))
        return "".join(
            (
                f"{_digits(self.lower)} to {_digits(self.upper)}",
                f", step {_digits(self.step)}" if self.step else ", continuous",
                ", logarithmic" if self.log else "",
                f", with a mass of its own at {spikes}" if spikes else "",
            )
        )

    @property
    def integral(self) -> bool:
        """Whether every value of the grid and every spike is a whole number."""
        return self.step is not None and all(map(_whole, (self.lower, math.floor(self.upper), self.step, *self.spikes)))


class Category(_Declared):
    """One of a list of levels; `other` names the level that takes undeclared cells."""

    kind: Literal["category"] = "category"
    levels: tuple[Level, ...]
    other: str | None = None
    missing: StrictBool = False

    @model_validator(mode="after")
    def _distinct(self) -> Category:
        texts = [level_key(text) for text in self.texts]
        if not texts and self.other is None:
            raise ValueError("levels must hold a value, or other a name")
        doubles = sorted({text for text in texts if texts.count(text) > 1}) if len(set(texts)) < len(texts) else []
        if doubles:
            raise ValueError(f"levels holds {doubles[0]!r} twice")
        if "" in texts:
            raise ValueError("an empty level cannot be told from a missing cell; use missing = true")
        if any(isinstance(level, float) and not math.isfinite(level) for level in self.levels):
            raise ValueError("levels holds a number that is not finite; use missing = true for NaN")
        if self.other is not None and not self.other.strip():
            raise ValueError("other must not be empty; give it a name, or leave it out")
        if self.other is not None and level_key(self.other) in texts:
            raise ValueError(f"other = {self.other!r} is also a level; give it a name of its own")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """The levels as cells spell them."""
        return tuple(level_text(level) for level in self.levels)

    @property
    def values(self) -> str:
        """What it may be, in words."""
        named = ", ".join(self.texts[:_NAMED])
        more = f" and {len(self.texts) - _NAMED:,} more" if len(self.texts) > _NAMED else ""
        return f"{named}{more}" + (f"; all others: {self.other}" if self.other is not None else "")


class Boolean(_Declared):
    """True or false."""

    kind: Literal["boolean"] = "boolean"
    missing: StrictBool = False
    values: ClassVar = "true, false"


class Datetime(_Declared):
    """A moment on a grid of `step` (1s, 15min, 1h, 1d, ...) between two public bounds."""

    kind: Literal["datetime"] = "datetime"
    lower: Moment
    upper: Moment
    step: str = "1s"
    missing: StrictBool = False

    @model_validator(mode="after")
    def _consistent(self) -> Datetime:
        if not re.fullmatch(r"[1-9]\d{0,8}(us|ms|s|min|h|d)", self.step):
            raise ValueError("step must be a number and a unit: us, ms, s, min, h or d, such as 15min")
        if (self.lower.tzinfo is None) != (self.upper.tzinfo is None):
            raise ValueError("give both bounds a time zone, or neither")
        if self.span[0] >= self.span[1]:
            raise ValueError("lower must be earlier than upper")
        if self.points < 2:
            raise ValueError("step is larger than the range")
        return self

    @property
    def values(self) -> str:
        """What it may be, in words."""
        return f"{self.lower.isoformat(' ')} to {self.upper.isoformat(' ')}, step {self.step}"

    @property
    def span(self) -> tuple[int, int]:
        """The bounds in microseconds since 1970."""
        return microseconds(self.lower), microseconds(self.upper)

    @property
    def step_us(self) -> int:
        """The step in microseconds."""
        digits = re.match(r"\d+", self.step)
        assert digits is not None
        return int(digits[0]) * _UNITS[self.step[digits.end() :]]

    @property
    def points(self) -> int:
        """How many grid points lie between the bounds, both included."""
        lower, upper = self.span
        return (upper - lower) // self.step_us + 1


def _fits(kind: type[_Declared], **declared: Any) -> None:
    """Refuse what the kind of column that an answer makes would refuse."""
    try:
        kind(**declared)
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


class AskedNumber(_Declared):
    """A number whose bounds, or the one that is not declared, are to be estimated."""

    kind: Literal["number"] = "number"
    values: ClassVar = "bounds to be estimated"
    bounds: Estimate
    lower: Finite | None = None
    upper: Finite | None = None
    step: Finite | None = None
    log: StrictBool = False
    spikes: tuple[Finite, ...] = ()
    modes: Modes = None
    missing: StrictBool = False

    @model_validator(mode="after")
    def _consistent(self) -> AskedNumber:
        if self.lower is not None and self.upper is not None:
            raise ValueError('bounds = "estimate" is for bounds that are not known; both are declared, so leave it out')
        if self.step is not None and not 2.0**-100 <= self.step <= 2.0**100:
            raise ValueError("step must be a positive number; omit it for a continuous number")
        if max(abs(self.lower or 0.0), abs(self.upper or 0.0)) > 2.0**48 * (self.step or 1.0):
            raise ValueError("a bound this large leaves no room for an estimate; declare both bounds")
        if self.log and any(end is not None and end < 1e-38 for end in (self.lower, self.upper)):
            raise ValueError("log = true needs bounds > 0, of at least 1e-38; declare zero as a spike: spikes = [0]")
        _fits(Number, lower=1, upper=3, log=self.log, spikes=self.spikes, modes=self.modes)
        return self


class AskedDatetime(_Declared):
    """A moment whose bounds are to be estimated."""

    kind: Literal["datetime"] = "datetime"
    values: ClassVar = "bounds to be estimated"
    bounds: Estimate
    step: str = "1s"
    missing: StrictBool = False

    @model_validator(mode="after")
    def _consistent(self) -> AskedDatetime:
        _fits(Datetime, lower=datetime(1, 1, 1), upper=datetime(9999, 12, 31), step=self.step)
        return self


class AskedCategory(_Declared):
    """A category whose levels are to be estimated: those that enough people share."""

    kind: Literal["category"] = "category"
    values: ClassVar = "levels to be estimated"
    levels: Estimate
    other: str | None = None
    missing: StrictBool = False

    @model_validator(mode="after")
    def _consistent(self) -> AskedCategory:
        _fits(Category, levels=(), other="other" if self.other is None else self.other)
        return self


class Image(_Declared):
    """An 8-bit picture of fixed size."""

    kind: Literal["image"] = "image"
    height: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)]
    channels: Literal[1, 3] = 1

    @property
    def values(self) -> str:
        """What it is, in words."""
        return f"{self.width} × {self.height} pixels, {'grey' if self.channels == 1 else 'colour'}"

    @property
    def pixels(self) -> int:
        """Values in one picture."""
        return self.height * self.width * self.channels


Column = Annotated[Number | Category | Boolean | Datetime | Image, Field(discriminator="kind")]
Asked = AskedNumber | AskedDatetime | AskedCategory
KINDS = ("number", "category", "boolean", "datetime", "image")


def _tag(column: Any) -> str | None:
    """Which kind of column a table of the file is, and whether it asks for bounds or levels."""
    if isinstance(column, BaseModel):
        return ("asked " if isinstance(column, Asked) else "") + str(getattr(column, "kind", ""))
    if not isinstance(column, Mapping) or "kind" not in column:
        return None
    kind = str(column["kind"])
    asks = isinstance(column.get("levels"), str) if kind == "category" else "bounds" in column and kind != "image"
    return f"asked {kind}" if asks else kind


AnyColumn = Annotated[
    Annotated[Number, Tag("number")]
    | Annotated[Category, Tag("category")]
    | Annotated[Boolean, Tag("boolean")]
    | Annotated[Datetime, Tag("datetime")]
    | Annotated[Image, Tag("image")]
    | Annotated[AskedNumber, Tag("asked number")]
    | Annotated[AskedDatetime, Tag("asked datetime")]
    | Annotated[AskedCategory, Tag("asked category")],
    Discriminator(_tag),
]


class Declaration(Carded, _Declared):
    """The columns that may be read, the label among them, and the unit of protection. It may hold questions."""

    label: str | None = None
    person: str | None = None
    rows_per_person: Annotated[int, Field(ge=1, le=MAX_ROWS, strict=True)] = 1
    columns: Mapping[str, AnyColumn]

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        if not self.columns:
            raise ValueError("columns: no column is declared; add a [columns.NAME] table for each")
        if any(name.endswith(MODE) for name in self.columns):
            raise ValueError("columns: a name ends as those of modes do; rename that column")
        if self.label is not None and self.label not in self.columns:
            raise ValueError(
                f"label: {self.label!r} is not a declared column; add [columns.{self.label}]{meant(self.label, self.columns)}"
            )
        if self.label is not None and self.columns[self.label].kind == "image":
            raise ValueError("label: an image cannot be the label")
        if self.person is not None and self.person in self.columns:
            raise ValueError(f"person: {self.person!r} must not be a declared column; ids are never embedded")
        if all(name == self.label for name in self.columns):
            raise ValueError("columns: the label is the only column; declare at least one more")
        if self._coordinates > MAX_COORDINATES:
            raise ValueError(f"columns: at most {MAX_COORDINATES} numbers and pixels fit in a row; scale images down")
        return self

    def __repr__(self) -> str:
        columns = "1 column" if len(self.columns) == 1 else f"{len(self.columns)} columns"
        label = f", label {self.label!r}" if self.label is not None else ""
        asked = f", {len(self.questions)} asked for" if self.questions else ""
        return f"{type(self).__name__}({columns}{label}{asked})"

    __str__ = __repr__

    def card(self) -> Card:
        """Every column: its kind, what it may be, whether cells may be missing."""
        lines = [
            (name, f"{column.kind}, the label" if name == self.label else column.kind, _told(column))
            for name, column in self.columns.items()
        ]
        rows = f", up to {self.rows_per_person} rows a person" if self.rows_per_person > 1 else ""
        return Card(f"{self!r}{rows}", lines)

    @property
    def _coordinates(self) -> int:
        return sum(column.pixels if isinstance(column, Image) else 1 for column in self.columns.values())

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain JSON values. Columns are a list: their order is that of the frequencies,
        and canonical JSON keeps the order of lists alone."""
        declared = self.model_dump(mode="json", exclude_none=True)
        return {**declared, "columns": [{"name": name, **column} for name, column in declared["columns"].items()]}

    def with_rows_per_person(self, rows: int) -> Self:
        """The same declaration with another bound on a person's rows."""
        if not 1 <= rows <= MAX_ROWS:
            raise SchemaError(f"rows per person must be at least 1, and at most {MAX_ROWS:,}")
        return self.model_copy(update={"rows_per_person": rows})

    @property
    def questions(self) -> list[str]:
        """What is asked for: `age.bounds`, `job.levels`, `wage.modes`."""
        asked = []
        for name, column in self.columns.items():
            if isinstance(column, Asked):
                asked.append(f"{name}.{'levels' if isinstance(column, AskedCategory) else 'bounds'}")
            if asks_modes(column):
                asked.append(f"{name}.modes")
        return asked

    def with_columns(self, columns: Mapping[str, Any]) -> Declaration:
        """The same declaration with some columns declared anew; a `Schema` once no question is left."""
        made = {**dict(self), "columns": {**self.columns, **columns}}
        declaration = Declaration(**made)
        return declaration if declaration.questions else Schema(**made)

    @property
    def reads(self) -> list[str]:
        """Names of all columns that are read, the person included; nothing else is ever touched."""
        return [*self.columns, *([self.person] if self.person else [])]


class Schema(Declaration):
    """A declaration without questions: all that follows is made from one."""

    columns: Mapping[str, Column]

    @model_validator(mode="after")
    def _answered(self) -> Schema:
        if self.questions:
            raise ValueError(f"columns: {', '.join(self.questions)} is asked for, and not known yet")
        return self

    @classmethod
    def from_dict(cls, declared: dict[str, Any]) -> Schema:
        """The inverse of `to_dict`."""
        return complete(declaration_from(declared), "schema")


def _told(column: Any) -> str:
    words = column.values if len(column.values) <= _SHORT else f"{column.values[: _SHORT - 1]}…"
    return f"{words}; may be missing" if getattr(column, "missing", False) else words


def asks_modes(column: Any) -> bool:
    """Whether a column's modes are asked for."""
    return isinstance(column, (Number, AskedNumber)) and isinstance(column.modes, (int, str))


def declaration_from(declared: dict[str, Any]) -> Declaration:
    """The inverse of `to_dict`, where questions may be open."""
    columns = {column["name"]: {**column} for column in declared["columns"]}
    for column in columns.values():
        del column["name"]
    return parse_declaration({**declared, "columns": columns})


def parse_declaration(declared: dict[str, Any], text: str = "", where: str = "schema") -> Declaration:
    """Check a declaration; `text` is its TOML source, so that errors can name the line. A `Schema` where nothing is asked for."""
    _refuse_blanks(declared, text, where)
    try:
        return Declaration.model_validate(declared).with_columns({})
    except ValidationError as error:
        raise SchemaError(_explain(error, text, where)) from None


def complete(declaration: Declaration, where: str) -> Schema:
    """A declaration that asks for nothing, as what it is."""
    if not isinstance(declaration, Schema):
        raise SchemaError(
            f"{where}: asks for {', '.join(declaration.questions)}, and here all must be known; `dpearl release` answers it "
            "under a budget, and `dpearl schema RELEASE -o completed.toml` writes the completed schema"
        )
    return declaration


def parse_schema(declared: dict[str, Any], text: str = "", where: str = "schema") -> Schema:
    """Check a declaration that asks for nothing."""
    return complete(parse_declaration(declared, text, where), where)


def load_schema(path: str | Path) -> Schema:
    """Read a schema file that asks for nothing."""
    return complete(load_declaration(path), str(path))


def load_declaration(path: str | Path) -> Declaration:
    """Read a schema file."""
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise SchemaError(f"{path}: is no plain file; a schema is a TOML file")
        if Path(path).stat().st_size > MAX_FILE:
            raise SchemaError(f"{path}: is larger than any schema; a schema is a TOML file")
        text = Path(path).read_text(encoding="utf-8-sig")
        declared = tomllib.loads(text)
    except FileNotFoundError:
        raise SchemaError(f"{path}: no such schema file; `dpearl schema DATA -o {path}` drafts one") from None
    except OSError as error:
        raise SchemaError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{path}: is not UTF-8 text; a schema is a TOML file") from None
    except (ValueError, RecursionError) as error:  # tomllib's own, and integers of thousands of digits
        raise SchemaError(f"{path}: is not valid TOML: {error}") from None
    return parse_declaration(declared, text, str(path))


def _refuse_blanks(declared: dict[str, Any], text: str, where: str) -> None:
    """A draft leaves bounds and levels blank; name every one of them at once."""
    columns = declared.get("columns")
    blanks = []
    for name, column in columns.items() if isinstance(columns, dict) else ():
        wanted = {"number": ("lower", "upper"), "datetime": ("lower", "upper"), "category": ("levels",)}
        for key in wanted.get(str(column.get("kind")), ()) if isinstance(column, dict) and "bounds" not in column else ():
            if key not in column:
                _refuse_near_miss(name, key, column, text, where)
            if column.get(key, "") in ("", []) and not (key == "levels" and column.get("other")):
                blanks.append(f"{name}.{key}{_line(text, name, key)}")
    if blanks:
        raise SchemaError(
            f"{where}: fill in what is blank, from public knowledge: {', '.join(blanks)}; or ask for it: "
            'bounds = "estimate", levels = "estimate"'
        )


def _refuse_near_miss(name: str, key: str, column: Mapping[str, Any], text: str, where: str) -> None:
    """A key that is missing may have been misspelt."""
    for other in column.keys() - set(_keys(["columns", name, str(column["kind"])])):
        if near := meant(other, [key]):
            raise SchemaError(f"{where}: {name}.{other}{_line(text, name, other)}: is not a known key{near}")


def _explain(error: ValidationError, text: str, where: str) -> str:
    """Pydantic's first complaint in our words: column, key, line, and what to do."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    name, keys = (place[1], place[3:4]) if place[:1] == ["columns"] and len(place) > 1 else ("", place[:1])
    at = ".".join([name, *keys] if name else keys)
    reason = {
        "extra_forbidden": f"is not a known key; remove it{meant(''.join(place[-1:]), _keys(place))}",
        "union_tag_not_found": f"needs a kind: one of {', '.join(KINDS)}",
        "union_tag_invalid": f"has an unknown kind; use one of {', '.join(KINDS)}{meant(_kind(first), KINDS)}",
        "missing": "is missing; add it",
        "literal_error": 'must be "estimate" where it is asked for',
    }.get(first["type"], first["msg"].removeprefix("Value error, "))
    if keys == ["levels"] and len(place) > 4:
        reason = "must hold text, numbers or booleans, nothing else"
    if not at:
        at, _, reason = reason.partition(": ")
    return f"{where}: {at}{_line(text, name, ''.join(keys) if name else at)}: {reason}"


def _keys(place: list[str]) -> list[str]:
    """The keys that are known where a complaint points to."""
    if len(place) < 3:
        return list(Declaration.model_fields)
    kinds: dict[str, type[_Declared]] = {
        "number": AskedNumber,
        "category": Category,
        "boolean": Boolean,
        "datetime": AskedDatetime,
        "image": Image,
    }
    named = kinds.get(place[2].removeprefix("asked "))
    bounds = ["lower", "upper"] if named is AskedDatetime else []
    return [*named.model_fields, *bounds] if named else []


def _kind(complaint: Mapping[str, Any]) -> str:
    """The kind that a column was given, without a question in it."""
    return str(complaint.get("ctx", {}).get("tag", "")).removeprefix("asked ")


def _line(text: str, column: str, key: str) -> str:
    """' (line 12)' of a key in its table, of the table where the key is absent, or nothing."""
    table, found = None, None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.lstrip().startswith("["):
            table = _header(line)
            if column and table == ["columns", column]:
                found = number
        elif (table == ["columns", column] if column else table is None) and re.match(
            rf"""\s*["']?{re.escape(key)}["']?\s*=""", line
        ):
            return f" (line {number})"
    return f" (line {found})" if found else ""


def _header(line: str) -> list[str] | None:
    """The path of a TOML table header, quotes and escapes undone."""
    try:
        table = tomllib.loads(line)
    except (ValueError, RecursionError):
        return None
    path = []
    while isinstance(table, dict) and len(table) == 1:
        name, table = next(iter(table.items()))
        path.append(name)
    return path
