"""dpearl by its public names: a release under a recipe, a generator from it, rows from that."""

from __future__ import annotations

import pyarrow.parquet as parquet
import torch

import dpearl
from bench.peers.drivers.gauge import asked, measured


def main() -> None:
    job = asked()
    torch.set_num_threads(1)
    rows = parquet.read_table(job["rows"])
    with measured(job):
        budget = dpearl.Budget(job["epsilon"], job["delta"])
        offer = dpearl.Offer(dpearl.Schema.from_dict(job["domain"]), dpearl.RECIPES[job["method"]], budget, seed=job["seed"])
        release = dpearl.release_rows(rows, offer, engine=dpearl.Local(threads=1))
        model = dpearl.fit(release, seed=job["seed"], device="cpu", threads=1)
        made = model.sample(job["count"], seed=job["seed"])
    parquet.write_table(made, job["made"])


if __name__ == "__main__":
    main()
