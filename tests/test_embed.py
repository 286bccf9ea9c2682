"""Sums over rows: the same integers however the rows are cut, ordered, stored and shared out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image as pillow

from dpearl.codec import Codec
from dpearl.design import RECIPES, Design, auxiliary_design, embedding_design
from dpearl.embed import Embedding, embed, load_partial, merge, save_partial
from dpearl.embeddings.characteristic import Characteristic, cosine_table
from dpearl.embeddings.count import UNIT
from dpearl.engines.local import Local
from dpearl.errors import UsageError
from dpearl.read import open_sources
from dpearl.schema import Boolean, Category, Datetime, Image, Number, Schema

SCHEMA = Schema(
    label="class",
    columns={
        "n": Number(lower=0, upper=10, step=0.5, spikes=(0, 99), missing=True),
        "x": Number(lower=-1, upper=1),
        "money": Number(lower=1, upper=1e6, log=True),
        "when": Datetime(lower=datetime(2020, 1, 1), upper=datetime(2024, 1, 1), step="1min"),
        "c": Category(levels=("a", "b", "c"), other="rest"),
        "class": Category(levels=(0, 1, 2)),
        "b": Boolean(missing=True),
    },
)
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.floats() | st.sampled_from([0.0, 99.0, 10.0]),
        "x": st.none() | st.floats(-2, 2),
        "money": st.none() | st.floats(0, 1e7),
        "when": st.none() | st.datetimes(datetime(2019, 1, 1), datetime(2025, 1, 1)),
        "c": st.none() | st.sampled_from(["a", "b", "c", "d", " a", "NA"]),
        "class": st.none() | st.integers(-1, 4),
        "b": st.none() | st.booleans(),
    }
)
TYPES = {"n": pa.float64(), "x": pa.float64(), "money": pa.float64(), "when": pa.timestamp("us")} | {
    "c": pa.string(),
    "class": pa.int64(),
    "b": pa.bool_(),
}
PLAN = embedding_design(SCHEMA, RECIPES["auto"], 1.0, 3)
DESIGN = Design(SCHEMA, (*auxiliary_design(SCHEMA, RECIPES["auto"]).blocks, PLAN.block("characteristic")))


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})


def sums(data: Any, design: Design = DESIGN, **options: Any) -> dict[str, list[Any]]:
    return plain(embed(open_sources(data), design, Local(**options)).sums)


def plain(parts: Mapping[str, NDArray[np.int64]]) -> dict[str, list[Any]]:
    return {family: part.tolist() for family, part in parts.items()}


@settings(max_examples=40, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=24), st.data())
def test_sums_do_not_depend_on_batches_order_shards_or_threads(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = sums(table(rows), threads=1)
    assert sums(table(rows), batch_rows=data.draw(st.integers(1, 30)), threads=data.draw(st.integers(1, 4))) == whole
    assert sums(table(data.draw(st.permutations(rows)))) == whole
    cut = data.draw(st.integers(0, len(rows)))
    parts = [embed(open_sources(table(part)), DESIGN, Local(threads=2)) for part in (rows[:cut], rows[cut:])]
    added = {family: (parts[0].sums[family] + parts[1].sums[family]).tolist() for family in whole}
    assert added == whole
    if parts[0].shards != parts[1].shards:
        assert plain(merge(parts).sums) == whole


def slow_characteristic(block: Characteristic, codec: Codec, cells: pa.Table) -> list[list[list[int]]]:
    """The documented arithmetic in Python's own integers, row by row and frequency by frequency."""
    rows, found = codec.rows(codec.encode(cells)), [[[0, 0] for _ in range(block.frequencies)] for _ in range(block.classes)]
    lines, angles, (cosine, sine) = block.lines.tolist(), block.angles.tolist(), cosine_table().tolist()
    starts = [sum(block.columns[:place]) for place in range(len(block.columns))]
    for label, point, levels in zip(rows.label.tolist(), rows.coordinates.tolist(), rows.levels.tolist(), strict=True):
        for k in range(block.frequencies):
            turns = sum(coordinate * line[k] for coordinate, line in zip(point, lines, strict=True))
            phase = round(Fraction(turns, 2**16)) + sum(
                angles[start + level][k] for start, level in zip(starts, levels, strict=True)
            )
            place = (phase + 2) % 2**16 >> 2
            found[label][k][0] += cosine[place]
            found[label][k][1] += sine[place]
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=12), st.floats(0.001, 100), st.integers(0, 99))
def test_sums_are_those_of_slow_exact_arithmetic(rows: list[dict[str, Any]], scale: float, seed: int) -> None:
    design = embedding_design(SCHEMA, replace(RECIPES["auto"], frequencies=5), scale, seed)
    block = design.block("characteristic")
    assert isinstance(block, Characteristic)
    found = sums(table(rows), design)
    assert found["characteristic"] == slow_characteristic(block, design.codec, table(rows))
    labels = design.codec.encode(table(rows))["class"].tolist()
    assert found["count"] == [UNIT * labels.count(label) for label in range(5)]


def test_half_turns_are_rounded_to_even_as_documented() -> None:
    codec = Codec(Schema(columns={"x": Number(lower=0, upper=7, step=1), "b": Boolean()}))
    lines = np.array([[2**15, 3 * 2**15, -(2**15), 2**15 + 1, 2**17 + 2**15]], np.int64)
    cells = pa.table({"x": list(range(8)), "b": [True] * 8})
    block = Characteristic(1, (2, 3), 1.0, 1.0, 0, lines, np.zeros((5, 5), np.int32))
    assert block.sum(codec.rows(codec.encode(cells))).tolist() == slow_characteristic(block, codec, cells)


def test_phases_are_exact_far_beyond_single_precision() -> None:
    codec = Codec(Schema(columns={"x": Number(lower=0, upper=1), "b": Boolean()}))
    lines = np.array([[2**24 - 1, 2**23 + 1, -(2**24) + 5]], np.int64)
    cells = pa.table({"x": np.linspace(0, 1, 50), "b": [True] * 50})
    block = Characteristic(1, (2, 3), 1.0, 1.0, 0, lines, np.zeros((5, 3), np.int32))
    assert block.sum(codec.rows(codec.encode(cells))).tolist() == slow_characteristic(block, codec, cells)


MEASURE = """
import resource, sys
from dataclasses import replace
from dpearl.design import RECIPES, embedding_design
from dpearl.embed import embed
from dpearl.engines.local import Local
from dpearl.read import open_sources
from dpearl.schema import Category, Number, Schema
schema = Schema(columns={"x": Number(lower=0, upper=1), "c": Category(levels=tuple(range(9)))})
made = embed(open_sources(sys.argv[1]), embedding_design(schema, replace(RECIPES["auto"], frequencies=4), 1.0, 0), Local(2))
print(made.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    rng, peaks = np.random.default_rng(0), {}
    for size in (50_000, 400_000):
        file = tmp_path / f"{size}.parquet"
        cells = {"x": rng.random(size), "c": rng.integers(0, 9, size)}
        parquet.write_table(pa.table(cells), file, row_group_size=25_000)
        run = subprocess.run([sys.executable, "-c", MEASURE, str(file)], capture_output=True, text=True, check=True)
        rows, peaks[size] = map(int, run.stdout.split())
        assert rows == size
    assert peaks[400_000] < 1.2 * peaks[50_000]


def test_pictures_are_the_same_from_memory_archive_and_folder(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 5, 4), dtype=np.uint8)
    labels = np.arange(12) % 3
    np.savez_compressed(tmp_path / "some.npz", image=pixels, label=labels)
    for place, picture in enumerate(pixels):
        (tmp_path / "folder" / str(labels[place])).mkdir(parents=True, exist_ok=True)
        pillow.fromarray(picture).save(tmp_path / "folder" / str(labels[place]) / f"{place}.png")
    schema = Schema(label="label", columns={"image": Image(height=5, width=4), "label": Category(levels=(0, 1, 2))})
    design = embedding_design(schema, RECIPES["paper"], 2.0, 0)
    memory = sums({"image": pixels, "label": labels}, design)
    tensors = pa.table({"image": pa.FixedShapeTensorArray.from_numpy_ndarray(pixels), "label": labels})
    assert sums(tmp_path / "some.npz", design) == memory
    assert sums(tmp_path / "folder", design) == memory
    assert sums(tensors, design) == memory
    assert sums(tensors, design, batch_rows=5) == memory


@pytest.mark.parametrize(
    "garbage",
    [
        pa.array([[1], None, [2, 3]]),
        pa.array([{"a": 1}, None, {"a": 2}]),
        pa.array([b"\xff", None, b""]),
        pa.array(["\x00", None, "x" * 1000]),
        pa.array([1, 2, 3], pa.duration("s")),
    ],
)
def test_a_column_that_is_not_declared_is_never_touched(tmp_path: Path, garbage: pa.Array) -> None:
    schema = Schema(columns={"a": Number(lower=0, upper=9), "b": Boolean()})
    design = embedding_design(schema, RECIPES["auto"], 1.0, 0)
    clean = pa.table({"a": [1.0, 2.0, 3.0], "b": [True, False, None]})
    dirty = pa.table({"z": garbage, "b": clean["b"], "": garbage, "a": clean["a"]})
    parquet.write_table(dirty, tmp_path / "dirty.parquet")
    assert sums(dirty, design) == sums(clean, design) == sums(tmp_path / "dirty.parquet", design)


PEOPLE = Schema(columns={"a": Number(lower=0, upper=9, step=1), "b": Boolean()}, person="id", rows_per_person=2)


def count_of(data: Any, **options: Any) -> int:
    design = embedding_design(PEOPLE, RECIPES["auto"], 1.0, 0)
    made = embed(open_sources(data), design, Local(**options))
    assert int(made.sums["count"].sum()) == made.rows * UNIT
    return made.rows


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (pa.array([7, 7, 7, 8, None]), 3),
        (pa.array([7.0, 7.0, 7.0, 8.5, np.nan]), 3),
        (pa.array(["7", " 7", "7 ", "", "NA"]), 2),
        (pa.array(["a", "a", "a", "b", "b"]).dictionary_encode(), 4),
        (pa.array([b"\xff", b"\xff", b"\xff", b"\xfe", b"ok"]).cast(pa.string(), safe=False), 4),
        (pa.nulls(5), 0),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 2, 99])
def test_nobody_keeps_more_rows_than_declared(ids: pa.Array, kept: int, batch_rows: int) -> None:
    data = pa.table({"a": list(range(5)), "b": [True] * 5, "id": ids})
    assert count_of(data, batch_rows=batch_rows) == kept


def test_a_person_is_the_same_in_files_that_store_ids_differently(tmp_path: Path) -> None:
    big = 2 * 10**15
    stored = [pa.array([big] * 3), pa.array([float(big)] * 3), pa.array([str(big)] * 3)]
    for place, ids in enumerate(stored):
        parquet.write_table(pa.table({"a": [1, 2, 3], "b": [True] * 3, "id": ids}), tmp_path / f"{place}.parquet")
    assert count_of(tmp_path) == 2


def test_partial_sums_survive_their_file_and_refuse_to_be_counted_twice(tmp_path: Path) -> None:
    rows = [{"n": 1.0, "x": 0.5, "money": 3.0, "when": None, "c": "a", "class": place % 3, "b": True} for place in range(6)]
    parts: list[Embedding] = []
    for place, part in enumerate((rows[:2], rows[2:])):
        save_partial(embed(open_sources(table(part)), PLAN), tmp_path / f"{place}.sums")
        parts.append(load_partial(tmp_path / f"{place}.sums"))
    assert list(parts[0].design.codec.features) == list(PLAN.codec.features) != sorted(PLAN.codec.features)
    assert parts[0].design.digest == PLAN.digest
    assert (tmp_path / "0.sums").stat().st_mode & 0o077 == 0
    assert plain(merge(parts).sums) == sums(table(rows), PLAN)
    assert merge(parts).rows == 6
    with pytest.raises(UsageError, match="twice"):
        merge([*parts, parts[0]])
    other = embed(open_sources(table(rows)), embedding_design(SCHEMA, RECIPES["auto"], 1.0, 4))
    with pytest.raises(UsageError, match="different designs"):
        merge([parts[0], other])
