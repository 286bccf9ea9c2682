"""The paper recipe on balanced Adult at ε = 1: ten classifiers, trained on synthetic and tested on real rows.

`python -m bench.adult` works off the runs and writes docs/results/adult.md. Bounds are public round figures, levels are the
codes of the paper's own file; the number of rows and their balance are public under replace-one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from bench.cache import Run, finished, work_off
from dpearl.coded import Coded
from dpearl.design import RECIPES
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.schema import Category, Column, Number, Schema
from dpearl.settings import TABLES, Omega

OUT = Path(__file__).parents[1] / "docs" / "results" / "adult.md"
SEEDS, ROWS, DELTA = 3, 11_000, 1e-5
NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
LEVELS = {
    "education": 16,
    "workclass": 9,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "native-country": 41,
    "income": 2,
}
PAPER = {"real": (0.765, 0.654), str(Omega.SIGMA): (0.721, 0.618)}


def schema() -> Schema:
    columns: dict[str, Column] = {name: Number(lower=low, upper=high, step=1) for name, (low, high) in NUMBERS.items()}
    return Schema(label="income", columns=columns | {name: Category(levels=tuple(range(n))) for name, n in LEVELS.items()})


def rows(part: str) -> pa.Table:
    return parquet.read_table(Path(os.environ["DPEARL_DATA"]) / f"adult_balanced_{part}.parquet")


def runs() -> list[Run]:
    settings = [str(Omega.SIGMA), str(Omega.NONE), "real"]
    return [{"bench": "adult", "epsilon": 1.0, "seed": seed, "omega": omega} for seed in range(SEEDS) for omega in settings]


def work(run: Run) -> Run:
    """Scores of the ten classifiers on rows of one generator, or on the real ones."""
    from dpearl.utility import paper_classifiers, usefulness

    made, spent = (rows("train"), 0.0) if run["omega"] == "real" else _synthetic(run)
    training, test = {"made": Coded.of(made, schema())}, Coded.of(rows("test"), schema())
    skills = usefulness(training, test, seed=run["seed"], threads=1).skills["made"]
    hard = {skill.learner: (skill.scores["roc_hard"], skill.scores["prc_hard"]) for skill in skills}
    return {"scores": {name: hard[name] for name in paper_classifiers()}, "cpu": spent}


def _synthetic(run: Run) -> tuple[pa.Table, float]:
    import torch

    from dpearl.train import fit

    torch.set_num_threads(1)
    offer = Offer(schema(), RECIPES["paper"], Budget(run["epsilon"], DELTA), seed=run["seed"])
    release = release_rows(rows("train"), offer, threads=1)
    start = time.process_time()
    model = fit(release, replace(TABLES, omega=Omega(run["omega"])), seed=run["seed"], device="cpu", threads=1)
    return model.sample(ROWS, seed=run["seed"]), time.process_time() - start


def lines(done: list[Run]) -> Iterator[str]:
    """A line for each classifier, then the average; ROC / PRC."""
    kinds = {"real": "real rows", str(Omega.SIGMA): "ours", str(Omega.NONE): "ours, no critic"}
    yield "| | " + " | ".join(kinds.values()) + " |"
    yield "|---|" + "---|" * len(kinds)
    for name in done[0]["scores"]:
        yield (
            f"| {name} | "
            + " | ".join(_cell([run["scores"][name] for run in done if run["omega"] == kind]) for kind in kinds)
            + " |"
        )
    means: dict[str, list[Any]] = {
        kind: [np.mean(list(run["scores"].values()), axis=0) for run in done if run["omega"] == kind] for kind in kinds
    }
    yield "| **average** | " + " | ".join(_cell(means[kind]) for kind in kinds) + " |"
    told = [PAPER.get(kind) for kind in kinds]
    yield "| paper's average | " + " | ".join(f"{cell[0]:.3f} / {cell[1]:.3f}" if cell else "" for cell in told) + " |"
    cpu = [np.mean([run["cpu"] for run in done if run["omega"] == kind]) for kind in kinds]
    yield "| seeds | " + " | ".join(str(len(means[kind])) for kind in kinds) + " |"
    yield "| CPU s of training | " + " | ".join(f"{seconds:.0f}" if seconds else "" for seconds in cpu) + " |"


def _cell(scores: list[Any]) -> str:
    mean = np.mean(scores, axis=0)
    spreads = [f" ± {spread:.3f}" for spread in np.std(scores, axis=0, ddof=1)] if len(scores) > 1 else ["", ""]
    return f"{mean[0]:.3f}{spreads[0]} / {mean[1]:.3f}{spreads[1]}"


HEAD = """# The paper recipe on Adult

`python -m bench.adult`: the paper's balanced Adult (11,077 training rows, 1,231 test rows), {rows:,} synthetic rows, ten
scikit-learn classifiers, ROC / PRC from **hard predictions** as in the paper. ε = 1, δ = 1e-5, replace-one, k = 1,000, 8,000
iterations. Mean ± standard deviation over seeds, each with a release of its own. Machine class: x86_64, 2 cores, no GPU.

"""


def main() -> None:
    """With `report`, only what is finished is told."""
    workers = int(os.environ.get("BENCH_WORKERS", "2"))
    done = finished(runs()) if sys.argv[1:] == ["report"] else work_off(runs(), work, workers)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(HEAD.format(rows=ROWS) + "\n".join(lines(done)) + "\n")


if __name__ == "__main__":
    main()
