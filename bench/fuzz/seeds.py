"""Inputs to start from: one of each form, small, written to tests/corpus by `python -m bench.fuzz.seeds`."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from dpearl import RECIPES, Budget, Offer, ledger, release_rows, save_release
from dpearl.design import Recipe
from dpearl.embed import save_partial
from dpearl.engines.local import Local
from dpearl.owner import embed_shard, recipe_with
from dpearl.privacy import Relation
from dpearl.schema import parse_declaration, parse_schema
from dpearl.sites import plan_study, save_study

CORPUS = Path(__file__).parents[2] / "tests" / "corpus"
BUDGET = Budget(50.0, 1e-5)
ASKED = """label = "y"
person = "p"
rows_per_person = 2
[columns.n]
kind = "number"
bounds = "estimate"
modes = 2
[columns.y]
kind = "category"
levels = "estimate"
other = "o"
[columns.d]
kind = "datetime"
bounds = "estimate"
step = "1d"
"""
DECLARED = """[columns.n]
kind = "number"
lower = 0
upper = 9
step = 0.5
spikes = [0, 99]
modes = [{mean = 1, spread = 1, weight = 0.5}, {mean = 7, spread = 2, weight = 0.5}]
missing = true
[columns."a.b ü"]
kind = "category"
levels = ["x", 1, true, 0.5]
[columns.t]
kind = "datetime"
lower = 2020-01-01
upper = 2021-01-01T12:00:00
step = "1h"
[columns.f]
kind = "boolean"
[columns.i]
kind = "image"
height = 2
width = 2
"""


def _put(name: str, content: bytes) -> None:
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _fresh(name: str) -> Path:
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def _releases() -> None:
    small: dict[str, Any] = {
        "n": {"kind": "number", "lower": 0, "upper": 9, "step": 1, "missing": True},
        "c": {"kind": "category", "levels": ["a", "b"], "other": "o"},
    }
    chance = np.random.default_rng(0)
    rows = pa.table({"n": chance.integers(0, 9, 500), "c": chance.choice(["a", "b", "z"], 500)})
    schema = parse_schema({"label": "c", "columns": small})
    few = recipe_with(RECIPES["auto"], None, None, 3)
    paper: Recipe = replace(recipe_with(RECIPES["paper"], Relation.REPLACE_ONE, None, 3))
    for name, recipe in (("pairs", RECIPES["auto"]), ("frequencies", few), ("paper", paper)):
        save_release(release_rows(rows, Offer(schema, recipe, BUDGET)), _fresh(f"release/{name}.dpearl"))
    asked = parse_declaration(
        {"columns": {"c": {"kind": "category", "levels": "estimate"}, "n": {"kind": "number", "bounds": "estimate"}}}
    )
    many = pa.table({"n": chance.integers(0, 9, 9000), "c": chance.choice(["a", "b"], 9000)})
    save_release(release_rows(many, Offer(asked, few, BUDGET)), _fresh("release/asked.dpearl"))
    picture = parse_schema({"columns": {"i": {"kind": "image", "height": 1, "width": 2}}})
    images = {"i": chance.integers(0, 255, (50, 1, 2), np.uint8)}
    for name, recipe in (("picture", few), ("moments", RECIPES["auto"])):
        save_release(release_rows(images, Offer(picture, recipe, BUDGET)), _fresh(f"release/{name}.dpearl"))
    save_partial(embed_shard(rows, schema, few, 0, Local(threads=1)), _fresh("release/sums.partial"))
    save_study(plan_study(schema, few, BUDGET, ["A", "B"], 1, 0), _fresh("release/study"))


def _others() -> None:
    _put("schema/asked.toml", ASKED.encode())
    _put("schema/declared.toml", DECLARED.encode())
    book = _fresh("ledger/two")
    unit = Offer(parse_schema({"columns": {"f": {"kind": "boolean"}}}), RECIPES["auto"], BUDGET).unit
    ledger.set_budget(book, 3.0)
    for number in range(2):
        ledger.charge(book, Budget(1.0, 1e-6), 0.2, unit, "0" * 64, f"out{number}", 1e-7)
    for number, cells in enumerate((b"1.5\xff-3\xffnan\xff1e400\xff", b"2020-06-01T12:00\xff\xff9999\xfftrue", bytes(range(64)))):
        for kind in range(9):
            _put(f"codec/{kind}-{number}", bytes((kind, number * 7)) + cells)
    for form, mode in (("PNG", "L"), ("PNG", "P"), ("JPEG", "L"), ("GIF", "L"), ("BMP", "L"), ("WEBP", "RGB")):
        stream = io.BytesIO()
        Image.effect_noise((4, 4), 99).convert(mode).save(stream, form)
        _put(f"picture/{form}-{mode}".lower(), stream.getvalue())
    for name, arrays in {
        "numbers": {"a": np.arange(3.0), "b": np.array(["x", "y", "z"])},
        "pictures": {"i": np.zeros((2, 4, 4), np.uint8), "l": np.array([1, 2])},
    }.items():
        stream = io.BytesIO()
        np.savez(stream, **arrays)  # type: ignore[arg-type]
        _put(f"archive/{name}.npz", stream.getvalue())
    _put("table/plain.csv", b'a,b\n1,x\n2,"y ""z"""\n')
    _put("table/semicolons.csv", b"\xef\xbb\xbfa;b;c\r\n1;;\r\n\r\n2;x\ny;z")


if __name__ == "__main__":
    _releases()
    _others()
