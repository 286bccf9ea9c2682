"""One run: rows from a method's own process, or a generator of ours trained here, and what the judges say."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from subprocess import CalledProcessError
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray
from PIL import Image as Pictures

from bench.cache import FOLDER, Run, place
from bench.generated import World
from bench.peers import child
from bench.peers.child import Failed, Made
from bench.peers.judge import judge
from bench.peers.methods import METHODS, PEERS, REAL, Method
from bench.peers.plan import PICTURES
from bench.tables import Table, table
from dpearl.schema import Category, Image, Schema

DELTA = 1e-5
LIMIT, WIDE_LIMIT = 1_200, 600
"""Most CPU seconds of a method; less on the wide table."""

SAMPLES = 60_000
PICTURE_SCHEMA = Schema(
    label="label",
    columns={"image": Image(height=28, width=28), "label": Category(levels=tuple(range(10)))},
)


def work(run: Run) -> Run:
    """Scores and costs of one run, or why there are none."""
    if run["table"] in PICTURES:
        return _pictures(run)
    if run["table"] == "cost":
        return _cost(run)
    rows = table(run["table"], run["seed"])
    made = Made(rows.train, 0.0, 0.0) if run["method"] == REAL else _made(run, rows)
    if isinstance(made, Failed):
        return {"failed": made.reason}
    return {**judge(run["table"], rows, made.rows, run["seed"]), "cpu": made.cpu, "peak_mb": made.peak_mb}


def limit(name: str) -> int:
    """CPU seconds that a method may take for a table."""
    return WIDE_LIMIT if name == "wide" else LIMIT


def _made(run: Run, rows: Table) -> Made | Failed:
    """A peer's rows are kept: it is pinned, so that they stay true when judges change. Ours are made anew."""
    method = METHODS[run["method"]]
    if method.package is None:
        with TemporaryDirectory() as own:
            return _started(method, run, rows, Path(own))
    folder = PEERS / "made" / place(run).stem
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "made.parquet").exists():
        return child.outcome(0, folder, limit(run["table"]))
    return _started(method, run, rows, folder)


def _started(method: Method, run: Run, rows: Table, folder: Path) -> Made | Failed:
    try:
        command = method.command(write_job(method, run, rows, folder))
    except CalledProcessError:
        return Failed("could not be installed")
    return child.run(command, method.paths, folder, limit(run["table"]))


def write_job(method: Method, run: Run, rows: Table, folder: Path) -> Path:
    """All that a driver is told; its rows hold the declared columns and no others."""
    parquet.write_table(rows.train.select([*rows.schema.columns]), folder / "rows.parquet")
    files = {"rows": "rows.parquet", "made": "made.parquet", "cost": "cost.json"}
    asked = {"domain": method.domain(rows.schema), "method": method.argument, "count": rows.train.num_rows, "delta": DELTA}
    told = {**asked, "epsilon": run["epsilon"], "seed": run["seed"]}
    job = folder / "job.json"
    job.write_text(json.dumps({**told, **{key: str(folder / file) for key, file in files.items()}}))
    return job


def _cost(run: Run) -> Run:
    """What training on a release of a generated table takes."""
    world = World(run["columns"])
    _, spent = _trained(world.people(run["rows"], seed=run["seed"]), world.schema, run)
    return {"cpu": spent}


def _trained(rows: Any, schema: Schema, run: Run) -> tuple[Any, float]:
    """Our default recipe's generator, and the CPU seconds of training."""
    import torch

    import dpearl

    torch.set_num_threads(1)
    offer = dpearl.Offer(schema, dpearl.RECIPES["auto"], dpearl.Budget(run["epsilon"], DELTA), seed=run["seed"])
    release = dpearl.release_rows(rows, offer, engine=dpearl.Local(threads=1))
    start = time.process_time()
    return dpearl.fit(release, seed=run["seed"], device="cpu", threads=1), time.process_time() - start


def _pictures(run: Run) -> Run:
    """FID and KID by the paper's LeNet against the test pictures, and what a CNN learns from synthetic ones alone."""
    from dpearl import imagery

    data = Path(os.environ["DPEARL_DATA"])
    with np.load(data / f"{run['table']}.npz") as file:
        stack = dict(file)
    rows = {"image": stack["x_train"], "label": stack["y_train"].astype(np.int64)}
    start = time.process_time()
    model, _ = _trained(rows, PICTURE_SCHEMA, run)
    made = [(codes["image"][:, :-1], codes["label"]) for codes in model.codes(SAMPLES, seed=run["seed"])]
    spent = time.process_time() - start
    pixels, labels = (np.concatenate(parts) for parts in zip(*made, strict=True))
    pixels = pixels.reshape(-1, 28, 28, 1)
    if run["seed"] == 0:
        grid(pixels, labels, FOLDER / f"peers-{run['table']}-{run['epsilon']:g}.png")
    with np.load(data / "lenet_mnist.npz") as file:
        eye = imagery.LeNet.of(dict(file))
    scores = imagery.image_scores(eye.features(stack["x_test"]), eye.features(pixels), run["seed"])
    test = imagery.Pictures(stack["x_test"][..., None], stack["y_test"].astype(np.int64))
    synthetic = imagery.Pictures(pixels, labels)
    late = {"accuracy": imagery.LATE, "accuracy_last": 0.0}
    accuracies = {name: imagery.cnn_accuracy(synthetic, test, run["seed"], part).overall for name, part in late.items()}
    return {**asdict(scores), **accuracies, "cpu": spent}


def grid(pixels: NDArray[np.uint8], labels: NDArray[Any], path: Path) -> None:
    """Ten of each class, a class to a line."""
    from dpearl.write import picture_grid

    some = np.concatenate([pixels[labels == label][:10] for label in range(10)])
    Pictures.fromarray(picture_grid(some, 10)).save(path)
