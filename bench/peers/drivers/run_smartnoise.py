"""smartnoise-synth with a transformer for every column, fitted to what is declared and never to rows.

MST and AIM see labels and bins, DP-CTGAN one-hot labels and numbers between bounds, as the package's own styles "cube" and
"gan" choose them.
"""

from __future__ import annotations

from itertools import islice, repeat
from typing import Any

import numpy as np
import pandas as pd
from snsynth import Synthesizer
from snsynth.transform import (
    BinTransformer,
    ChainTransformer,
    LabelTransformer,
    MinMaxTransformer,
    OneHotEncoder,
    TableTransformer,
)

from bench.peers.drivers.gauge import asked, measured

SYNTHESIZERS = {"MST": "mst", "AIM": "aim", "DP-CTGAN": "dpctgan"}


def transformer(declared: dict[str, Any], gan: bool) -> Any:
    """What the package does with one column."""
    if "levels" in declared:
        labels = LabelTransformer(nullable=declared["missing"])
        return ChainTransformer([labels, OneHotEncoder()]) if gan else labels
    bounds = {"lower": declared["lower"], "upper": declared["upper"], "nullable": declared["missing"]}
    return MinMaxTransformer(**bounds) if gan else BinTransformer(bins=declared["bins"], **bounds)


def declared_rows(domain: dict[str, Any]) -> pd.DataFrame:
    """A table that holds every declared level, to fit transformers to; bounds stand for numbers."""
    columns = {name: _values(own) for name, own in domain.items()}
    most = max(map(len, columns.values()))
    return pd.DataFrame({name: [*own, *islice(repeat(own[0]), most - len(own))] for name, own in columns.items()}, dtype=object)


def _values(declared: dict[str, Any]) -> list[Any]:
    if "levels" not in declared:
        return [declared["lower"], declared["upper"]]
    return [*declared["levels"], *([None] if declared["missing"] else [])]


def main() -> None:
    job = asked()
    domain = job["domain"]
    rows = pd.read_parquet(job["rows"])[[*domain]].astype(object)
    rows = rows.where(rows.notna(), None)
    np.random.seed(job["seed"])
    with measured(job):
        table = TableTransformer([transformer(own, job["method"] == "DP-CTGAN") for own in domain.values()])
        table.fit(declared_rows(domain))
        model = Synthesizer.create(SYNTHESIZERS[job["method"]], epsilon=job["epsilon"], delta=job["delta"])
        model.fit(rows, transformer=table)
        made = model.sample(job["count"])
    made.to_parquet(job["made"])


if __name__ == "__main__":
    main()
