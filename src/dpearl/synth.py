"""All of it in one go: rows in, synthetic rows out, with the release and the model kept.

The one place where both sides meet. Nothing flows but the release: `release_rows` sees the data,
`fit` sees what that returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpearl.design import Recipe, recipe_named
from dpearl.moment import Watch
from dpearl.owner import Offer, Stages, release_rows
from dpearl.privacy import Budget
from dpearl.read.memory import empty_like, like
from dpearl.release import Release
from dpearl.schema import Declaration, load_declaration
from dpearl.settings import AnySettings, check_seed
from dpearl.synthesizer import Synthesizer
from dpearl.train import fit


@dataclass(frozen=True, eq=False)
class Synthesis:
    """What one pass over the data gave: a model that samples in the kind of table that came in."""

    model: Synthesizer
    frame: Any

    def __repr__(self) -> str:
        return f"Synthesis({self.model!r})"

    @property
    def release(self) -> Release:
        """All that was learnt of the data."""
        return self.model.release

    @property
    def statement(self) -> str:
        """The privacy statement."""
        return self.model.statement

    def sample(self, rows: int, where: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
        """Synthetic rows: pandas for pandas, polars for polars, else Arrow."""
        gaps = {name for name, column in self.model.codec.schema.columns.items() if getattr(column, "missing", False)}
        return like(self.model.sample(rows, where, seed), self.frame, gaps)


def synthesize(
    data: Any,
    schema: Declaration | str | Path,
    epsilon: float,
    delta: float = 1e-5,
    recipe: str | Recipe = "auto",
    ledger: str | Path | None = None,
    settings: AnySettings | None = None,
    seed: int = 0,
    progress: Stages | None = None,
    watch: Watch | None = None,
) -> Synthesis:
    """Release the rows once under this budget and train on the release: a path or a table in, a model out."""
    declared = schema if isinstance(schema, Declaration) else load_declaration(schema)
    chosen = recipe_named(recipe) if isinstance(recipe, str) else recipe
    offer = Offer(declared, chosen, Budget(epsilon, delta))
    check_seed(seed)
    release = release_rows(data, offer, ledger, progress=progress)
    return Synthesis(fit(release, settings, seed, watch=watch), empty_like(data))
