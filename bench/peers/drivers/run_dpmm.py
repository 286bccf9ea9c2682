"""dpmm's pipelines as its README uses them: a domain of bounds and categories, PrivTree bins, one process.

Its `epsilon` is the model's and `proc_epsilon` comes on top of it; here both together are the ε that was asked for, split as
its defaults (1.0 and 0.1) split theirs. The categories of a column are declared in its type too: else levels that no row
carries come back as blanks.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

from bench.peers.drivers.gauge import asked, measured

PIPELINES = {"MST": MSTPipeline, "PrivBayes": PrivBayesPipeline, "AIM": AIMPipeline}
BINNING = 0.1 / 1.1


def frame(job: dict[str, Any]) -> pd.DataFrame:
    """The rows in the types that dpmm goes by."""
    rows = pd.read_parquet(job["rows"])[[*job["domain"]]]
    for name, declared in job["domain"].items():
        levels = declared.get("categories")
        rows[name] = rows[name].astype(pd.CategoricalDtype(levels) if levels else declared["type"])
    return rows


def domain(job: dict[str, Any]) -> dict[str, Any]:
    """What `fit` takes."""
    return {name: {key: own[key] for key in own if key != "type"} for name, own in job["domain"].items()}


def main() -> None:
    job = asked()
    rows = frame(job)
    with measured(job):
        share = BINNING * job["epsilon"]
        model = PIPELINES[job["method"]](epsilon=job["epsilon"] - share, delta=job["delta"], proc_epsilon=share, n_jobs=1)
        model.fit(rows, domain(job), random_state=job["seed"])
        made = model.generate(n_records=job["count"], random_state=job["seed"])
    made.to_parquet(job["made"])


if __name__ == "__main__":
    main()
