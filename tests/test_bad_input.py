"""Bad input through the command line: exit code 2, one line, no cell, no file, no charge; and what must not fail."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import subprocess
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from PIL import Image

from dpearl import cli, load_release
from dpearl.errors import FileError

SECRET = "SECRET123"
NUMBER = '[columns.a]\nkind = "number"\nlower = 0\nupper = 10\n'
CATEGORY = '[columns.b]\nkind = "category"\nlevels = ["x", "y"]\n'
PICTURES = '[columns.image]\nkind = "image"\nheight = 4\nwidth = 4\n[columns.label]\nkind = "category"\nlevels = ["x", "y"]\n'
GOOD = f"a,b,c\n1,x,{SECRET}\n2,y,z\n"


@dataclass(frozen=True)
class Dpearl:
    """The command line in a folder of its own that already holds a schema and good data."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["dpearl", *arguments])
        code = cli._run()
        return code, *self.capsys.readouterr()

    def release(self, *arguments: str) -> tuple[str, ...]:
        """A release with everything given; later arguments win."""
        return "release", "--schema", "s.toml", "--epsilon", "1", "-k", "2", "--ledger", "l", "-o", "out.dpearl", *arguments

    def works(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        assert code == 0, err
        return out

    def refuses(self, *arguments: str) -> str:
        """The one line that a mistake is told in, after all that must hold for every mistake."""
        before = self._files()
        code, out, err = self.run(*arguments)
        assert (code, err.count("\n"), err[:8]) == (2, 1, "dpearl: "), err
        assert SECRET not in out + err
        assert "Traceback" not in err
        assert self._files() == before
        return err

    def _files(self) -> dict[Path, int]:
        return {path: hash(path.read_bytes()) for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
def dpearl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dpearl:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(NUMBER + CATEGORY)
    Path("good.csv").write_text(GOOD)
    return Dpearl(tmp_path, monkeypatch, capsys)


Write = Callable[[str], object]


def text(content: str) -> Write:
    return lambda name: Path(name).write_bytes(content.encode())


def raw(content: bytes) -> Write:
    return lambda name: Path(name).write_bytes(content)


def table(**columns: Any) -> Write:
    """A Parquet file; a column of its own per keyword, good ones where none is given."""
    filled = {"a": [1.0, 2.0], "b": ["x", SECRET], **columns}
    return lambda name: parquet.write_table(pa.table(filled), name)


def misnamed(name: str) -> None:
    """A Parquet file in which one column's name has been damaged."""
    parquet.write_table(pa.table({"a": [1], "bbbb": ["x"]}), name, store_schema=False)
    Path(name).write_bytes(Path(name).read_bytes().replace(b"bbbb", b"\xffbbb"))


def archive(**arrays: Any) -> Write:
    return lambda name: np.savez(name, **arrays)


def claimed(shape: str, descr: str = "<f8", size: int = 64) -> Write:
    """An .npz whose array `a` says a shape that it does not have."""

    def write(name: str) -> None:
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + bytes(size))
            file.writestr("b.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + bytes(size))

    return write


def cut(write: Write, size: int) -> Write:
    """The same file, its end missing."""

    def shorter(name: str) -> None:
        write(name)
        Path(name).write_bytes(Path(name).read_bytes()[:size])

    return shorter


def png(mode: str = "L", size: tuple[int, int] = (4, 4)) -> bytes:
    stream = io.BytesIO()
    Image.effect_noise(size, 99).convert(mode).save(stream, "PNG")
    return stream.getvalue()


def bomb(side: int) -> bytes:
    """A few bytes that claim side x side pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(9))
    chunks = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in (head, data))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def folder(*pictures: bytes) -> Write:
    def write(name: str) -> None:
        Path("s.toml").write_text(PICTURES)
        for number, picture in enumerate(pictures):
            file = Path(name, "xy"[number % 2], f"{number}.png")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(picture)

    return write


WIDE = "1,x,z\n" * 800_000

BAD_DATA: dict[str, tuple[str, Write, str]] = {
    "missing file": ("d.csv", lambda _: None, "d.csv: no such file or folder"),
    "folder without data": ("d", lambda name: Path(name).mkdir(), "d: folder holds no data; expected"),
    "unknown suffix": ("d.xlsx", text(GOOD), "d.xlsx: unknown kind of file; use .csv"),
    "zero bytes": ("d.csv", raw(b""), "d.csv: is empty (zero bytes)"),
    "zero bytes, Parquet": ("d.parquet", raw(b""), "d.parquet: is empty (zero bytes)"),
    "blank line only": ("d.csv", raw(b"\n"), "d.csv: its first line is no header"),
    "no header": ("d.csv", text(f"1,x,{SECRET}\n2,y,z\n"), "d.csv: has no column 'a' in its header; mend"),
    "no header, equal cells": (
        "d.csv",
        text(f"{SECRET},{SECRET}\n1,x\n"),
        "d.csv: columns 1 and 2 of the header have the same name",
    ),
    "duplicate columns": (
        "d.csv",
        text(f"a,b,a\n{SECRET},x,2\n"),
        "d.csv: columns 1 and 3 of the header have the same name; rename",
    ),
    "missing column": ("d.csv", text(f"a,c\n1,{SECRET}\n"), "d.csv: has no column 'b' in its header; mend"),
    "missing column, Parquet": ("d.parquet", lambda n: parquet.write_table(pa.table({"a": [1]}), n), "has no column 'b'"),
    "long row": ("d.csv", text(f"a,b\n1,x\n2,y,{SECRET}\n"), "d.csv: row 3 has 3 cells where the header has 2; mend that row"),
    "short row": ("d.csv", text(f"a,b\n1,x\n{SECRET}\n3,y\n"), "d.csv: row 3 has 1 cells where the header has 2; mend that row"),
    "ragged row that is not UTF-8": ("d.csv", raw(b"a,b\n1,x\n2,y,\xff\n"), "d.csv: is not UTF-8; save it as UTF-8 CSV"),
    "ragged row far down": ("d.csv", text("a,b,c\n" + WIDE + f"{SECRET}\n"), "d.csv: row 800002 has 1 cells"),
    "open quote": ("d.csv", text(f'a,b\n1,x\n2,"{SECRET}\n3,y\n'), "d.csv: a quoted cell is never closed"),
    "open quote in the first column": ("d.csv", text(f'a,b\n1,x\n"{SECRET},y\n'), "d.csv: a quoted cell is never closed"),
    "open quote after a strange one": ("d.csv", text(f'a,b\n"1"0,x\n2,"{SECRET}\n'), "d.csv: a quoted cell is never closed"),
    "open quote in the header": (
        "d.csv",
        text(f'"a,b\n1,x\n2,{SECRET}\n'),
        "d.csv: its first line is no header, or leaves a quote open",
    ),
    "open quote further in the header": (
        "d.csv",
        text(f'a,"b\n1,x\n2,{SECRET}\n'),
        "d.csv: has no column 'a' in its header; mend",
    ),
    "open quote at the start of 4 MB": (
        "d.csv",
        text(f'a,b,c\n1,"{SECRET}\n' + WIDE * 2),
        "d.csv: a quoted cell is never closed",
    ),
    "open quote at the end of 4 MB": (
        "d.csv",
        text("a,b,c\n" + WIDE + f'1,x,"{SECRET}\n'),
        "d.csv: a quoted cell is never closed",
    ),
    "not UTF-8": ("d.csv", raw(b"a,b\n1,x\n2,\xe9 SECRET123\n"), "d.csv: is not UTF-8; save it as UTF-8 CSV"),
    "not UTF-8 far down": ("d.csv", raw(f"a,b,c\n{WIDE}1,x,".encode() + b"\xc3"), "d.csv: is not UTF-8; save it as UTF-8 CSV"),
    "header not UTF-8": ("d.csv", raw(b"a,b,\xe9\n1,x,2\n"), "d.csv: is not UTF-8; save it as UTF-8 CSV"),
    "UTF-16": ("d.csv", raw(GOOD.encode("utf-16")), "d.csv: holds a NUL byte, so it is not a CSV text; save"),
    "NUL byte": ("d.csv", raw(b"a,b\n1,x\n2,SECRET123\0\n"), "d.csv: holds a NUL byte"),
    "NUL byte far down": ("d.csv", text("a,b,c\n" + WIDE + f"1,{SECRET}\0,z\n"), "d.csv: holds a NUL byte"),
    "not gzip": ("d.csv.gz", text(GOOD), "d.csv.gz: cannot be read as CSV; is it damaged"),
    "truncated gzip": (
        "d.csv.gz",
        cut(raw(gzip.compress(GOOD.encode() * 99)), 40),
        "d.csv.gz: cannot be read as CSV; is it damaged",
    ),
    "truncated Parquet": ("d.parquet", cut(table(), 300), "d.parquet: cannot be read as Parquet; is it truncated?"),
    "no Parquet": ("d.parquet", text(GOOD), "d.parquet: cannot be read as Parquet; is it truncated?"),
    "Parquet name not UTF-8": ("d.parquet", misnamed, "d.parquet: a column name is not UTF-8; rename that column"),
    "list column": (
        "d.parquet",
        table(b=[[SECRET], ["x"]]),
        "column 'b' is stored as list<element: string>, which is no category",
    ),
    "struct column": (
        "d.parquet",
        table(a=[{"p": 1}, {"p": 2}]),
        "column 'a' is stored as struct<p: int64>, which is no number; flatten it first",
    ),
    "timestamps as number": (
        "d.parquet",
        table(a=pa.array([1, 2], pa.timestamp("us"))),
        "'a' is stored as timestamp[us], which is no num",
    ),
    "bytes as number": ("d.parquet", table(a=[b"1", SECRET.encode()]), "'a' is stored as binary, which is no number; convert it"),
    "truncated .npz": ("d.npz", cut(archive(a=np.ones(9), b=np.ones(9)), 200), "d.npz: cannot be read as .npz; is it truncated?"),
    "no .npz": ("d.npz", text(GOOD), "d.npz: cannot be read as .npz; is it truncated?"),
    "pickled arrays": (
        "d.npz",
        archive(a=np.array([SECRET, None]), b=np.ones(2)),
        "'a' holds NumPy objects, long doubles or Fortran order; save plain C-ordered numbers or text",
    ),
    "long doubles": ("d.npz", archive(a=np.ones(2, np.longdouble), b=np.ones(2)), "d.npz: 'a' holds NumPy objects, long doubles"),
    "arrays of different length": (
        "d.npz",
        archive(a=np.ones(3), b=np.ones(2)),
        "arrays differ in length (a has 3, b has 2 rows)",
    ),
    "more rows claimed than there are": ("d.npz", claimed(f"({10**15},)"), "d.npz: cannot be read to its end"),
    "giant picture claimed": (
        "d.npz",
        claimed(f"(2, {10**9}, {10**9})", "|u1"),
        "'a' is stored as list<item: uint8>, which is no number; flatten it first",
    ),
    "giant text claimed": ("d.npz", claimed("(9,)", f"<U{10**8}"), "d.npz: a cell of 'a' claims more bytes than any cell"),
    "mixed image sizes": (
        "d",
        folder(png(), png(), png(size=(5, 4))),
        "2.png: is 4 x 5 pixels, the schema declares 4 x 4; bring all",
    ),
    "RGBA image": ("d", folder(png(), png("RGBA")), "1.png: has colour mode RGBA, the schema needs grey (L); convert the images"),
    "colour images declared grey": (
        "d",
        folder(png("RGB")),
        "d: 'image' holds images of 4 x 4 x 3, the schema declares 4 x 4 x 1",
    ),
    "pixel bomb": ("d", folder(png(), bomb(60_000)), "1.png: claims more pixels than any image here should have; remove it"),
    "small pixel bomb first": (
        "d",
        folder(bomb(10_000), png()),
        "0.png: claims more pixels than any image here should have; remove",
    ),
    "no readable image": ("d", folder(b"no image"), "d: none of its images can be opened; are they damaged?"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_data_of_bad_structure_is_refused_before_anything_is_charged(dpearl: Dpearl, case: str) -> None:
    name, write, says = BAD_DATA[case]
    write(name)
    assert says in dpearl.refuses(*dpearl.release(name))


BAD_SCHEMAS = {
    "missing schema": (None, "s.toml: no such schema file; `dpearl schema DATA -o s.toml` drafts one"),
    "invalid TOML": ("[columns.a\n", "s.toml: is not valid TOML: "),
    "deep TOML": (f"a = {'[' * 5000}", "s.toml: is not valid TOML"),
    "no columns": ("[columns]\n", "s.toml: columns: no column is declared; add a [columns.NAME] table for each"),
    "empty": ("", "s.toml: columns: is missing; add it"),
    "columns no tables": ("columns = 3\n", "s.toml: columns (line 1): "),
    "unknown kind": (
        CATEGORY + '[columns.a]\nkind = "numeric"\n',
        "s.toml: a (line 4): has an unknown kind; use one of number, ",
    ),
    "no kind": (CATEGORY + "[columns.a]\nlower = 1\n", "s.toml: a (line 4): needs a kind: one of number, "),
    "unknown key": (CATEGORY + NUMBER + "uper = 3\n", "s.toml: a.uper (line 8): is not a known key; remove it"),
    "unknown key on top": ("lable = 'b'\n" + NUMBER + CATEGORY, "s.toml: lable (line 1): is not a known key; remove it"),
    "label not a column": ("label = 'c'\n" + NUMBER, "s.toml: label (line 1): 'c' is not a declared column; add [columns.c]"),
    "lower equals upper": (NUMBER.replace("10", "0") + CATEGORY, "s.toml: a (line 1): lower must be less than upper"),
    "infinite bound": (NUMBER.replace("10", "inf"), "s.toml: a.upper (line 4): must be a finite number"),
    "bound not a number": (NUMBER.replace("10", "nan"), "s.toml: a.upper (line 4): must be a finite number"),
    "text as bound": (NUMBER.replace("10", "'ten'"), "s.toml: a.upper (line 4): "),
    "duplicate level": (CATEGORY.replace('"y"', '"x"'), "s.toml: b (line 1): levels holds 'x' twice"),
    "no rows per person": ("rows_per_person = 0\n" + NUMBER, "s.toml: rows_per_person (line 1): "),
    "column named as a kind": (
        '[columns.number]\nkind = "number"\nlower = 1\nupper = 0\n',
        "s.toml: number (line 1): lower must be",
    ),
    "blanks": (
        '[columns.a]\nkind = "number"\nlower = ""\nupper = ""\n\n[columns."b ü"]\nlevels = []\nkind = "category"\n'
        '[columns.t]\nkind = "datetime"\nupper = 2020-01-01\n',
        "s.toml: fill in what is blank, from public knowledge: "
        "a.lower (line 3), a.upper (line 4), b ü.levels (line 7), t.lower (line 9); or ask for it: ",
    ),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_a_schema_that_says_too_little_or_too_much_is_refused_with_its_line(dpearl: Dpearl, case: str) -> None:
    declared, says = BAD_SCHEMAS[case]
    Path("s.toml").unlink()
    if declared is not None:
        Path("s.toml").write_text(declared)
    assert says in dpearl.refuses(*dpearl.release("good.csv"))


BAD_ARGUMENTS = {
    **{
        f"epsilon {value}": (("good.csv", "--epsilon", value), "epsilon must be a positive")
        for value in ("0", "-1", "nan", "inf")
    },
    **{
        f"delta {value}": (("good.csv", "--delta", value), "delta must lie strictly between") for value in ("0", "1", "nan", "-1")
    },
    "k = 0": (("good.csv", "-k", "0"), "frequencies k must lie between 1 and"),
    "output exists": (("good.csv", "-o", "s.toml"), "s.toml: already exists; choose another name or move it away"),
    "output folder missing": (("good.csv", "-o", "no/out.dpearl"), "no/out.dpearl: folder no does not exist; create it first"),
    "ledger folder missing": (
        ("good.csv", "--ledger", "no/l"),
        "no/l: folder no does not exist; create it first",
    ),
    "ledger is the output": (("good.csv", "--ledger", "out.dpearl"), "out.dpearl: is both output and ledger; give two names"),
    "no rows per person": (("good.csv", "--rows-per-person", "0"), "rows per person must be at least 1"),
    "unknown recipe": (("good.csv", "--recipe", "pie"), "unknown recipe 'pie'; use auto or paper"),
    "unknown relation": (("good.csv", "--relation", "near"), "'--relation'"),
    "unknown option": (("good.csv", "--epsilom", "1"), "--epsilom"),
    "no number": (("good.csv", "--epsilon", "one"), "'--epsilon'"),
    "several files, one missing": (("good.csv", "no.csv"), "no.csv: no such file or folder"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_an_argument_out_of_range_is_refused(dpearl: Dpearl, case: str) -> None:
    arguments, says = BAD_ARGUMENTS[case]
    assert says in dpearl.refuses(*dpearl.release(*arguments))


def test_a_command_that_does_not_exist_is_refused(dpearl: Dpearl) -> None:
    assert "relaese" in dpearl.refuses("relaese", "good.csv")
    assert "--schema" in dpearl.refuses("release", "good.csv", "--epsilon", "1", "-o", "out.dpearl")
    assert "Commands:" in dpearl.works()


@pytest.mark.parametrize("storage", [pa.bool_(), pa.int64(), pa.time64("us")], ids=str)
def test_only_moments_are_read_as_datetimes(dpearl: Dpearl, storage: pa.DataType) -> None:
    Path("s.toml").write_text(CATEGORY + '[columns.a]\nkind = "datetime"\nlower = 2020-01-01\nupper = 2021-01-01\n')
    table(a=pa.array([1, 0], pa.int64()).cast(storage))("d.parquet")
    assert "column 'a' is stored as" in dpearl.refuses(*dpearl.release("d.parquet"))


def test_a_person_column_needs_add_remove_and_plain_ids(dpearl: Dpearl) -> None:
    Path("s.toml").write_text("person = 'p'\n" + NUMBER + CATEGORY)
    table(p=[["i"], ["j"]])("d.parquet")
    assert "person column 'p' holds no plain ids" in dpearl.refuses(*dpearl.release("d.parquet"))
    assert "needs --relation add-remove" in dpearl.refuses(*dpearl.release("d.parquet", "--relation", "replace-one"))
    assert "has no column 'p'" in dpearl.refuses(*dpearl.release("good.csv"))


def test_a_ledger_refuses_what_its_budget_does_not_cover(dpearl: Dpearl) -> None:
    dpearl.works(*dpearl.release("good.csv"))
    assert "l: budget exceeded: " in dpearl.refuses(*dpearl.release("good.csv", "-o", "more.dpearl"))
    dpearl.works("ledger", "l", "--epsilon", "9")
    another = dpearl.refuses(*dpearl.release("good.csv", "-o", "more.dpearl", "--relation", "replace-one"))
    assert "l: protects one person (one row), present or absent" in another
    assert "must share one unit" in another


def test_a_ledger_with_one_byte_changed_is_refused(dpearl: Dpearl) -> None:
    dpearl.works("ledger", "l", "--epsilon", "9")
    written = Path("l").read_bytes()
    for place in range(0, len(written), 5):
        Path("l").write_bytes(written[:place] + b"#" + written[place + 1 :])
        assert "l: " in dpearl.refuses(*dpearl.release("good.csv"))


@pytest.fixture
def made(dpearl: Dpearl) -> bytes:
    """The bytes of an intact release, `made.dpearl`."""
    dpearl.works(*dpearl.release("good.csv", "-o", "made.dpearl"))
    return Path("made.dpearl").read_bytes()


def test_a_release_with_one_bit_flipped_is_refused(dpearl: Dpearl, made: bytes) -> None:
    bits = {*range(8 * 200), *random.Random(0).sample(range(8 * len(made)), 200)}
    for bit in bits:
        flipped = bytearray(made)
        flipped[bit // 8] ^= 1 << bit % 8
        Path("made.dpearl").write_bytes(flipped)
        with pytest.raises(FileError, match=r"made\.dpearl: "):
            load_release("made.dpearl")
    assert "made.dpearl: " in dpearl.refuses("inspect", "made.dpearl")


@pytest.mark.parametrize("size", [0, 7, 8, 100, -8, -1])
def test_a_truncated_release_is_refused(dpearl: Dpearl, made: bytes, size: int) -> None:
    Path("made.dpearl").write_bytes(made[:size])
    assert "damaged" in dpearl.refuses("inspect", "made.dpearl")


def test_a_file_that_is_no_release_is_refused(dpearl: Dpearl, made: bytes) -> None:
    Path("made.dpearl").write_bytes(made.replace(rb"\"version\":1", rb"\"version\":2"))
    assert "was written by a newer dpearl (format 2); upgrade dpearl" in dpearl.refuses("inspect", "made.dpearl")
    Path("made.dpearl").write_bytes(pickle.dumps({SECRET: list(range(999))}))
    assert "made.dpearl: is not a dpearl file" in dpearl.refuses("inspect", "made.dpearl")
    assert "no.dpearl: no such file" in dpearl.refuses("inspect", "no.dpearl", "--json")


def test_partial_sums_stay_on_the_private_side(dpearl: Dpearl) -> None:
    embed = ("embed", "--schema", "s.toml", "-k", "2")
    Path("other.csv").write_text("a,b\n3,x\n")
    dpearl.works(*embed, "good.csv", "-o", "one")
    dpearl.works(*embed, "other.csv", "-o", "two")
    dpearl.works(*embed, "other.csv", "-o", "three", "--seed", "5")
    assert "one: is a PRIVATE partial sum, not a release" in dpearl.refuses("inspect", "one")
    assert "good.csv: is not a dpearl file" in dpearl.refuses("merge", "one", "good.csv", "-o", "sum")
    assert "the same shard is given twice" in dpearl.refuses("merge", "one", "two", "one", "-o", "sum")
    assert "different designs; embed all shards" in dpearl.refuses("merge", "one", "three", "-o", "sum")
    assert "partial sums and data cannot be released together" in dpearl.refuses(*dpearl.release("one", "good.csv"))
    assert "--rows-per-person differs" in dpearl.refuses(*dpearl.release("one", "two", "--rows-per-person", "3"))
    bare = ("release", "one", "two", "--epsilon", "1", "-o", "out.dpearl", "--rows-per-person", "3")
    assert "--rows-per-person differs" in dpearl.refuses(*bare), "also where no schema is given"
    dpearl.works("merge", "one", "two", "-o", "sum")
    dpearl.works(*dpearl.release("sum"))
    assert "is a dpearl-release file, not a dpearl-partial file" in dpearl.refuses("merge", "out.dpearl", "one", "-o", "all")


def test_the_installed_command_says_the_same(dpearl: Dpearl) -> None:
    Path("bad.csv").write_text(f"a,b\n1,{SECRET},x\n")
    command = [str(Path(sys.executable).with_name("dpearl")), *dpearl.release("bad.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dpearl: bad.csv: row 2 has 3 cells where the header has 2; mend that row\n"
    assert not Path("l").exists()


def invalid_text() -> pa.Array:
    """Text that is not UTF-8, as a careless writer leaves it in a Parquet file."""
    return pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\xfe", b"x"]).buffers())


def several(name: str) -> None:
    """A folder of files that agree on names and little else."""
    Path(name).mkdir()
    Path(name, "1.csv").write_text("b;a\nx;1\n")
    table(a=pa.array([1, None], pa.int8()), b=pa.array(["x", "z"]).dictionary_encode())(f"{name}/2.parquet")
    table(a=pa.nulls(2), b=pa.array(["x", "z"], pa.large_string()))(f"{name}/3.parquet")
    table(a=pa.array([1, None]).dictionary_encode(), b=[1.5, None])(f"{name}/4.parquet")


def quoted(name: str) -> None:
    """Column names that need care, in another order than the schema's."""
    Path("s.toml").write_text((NUMBER + CATEGORY).replace(".a]", '."Größe, \\"cm\\""]').replace(".b]", '."a.b\\nc"]'))
    Path(name).write_text('z,"a.b\nc","Größe, ""cm"""\n1,x,3\n')


FINE: dict[str, tuple[str, Write]] = {
    "header only": ("d.csv", text("a,b\n")),
    "header only, no line end": ("d.csv", text("a,b")),
    "header only, Parquet": ("d.parquet", table(a=pa.array([], pa.float64()), b=pa.array([], pa.string()))),
    "byte order mark": ("d.csv", raw(b"\xef\xbb\xbf" + GOOD.encode())),
    "byte order mark and quote": ("d.csv", raw(b'\xef\xbb\xbf"a",b\n1,x\n')),
    "mixed line ends": ("d.csv", raw(b"a,b\r\n1,x\n2,y\r3,x\r\n\n4,y")),
    "quoted newlines": ("d.csv", text('a,b\n1,"x\ny"\n"2\r\n","""y"""\n')),
    "text, nothing and odd numbers": (
        "d.csv",
        text("a,b\nten,x\nNaN,x\ninf,x\n-inf,x\n1e999,x\n,x\n0x10,x\n" + "9" * 999 + ",x\n"),
    ),
    "unseen levels": ("d.csv", text(f"a,b\n1,{SECRET}\n2,\n3,NA\n")),
    "semicolons": ("d.csv", text("a;b\n1,5;x\n")),
    "tabs": ("d.tsv", text("a\tb\n1,5\tx\n")),
    "bars": ("d.txt", text("a|b\n1|x\n")),
    "gzip": ("d.csv.gz", raw(gzip.compress(GOOD.encode()))),
    "gzip of more than a block, in two members": (
        "d.csv.gz",
        raw(gzip.compress(f"a,b,c\n{WIDE}".encode()) + gzip.compress(b"1,x,z\n")),
    ),
    "odd names in another order": ("d.csv", quoted),
    "inch mark": ("d.csv", text('a,b,c\n1,x,5" screen\n2,y,z\n')),
    "inch mark in the header": ("d.csv", text('a,b,5" screen\n1,x,\n2,y,z\n')),
    "more than a block, inch marks": ("d.csv", text("a,b,c\n" + '1,x,5"\n' * 700_001)),
    "a long quoted cell": ("d.csv", text('a,b,c\n1,x,"' + "long\n" * 99_999 + '"\n2,y,5"\n')),
    "null-typed columns": ("d.parquet", table(a=pa.nulls(2), b=pa.nulls(2))),
    "invalid UTF-8 in Parquet": ("d.parquet", table(a=invalid_text(), b=invalid_text())),
    "pandas categories": ("d.parquet", lambda n: pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", None])}).to_parquet(n)),
    "pandas categories of numbers": (
        "d.parquet",
        lambda n: pd.DataFrame({"a": pd.Categorical([1, 2]), "b": [1, 2]}).to_parquet(n),
    ),
    "folder of many types": ("d", several),
    ".npz": ("d.npz", archive(a=np.array([1.0, np.nan]), b=np.array(["x", SECRET]))),
    ".npz of no rows": ("d.npz", archive(a=np.array([]), b=np.array([]))),
    ".npz in another byte order": ("d.npz", archive(a=np.array([1, 2], ">i4"), b=np.array(["x", "y"], ">U1"))),
    "corrupt images": ("d", folder(png()[:60], png(), png()[:20], png("1"), b"no image")),
}


@pytest.mark.parametrize("case", FINE)
def test_no_content_of_a_cell_stops_a_release(dpearl: Dpearl, case: str) -> None:
    name, write = FINE[case]
    write(name)
    assert SECRET not in dpearl.works(*dpearl.release(name))
    assert load_release("out.dpearl").epsilon <= 1


def test_files_are_given_by_name_by_glob_and_by_folder_alike(dpearl: Dpearl) -> None:
    several("d")
    ways = (["d"], ["d/*"], ["d/1.csv", "d/2.parquet", "d/3.parquet", "d/4.parquet"], ["d/**/*.*"], ["d/?.parquet", "d/1.csv"])
    for number, way in enumerate(ways):
        dpearl.works(
            *dpearl.release(*way, "--relation", "replace-one", "--epsilon", "9", "--ledger", f"l{number}", "-o", f"{number}")
        )
        assert json.loads(dpearl.works("inspect", f"{number}", "--json"))["rows"] == 7


DRAFTS: dict[str, tuple[str, Write, dict[str, str], list[str]]] = {
    "CSV": (
        "d.csv",
        text(f'n,"t ü",w,ok\n17,2021-01-01 10:00:00,{SECRET},true\n18,2021-01-02 10:00:00,y,false\n'),
        {"n": "number", "t ü": "datetime", "w": "category", "ok": "boolean"},
        ["n.lower", "n.upper", "t ü.lower", "t ü.upper", "w.levels"],
    ),
    "Parquet": (
        "d.parquet",
        table(a=[17.5, 18.5], t=pa.array([1, 2], pa.timestamp("s"))),
        {"a": "number", "b": "category", "t": "datetime"},
        ["a.lower", "a.upper", "b.levels", "t.lower", "t.upper"],
    ),
    ".npz": (
        "d.npz",
        archive(x=np.zeros((2, 4, 4), np.uint8), y=np.array([17, 18]), extra=np.ones(3)),
        {"x": "image", "y": "category"},
        ["y.levels"],
    ),
    "images": ("d", folder(png(), png()), {"image": "image", "label": "category"}, ["label.levels"]),
}
BLANKS = {
    'lower = ""': {"number": "lower = 0", "datetime": "lower = 2020-01-01"},
    'upper = ""': {"number": "upper = 99", "datetime": "upper = 2030-01-01"},
    "levels = []": {"category": 'levels = ["x", "y"]'},
}


@pytest.mark.parametrize("case", DRAFTS)
def test_a_drafted_schema_tells_nothing_of_the_data_and_works_once_it_is_filled_in(dpearl: Dpearl, case: str) -> None:
    name, write, kinds, blanks = DRAFTS[case]
    write(name)
    dpearl.works("schema", name, "-o", "drafted.toml")
    drafted = Path("drafted.toml").read_text()
    assert {key: column["kind"] for key, column in tomllib.loads(drafted)["columns"].items()} == kinds
    assert not any(value in drafted for value in (SECRET, "17", "18", "2021"))

    refusal = dpearl.refuses(*dpearl.release(name, "--schema", "drafted.toml"))
    told = refusal.partition("knowledge: ")[2].partition("; or ask for it: ")[0]
    named = [part.removesuffix(")").rsplit(" (line ", 1) for part in told.split(", ")]
    assert [blank for blank, _ in named] == blanks
    lines = drafted.splitlines()
    assert all(lines[int(line) - 1].startswith(f"{blank.rpartition('.')[2]} = ") for blank, line in named)

    filled, kind = [], ""
    for line in lines:
        kind = line.split('"')[1] if line.startswith("kind = ") else kind
        blank = next((blank for blank in BLANKS if line.startswith(blank)), None)
        filled.append(BLANKS[blank][kind] if blank else line)
    Path("filled.toml").write_text("\n".join(filled))
    dpearl.works(*dpearl.release(name, "--schema", "filled.toml"))


def test_a_draft_never_replaces_a_schema(dpearl: Dpearl) -> None:
    assert "s.toml: already exists" in dpearl.refuses("schema", "good.csv", "-o", "s.toml")
    assert "no.csv: no such file" in dpearl.refuses("schema", "no.csv", "-o", "new.toml")
