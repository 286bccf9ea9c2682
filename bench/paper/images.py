"""Table 1: FID and KID on MNIST and Fashion-MNIST with the paper's LeNet, and samples at four ε.

Test images are touched by the judge alone, and nothing is chosen by these figures.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from bench.cache import FOLDER, Run
from bench.paper.method import Method, Task, make
from dpearl.codec import Codec
from dpearl.coded import Coded
from dpearl.schema import Category, Image, Schema
from dpearl.settings import IMAGES

ROWS, SEEDS, MORE_SEEDS = 60_000, 5, 3
EPSILONS = (0.2, 1.0, 10.0, 1e6)
"""10⁶ stands for ∞: its noise is far below anything that is measured here."""

SETS = {"mnist": (1000, 6000), "fashion": (3000, 3000)}
"""Frequencies and iterations that the paper prints for each (App. G)."""

METHODS = (Method.PRINTED, Method.MERF, Method.DPCGAN, Method.DPGAN, Method.PRINTED_PLAIN, Method.OURS, Method.PLAIN)
SCHEMA = Schema(
    label="label",
    columns={"image": Image(height=28, width=28), "label": Category(levels=tuple(range(10)))},
)


def runs() -> list[Run]:
    """Table 1 first, seed by seed, then the other ε."""
    first = [(1.0, seed, method) for seed in range(SEEDS) for method in METHODS]
    others = (0.2, 10.0, 1e6)
    more = [(epsilon, seed, method) for epsilon in others for seed in range(MORE_SEEDS) for method in (Method.OURS, Method.PLAIN)]
    return [run(data, method, epsilon, seed) for epsilon, seed, method in first + more for data in SETS]


def run(data: str, method: Method, epsilon: float, seed: int) -> Run:
    """Settings of one run; a GAN's constants are in bench/baselines/gan.py."""
    chosen = {"bench": "images", "data": data, "method": str(method), "epsilon": epsilon, "seed": seed}
    frequencies, iterations = SETS[data]
    return {**chosen, "frequencies": frequencies, "iterations": iterations} if method.embeds else chosen


def work(run: Run) -> Run:
    """Synthetic images by one method, and their scores."""
    from dpearl.imagery import LeNet, image_scores

    stack = pictures(run["data"])
    method = Method(run["method"])
    made = make(method, task(run["data"], stack), run["epsilon"], run["seed"])
    images, labels = made.rows.codes["image"][:, :-1].reshape(-1, 28, 28), made.rows.codes["label"]
    if run["seed"] == 0:
        grid(images, labels, picture_of(run["data"], method, run["epsilon"]))
    with np.load(Path(os.environ["DPEARL_DATA"]) / "lenet_mnist.npz") as file:
        judge = LeNet.of(dict(file))
    return {**asdict(image_scores(judge.features(stack["x_test"]), judge.features(images))), "cpu": made.cpu}


def pictures(data: str) -> dict[str, NDArray[np.uint8]]:
    """Train and test images and labels."""
    with np.load(Path(os.environ["DPEARL_DATA"]) / f"{data}.npz") as file:
        return {name: file[name] for name in file.files}


def task(data: str, stack: dict[str, NDArray[np.uint8]]) -> Task:
    """The training images as every method gets them."""
    images, labels = stack["x_train"], stack["y_train"].astype(np.int64)
    there = np.zeros((len(images), 1), np.uint8)
    coded = Coded(Codec(SCHEMA), {"image": np.column_stack([images.reshape(len(images), -1), there]), "label": labels})
    frequencies, iterations = SETS[data]
    settings = replace(IMAGES, iterations=iterations)
    return Task(SCHEMA, {"image": images, "label": labels}, coded, frequencies, settings, ROWS)


def picture_of(data: str, method: Method, epsilon: float) -> Path:
    """Where samples of a method's first seed lie."""
    name = str(method).lower().replace(", ", "-").replace(" ", "-")
    return FOLDER / f"{data}-{name}-{epsilon:g}.png"


def grid(images: NDArray[np.uint8], labels: NDArray[np.int64], path: Path) -> None:
    """Ten of each class, a class to a line; a GAN without classes may have fewer of some."""
    from dpearl.write import picture_grid

    lines = [images[labels == label][:10] for label in range(10)]
    some = np.concatenate([np.pad(line, [(0, 10 - len(line)), (0, 0), (0, 0)]) for line in lines])
    Pictures.fromarray(picture_grid(some[..., None], 10)).save(path)
