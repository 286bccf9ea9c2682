"""Independent columns, the floor: `bench.baselines.independent` under add/remove."""

from __future__ import annotations

import pyarrow.parquet as parquet

from bench.baselines.independent import independent
from bench.peers.drivers.gauge import asked, measured
from dpearl.coded import Coded
from dpearl.privacy import Budget, Relation
from dpearl.schema import Schema


def main() -> None:
    job = asked()
    rows = parquet.read_table(job["rows"])
    with measured(job):
        coded = Coded.of(rows, Schema.from_dict(job["domain"]))
        made = independent(coded, Budget(job["epsilon"], job["delta"]), Relation.ADD_REMOVE, job["count"], job["seed"])
    parquet.write_table(made.codec.decode(made.codes), job["made"])


if __name__ == "__main__":
    main()
