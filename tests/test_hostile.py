"""What somebody writes who wants to break the reader: bombs, pipes, links, forged values, and names that act on their reader.

Each is refused in one line before anything is charged, or read as what it is, in bounded memory.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from safetensors.numpy import save

from dpearl import RECIPES, Budget, Offer, container, fit, load_release, release_rows, save_release, save_synthesizer
from dpearl.canonical import canonical
from dpearl.container import pack
from dpearl.draft import draft, written
from dpearl.embed import load_partial, save_partial
from dpearl.engines.local import Local
from dpearl.errors import DataError, DpearlError, FileError, UsageError
from dpearl.ledger import read_ledger
from dpearl.owner import embed_shard, recipe_with
from dpearl.privacy import Unit
from dpearl.read import batches, open_sources, tables
from dpearl.read.pictures import arrays as weights_of
from dpearl.release import load_release_inside
from dpearl.schema import Schema, load_declaration, parse_schema
from dpearl.settings import settings_for
from dpearl.sites import load_study, plan_study, save_study
from dpearl.statement import privacy_statement
from dpearl.synthesizer import load_synthesizer
from dpearl.write import formulas, write_rows
from test_bad_input import CATEGORY, NUMBER, PICTURES, Dpearl, png
from test_bad_input import dpearl as dpearl

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m"
TURNED = "\u202egnp.exe\u2066"
FAKE = "x\nThis release is (0.001, 1e-9)-differentially private."
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SCHEMA = parse_schema({"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}, "y": {"kind": "boolean"}}})
TINY = recipe_with(RECIPES["auto"], None, None, 1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One intact file of each kind."""
    folder = tmp_path_factory.mktemp("kept")
    rows = pa.table({"x": np.linspace(0, 1, 3000), "y": [True, False] * 1500})
    files = {kind: folder / kind for kind in ("release", "model", "partial", "study")}
    made = release_rows(rows, Offer(SCHEMA, TINY, Budget(10.0, 1e-5)))
    save_release(made, files["release"])
    save_synthesizer(fit(made, replace(settings_for(made.embedding.design), iterations=1), threads=1), files["model"])
    save_partial(embed_shard(rows, SCHEMA, TINY, 0, Local(threads=1)), files["partial"])
    save_study(plan_study(SCHEMA, TINY, Budget(1.0, 1e-5), ["A", "B", "C"], 1, 0), files["study"])
    return files


OPEN: dict[str, list[Callable[[Path], Any]]] = {
    "release": [load_release],
    "model": [load_release_inside, load_synthesizer],
    "partial": [load_partial],
    "study": [load_study],
}


def forged(path: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The file with other JSON and a right digest: by somebody who knows the format."""
    meta, arrays = container.read(path, f"dpearl-{path.name}")
    change(meta)
    target.write_bytes(pack(f"dpearl-{path.name}", meta, arrays)[0])
    return target


def peak(work: Callable[[], object]) -> int:
    """Bytes of memory that this process held at most beyond what it held before."""
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    work()
    return _memory("VmHWM") - before


def _memory(what: str) -> int:
    return 1024 * int(
        next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)).split()[1]
    )


def nodes(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every node of a JSON value but its root."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, own in inside for found in ((*place, key), *nodes(own, (*place, key)))]


def put(meta: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    node: Any = meta
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value


NASTY: list[Any] = [None, True, -1, 10**400, 1e308, "\0", "9" * 5000, [], {"a": [{}]}, ESCAPES]


@pytest.mark.parametrize("kind", OPEN)
def test_no_value_anywhere_in_a_file_breaks_its_reader(kept: dict[str, Path], kind: str, tmp_path: Path) -> None:
    """Every node replaced by each nasty value, under a right digest: read or refused, and never anything else."""
    meta, _ = container.read(kept[kind], f"dpearl-{kind}")
    places = nodes({key: value for key, value in meta.items() if key not in ("format", "version", "digest", "release")})
    refused = 0
    for place in places:
        for value in NASTY:
            path = forged(kept[kind], tmp_path / "forged", partial(put, place=place, value=value))
            for opened in OPEN[kind]:
                try:
                    opened(path)
                except FileError:
                    refused += 1
    assert refused > len(places)


FORGED: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "types that are none": ("release", lambda meta: meta.update(types={"x": "nonsense"})),
    "types without end": ("release", lambda meta: meta.update(types={"x": "dictionary[" * 5000})),
    "types of no column": ("release", lambda meta: meta.update(types={"z": "double"})),
    "types that are no words": ("partial", lambda meta: meta.update(types={"x": 5})),
    "a zone that is none": ("release", lambda meta: meta.update(types={"x": "timestamp[us, tz=Nowhere]"})),
    "a recipe that is no word": ("release", lambda meta: meta.update(recipe=["auto"])),
    "fewer rows than none": ("partial", lambda meta: meta.update(rows=-1)),
    "half a dishonest site": ("study", lambda meta: meta.update(dishonest=0.5)),
    "a site that climbs": ("study", lambda meta: meta.update(sites=["../A", "B"])),
    "a site with an end": ("study", lambda meta: meta.update(sites=["A\0", "B"])),
    "a site that acts": ("study", lambda meta: meta.update(sites=[ESCAPES, "B"])),
    "a site too long to be saved": ("study", lambda meta: meta.update(sites=["A" * 300, "B"])),
    "training without end": ("model", lambda meta: meta.update(training="0" * 99)),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_is_said_besides_numbers_is_checked_too(kept: dict[str, Path], case: str, tmp_path: Path) -> None:
    kind, change = FORGED[case]
    with pytest.raises(FileError, match=r"is damaged"):
        OPEN[kind][0](forged(kept[kind], tmp_path / "forged", change))


def respelt(path: Path, change: Callable[[str], str]) -> bytes:
    """The file with its JSON in another spelling, and the digest of that."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    digest = json.loads(header["__metadata__"]["dpearl"])["digest"]
    header["__metadata__"]["dpearl"] = change(header["__metadata__"]["dpearl"]).replace(digest, "0" * 64)
    text = json.dumps(header, separators=(",", ":")).encode()
    blank = len(text).to_bytes(8, "little") + text + content[8 + size :]
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode())


SPELLINGS: dict[str, Callable[[str], str]] = {
    "a key twice": lambda text: text.replace("{", '{"recipe":"paper",', 1),
    "not a number": lambda text: text.replace("{", '{"a":NaN,', 1),
    "infinity": lambda text: text.replace("{", '{"a":1e999,', 1),
    "an infinite version": lambda text: text.replace('"version":1', '"version":1e999'),
    "a version without end": lambda text: text.replace('"version":1', '"version":' + "9" * 5000),
    "a blank": lambda text: text.replace("{", "{ ", 1),
    "deep nesting": lambda text: text.replace("{", '{"a":' + "[" * 9999 + "]" * 9999 + ",", 1),
}


@pytest.mark.parametrize("kind", OPEN)
@pytest.mark.parametrize("case", SPELLINGS)
def test_a_file_has_one_spelling(kept: dict[str, Path], kind: str, case: str, tmp_path: Path) -> None:
    """Two readers must not see two things in one file, whatever its digest says."""
    if kind != "release":  # which is spelt anew as a whole, and compared
        (tmp_path / "same").write_bytes(respelt(kept[kind], lambda text: text))
        OPEN[kind][0](tmp_path / "same")
    (tmp_path / "other").write_bytes(respelt(kept[kind], SPELLINGS[case]))
    with pytest.raises(FileError, match=r"is not a dpearl file, or is damaged"):
        OPEN[kind][0](tmp_path / "other")


def test_a_header_of_many_small_things_takes_no_more_than_a_few_times_its_size(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(save({}, {"dpearl": "[" + "[]," * 300_000 + "[]]"}))

    def refused() -> None:
        with pytest.raises(FileError):
            load_release(tmp_path / "x")

    assert peak(refused) < 60 * (tmp_path / "x").stat().st_size


# The ledger


def chained(*entries: Any) -> str:
    """A ledger whose hashes are right, whatever its entries say."""
    lines, previous = [], "0" * 64
    for entry in entries:
        digest = hashlib.sha256(previous.encode() + canonical(entry)).hexdigest()
        lines.append(canonical({"entry": entry, "hash": digest, "previous": previous}).decode() + "\n")
        previous = digest
    return "".join(lines)


BUDGET = {"kind": "budget", "epsilon": 1.0, "delta": 1e-5, "time": "t"}
CHARGE = {
    **{"kind": "charge", "mu": 0.1, "delta": 1e-5, "relation": "add-remove", "rows_per_person": 1},
    **{"plan": "p", "output": "o", "time": "t", "lost": 0.0},
}
NO_TEXTS: list[Any] = [5, None, {"a": 1}, ["x"]]
ODD_CHARGES: list[dict[str, Any]] = [
    *({"mu": value} for value in ("x", None, -1, 0, 10**400, "1e400")),
    {"mu": []},
    *({"lost": value} for value in (-1e-6, -1e9, 1, "1e400", None, 10**400)),
    *({"delta": value} for value in (0, 1, "d", None)),
    *({"rows_per_person": value} for value in (0, 1.5, "2", 10**400, True, None)),
    *({name: value} for name in ("plan", "output", "time") for value in NO_TEXTS),
    *({"relation": value} for value in ("friends", None, 3)),
    {"kind": ["x"]},
]


@pytest.mark.parametrize("odd", ODD_CHARGES, ids=str)
def test_a_charge_that_makes_no_sense_is_refused_though_its_chain_is_right(odd: dict[str, Any], tmp_path: Path) -> None:
    """A part of δ below zero, for one, would hide what others cost."""
    (tmp_path / "l").write_text(chained(BUDGET, CHARGE))
    assert len(read_ledger(tmp_path / "l").charges) == 1
    (tmp_path / "l").write_text(chained(BUDGET, CHARGE | odd))
    with pytest.raises(FileError, match="line 2 has been altered or is not a ledger line"):
        read_ledger(tmp_path / "l")


@pytest.mark.parametrize(
    "odd", [{"epsilon": 10**400}, {"epsilon": "1"}, {"epsilon": None}, {"delta": -1}, {"delta": 10**400}], ids=str
)
def test_a_budget_that_makes_no_sense_is_refused_too(odd: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "l").write_text(chained(BUDGET | odd))
    with pytest.raises(FileError, match="line 1 has been altered"):
        read_ledger(tmp_path / "l")


BAD_LINES = {
    "deep nesting": "[" * 99_999,
    "a huge number": "9" * 99_999,
    "not a number": chained(BUDGET).replace("1.0", "NaN"),
    "a key twice": chained(BUDGET).replace("{", '{"hash":"0",', 1),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_line_that_is_a_bomb_is_refused(case: str, tmp_path: Path) -> None:
    (tmp_path / "l").write_text(BAD_LINES[case].removesuffix("\n") + "\n")
    with pytest.raises(FileError, match="line 1 has been altered"):
        read_ledger(tmp_path / "l")


# Schemas

BAD_SCHEMAS = {
    "a huge number": "rows_per_person = " + "9" * 5000,
    "a huge bound": NUMBER.replace("10", "9" * 400),
    "a huge number of rows": f"rows_per_person = {10**400}\n" + NUMBER,
    "a key twice": NUMBER + "upper = 3\n",
    "a table twice": NUMBER + NUMBER,
    "tables without end": "[" + ".".join("a" * 5000) + "]",
    "headers without end": "[" * 5000 + "\n" + NUMBER,
    "keys without end": "columns = {" + "a = {" * 3000,
    "levels without end": f"[columns.b]\nkind = 'category'\nlevels = {'[' * 3000}",
    "a control character": NUMBER.replace("number", "num\x1b[31m"),
    "a lone surrogate": NUMBER.replace("number", "\\ud800"),
    "pixels without end": f'[columns.a]\nkind = "image"\nheight = {2**62}\nwidth = {2**62}\n',
    "kind of no kind": "[columns.a]\nkind = {a = 1}\n",
    "columns in a list": '[[columns]]\nkind = "number"\n',
    "modes without end": NUMBER + f"modes = {10**9}\n",
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_a_schema_that_is_a_bomb_is_refused(dpearl: Dpearl, case: str) -> None:
    Path("s.toml").write_text(BAD_SCHEMAS[case])
    assert "s.toml: " in dpearl.refuses("plan", "--schema", "s.toml", "--rows", "9", "--epsilon", "1")


def test_files_larger_than_any_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    readers: list[Callable[[Path], Any]] = [load_declaration, read_ledger, load_release, load_partial]
    for opened in readers:
        with pytest.raises(DpearlError, match=r"is larger than any|is not a dpearl file"):
            opened(tmp_path / "large")


# Pipes, devices, links and names that climb


def test_nobody_waits_for_a_pipe_or_reads_a_device_to_its_end(dpearl: Dpearl) -> None:
    for name in ("d.csv", "d.parquet", "d.npz", "p.toml", "p.dpearl", "p.l", "p.sig"):
        os.mkfifo(name)
    for data in ("d.csv", "d.parquet", "d.npz", "/dev/zero", "/dev/stdin"):
        assert f"{data}: is no plain file" in dpearl.refuses(*dpearl.release(data))
    for device in ("p.toml", "/dev/zero"):
        assert f"{device}: is no plain file" in dpearl.refuses(*dpearl.release("good.csv", "--schema", device))
    for device in ("p.l", "/dev/zero", "."):
        assert f"{device}: is no plain file" in dpearl.refuses("ledger", device)
        assert f"{device}: is no plain file" in dpearl.refuses("ledger", device, "--epsilon", "1")
        assert f"{device}: is no plain file" in dpearl.refuses(*dpearl.release("good.csv", "--ledger", device))
    for command in (("inspect", "p.dpearl"), ("verify", "/dev/zero"), ("merge", "p.dpearl", "p.dpearl", "-o", "sum")):
        assert "no such file" in dpearl.refuses(*command)


def test_globs_and_folders_pass_over_what_is_no_file(dpearl: Dpearl) -> None:
    Path("d").mkdir()
    for name in ("a.csv", "b.parquet", "c.npz"):
        os.mkfifo(f"d/{name}")
    Path("d/d.csv").symlink_to("nowhere")
    Path("d/e.csv").symlink_to("e.csv")
    Path("d/loop").symlink_to(".")
    assert "d: folder holds no data" in dpearl.refuses(*dpearl.release("d"))
    assert "d/*.csv: no such file" in dpearl.refuses(*dpearl.release("d/*.csv"))
    for link in ("d/d.csv", "d/e.csv"):
        assert f"{link}: is no plain file" in dpearl.refuses(*dpearl.release(link))
    Path("d/good.csv").write_text("a,b\n1,x\n")
    dpearl.works(*dpearl.release("d"))


@pytest.fixture
def pictures(dpearl: Dpearl) -> Path:
    """A folder of two pictures, and one beside it."""
    Path("s.toml").write_text(PICTURES)
    for name in ("d/x/1.png", "d/y/2.png", "beside.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(png())
    return Path("d")


def found(folder: Path) -> int:
    return sum(source.rows or 0 for source in open_sources(str(folder)))


def test_a_folder_of_pictures_holds_what_lies_in_it_once(dpearl: Dpearl, pictures: Path) -> None:
    os.mkfifo(pictures / "x" / "pipe.png")
    (pictures / "x" / "zero.png").symlink_to("/dev/zero")
    (pictures / "x" / "lost.png").symlink_to("nowhere")
    (pictures / "up").symlink_to("..")
    (pictures / "x" / "loop").symlink_to("..")
    assert found(pictures) == 2
    dpearl.works(*dpearl.release("d"))
    (pictures / "y" / "3.png").symlink_to("../../beside.png")
    assert found(pictures) == 3, "a link to a picture is the owner's choice"
    for link in ("hard", "soft"):
        twice = pictures / "y" / f"{link}.png"
        twice.hardlink_to("d/x/1.png") if link == "hard" else twice.symlink_to("../x/1.png")
        with pytest.raises(DataError, match="links make the same picture count twice"):
            open_sources("d")
        twice.unlink()


def test_names_in_an_archive_are_names_of_columns_and_nothing_else(dpearl: Dpearl) -> None:
    stream = io.BytesIO()
    np.save(stream, np.arange(3.0))
    names = ("../../climbed", "/tmp/absolute", "..\\windows", "a", "b", "a/../../b", ESCAPES)
    with zipfile.ZipFile("d.npz", "w") as archive:
        for name in names:
            archive.writestr(f"{name}.npy", stream.getvalue())
    before = set(dpearl.folder.rglob("*"))
    (source,) = open_sources("d.npz")
    assert set(source.types) == set(names) - {ESCAPES} | {ESCAPES.split("\0")[0]}
    dpearl.works(*dpearl.release("d.npz"))
    assert {path.name for path in set(dpearl.folder.rglob("*")) - before} == {"out.dpearl", "l"}
    assert not ACTING.search(dpearl.works("schema", "d.npz"))


# Bombs in data


def npz(name: str, kind: int = zipfile.ZIP_DEFLATED, **claimed: tuple[str, str, int]) -> None:
    """Arrays that claim a shape and a type, and hold so many zeros."""
    with zipfile.ZipFile(name, "w", kind) as archive:
        for key, (shape, descr, size) in claimed.items():
            header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            archive.writestr(f"{key}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + bytes(size))


def test_an_archive_is_read_in_parts_however_wide_its_cells(dpearl: Dpearl) -> None:
    npz("d.npz", a=("(4096,)", "<f8", 2**15), b=("(4096,)", "<U12500", 4096 * 50_000))
    assert Path("d.npz").stat().st_size < 10**6
    assert peak(lambda: dpearl.works(*dpearl.release("d.npz"))) < 2**27 + 2**26, "of 200 MB in the archive"


BAD_ARCHIVES: dict[str, Callable[[], object]] = {
    "a cell of 400 MB": lambda: npz("d.npz", a=("(2,)", "<f8", 16), b=("(2,)", f"<U{10**8}", 99)),
    "rows without end": lambda: npz("d.npz", a=(f"({2**62},)", "<f8", 99), b=(f"({2**62},)", "<U1", 99)),
    "fewer rows than none": lambda: npz("d.npz", a=("(-1,)", "<f8", 99), b=("(-1,)", "<U1", 99)),
    "a shape that is no shape": lambda: npz("d.npz", a=("'x'", "<f8", 99), b=("(1.5,)", "<U1", 99)),
    "a header without end": lambda: npz("d.npz", a=("(" * 50, "<f8", 99), b=("(1,)", "<U1", 99)),
    "a type that is none": lambda: npz("d.npz", a=("(1,)", "=f99", 99), b=("(1,)", "<U1", 99)),
    "a type that runs": lambda: npz("d.npz", a=("(1,)", "__import__('os')", 99), b=("(1,)", "<U1", 99)),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_an_archive_that_claims_what_cannot_be_is_refused_before_memory_is_taken(dpearl: Dpearl, case: str) -> None:
    BAD_ARCHIVES[case]()
    assert peak(lambda: dpearl.refuses(*dpearl.release("d.npz"))) < 2**26
    with pytest.raises(DataError, match=r"cannot be read as a \.npz of plain numbers"):
        weights_of(Path("d.npz"))


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_refused_whichever_way_it_is_packed(dpearl: Dpearl, kind: int) -> None:
    npz("d.npz", kind, a=("(9,)", "<f8", 72), b=("(9,)", "<U1", 36))
    whole = Path("d.npz").read_bytes()
    dpearl.works(*dpearl.release("d.npz", "--ledger", "first"))
    Path("out.dpearl").unlink()
    schema = parse_schema({"columns": {"a": {"kind": "number", "lower": 0, "upper": 1}}})
    for place in range(30, len(whole), 11):
        Path("d.npz").write_bytes(whole[:place] + b"\xff\xff" + whole[place + 2 :])
        with suppress(DataError):
            list(batches(open_sources("d.npz"), schema, 99))


GZIPPED = {
    "one line": b"a,b\n" + b"1" * 10**8,
    "one quoted cell": b'a,b\n1,"' + b"x\n" * (5 * 10**7),
    "one header": b"," * 10**8,
    "nothing but NUL": bytes(10**8),
}


@pytest.mark.parametrize("case", GZIPPED)
def test_a_compressed_text_is_unpacked_no_further_than_it_makes_sense(dpearl: Dpearl, case: str) -> None:
    Path("d.csv.gz").write_bytes(gzip.compress(GZIPPED[case], 1))
    assert peak(lambda: dpearl.refuses(*dpearl.release("d.csv.gz"))) < 2**26


def test_a_table_whose_dictionary_claims_gigabytes_is_refused(dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2**14, np.int32)), pa.array(["x" * 2**10]))
    parquet.write_table(pa.table({"a": np.zeros(2**14), "b": cells}), "d.parquet", store_schema=False)
    assert Path("d.parquet").stat().st_size < 2**13
    dpearl.works(*dpearl.release("d.parquet", "--ledger", "first"))
    monkeypatch.setattr(tables, "_HEAVY", 2**23)
    assert "16,384 rows hold more than 256 MB of text" in dpearl.refuses(*dpearl.release("d.parquet", "-o", "more"))


def chunked(*chunks: bytes) -> bytes:
    """A PNG of these chunks."""
    parts = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


PIXELS = b"IDAT" + zlib.compress(bytes(20))
MUCH = zlib.compress(bytes(10**8), 1)
HEAD = b"IHDR" + struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
ODD_PICTURES = {
    "a text of 100 MB": chunked(HEAD, b"zTXtx\0\0" + MUCH, PIXELS, b"IEND"),
    "a profile of 100 MB": chunked(HEAD, b"iCCPx\0\0" + MUCH, PIXELS, b"IEND"),
    "100 MB behind 16 pixels": chunked(HEAD, b"IDAT" + MUCH, b"IEND"),
    "two heads": chunked(HEAD, HEAD, PIXELS, b"IEND"),
    "no end": chunked(HEAD, PIXELS),
    "another format by its name": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n",
}


@pytest.mark.parametrize("case", ODD_PICTURES)
def test_an_odd_picture_is_a_missing_cell_or_its_pixels(dpearl: Dpearl, pictures: Path, case: str) -> None:
    (pictures / "x" / "1.png").write_bytes(ODD_PICTURES[case])
    assert peak(lambda: dpearl.works(*dpearl.release("d"))) < 2**26


# Names that act on their reader

NAMES = [ESCAPES, TURNED, FAKE, "<script>alert(1)</script>", "\u2028next", "[bold red]rich[/]", "{{7*7}}", "%s%n", "$(reboot)"]


def evil() -> Schema:
    columns: dict[str, Any] = {name: {"kind": "number", "lower": 0, "upper": 1} for name in NAMES}
    columns["l" + ESCAPES] = {"kind": "category", "levels": NAMES}
    return parse_schema({"label": "l" + ESCAPES, "columns": columns})


@pytest.fixture
def acting(dpearl: Dpearl) -> Schema:
    """A release and its ledger about columns and levels that would act on their reader, under a name that would, too."""
    Path("s.toml").write_text(written(evil()))
    rows = {name: np.linspace(0, 1, 90) for name in NAMES} | {"l" + ESCAPES: NAMES * 10}
    parquet.write_table(pa.table(rows), "d.parquet")
    return evil()


def test_no_name_acts_on_a_terminal(dpearl: Dpearl, acting: Schema) -> None:
    told = [
        dpearl.works("schema", "d.parquet"),
        dpearl.works("plan", "--schema", "s.toml", "--rows", "90", "--epsilon", "1"),
        dpearl.works(*dpearl.release("d.parquet", "--ledger", f"l{ESCAPES}", "-o", f"out{ESCAPES}")),
        dpearl.works("inspect", f"out{ESCAPES}"),
        dpearl.works("inspect", f"out{ESCAPES}", "--json"),
        dpearl.works("verify", f"out{ESCAPES}"),
        dpearl.works("ledger", f"l{ESCAPES}"),
        dpearl.works("schema", f"out{ESCAPES}"),
    ]
    for text in told:
        assert not ACTING.search(text)
    assert "�]0;owned��[2J�31m (number)" in told[3]
    assert told[3].count("-differentially private.\n") == 1, "no name passes for a line of the statement"
    assert json.loads(told[4])["label"] == "l" + ESCAPES, "plain values stay what they are"
    Path("again.toml").write_text(told[-1])
    assert load_declaration("again.toml") == acting


def test_no_name_acts_on_a_terminal_through_a_mistake(dpearl: Dpearl, acting: Schema) -> None:
    Path(f"x{ESCAPES}{TURNED}.csv").write_text(f"{FAKE!r}\n1\n")
    mistakes = [
        dpearl.refuses(*dpearl.release(f"x{ESCAPES}{TURNED}.csv")),
        dpearl.refuses(*dpearl.release("d.parquet", "--schema", f"no\n{ESCAPES}")),
        dpearl.refuses("inspect", ESCAPES),
        dpearl.refuses(ESCAPES),
        dpearl.refuses("plan", f"--{ESCAPES}"),
        dpearl.refuses(*dpearl.release("d.parquet", "--recipe", ESCAPES)),
        dpearl.refuses("ledger", f"{ESCAPES}\n{FAKE}"),
    ]
    assert not any(ACTING.search(told) for told in mistakes)


def test_a_ledger_that_others_wrote_does_not_act_on_a_terminal(dpearl: Dpearl) -> None:
    earlier = BUDGET | {"time": ESCAPES + FAKE}
    Path("l").write_text(chained(earlier, BUDGET, CHARGE | {"output": ESCAPES + TURNED, "time": FAKE, "plan": "\x9b"}))
    told = dpearl.works("ledger", "l")
    assert not ACTING.search(told)
    assert "\nThis release is" not in told


def test_training_that_a_model_tells_of_does_not_act_on_a_terminal(kept: dict[str, Path], dpearl: Dpearl) -> None:
    forged(kept["model"], Path("m"), lambda meta: meta["training"].update({ESCAPES: TURNED, FAKE: [ESCAPES]}))
    told = dpearl.works("inspect", "m")
    assert not ACTING.search(told)
    assert told.count("\nThis release is") == 1
    assert json.loads(dpearl.works("inspect", "m", "--json"))["training"][ESCAPES] == TURNED


def test_a_statement_in_python_does_not_act_either(acting: Schema) -> None:
    made = release_rows("d.parquet", Offer(acting, TINY, Budget(1.0, 1e-5)))
    assert not ACTING.search(privacy_statement(made))
    assert not ACTING.search(draft(open_sources("d.parquet")))


# Cells that a spreadsheet would run

RUNS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\ty", '=HYPERLINK("http://x")', "- none -"]
STAYS = ["-1", "+2.5", "-1e5", "<=50K", "a=b", "x", "", "1-2"]


def test_what_a_spreadsheet_would_run_is_named_and_numbers_are_not() -> None:
    named = formulas(parse_schema({"columns": {"n": {"kind": "category", "levels": [*RUNS, *filter(None, STAYS)]}}}))
    assert [text for text in RUNS if f"{text!r} in 'n'" not in named] == []
    assert len(named) == len(RUNS)
    assert formulas(parse_schema({"columns": {"=n": {"kind": "boolean"}}})) == ["the name of column '=n'"]
    other = {"kind": "category", "levels": ["x"], "other": "=other"}
    assert formulas(parse_schema({"columns": {"n": other}})) == ["'=other' in 'n'"]


def test_cells_are_written_as_they_are_and_a_csv_of_them_says_so(dpearl: Dpearl) -> None:
    levels = json.dumps(RUNS[:2])
    Path("s.toml").write_text(NUMBER + CATEGORY.replace('["x", "y"]', levels))
    csv.write_csv(pa.table({"a": np.linspace(0, 9, 200), "b": RUNS[:2] * 100}), "d.csv")
    dpearl.works(*dpearl.release("d.csv", "--epsilon", "99"))
    dpearl.works("train", "out.dpearl", "--iterations", "1", "-o", "m.dpearl")
    code, _, told = dpearl.run("sample", "m.dpearl", "-n", "50", "-o", "s.csv")
    assert (code, told.count("WARNING")) == (0, 1)
    assert (
        "WARNING: s.csv: a spreadsheet would take '=1+1' in 'b', and 1 more, for a formula; the cells are as the schema" in told
    )
    assert set(csv.read_csv("s.csv").column("b").to_pylist()) <= set(RUNS[:2])
    assert "WARNING" not in dpearl.run("sample", "m.dpearl", "-n", "50", "-o", "s.parquet")[2]


def test_no_cell_ends_its_own_line_of_a_csv(tmp_path: Path) -> None:
    levels = ['a"b', "a\nb", "a\r\nb", 'x",=1+1,"', ESCAPES, "a,b", "\r=1"]
    schema = parse_schema({"columns": {"n": {"kind": "category", "levels": levels}, 'm"\n': {"kind": "boolean"}}})
    rows = pa.table({"n": levels, 'm"\n': [True] * len(levels)})
    write_rows(iter([rows]), schema, tmp_path / "x.csv")
    back = csv.read_csv(tmp_path / "x.csv", parse_options=csv.ParseOptions(newlines_in_values=True))
    assert back.to_pydict() == rows.to_pydict()


def test_odd_units_and_errors_are_of_one_tree() -> None:
    for rows in (0, -1, 2**31 + 1, float("nan")):
        with pytest.raises(UsageError):
            Unit(RECIPES["auto"].relation, rows)  # type: ignore[arg-type]
    assert issubclass(FileError, DpearlError)
