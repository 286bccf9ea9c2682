"""Rows as files: dpearl's own readers find in them what was written, and a failure leaves nothing behind."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from PIL import Image as Pictures

from dpearl.codec import Codec, Codes
from dpearl.errors import DpearlError, FileError, UsageError
from dpearl.read import batches, open_sources
from dpearl.schema import Image, Schema, parse_schema
from dpearl.write import MAX_GRID, check_output, picture_grid, write_rows

TABLE: dict[str, Any] = {
    "age": {"kind": "number", "lower": 0, "upper": 120, "step": 1},
    "size in m": {"kind": "number", "lower": 0, "upper": 3, "step": 0.01, "missing": True},
    "wage": {"kind": "number", "lower": -1, "upper": 1},
    "wealth": {"kind": "number", "lower": 1, "upper": 1e6, "log": True, "spikes": [0, -1], "missing": True},
    "visits": {"kind": "number", "lower": 0, "upper": 200, "step": 1, "missing": True},
    "größe, \"quoted\"": {"kind": "category", "levels": ["klein", "groß", 'say "hi", twice', "two\nlines", " 語 "]},
    "grade": {"kind": "category", "levels": [1, 2, 3]},
    "grade or none": {"kind": "category", "levels": [1, 2, 3], "missing": True},
    "smokes": {"kind": "category", "levels": [True, False], "missing": True},
    "città": {"kind": "category", "levels": ["Roma", "NA"], "other": "altrove", "missing": True},
    "member": {"kind": "boolean"},
    "ill": {"kind": "boolean", "missing": True},
}  # fmt: skip
MOMENTS: dict[str, Any] = {
    "born": {"kind": "datetime", "lower": "1900-01-01", "upper": "2020-12-31", "step": "1d", "missing": True},
    "seen": {"kind": "datetime", "lower": "2024-01-01T00:00Z", "upper": "2024-12-31T00:00Z", "step": "15min"},
    "ticked": {"kind": "datetime", "lower": "2024-01-01", "upper": "2024-01-02", "step": "1us", "missing": True},
}
SCHEMA = parse_schema({"columns": TABLE})
DATED = parse_schema({"columns": {**TABLE, **MOMENTS}})
STORED = {
    "age": "int16",
    "size in m": "float",
    "wealth": "float",
    "visits": "uint8",
    'größe, "quoted"': "dictionary[string]",
    "grade": "int8",
    "grade or none": "dictionary[int64]",
    "città": "large_string",
    "born": "date32[day]",
    "seen": "timestamp[ms, tz=Asia/Tokyo]",
    "ticked": "timestamp[ns]",
}


def drawn(schema: Schema, rows: int, seed: int = 0) -> dict[str, Codes]:
    """Random rows, with every level that may come back and both ends of every line."""
    chance, codes = np.random.default_rng(seed), {}
    for name, codec in Codec(schema).columns.items():
        levels = np.array(codec.returns)[np.r_[: len(codec.returns), chance.integers(len(codec.returns), size=rows)][:rows]]
        positions = chance.random((rows, max(codec.coordinates, 1)))
        positions[rows // 2 :: 7], positions[rows // 2 + 1 :: 7] = 0, 1
        codes[name] = codec.code(positions, levels)
    return codes


def parts(
    schema: Schema, codes: dict[str, Codes], cuts: tuple[int, ...] = (0,), types: dict[str, str] | None = None
) -> Iterator[pa.Table]:
    """Rows as a synthesizer gives them: an empty table first, then parts."""
    rows = len(next(iter(codes.values())))
    for start, end in zip((0, *cuts), (*cuts, rows), strict=True):
        yield Codec(schema).decode({name: own[start:end] for name, own in codes.items()}, types)


def read(path: Path, schema: Schema) -> dict[str, Codes]:
    """What dpearl finds in a file."""
    codec = Codec(schema)
    tables = [codec.encode(table) for table in batches(open_sources(path), schema, 1000)]
    return {name: np.concatenate([table[name] for table in tables]) for name in schema.columns}


def same(left: dict[str, Codes], right: dict[str, Codes]) -> None:
    assert left.keys() == right.keys()
    for name, own in left.items():
        np.testing.assert_array_equal(own, right[name], err_msg=name)


@pytest.mark.parametrize("types", [None, STORED], ids=["natural types", "other types"])
@pytest.mark.parametrize("cuts", [(), (0,), (0, 1, 40, 40, 2000)], ids=["one part", "types first", "many parts"])
@pytest.mark.parametrize(("suffix", "schema"), [(".csv", DATED), (".parquet", DATED), (".npz", SCHEMA)])
def test_rows_are_read_back_as_they_were_written(
    suffix: str, schema: Schema, cuts: tuple[int, ...], types: dict[str, str] | None, tmp_path: Path
) -> None:
    codes, path = drawn(schema, 3000), tmp_path / f"rows{suffix}"
    write_rows(parts(schema, codes, cuts, types), schema, path)
    same(codes, read(path, schema))
    assert [source.types.keys() for source in open_sources(path)] == [schema.columns.keys()]


@pytest.mark.parametrize("types", [None, STORED], ids=["natural types", "other types"])
def test_moments_in_npz_are_read_back_too(types: dict[str, str] | None, tmp_path: Path) -> None:
    schema = parse_schema({"columns": MOMENTS})
    codes = drawn(schema, 500)
    write_rows(parts(schema, codes, types=types), schema, tmp_path / "rows.npz")
    same(codes, read(tmp_path / "rows.npz", schema))


@pytest.mark.parametrize("stored", ["string", "large_string", "string_view", "dictionary[large_string]"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_text_in_every_storage_can_be_written(suffix: str, stored: str, tmp_path: Path) -> None:
    schema = parse_schema({"columns": {"x": {"kind": "category", "levels": ["a", "b"], "missing": True}, "y": TABLE["grade"]}})
    codes = drawn(schema, 30)
    write_rows(parts(schema, codes, (0, 15), {"x": stored}), schema, tmp_path / f"rows{suffix}")
    same(codes, read(tmp_path / f"rows{suffix}", schema))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_whole_numbers_beyond_a_float_can_be_levels_beside_missing(suffix: str, tmp_path: Path) -> None:
    schema = parse_schema({"columns": {"x": {"kind": "category", "levels": [2**60, 2**60 + 1], "missing": True}}})
    codes = drawn(schema, 30)
    write_rows(parts(schema, codes), schema, tmp_path / f"rows{suffix}")
    same(codes, read(tmp_path / f"rows{suffix}", schema))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("name", ["file", "allow_pickle", "a/b", "self", "args", "x.npy"])
def test_a_column_may_have_any_name(name: str, suffix: str, tmp_path: Path) -> None:
    schema = parse_schema({"columns": {name: TABLE["grade"], "other": TABLE["ill"]}})
    codes = drawn(schema, 20)
    write_rows(parts(schema, codes), schema, tmp_path / f"rows{suffix}")
    same(codes, read(tmp_path / f"rows{suffix}", schema))


@pytest.mark.parametrize("column", TABLE)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_a_column_that_is_alone_keeps_its_missing_rows(column: str, suffix: str, tmp_path: Path) -> None:
    schema = parse_schema({"columns": {column: TABLE[column]}})
    codes = drawn(schema, 30)
    write_rows(parts(schema, codes), schema, tmp_path / f"rows{suffix}")
    same(codes, read(tmp_path / f"rows{suffix}", schema))


def test_parquet_keeps_the_types_that_rows_came_in(tmp_path: Path) -> None:
    write_rows(parts(DATED, drawn(DATED, 100), (0, 50), STORED), DATED, tmp_path / "rows.parquet")
    kept = parquet.read_schema(tmp_path / "rows.parquet")
    assert {name: str(kept.field(name).type) for name in ("age", "città", "born", "seen", "grade", "ill")} == {
        "age": "int16",
        "città": "large_string",
        "born": "date32[day]",
        "seen": "timestamp[ms, tz=Asia/Tokyo]",
        "grade": "int8",
        "ill": "bool",
    }
    assert str(kept.field('größe, "quoted"').type).startswith("dictionary<values=string")


def test_npz_needs_no_pickle_and_keeps_whole_numbers_whole(tmp_path: Path) -> None:
    write_rows(parts(DATED, drawn(DATED, 100), types=STORED), DATED, tmp_path / "rows.npz")
    with np.load(tmp_path / "rows.npz", allow_pickle=False) as arrays:
        kinds = {name: arrays[name].dtype.kind for name in DATED.columns}
        assert set(kinds.values()) <= set("biufUM")
        assert (kinds["age"], kinds["grade"], kinds["member"], kinds["visits"]) == ("i", "i", "b", "f")
        assert np.isnan(arrays["visits"]).sum() == (drawn(DATED, 100)["visits"] == 201).sum() > 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_no_rows_make_a_file_with_columns(suffix: str, tmp_path: Path) -> None:
    schema = parse_schema(
        {"columns": {**TABLE, **({"face": {"kind": "image", "height": 2, "width": 2}} if suffix != ".csv" else {})}}
    )
    write_rows(parts(schema, drawn(schema, 0), ()), schema, tmp_path / f"rows{suffix}")
    (source,) = open_sources(tmp_path / f"rows{suffix}")
    assert list(source.types) == list(schema.columns)
    assert list(batches([source], schema, 10)) == []


def pictured(channels: int, **columns: Any) -> Schema:
    return parse_schema({"columns": {"face": {"kind": "image", "height": 5, "width": 3, "channels": channels}, **columns}})


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_pictures_are_read_back_as_they_were_written(suffix: str, channels: int, tmp_path: Path) -> None:
    schema = pictured(channels, **{"größe": TABLE["size in m"], "label": TABLE["grade"]})
    codes = drawn(schema, 300)
    write_rows(parts(schema, codes, (0, 7, 250)), schema, tmp_path / f"rows{suffix}")
    same(codes, read(tmp_path / f"rows{suffix}", schema))


def cut_apart(path: Path, picture: Image, rows: int) -> np.ndarray[Any, Any]:
    """The pictures of a grid, line by line."""
    with Pictures.open(path) as opened:
        assert opened.mode == ("L" if picture.channels == 1 else "RGB")
        grid = np.asarray(opened).reshape(opened.height, opened.width, picture.channels)
    down, across = grid.shape[0] // picture.height, grid.shape[1] // picture.width
    tiles = grid.reshape(down, picture.height, across, picture.width, picture.channels).swapaxes(1, 2)
    flat = tiles.reshape(down * across, -1)
    assert not flat[rows:].any(), "empty places are black"
    return flat[:rows]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 16, 19])
def test_a_grid_shows_every_picture_in_order(rows: int, channels: int, tmp_path: Path) -> None:
    schema = pictured(channels)
    codes = drawn(schema, rows)
    write_rows(parts(schema, codes, (0, rows // 2)), schema, tmp_path / "grid.png")
    picture = schema.columns["face"]
    assert isinstance(picture, Image)
    np.testing.assert_array_equal(cut_apart(tmp_path / "grid.png", picture, rows), codes["face"][:, :-1])


LABELS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "whole numbers": ({"kind": "category", "levels": [0, 1, 2]}, {}),
    "text": ({"kind": "category", "levels": ["a", "b", "c"], "missing": True}, {}),
    "a dictionary": ({"kind": "category", "levels": ["a", "b", "c"]}, {"label": "dictionary[string]"}),
    "large text": ({"kind": "category", "levels": ["a", "b", "c"]}, {"label": "large_string"}),
    "booleans": ({"kind": "boolean"}, {}),
    "numbers": ({"kind": "number", "lower": 0, "upper": 1}, {}),
}


@pytest.mark.parametrize(("label", "types"), LABELS.values(), ids=LABELS.keys())
def test_a_grid_shows_the_pictures_of_a_class_together(label: dict[str, Any], types: dict[str, str], tmp_path: Path) -> None:
    schema = pictured(1, label=label).model_copy(update={"label": "label"})
    codes = drawn(schema, 50)
    write_rows(parts(schema, codes, (0, 20), types), schema, tmp_path / "grid.png")
    picture = schema.columns["face"]
    assert isinstance(picture, Image)
    order = np.argsort(codes["label"], kind="stable")
    np.testing.assert_array_equal(cut_apart(tmp_path / "grid.png", picture, 50), codes["face"][order][:, :-1])


def test_a_grid_has_as_many_lines_as_it_needs() -> None:
    stack = np.arange(5 * 2 * 1 * 1, dtype=np.uint8).reshape(5, 2, 1, 1)
    assert picture_grid(stack, 3).tolist() == [[0, 2, 4], [1, 3, 5], [6, 8, 0], [7, 9, 0]]


WRITABLE = [(".csv", SCHEMA), (".parquet", DATED), (".npz", SCHEMA), (".png", pictured(3))]


@pytest.mark.parametrize(("suffix", "schema"), WRITABLE)
@pytest.mark.parametrize("trouble", [UsageError("only 3 of 9 rows"), KeyboardInterrupt(), RuntimeError("torch")])
def test_nothing_is_left_when_the_rows_stop_in_the_middle(
    trouble: BaseException, suffix: str, schema: Schema, tmp_path: Path
) -> None:
    def stopping() -> Iterator[pa.Table]:
        yield from parts(schema, drawn(schema, 1000))
        raise trouble

    with pytest.raises(type(trouble)) as raised:
        write_rows(stopping(), schema, tmp_path / f"rows{suffix}")
    assert raised.value is trouble
    assert not list(tmp_path.iterdir())


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """A disk that is full after so many bytes, as far as this process can tell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 5000])
@pytest.mark.parametrize(("suffix", "schema"), WRITABLE)
def test_nothing_is_left_on_a_full_disk(suffix: str, schema: Schema, room: int, tmp_path: Path) -> None:
    codes = drawn(schema, 5000)
    with no_file_above(room), pytest.raises(FileError, match=rf"rows{suffix}: cannot be written .File too large"):
        write_rows(parts(schema, codes, (0, 2500)), schema, tmp_path / f"rows{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("suffix", "schema"), WRITABLE)
def test_another_file_is_never_written_over(suffix: str, schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_text("precious")
    with pytest.raises(UsageError, match="already exists"):
        check_output(path, schema, 10)
    with pytest.raises(UsageError, match="already exists"):
        write_rows(parts(schema, drawn(schema, 10)), schema, path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "schema", "rows", "told"),
    [
        ("rows.xlsx", SCHEMA, 10, r"unknown kind of file; use .csv, .parquet, .npz, .png"),
        ("rows", SCHEMA, 10, "unknown kind of file"),
        ("rows.csv.gz", SCHEMA, 10, "unknown kind of file"),
        ("rows.csv", pictured(1), 10, "a CSV cannot hold the pictures of 'face'; use .npz, .parquet or .png"),
        ("rows.png", SCHEMA, 10, "needs exactly one column of pictures"),
        ("rows.png", pictured(1, back={"kind": "image", "height": 1, "width": 1}), 10, "needs exactly one column"),
        ("rows.png", pictured(1), 0, "a grid shows 1 to 10,000 pictures"),
        ("rows.png", pictured(1), MAX_GRID + 1, "a grid shows 1 to 10,000 pictures"),
        ("none/rows.csv", SCHEMA, 10, "does not exist; create it first"),
    ],
)
def test_an_output_that_cannot_hold_the_rows_is_refused_before_any_work(
    name: str, schema: Schema, rows: int, told: str, tmp_path: Path
) -> None:
    with pytest.raises(DpearlError, match=told):
        check_output(tmp_path / name, schema, rows)


@pytest.mark.parametrize("name", ["rows.csv", "ROWS.CSV", "rows.Parquet", "rows.npz"])
def test_an_output_that_can_is_accepted(name: str, tmp_path: Path) -> None:
    assert check_output(str(tmp_path / name), SCHEMA, 0) == tmp_path / name
    assert check_output(tmp_path / "rows.png", pictured(1), MAX_GRID) == tmp_path / "rows.png"
