"""What a training step costs, beside the bare matrix products of its shapes. `python -m bench.training` writes
docs/results/training.md.

CPU milliseconds on one thread, best of five rounds in turns, on generated releases of the paper's shapes: the time of a step
does not depend on what the numbers are. The products of a step: rows times frequencies and back; for each fully connected
layer forward and both gradients; for each up-convolution the products of its patches on the small map, forward and both
gradients.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from bench.paper.adult import schema as adult_schema
from bench.paper.images import SCHEMA
from dpearl.codec import Codec
from dpearl.design import RECIPES, tabular
from dpearl.generator import UpConv
from dpearl.owner import Offer, release_rows
from dpearl.privacy import Budget
from dpearl.release import Release
from dpearl.schema import Schema
from dpearl.settings import IMAGES, TABLES
from dpearl.train import Training

OUT = Path(__file__).parents[1] / "docs" / "results" / "training.md"
ROUNDS, STEPS, ROWS = 5, 40, 2000
PARTS = ("frequencies", "layers", "convolutions")


def release(schema: Schema) -> Release:
    """A release of random rows."""
    chance, codec = np.random.default_rng(0), Codec(schema)
    codes = {
        name: column.code(chance.random((ROWS, column.coordinates)), chance.choice(column.returns, ROWS))
        for name, column in codec.columns.items()
    }
    rows = codec.decode(codes)
    table = {name: _stack(rows, name) for name in rows.column_names}
    return release_rows(table, Offer(schema, RECIPES["paper"], Budget(1.0, 1e-5)))


def _stack(rows: pa.Table, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    cells = rows.column(name)
    if name == "image":
        return np.frombuffer(b"".join(cells.to_pylist()), np.uint8).reshape(-1, 28, 28)
    return np.asarray(cells.to_numpy())


def products(training: Training) -> list[tuple[str, Tensor, Tensor]]:
    """Pairs of matrices whose product a step must take, by the part of the step."""
    batch, frequencies = len(training.batch.owner), training.target.frequencies
    found = [
        ("frequencies", torch.rand(batch, len(frequencies)), frequencies),
        ("frequencies", torch.rand(batch, frequencies.shape[1]), frequencies.T),
    ]
    side = 7
    for layer in training.generator.modules():
        if isinstance(layer, nn.Linear):
            found += _three("layers", batch, layer.in_features, layer.out_features)
        elif isinstance(layer, UpConv):
            outputs, inputs, height, width = layer.weight.shape
            found += _three("convolutions", batch * side**2, inputs * height * width, 4 * outputs)
            side *= 2
    return found


def _three(part: str, rows: int, inputs: int, outputs: int) -> list[tuple[str, Tensor, Tensor]]:
    """Forward, gradient of the inputs, gradient of the weights."""
    given, slope, weight = torch.rand(rows, inputs), torch.rand(rows, outputs), torch.rand(inputs, outputs)
    return [(part, given, weight), (part, slope, weight.T), (part, given.T, slope)]


def measure(works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Least CPU milliseconds of each, in turns."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.process_time()
            for _ in range(STEPS):
                work()
            best[name] = min(best[name], 1000 * (time.process_time() - start) / STEPS)
    return best


def line(name: str, schema: Schema) -> str:
    made = release(schema)
    training = Training(made, TABLES if tabular(schema) else IMAGES, 0, torch.device("cpu"))
    pairs = products(training)

    def bare(part: str) -> Callable[[], None]:
        own = [(left, right) for found, left, right in pairs if found == part]
        return lambda: [left @ right for left, right in own].clear()

    best = measure({"step": training.advance, **{part: bare(part) for part in PARTS}})
    shapes = f"batch {len(training.batch.owner):,}, k = {training.target.size:,}, d = {len(training.target.frequencies)}"
    sums = [sum(best[part] for part in PARTS[:count]) for count in (3, 2, 1)]
    cells = [
        f"{best['step']:.1f}",
        " + ".join(f"{best[part]:.1f}" for part in PARTS),
        *(f"{best['step'] / own:.2f}" for own in sums),
    ]
    return f"| {name} ({shapes}) | " + " | ".join(cells) + " |"


HEAD = """# What a training step costs

`python -m bench.training`: CPU milliseconds of one step, a fifth or a tenth of a critic's step included, on one thread; beside
it, in the same run, the bare matrix products of the same shapes, forward and backward: rows times frequencies + fully
connected layers + convolutions as products of patches. The target is at most 3. Machine class: x86_64, 2 cores, no GPU; shared.

| data | step | bare products | step / all products | step / frequencies and layers | step / frequencies alone |
|---|---|---|---|---|---|
"""


def main() -> None:
    torch.set_num_threads(1)
    rows = [line("MNIST", SCHEMA), line("Adult", adult_schema())]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(HEAD + "\n".join(rows) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
