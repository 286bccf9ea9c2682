"""The paper recipe on MNIST and Fashion-MNIST: FID and KID with the paper's LeNet, at four ε, with and without critic.

`python -m bench.images` works off the runs (about 3 CPU minutes each) and writes docs/results/images.md and the grids
beside it. The data are in the folder that DPEARL_DATA names. Nothing is chosen by these figures: settings are the
recipe's, test images are touched by the judge alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from bench.cache import FOLDER, Run, finished, work_off
from dpearl.design import RECIPES, Recipe
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.schema import Category, Image, Schema
from dpearl.settings import IMAGES, Omega, Settings

OUT = Path(__file__).parents[1] / "docs" / "results"
DELTA, SEEDS, ROWS = 1e-5, 3, 60_000
EPSILONS = (1.0, 0.2, 10.0, 1e6)
"""10⁶ stands for ∞: its noise is far below anything that is measured here."""

SETS = {"mnist": (1000, 6000), "fashion": (3000, 3000)}
"""Frequencies and iterations that the paper prints for each (App. G)."""

PAPER = {
    ("mnist", Omega.SIGMA): ("3.52 ± 0.06", "0.0705 ± 0.0103"),
    ("mnist", Omega.NONE): ("3.79 ± 0.06", "0.0778 ± 0.0099"),
    ("fashion", Omega.SIGMA): ("1.92 ± 0.04", "0.0269 ± 0.0068"),
    ("fashion", Omega.NONE): ("1.99 ± 0.04", "0.0240 ± 0.0069"),
}

SCHEMA = Schema(
    label="label",
    columns={"image": Image(height=28, width=28), "label": Category(levels=tuple(range(10)))},
)


def runs() -> list[Run]:
    """ε = 1 first, with all its seeds."""
    return [
        {
            "bench": "images",
            "data": data,
            "epsilon": epsilon,
            "seed": seed,
            "frequencies": k,
            "iterations": n,
            "omega": str(omega),
        }
        for epsilon in EPSILONS
        for seed in range(SEEDS)
        for omega in (Omega.SIGMA, Omega.NONE)
        for data, (k, n) in SETS.items()
    ]


def pictures(data: str) -> dict[str, NDArray[np.uint8]]:
    """Train and test images and labels."""
    with np.load(Path(os.environ["DPEARL_DATA"]) / f"{data}.npz") as file:
        return {name: file[name] for name in file.files}


def recipe(run: Run) -> Recipe:
    return replace(RECIPES["paper"], frequencies=run["frequencies"])


def settings(run: Run) -> Settings:
    return replace(IMAGES, iterations=run["iterations"], omega=Omega(run["omega"]))


def work(run: Run) -> Run:
    """One release, one generator from it, and its scores."""
    import torch

    from dpearl.imagery import LeNet, image_scores
    from dpearl.train import fit

    torch.set_num_threads(1)
    stack = pictures(run["data"])
    offer = Offer(SCHEMA, recipe(run), Budget(run["epsilon"], DELTA), seed=run["seed"])
    release = release_rows({"image": stack["x_train"], "label": stack["y_train"].astype(np.int64)}, offer, threads=1)
    with np.load(Path(os.environ["DPEARL_DATA"]) / "lenet_mnist.npz") as file:
        judge = LeNet.of(dict(file))
    real = judge.features(stack["x_test"])
    start = time.process_time()
    model = fit(release, settings(run), seed=run["seed"], device="cpu", threads=1)
    spent = time.process_time() - start
    made = [(codes["image"][:, :-1], codes["label"]) for codes in model.codes(ROWS, seed=run["seed"])]
    images, labels = (np.concatenate(parts) for parts in zip(*made, strict=True))
    if (run["seed"], run["omega"]) == (0, Omega.SIGMA):
        _grid(images, labels, FOLDER / f"{run['data']}-{run['epsilon']:g}.png")
    return {**asdict(image_scores(real, judge.features(images.reshape(-1, 28, 28)))), "cpu": spent}


def _grid(images: NDArray[np.uint8], labels: NDArray[Any], path: Path) -> None:
    """Ten of each class, a class to a line."""
    from dpearl.write import picture_grid

    some = np.concatenate([images[labels == label][:10] for label in range(10)])
    Pictures.fromarray(picture_grid(some.reshape(-1, 28, 28, 1), 10)).save(path)


def lines(done: list[Run]) -> Iterator[str]:
    """The table."""
    yield "| data | ε | critic | FID | paper | KID | paper | CPU s of training | seeds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for data in SETS:
        for epsilon in sorted(EPSILONS):
            for omega in (Omega.SIGMA, Omega.NONE):
                own = [run for run in done if (run["data"], run["epsilon"], run["omega"]) == (data, epsilon, omega)]
                if own:
                    yield _line(data, epsilon, omega, own)


def _line(data: str, epsilon: float, omega: Omega, own: list[Run]) -> str:
    told = PAPER[data, omega] if epsilon == 1 else ("", "")
    fids, kids, cpu = ([run[name] for run in own] for name in ("fid", "kid", "cpu"))
    name, critic = "∞ (10⁶)" if epsilon == 1e6 else f"{epsilon:g}", "yes" if omega is Omega.SIGMA else "no"
    cells = [data, name, critic, _spread(fids, 2), told[0], _spread(kids, 4), told[1], f"{np.mean(cpu):.0f}", str(len(own))]
    return f"| {' | '.join(cells)} |"


def _spread(values: list[float], digits: int) -> str:
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


HEAD = """# The paper recipe on images

`python -m bench.images`: {rows:,} synthetic images against the 10,000 test images, LeNet features (the MNIST net for both
sets, as in the paper). δ = 1e-5, replace-one, 60,000 training rows. Mean ± standard deviation over seeds, each with a
release of its own (other frequencies, other noise). FID over 10 bootstrap resamples, KID over 100 subsets of 1,000. Machine
class: x86_64, 2 cores, no GPU; one thread to a run. k and iterations as printed in the paper: 1,000 and 6,000 (MNIST), 3,000
and 3,000 (Fashion-MNIST); 5% of the budget for the scale instead of half.

"""


def grids() -> Iterator[str]:
    """A picture for each set: one grid beside the other, ε growing."""
    for data in SETS:
        files = [FOLDER / f"{data}-{epsilon:g}.png" for epsilon in sorted(EPSILONS)]
        stack = np.stack([np.pad(np.asarray(Pictures.open(file)), 5, constant_values=128) for file in files])
        Pictures.fromarray(np.concatenate(list(stack), axis=1)).save(OUT / f"{data}.png")
        yield f"{data}, ε = 0.2, 1, 10, ∞:\n\n![Synthetic images of {data} at four privacy budgets]({data}.png)\n"


def main() -> None:
    """With `report`, only what is finished is told."""
    workers = int(os.environ.get("BENCH_WORKERS", "2"))
    done = finished(runs()) if sys.argv[1:] == ["report"] else work_off(runs(), work, workers)
    OUT.mkdir(parents=True, exist_ok=True)
    shown = ["", "## Samples, seed 0, with critic: one line a class", "", *grids()]
    (OUT / "images.md").write_text(HEAD.format(rows=ROWS) + "\n".join([*lines(done), *shown]))


if __name__ == "__main__":
    main()
