"""App. E, measured: the embedding takes O(nkd), training does not know n.

CPU seconds on one thread, best of three in turns. One of n, k, d is doubled while the others stay; the exponent is the slope of
log time over log size between the two largest. Rows are generated numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cache import Run
from bench.owner import cpu_seconds, design_for, numbers_schema
from bench.paper import adult
from dpearl.codec import Codec
from dpearl.design import RECIPES
from dpearl.embed import embed
from dpearl.engines.local import Local
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.read import open_sources
from dpearl.schema import parse_schema
from dpearl.settings import TABLES

BASE = {"n": 20_000, "k": 1_000, "d": 100}
FACTORS = (0.5, 1, 2, 4)
TRAINED, STEPS = (1_000, 10_000, 100_000), 20


def runs() -> list[Run]:
    """All in one run, so that the times are of one hour."""
    return [{"bench": "complexity", **BASE, "factors": list(FACTORS), "trained": list(TRAINED)}]


def work(run: Run) -> Run:
    """CPU seconds of the embedding along n, k and d, CPU milliseconds of a training step by n."""
    along = {
        axis: cpu_seconds(*(embedding(**{**BASE, axis: int(BASE[axis] * factor)}) for factor in FACTORS), rounds=3)
        for axis in BASE
    }
    steps = cpu_seconds(*map(training, TRAINED), rounds=3)
    return {"embedding": along, "step": [1000 * seconds / STEPS for seconds in steps]}


def embedding(n: int, k: int, d: int) -> Callable[[], Any]:
    """Coding and summing so many rows."""
    values = np.random.default_rng(0).random((n, d))
    sources = open_sources(pa.table({f"x{i}": values[:, i] for i in range(d)}))
    design = design_for(parse_schema({"columns": numbers_schema(d)}), k)
    return lambda: embed(sources, design, Local(threads=1))


def training(n: int) -> Callable[[], None]:
    """Some steps of training from a release of so many random rows of Adult's schema."""
    import torch

    from dpearl.train import Training

    torch.set_num_threads(1)
    chance, codec = np.random.default_rng(0), Codec(adult.schema())
    codes = {
        name: column.code(chance.random((n, column.coordinates)), chance.choice(column.returns, n))
        for name, column in codec.columns.items()
    }
    offer = Offer(codec.schema, RECIPES["paper"], Budget(1.0, 1e-5))
    under_way = Training(release_rows(codec.decode(codes), offer, engine=Local(threads=1)), TABLES, 0, torch.device("cpu"))

    def advance() -> None:
        for _ in range(STEPS):
            under_way.advance()

    return advance


def exponent(times: list[float]) -> float:
    """The slope between the two largest sizes, of which one is twice the other."""
    return math.log2(times[-1] / times[-2])
