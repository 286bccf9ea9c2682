"""Floating point and order: a row adds its own integers and nothing else, whoever stands beside it and whatever computes it.

The attacks on floating-point sums (Mironov 2012; Casacuberta et al. 2022) live on sums that hang on order, or on a row that
changes what others add. Here every family of embeddings is summed without one row, with a row moved, in batches of all sizes,
by one thread and two; and once more by processes whose BLAS and NumPy are told to do without the newer instructions.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_info

from dpearl.codec import Codec
from dpearl.design import _FAMILIES, RECIPES, Design, asking, auxiliary_design, embedding_design, public_design
from dpearl.embed import embed
from dpearl.embeddings.levels import levels
from dpearl.embeddings.mixtures import Mixture, mixtures
from dpearl.embeddings.octaves import octaves, stretches
from dpearl.engines.local import Local
from dpearl.read import open_sources
from dpearl.schema import Boolean, Category, Datetime, Image, Number, Schema, parse_declaration
from dpearl.tally import tally

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
PICTURED = Schema(label="class", columns={"face": Image(height=9, width=7), "class": Category(levels=(0, 1, 2))})
ASKED = parse_declaration(
    {"columns": {"x": {"kind": "number", "bounds": "estimate"}, "money": {"kind": "number", "bounds": "estimate"}}}
)
LEVELS = asking(parse_declaration({"columns": {"c": {"kind": "category", "levels": "estimate"}}}), levels, delta=1e-6)
MODES = np.array([[0.2, 0.5, 0.9], [0.05, 0.1, 0.02], [0.3, 0.5, 0.2]])
BY_PLACE = {"pairwise-distance"}
"""The paper's distance alone pairs rows by their place; what one row can do to it is tested in test_sensitivity."""


@cache
def designs() -> dict[str, Design]:
    """Every family that sums rows, each under a design that asks much of it."""
    recipe, codec = RECIPES["auto"], Codec(SCHEMA)
    return {
        "frequencies": embedding_design(SCHEMA, replace(recipe, frequencies=70), 0.3, 1),
        "scale": auxiliary_design(SCHEMA, replace(recipe, frequencies=70)),
        "first look": auxiliary_design(SCHEMA, recipe),
        "pairs": public_design(SCHEMA, recipe, 0),
        "pictures": public_design(PICTURED, recipe, 0),
        "bounds": asking(ASKED, octaves),
        "ranges": asking(SCHEMA, stretches, columns=["n", "x", "money"], line=64),
        "modes": Design(SCHEMA, (mixtures(codec, 1.0, {name: Mixture(MODES) for name in ("x", "money")}),)),
    }


@cache
def table(rows: int, seed: int = 0) -> pa.Table:
    """Plain rows and such as nobody expects."""
    chance = np.random.default_rng(seed)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 99.0, 5e-324, 1.7e308, 10.0, 0.25])
    moments = np.datetime64("2020-01-01", "us") + chance.integers(0, 4 * 366 * 86400 * 10**6, rows)
    return pa.table(
        {
            "n": np.where(chance.random(rows) < 0.3, chance.choice(odd, rows), chance.random(rows) * 10),
            "x": np.where(chance.random(rows) < 0.2, chance.choice(odd, rows), chance.normal(0, 0.4, rows)),
            "money": np.where(chance.random(rows) < 0.2, chance.choice(odd, rows), np.exp(chance.normal(6, 3, rows))),
            "when": pa.array(moments),
            "c": chance.choice(["a", "b", "c", "d"], rows),
            "class": chance.integers(0, 4, rows),
            "b": pa.array(chance.random(rows) < 0.5, mask=chance.random(rows) < 0.1),
            "face": pa.FixedShapeTensorArray.from_numpy_ndarray(chance.integers(0, 256, (rows, 9, 7), dtype=np.uint8)),
        }
    )


def vector(rows: pa.Table, design: Design, **options: Any) -> list[int]:
    """All sums of a design, one after the other."""
    sums = embed(open_sources(rows), design, Local(**options)).sums
    return [int(value) for block in design.blocks for value in sums[block.family].ravel()]


def without(rows: pa.Table, place: int) -> pa.Table:
    return pa.concat_tables([rows.slice(0, place), rows.slice(place + 1)])


def test_every_family_that_sums_rows_is_here() -> None:
    assert {block.family for design in designs().values() for block in design.blocks} == _FAMILIES.keys() - BY_PLACE - {"levels"}


@pytest.mark.parametrize("name", designs())
def test_a_row_that_goes_takes_its_own_integers_and_no_others(name: str) -> None:
    """Sizes around those at which vector instructions end, so that the row beside is now in the vector and now in the rest."""
    design = designs()[name]
    for size in (2, 9, 17, 33):
        rows = table(size, size)
        whole = np.array(vector(rows, design, threads=1))
        for place in {0, 1, size // 2, size - 2, size - 1}:
            rest, alone = vector(without(rows, place), design, threads=1), vector(rows.slice(place, 1), design, threads=1)
            assert (whole - np.array(rest)).tolist() == alone


@pytest.mark.parametrize("name", designs())
def test_order_batches_and_threads_do_not_show(name: str) -> None:
    design, rows = designs()[name], table(260)
    whole = vector(rows, design, threads=1)
    for seed, (batch_rows, threads) in enumerate([(1, 1), (3, 2), (64, 1), (129, 2), (259, 1), (260, 2)]):
        order = np.random.default_rng(seed).permutation(len(rows))
        assert vector(rows.take(order), design, batch_rows=batch_rows, threads=threads) == whole


def test_a_row_that_goes_takes_its_own_text_and_no_other() -> None:
    def texts(rows: pa.Table) -> dict[str, int]:
        return dict(tally(open_sources(rows), LEVELS, ["c"], 0).counts["c"])

    rows = table(40)
    whole = texts(rows)
    for place, text in enumerate(rows["c"].to_pylist()):
        left = texts(without(rows, place))
        assert {level: whole[level] - left.get(level, 0) for level in whole} == {level: int(level == text) for level in whole}
    assert texts(rows.take(np.random.default_rng(0).permutation(40))) == whole


def digests() -> dict[str, str]:
    """One number for all sums of each design; rows are as many as make BLAS share its work out."""
    rows = table(1500)
    return {
        name: hashlib.sha256(np.array(vector(rows, design, batch_rows=1100)).tobytes()).hexdigest()
        for name, design in designs().items()
    }


def equipment() -> dict[str, Any]:
    """What this process computes with."""
    blas: dict[str, Any] = next((library for library in threadpool_info() if library["user_api"] == "blas"), {})
    umath: Any = import_module("numpy._core._multiarray_umath")
    features = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]]
    return {"blas": blas.get("architecture"), "threads": blas.get("num_threads"), "features": features}


def elsewhere(**switches: str) -> dict[str, Any]:
    """The same sums in a process with these switches, and what it had."""
    script = "import json; from tests.test_order import *; print(json.dumps({**equipment(), 'digests': digests()}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **switches},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(equipment()["blas"] is None, reason="NumPy's BLAS is not OpenBLAS, which alone takes these switches")
@pytest.mark.parametrize(("kernel", "told"), [("Haswell", "Haswell"), ("Nehalem", "Nehalem"), ("Prescott", "Katmai")])
def test_other_kernels_of_the_blas_give_the_same_sums(kernel: str, told: str) -> None:
    """AVX2 with fused multiplication, SSE4.2, and SSE alone, which OpenBLAS knows by two names; on one thread and on two."""
    threads = "2" if kernel == "Nehalem" else "1"
    found = elsewhere(OPENBLAS_CORETYPE=kernel, OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads)
    assert (found["blas"], found["threads"]) == (told, int(threads))
    assert found["digests"] == digests()


@pytest.mark.skipif(not equipment()["features"], reason="this processor has nothing that NumPy could do without")
def test_numpy_without_newer_instructions_gives_the_same_sums() -> None:
    found = elsewhere(NPY_DISABLE_CPU_FEATURES=" ".join(equipment()["features"]))
    assert found["features"] == []
    assert found["digests"] == digests()
